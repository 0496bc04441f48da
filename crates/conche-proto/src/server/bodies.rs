//! Requests for and with blocks: request bodies in blocks (RFC 7959) and in bursts ([`Uploads`],
//! RFC 9177 §4.3), and requests for blocks of stored responses.

use alloc::vec::Vec;

use crate::PeerKey;
use crate::blockwise::sets::{Receiver, Reply, Shape};
use crate::blockwise::{Asked, Bounds, Claim, Contexts, Cut, Full, Key, Missing, NoBlock, Part};
use crate::codec::{
    Block, Body, Code, ContentFormat, MARKER_BYTES, Message, MessageId, OptionNumber, Overhead, OwnedMessage, Token,
    Type, encode_missing_blocks,
};
use crate::incoming::Keeping;
use crate::layers::Layers;
use crate::server::Server;
use crate::server::blocks::{BEYOND, Delivery, IN_ORDER, TOO_LARGE};
use crate::server::options::RequestOptions;
use crate::server::q_block::StoredResponse;
use crate::server::receive::Arrival;
use crate::shares::Group;
use crate::store::Timers;
use crate::transport::{Source, allows};
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
    fn receive_upload(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
        block: Block,
    ) -> Option<Delivery> {
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
            return Some(Delivery::AsItIs);
        }
        let key = self.key(layers, arrival.hash, arrival.source, asked);
        let Ok((index, reply)) = self.take_block(now, arrival, message, (key, shape, block)) else {
            layers.transport.stats.overloaded += 1;
            self.refuse(layers, now, arrival, message, (Code::SERVICE_UNAVAILABLE, ""));
            return None;
        };
        if reply == Reply::Complete {
            return Some(Delivery::Received(key));
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
    fn take_block(
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
    pub(super) fn upload_due(&mut self, layers: &mut Layers<P, C>, now: Instant) -> bool {
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
    fn ask_for_missing(&mut self, layers: &mut Layers<P, C>, now: Instant, index: u32) {
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
    pub(super) fn received_in_sets(&mut self, key: Key, message: &Message<'_>) -> Option<OwnedMessage> {
        let upload = self.q_block.as_mut()?.uploads.contexts.remove(key)?;
        upload.receiver.finish(message.header(), &message.token())
    }

    /// Removes a complete body that is refused because there is no room for the request.
    pub(super) fn drop_upload(&mut self, key: Key) {
        let _ = self.q_block.as_mut().and_then(|sets| sets.uploads.contexts.remove(key));
    }

    /// Receives a request about blocks. Returns `None` if it has been answered, otherwise how it is
    /// passed to the application.
    pub(super) fn receive_block(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
    ) -> Option<Delivery> {
        let key = self.key(layers, arrival.hash, arrival.source, asked);
        if let Some(block) = asked.block1() {
            let (content, largest) = (message.content(), layers.transport.config.block_size);
            match self.parts.assemblies.receive(now, key, arrival.group, &content, block, largest) {
                Part::Whole => return Some(Delivery::AsItIs),
                Part::Last => return Some(Delivery::Joined(key)),
                Part::Kept(block) => {
                    let options = Body::EMPTY.rewritten(|_| true, &[(OptionNumber::BLOCK1, block.encode())], b"");
                    self.answer_remembered(layers, now, arrival, message, Code::CONTINUE, &options);
                }
                Part::Outgrown => {
                    self.refuse_with_copies(layers, now, arrival, message, (Code::REQUEST_ENTITY_TOO_LARGE, TOO_LARGE))
                }
                Part::Refused(code) => {
                    let why = match code {
                        Code::REQUEST_ENTITY_INCOMPLETE => "a block before this one is missing: begin anew",
                        Code::REQUEST_ENTITY_TOO_LARGE => TOO_LARGE,
                        Code::BAD_REQUEST => "the payload is not as long as the block's size says",
                        _ => "",
                    };
                    layers.transport.stats.overloaded += u64::from(code == Code::SERVICE_UNAVAILABLE);
                    self.refuse(layers, now, arrival, message, (code, why));
                }
            }
            return None;
        }
        let Some(block) = asked.block2().filter(|block| block.num > 0) else { return Some(Delivery::AsItIs) };
        let (wanted, limit) = (layers.transport.config.block_size, layers.transport.config.limits.message_bytes);
        let others = Overhead::of_response_to(message).with(arrival.security.response_bytes());
        let key = self.kept_key(key, message);
        let Some(kept) = self.representations.get(now, key) else {
            return self.not_kept(layers, now, arrival, message);
        };
        let code = kept.code;
        match kept.block(Some(block), None, Some(wanted), others, limit) {
            Ok(cut) => self.answer_block(layers, now, (arrival, message), key, (code, cut)),
            Err(NoBlock::Missing(Missing::Gone)) => {
                self.refuse(layers, now, arrival, message, (Code::REQUEST_ENTITY_INCOMPLETE, IN_ORDER));
            }
            Err(_) => self.refuse(layers, now, arrival, message, (Code::BAD_REQUEST, BEYOND)),
        }
        None
    }

    /// Answers a request for a block. With the last block the response gives up its place, so that
    /// answer is stored for duplicates; a duplicate of any other request gets the same block from
    /// the response.
    fn answer_block(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        (arrival, message): (&Arrival<P>, &Message<'_>),
        key: Key,
        (code, cut): (Code, Cut),
    ) {
        let bytes = Overhead::of_response_to(message).message(&cut.body);
        let is_last = cut.block.is_some_and(|block| !block.more) && allows(arrival.allowance, bytes);
        if !is_last || message.ty() != Type::Confirmable {
            return self.answer_at_once(layers, now, arrival, message, code, &cut.body);
        }
        self.representations.finish(key);
        self.answer_remembered(layers, now, arrival, message, code, &cut.body);
    }

    /// Handles a request for a block of a response that is no longer kept: the application is asked
    /// again if the method is safe, otherwise the request is refused.
    fn not_kept(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
    ) -> Option<Delivery> {
        if message.code().is_safe() {
            return Some(Delivery::AsItIs);
        }
        self.refuse(
            layers,
            now,
            arrival,
            message,
            (Code::REQUEST_ENTITY_INCOMPLETE, "this response is not kept any more"),
        );
        None
    }

    /// Returns the reassembled request of which this is the last block.
    pub(super) fn joined(&mut self, key: Key, message: &Message<'_>) -> Option<OwnedMessage> {
        let joined = self.parts.assemblies.complete(key, &message.content())?;
        joined.finish(message.header(), &message.token())
    }

    /// Reserves a place for the body of the response to a request, if the previous response was
    /// large.
    pub(super) fn with_place(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        said: RequestOptions,
    ) -> Result<RequestOptions, Full> {
        if self.representations.made().is_none() {
            return Ok(said);
        }
        let key = self.key(layers, arrival.hash, arrival.source, &said.asked);
        let reserves = self.representations.reserve(now, key, arrival.group, self.incoming.reserved())?;
        Ok(if reserves { RequestOptions { keeping: Keeping::Reserved, ..said } } else { said })
    }

    /// Receives a request with Q-Block1 or Q-Block2. Returns `None` if it has been answered,
    /// otherwise how it is passed to the application.
    pub(super) fn receive_of_set(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
    ) -> Option<Delivery> {
        if let Some(block) = asked.q_block1() {
            return self.receive_upload(layers, now, arrival, message, asked, block);
        }
        let first = asked.q_block2()?;
        if first.num == 0 && message.values(OptionNumber::Q_BLOCK2).count() < 2 {
            return Some(Delivery::AsItIs);
        }
        let key = self.key(layers, arrival.hash, arrival.source, asked);
        let key = self.kept_key(key, message);
        let max_payloads = u32::from(self.set_rules()?.max_payloads);
        let others = Overhead::of_response_to(message);
        // At least a round trip has passed since the last request for the response.
        let round_trip =
            self.representations.idle(now, key).map(|time| time.max(layers.transport.config.envelope.timeout_floor));
        let Some(kept) = self.representations.get(now, key) else {
            return self.not_kept(layers, now, arrival, message);
        };
        let (bytes, mark) = (kept.payload().len(), kept.mark());
        let size = kept.size_in_sets(first.size, others, layers.transport.config.limits.message_bytes);
        let blocks = bytes.div_ceil(first.size.bytes());
        let numbers = size.filter(|&size| size == first.size).and_then(|_| requested(message, max_payloads, blocks));
        let Some((numbers, to_the_end)) = numbers else {
            self.refuse(layers, now, arrival, message, (Code::BAD_REQUEST, BEYOND));
            return None;
        };
        if message.ty() == Type::Confirmable {
            layers.transport.acknowledge_empty(now, arrival.source, arrival.what, message.id());
        } else {
            layers.transport.remember_silence(now, arrival.what);
        }
        let to = (arrival.source, arrival.group);
        let what = StoredResponse { key, mark, bytes, block: first, sequence: None };
        self.send_in_bursts(layers, now, to, (message.token(), round_trip), &what, (&numbers, to_the_end));
        None
    }
}

/// Returns the blocks that the Q-Block2 options of a request ask for, of a body with this number of
/// blocks, and whether the last of the options asks for all blocks to the end of a set. `None` if
/// the options are not in ascending order or there is no such block (RFC 9177 §4.4).
fn requested(message: &Message<'_>, max_payloads: u32, blocks: usize) -> Option<(Vec<u32>, bool)> {
    let blocks = u32::try_from(blocks).ok()?;
    let (mut numbers, mut to_the_end) = (Vec::new(), false);
    let (mut size, mut before) = (None, None);
    for value in message.values(OptionNumber::Q_BLOCK2) {
        let block = Block::decode(value).ok()?;
        let ascends = before.is_none_or(|before| block.num > before);
        if !ascends || block.num >= blocks || *size.get_or_insert(block.size) != block.size {
            return None;
        }
        before = Some(block.num);
        // Overlapping options request a block once.
        let from = numbers.last().map_or(block.num, |&last: &u32| block.num.max(last + 1));
        let end = if block.more {
            (block.num / max_payloads + 1).saturating_mul(max_payloads).min(blocks)
        } else {
            block.num + 1
        };
        to_the_end = block.more;
        numbers.extend((from..end).take((max_payloads as usize).saturating_sub(numbers.len())));
    }
    (!numbers.is_empty()).then_some((numbers, to_the_end))
}
