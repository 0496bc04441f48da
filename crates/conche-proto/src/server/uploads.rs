//! [`Uploads`]: request bodies that are received in sets (RFC 9177 §4.3), and the responses that
//! their clients get meanwhile.

use crate::PeerKey;
use crate::blockwise::sets::{Receiver, Reply, Shape};
use crate::blockwise::{Asked, Bounds, Claim, Contexts, Full, Key};
use crate::codec::{
    Block, Body, Code, ContentFormat, MARKER_BYTES, Message, MessageId, OptionNumber, Overhead, OwnedMessage, Token,
    Type, encode_missing_blocks,
};
use crate::layers::Layers;
use crate::server::Server;
use crate::server::blocks::{TOO_LARGE, Whole};
use crate::server::receive::Arrival;
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
pub(crate) struct Uploads<P> {
    contexts: Contexts<Upload<P>>,
    /// By index. The timer of a body that was removed or replaced expires without effect.
    timers: Timers,
}

impl<P> Uploads<P> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds), timers: Timers::default() }
    }

    pub(crate) fn contexts(&self) -> &Contexts<impl Sized> {
        &self.contexts
    }

    /// Drops expired bodies. Returns the time of the next expiry.
    pub(crate) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Removes a body whose client has rejected the message that requested missing blocks: it has
    /// stopped sending (RFC 9177 §4.3). Returns whether there was one.
    pub(crate) fn reject(&mut self, from: u64, id: MessageId) -> bool {
        let stopped = self.contexts.of_peer_where(from, |upload| upload.asked == Some(id));
        stopped.is_some_and(|key| self.contexts.remove(key).is_some())
    }
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Handles a Reset, if it rejects the last message that requested missing blocks of an upload.
    pub(crate) fn reject_upload(&mut self, hash: u64, id: MessageId) -> bool {
        self.q_block.as_mut().is_some_and(|sets| sets.uploads.reject(hash, id))
    }

    /// Receives a block of a request body. Returns `None` if it has been answered; otherwise the
    /// body is complete.
    pub(crate) fn receive_upload(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
        block: Block,
    ) -> Option<Whole> {
        let tagged = message.option(OptionNumber::REQUEST_TAG).is_some();
        let Some(bytes) = message.uint(OptionNumber::SIZE1).map(|size| size as usize).filter(|_| tagged) else {
            self.refuse(layers, now, arrival, message, (Code::BAD_REQUEST, "Q-Block1 needs Request-Tag and Size1"));
            return None;
        };
        if bytes > layers.transport.config.limits.body_bytes {
            self.refuse(layers, now, arrival, message, (Code::REQUEST_ENTITY_TOO_LARGE, TOO_LARGE));
            return None;
        }
        let rules = self.set_rules()?;
        let shape = Shape { size: block.size, bytes, max_payloads: rules.max_payloads.into() };
        if !shape.fits(block, message.payload().len()) {
            let why = (Code::BAD_REQUEST, "the payload is not what the block's number and Size1 say");
            self.refuse(layers, now, arrival, message, why);
            return None;
        }
        if shape.blocks() == 1 {
            return Some(Whole::AsItIs);
        }
        let key = self.key(layers, arrival.hash, arrival.source, asked);
        let Ok((index, reply)) = self.take_block(now, arrival, message, (key, shape, block)) else {
            layers.transport.stats.overloaded += 1;
            self.refuse(layers, now, arrival, message, (Code::SERVICE_UNAVAILABLE, ""));
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
                self.answer_remembered(layers, now, arrival, message, Code::CONTINUE, &options);
            }
            Reply::Missing if !confirmable => {
                layers.transport.remember_silence(now, arrival.what);
                self.ask_for_missing(layers, now, index);
            }
            _ if confirmable => layers.transport.acknowledge_empty(now, arrival.source, arrival.what, message.id()),
            _ => layers.transport.remember_silence(now, arrival.what),
        }
        None
    }

    /// Stores a block and sets the timer of its body.
    pub(crate) fn take_block(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        (key, shape, block): (Key, Shape, Block),
    ) -> Result<(u32, Reply), Full> {
        let sets = self.q_block.as_mut().ok_or(Full)?;
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
    pub(crate) fn upload_due(&mut self, layers: &mut Layers<P, C>, now: Instant) -> bool {
        let Some(sets) = &mut self.q_block else { return false };
        let most = sets.rules().non_max_retransmit;
        let Some(index) = sets.uploads.timers.pop_due(now) else { return false };
        let Some(upload) = sets.uploads.contexts.at_mut(index) else { return true };
        if upload.receiver.due() > now {
            let due = upload.receiver.due();
            sets.uploads.timers.set(index, due);
        } else if upload.receiver.is_confirmable() {
            // The client knows which blocks were not acknowledged (RFC 9177 §5).
        } else if upload.receiver.ask(now, most) {
            self.ask_for_missing(layers, now, index);
        } else {
            let key = upload.key;
            sets.uploads.contexts.remove(key);
        }
        true
    }

    /// Reports the missing blocks to a client (RFC 9177 §5), as an answer to a received message.
    pub(crate) fn ask_for_missing(&mut self, layers: &mut Layers<P, C>, now: Instant, index: u32) {
        let limit = layers.transport.config.limits.message_bytes;
        let Some(sets) = &mut self.q_block else { return };
        let most = usize::from(sets.rules().max_payloads);
        let Some(upload) = sets.uploads.contexts.at_mut(index) else { return };
        let (to, token, group) = (upload.from, upload.token.clone(), upload.group);
        // The option Content-Format: 272 takes three bytes.
        let room = Overhead::of(&token).with(3 + MARKER_BYTES).room(limit).unwrap_or_default();
        let missing = encode_missing_blocks(&upload.receiver.missing(most), room);
        let due = upload.receiver.due();
        sets.uploads.timers.set(index, due);
        // A message that cannot be sent counts as lost.
        let Ok(peer) = self.open_peer(layers, now, to.from, group) else { return };
        layers.transport.peers.touch(now, peer);
        let body = Body::builder().content_format(ContentFormat::MISSING_BLOCKS).payload(missing).build();
        let content = (Code::REQUEST_ENTITY_INCOMPLETE, &body.unwrap_or_default());
        let asked = layers.transport.send_answer(now, (to, peer), &token, content);
        if let (Some(id), Some(sets)) = (asked, &mut self.q_block)
            && let Some(upload) = sets.uploads.contexts.at_mut(index)
        {
            upload.asked = Some(id);
        }
    }

    /// Returns the reassembled request with this body.
    pub(crate) fn received_in_sets(&mut self, key: Key, message: &Message<'_>) -> Option<OwnedMessage> {
        let upload = self.q_block.as_mut()?.uploads.contexts.remove(key)?;
        upload.receiver.finish(message.header(), &message.token())
    }

    /// Removes a complete body that is refused because there is no room for the request.
    pub(crate) fn drop_upload(&mut self, key: Key) {
        let _ = self.q_block.as_mut().and_then(|sets| sets.uploads.contexts.remove(key));
    }
}
