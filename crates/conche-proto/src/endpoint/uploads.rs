//! [`Uploads`]: request bodies that are received in sets (RFC 9177 §4.3), and the responses that
//! their clients get meanwhile.

use super::Endpoint;
use super::bodies::{TOO_LARGE, Whole};
use super::receive::Arrival;
use crate::PeerKey;
use crate::blockwise::sets::{Receiver, Reply, Shape};
use crate::blockwise::{Asked, Bounds, Claim, Contexts, Full, Key};
use crate::codec::{
    Block, Body, Code, ContentFormat, MARKER_BYTES, Message, MessageId, OptionNumber, Overhead, OwnedMessage, Token,
    Type, encode_missing_blocks,
};
use crate::shares::Group;
use crate::store::Timers;
use crate::transport::Source;
use conche_cc::{Controller, Instant};

/// An incomplete body.
#[derive(Debug)]
struct Upload<P> {
    receiver: Receiver,
    key: Key,
    group: Group,
    /// Where to request missing blocks, with the token received last (RFC 9177 §5).
    from: Source<P>,
    token: Token,
    /// The ID of the last message that requested missing blocks.
    asked: Option<MessageId>,
}

/// The incomplete bodies.
#[derive(Debug)]
pub(super) struct Uploads<P> {
    contexts: Contexts<Upload<P>>,
    /// By index. The timer of a body that was removed or replaced expires without effect.
    timers: Timers,
}

impl<P> Uploads<P> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds), timers: Timers::default() }
    }

    pub(super) fn contexts(&self) -> &Contexts<impl Sized> {
        &self.contexts
    }

    /// Drops expired bodies. Returns the time of the next expiry.
    pub(super) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Removes a body whose client has rejected the message that requested missing blocks: it has
    /// stopped sending (RFC 9177 §4.3). Returns whether there was one.
    pub(super) fn reject(&mut self, from: u64, id: MessageId) -> bool {
        let stopped = self.contexts.of_peer_where(from, |upload| upload.asked == Some(id));
        stopped.is_some_and(|key| self.contexts.remove(key).is_some())
    }
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Receives a block of a request body. Returns `None` if it has been answered; otherwise the
    /// body is complete.
    pub(super) fn receive_upload(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
        block: Block,
    ) -> Option<Whole> {
        let tagged = message.option(OptionNumber::REQUEST_TAG).is_some();
        let Some(bytes) = message.uint(OptionNumber::SIZE1).map(|size| size as usize).filter(|_| tagged) else {
            self.refuse(now, arrival, message, (Code::BAD_REQUEST, "Q-Block1 needs Request-Tag and Size1"));
            return None;
        };
        if bytes > self.transport.config.limits.body_bytes {
            self.refuse(now, arrival, message, (Code::REQUEST_ENTITY_TOO_LARGE, TOO_LARGE));
            return None;
        }
        let rules = self.set_rules()?;
        let shape = Shape { size: block.size, bytes, max_payloads: rules.max_payloads.into() };
        if !shape.fits(block, message.payload().len()) {
            let why = (Code::BAD_REQUEST, "the payload is not what the block's number and Size1 say");
            self.refuse(now, arrival, message, why);
            return None;
        }
        if shape.blocks() == 1 {
            return Some(Whole::AsItIs);
        }
        let key = self.key(arrival.hash, arrival.source, asked);
        let Ok((index, reply)) = self.take_block(now, arrival, message, (key, shape, block)) else {
            self.transport.stats.overloaded += 1;
            self.refuse(now, arrival, message, (Code::SERVICE_UNAVAILABLE, ""));
            return None;
        };
        if reply == Reply::Complete {
            return Some(Whole::Received(key));
        }
        let confirmable = message.ty() == Type::Confirmable;
        match reply {
            Reply::Continue(next) if !confirmable => {
                let up_to = Block { num: next.saturating_sub(1), more: true, size: block.size };
                let options = Body::EMPTY.rewritten(|_| true, &[(OptionNumber::Q_BLOCK1, up_to.encode())], b"");
                self.answer_remembered(now, arrival, message, Code::CONTINUE, &options);
            }
            Reply::Missing if !confirmable => {
                self.transport.remember_silence(now, arrival.what);
                self.ask_for_missing(now, index);
            }
            _ if confirmable => self.transport.acknowledge_empty(now, arrival.source, arrival.what, message.id()),
            _ => self.transport.remember_silence(now, arrival.what),
        }
        None
    }

    /// Stores a block and sets the timer of its body.
    fn take_block(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        (key, shape, block): (Key, Shape, Block),
    ) -> Result<(u32, Reply), Full> {
        let sets = self.sets.as_mut().ok_or(Full)?;
        let (rules, uploads) = (sets.rules(), &mut sets.uploads);
        let known = uploads
            .contexts
            .use_of(now, key)
            .is_some_and(|(_, upload)| *upload.receiver.shape() == shape && upload.receiver.code() == message.code());
        if !known {
            let receiver = Receiver::new(now, &message.content(), shape, rules.patience);
            let token = message.token();
            let bytes = receiver.bytes_with(message.payload().len()) + token.heap_bytes();
            let (group, from) = (arrival.group, arrival.source);
            let upload = Upload { receiver, key, group, from, token, asked: None };
            uploads.contexts.insert(now, key, group, (upload, bytes), Claim::SHARE)?;
        }
        let (index, upload) = uploads.contexts.use_of(now, key).ok_or(Full)?;
        let token = message.token();
        let bytes = upload.receiver.bytes_with(message.payload().len()) + token.heap_bytes();
        uploads.contexts.grow(now, index, bytes)?;
        let (_, upload) = uploads.contexts.use_of(now, key).ok_or(Full)?;
        (upload.token, upload.from) = (token, arrival.source);
        let taken = upload.receiver.take(now, block.num, message.payload(), message.ty());
        let reply = upload.receiver.reply(block.num, taken);
        uploads.timers.set(index, upload.receiver.due());
        Ok((index, reply))
    }

    /// Requests the missing blocks of a body for which nothing was received for a while. Returns
    /// `false` if there is none.
    pub(super) fn upload_due(&mut self, now: Instant) -> bool {
        let Some(sets) = &mut self.sets else { return false };
        let most = sets.rules().non_max_retransmit;
        let Some(index) = sets.uploads.timers.pop_due(now) else { return false };
        let Some(upload) = sets.uploads.contexts.at_mut(index) else { return true };
        if upload.receiver.due() > now {
            let due = upload.receiver.due();
            sets.uploads.timers.set(index, due);
        } else if upload.receiver.is_confirmable() {
            // The client knows which blocks were not acknowledged (RFC 9177 §5).
        } else if upload.receiver.ask(now, most) {
            self.ask_for_missing(now, index);
        } else {
            let key = upload.key;
            sets.uploads.contexts.remove(key);
        }
        true
    }

    /// Reports the missing blocks to a client (RFC 9177 §5), as an answer to a received message.
    fn ask_for_missing(&mut self, now: Instant, index: u32) {
        let limit = self.transport.config.limits.message_bytes;
        let Some(sets) = &mut self.sets else { return };
        let most = usize::from(sets.rules().max_payloads);
        let Some(upload) = sets.uploads.contexts.at_mut(index) else { return };
        let (to, token, group) = (upload.from, upload.token.clone(), upload.group);
        // The option Content-Format: 272 takes three bytes.
        let room = Overhead::of(&token).with(3 + MARKER_BYTES).room(limit).unwrap_or_default();
        let missing = encode_missing_blocks(&upload.receiver.missing(most), room);
        let due = upload.receiver.due();
        sets.uploads.timers.set(index, due);
        // A message that cannot be sent counts as lost.
        let Ok(peer) = self.open_peer(now, to.from, group) else { return };
        self.transport.peers.touch(now, peer);
        let body = Body::builder().content_format(ContentFormat::MISSING_BLOCKS).payload(missing).build();
        let content = (Code::REQUEST_ENTITY_INCOMPLETE, &body.unwrap_or_default());
        let asked = self.transport.send_answer(now, (to, peer), &token, content);
        if let (Some(id), Some(sets)) = (asked, &mut self.sets)
            && let Some(upload) = sets.uploads.contexts.at_mut(index)
        {
            upload.asked = Some(id);
        }
    }

    /// Returns the reassembled request with this body.
    pub(super) fn received_in_sets(&mut self, key: Key, message: &Message<'_>) -> Option<OwnedMessage> {
        let upload = self.sets.as_mut()?.uploads.contexts.remove(key)?;
        upload.receiver.finish(message.header(), &message.token())
    }

    /// Removes a complete body that is refused because there is no room for the request.
    pub(super) fn drop_upload(&mut self, key: Key) {
        let _ = self.sets.as_mut().and_then(|sets| sets.uploads.contexts.remove(key));
    }
}
