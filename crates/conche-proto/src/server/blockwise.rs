//! Block-wise transfer in the server (RFC 7959): request bodies in blocks or bursts ([`Uploads`],
//! RFC 9177 §4.3), and stored responses.

use alloc::vec::Vec;
use core::time::Duration;

use super::Server;
use super::pending_requests::{BodyStorage, PendingRequest};
use super::q_block::{BurstRecipient, StoredResponse, WantedBlocks};
use super::receive::{Arrival, ReceivedRequest, RequestOptions};
use crate::PeerKey;
use crate::blockwise::{
    BlockError, BlockOptions, BlockResult, Bounds, Claim, ContextIndex, Contexts, ExtractedBlock, Full, Key, Missing,
    NewContext, Representation, Representations, RequestBlock,
};
use crate::codec::{
    BLOCK_BYTES, Block, BlockSize, Body, Code, ContentFormat, MARKER_BYTES, Message, MessageId, OBSERVE_BYTES,
    OptionNumber, Overhead, OwnedMessage, SIZE_BYTES, Token, Type, encode_missing_blocks,
};
use crate::config::SharedConfig;
use crate::error::{NotifyError, RespondError};
use crate::layers::Layers;
use crate::observe::Notification;
use crate::q_block::{BodyLayout, Receiver, Reply};
use crate::security::Security;
use crate::shares::Group;
use crate::store::{CreateOnDemand, Timers};
use crate::transport::{Answer, Content, Response, Source, allows};
use conche_cc::{Controller, Instant};

#[derive(Debug)]
struct Upload<P> {
    receiver: Receiver,
    key: Key,
    group: Group,
    /// Where to request missing blocks, with the token received last (RFC 9177 §5).
    from: Source<P>,
    token: Token,
    /// The last message that requested missing blocks.
    requested: Option<MessageId>,
}

#[derive(Debug)]
pub(crate) struct Uploads<P> {
    contexts: Contexts<Upload<P>>,
    /// By index. The timer of a removed or replaced body expires without effect.
    timers: Timers<ContextIndex>,
}

impl<P> Uploads<P> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds), timers: Timers::default() }
    }

    pub(crate) fn contexts(&self) -> &Contexts<impl Sized> {
        &self.contexts
    }

    /// Returns the time of the next expiry.
    pub(crate) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Removes a body whose client has rejected the request for missing blocks: it has stopped
    /// sending (RFC 9177 §4.3). Returns `true` if it existed.
    pub(crate) fn reject(&mut self, from: u64, id: MessageId) -> bool {
        let stopped = self.contexts.of_peer_where(from, |upload| upload.requested == Some(id));
        stopped.is_some_and(|key| self.contexts.remove(key).is_some())
    }
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    pub(crate) fn reject_upload(&mut self, hash: u64, id: MessageId) -> bool {
        self.q_block.as_mut().is_some_and(|q_block| q_block.uploads.reject(hash, id))
    }

    /// Returns `None` if the block has been answered.
    fn receive_upload(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        requested: &BlockOptions,
        block: Block,
    ) -> Option<Delivery> {
        let ReceivedRequest { arrival, message } = received;
        let tagged = message.option(OptionNumber::REQUEST_TAG).is_some();
        let Some(bytes) = message.uint(OptionNumber::SIZE1).map(|size| size as usize).filter(|_| tagged) else {
            self.refuse(layers, received, Code::BAD_REQUEST, "Q-Block1 needs Request-Tag and Size1");
            return None;
        };
        if bytes > layers.transport.config.limits.body_bytes {
            self.refuse(layers, received, Code::REQUEST_ENTITY_TOO_LARGE, TOO_LARGE);
            return None;
        }
        let rules = self.burst_rules()?;
        let shape = BodyLayout { size: block.size, bytes, max_payloads: rules.max_payloads.into() };
        if !shape.fits(block, message.payload().len()) {
            let why = "the payload is not what the block's number and Size1 say";
            self.refuse(layers, received, Code::BAD_REQUEST, why);
            return None;
        }
        if shape.blocks() == 1 {
            return Some(Delivery::Unchanged);
        }
        let key = self.key(layers, arrival.hash, arrival.source, requested);
        let Ok((index, reply)) = self.take_block(layers.now, received, key, shape, block) else {
            layers.transport.stats.overloaded += 1;
            self.refuse(layers, received, Code::SERVICE_UNAVAILABLE, "");
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
                self.answer_remembered(layers, received, Code::CONTINUE, &options);
            }
            Reply::Missing if !confirmable => {
                layers.transport.remember_silence(layers.now, arrival.fingerprint);
                self.ask_for_missing(layers, index);
            }
            _ if confirmable => {
                layers.transport.acknowledge_empty(layers.now, arrival.source, arrival.fingerprint, message.id())
            }
            _ => layers.transport.remember_silence(layers.now, arrival.fingerprint),
        }
        None
    }

    fn take_block(
        &mut self,
        now: Instant,
        received: ReceivedRequest<'_, P>,
        key: Key,
        shape: BodyLayout,
        block: Block,
    ) -> Result<(ContextIndex, Reply), Full> {
        let ReceivedRequest { arrival, message } = received;
        let q_block = self.q_block.as_mut().ok_or(Full)?;
        let (rules, uploads) = (q_block.rules, &mut q_block.uploads);
        let known = uploads
            .contexts
            .use_of(now, key)
            .is_some_and(|(_, upload)| *upload.receiver.shape() == shape && upload.receiver.code() == message.code());
        if !known {
            let receiver = Receiver::new(now, &message.content(), shape, rules.timeouts);
            let token = message.token();
            let bytes = receiver.bytes_with(message.payload().len()) + token.heap_bytes();
            let (group, from) = (arrival.group, arrival.source);
            let upload = Upload { receiver, key, group, from, token, requested: None };
            uploads.contexts.insert(now, NewContext { key, group, value: upload, bytes }, Claim::SHARE)?;
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

    /// Requests the missing blocks of a stalled body.
    pub(super) fn upload_due(&mut self, layers: &mut Layers<P, C>) -> bool {
        let Some(q_block) = &mut self.q_block else { return false };
        let most = q_block.rules.non_max_retransmit;
        let Some(index) = q_block.uploads.timers.pop_due(layers.now) else { return false };
        let Some(upload) = q_block.uploads.contexts.at_mut(index) else { return true };
        if upload.receiver.due() > layers.now {
            let due = upload.receiver.due();
            q_block.uploads.timers.set(index, due);
        } else if upload.receiver.is_confirmable() {
            // The client knows which blocks were not acknowledged (RFC 9177 §5).
        } else if upload.receiver.ask(layers.now, most) {
            self.ask_for_missing(layers, index);
        } else {
            let key = upload.key;
            q_block.uploads.contexts.remove(key);
        }
        true
    }

    fn ask_for_missing(&mut self, layers: &mut Layers<P, C>, index: ContextIndex) {
        let limit = layers.transport.config.limits.message_bytes;
        let Some(q_block) = &mut self.q_block else { return };
        let most = usize::from(q_block.rules.max_payloads);
        let Some(upload) = q_block.uploads.contexts.at_mut(index) else { return };
        let (to, token, group) = (upload.from, upload.token.clone(), upload.group);
        // The option Content-Format: 272 takes three bytes.
        let room = Overhead::of(&token).with(3 + MARKER_BYTES).room(limit).unwrap_or_default();
        let missing = encode_missing_blocks(&upload.receiver.missing(most), room);
        let due = upload.receiver.due();
        q_block.uploads.timers.set(index, due);
        // A message that cannot be sent counts as lost.
        let Ok(peer) = self.open_peer(layers, to.from, group) else { return };
        layers.transport.peers.touch(layers.now, peer);
        let body = Body::builder().content_format(ContentFormat::MISSING_BLOCKS).payload(missing).build();
        let (code, body) = (Code::REQUEST_ENTITY_INCOMPLETE, &body.unwrap_or_default());
        let requested = layers.transport.send_answer(layers.now, &Answer { to, peer, token: &token, code, body });
        if let (Some(id), Some(q_block)) = (requested, &mut self.q_block)
            && let Some(upload) = q_block.uploads.contexts.at_mut(index)
        {
            upload.requested = Some(id);
        }
    }

    pub(super) fn received_in_bursts(&mut self, key: Key, message: &Message<'_>) -> Option<OwnedMessage> {
        let upload = self.q_block.as_mut()?.uploads.contexts.remove(key)?;
        upload.receiver.finish(message.header(), &message.token())
    }

    /// Removes a complete body without room for its request.
    pub(super) fn drop_upload(&mut self, key: Key) {
        let _ = self.q_block.as_mut().and_then(|q_block| q_block.uploads.contexts.remove(key));
    }

    /// Returns `None` if the request has been answered.
    pub(super) fn receive_block(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        requested: &BlockOptions,
    ) -> Option<Delivery> {
        let ReceivedRequest { arrival, message } = received;
        let key = self.key(layers, arrival.hash, arrival.source, requested);
        if let Some(block) = requested.block1() {
            let (content, largest) = (message.content(), layers.transport.config.block_size);
            let block = RequestBlock { key, group: arrival.group, content: &content, block };
            match self.streamed_bodies.assemblies.receive(layers.now, block, largest) {
                BlockResult::Whole => return Some(Delivery::Unchanged),
                BlockResult::Last => return Some(Delivery::JoinedBody(key)),
                BlockResult::Stored(block) => {
                    let options = Body::EMPTY.rewritten(|_| true, &[(OptionNumber::BLOCK1, block.encode())], b"");
                    self.answer_remembered(layers, received, Code::CONTINUE, &options);
                }
                BlockResult::Outgrown => {
                    self.refuse_with_copies(layers, received, Code::REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)
                }
                BlockResult::Refused(code) => {
                    let why = match code {
                        Code::REQUEST_ENTITY_INCOMPLETE => "a block before this one is missing: begin anew",
                        Code::REQUEST_ENTITY_TOO_LARGE => TOO_LARGE,
                        Code::BAD_REQUEST => "the payload is not as long as the block's size says",
                        _ => "",
                    };
                    layers.transport.stats.overloaded += u64::from(code == Code::SERVICE_UNAVAILABLE);
                    self.refuse(layers, received, code, why);
                }
            }
            return None;
        }
        let Some(block) = requested.block2().filter(|block| block.num > 0) else { return Some(Delivery::Unchanged) };
        let (wanted, limit) = (layers.transport.config.block_size, layers.transport.config.limits.message_bytes);
        let others = Overhead::of_response_to(message).with(arrival.security.response_bytes());
        let key = self.kept_key(key, message);
        let Some(kept) = self.representations.get(layers.now, key) else {
            return self.not_kept(layers, received);
        };
        let code = kept.code;
        match kept.block(Some(block), None, Some(wanted), others, limit) {
            Ok(cut) => {
                self.answer_block(layers, received, key, code, cut);
                if arrival.allowance.is_some() && message.code().is_safe() {
                    self.representations.finish(key);
                }
            }
            Err(BlockError::Missing(Missing::Gone)) => {
                self.refuse(layers, received, Code::REQUEST_ENTITY_INCOMPLETE, IN_ORDER);
            }
            Err(_) => self.refuse(layers, received, Code::BAD_REQUEST, BEYOND),
        }
        None
    }

    /// Answers a request for a block. The last block releases the response, so that answer is
    /// stored for duplicates; other duplicates get the block from the response.
    fn answer_block(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        key: Key,
        code: Code,
        cut: ExtractedBlock,
    ) {
        let ReceivedRequest { arrival, message } = received;
        let bytes = Overhead::of_response_to(message).message(&cut.body);
        let is_last = cut.block.is_some_and(|block| !block.more) && allows(arrival.allowance, bytes);
        if !is_last || message.ty() != Type::Confirmable {
            return self.answer_at_once(layers, received, code, &cut.body);
        }
        self.representations.finish(key);
        self.answer_remembered(layers, received, code, &cut.body);
    }

    /// Asks the application again for a lost response if the method is safe, otherwise refuses the
    /// request.
    fn not_kept(&mut self, layers: &mut Layers<P, C>, received: ReceivedRequest<'_, P>) -> Option<Delivery> {
        let message = received.message;
        if message.code().is_safe() {
            return Some(Delivery::Unchanged);
        }
        self.refuse(layers, received, Code::REQUEST_ENTITY_INCOMPLETE, "this response is not kept any more");
        None
    }

    pub(super) fn joined(&mut self, key: Key, message: &Message<'_>) -> Option<OwnedMessage> {
        let joined = self.streamed_bodies.assemblies.complete(key, &message.content())?;
        joined.finish(message.header(), &message.token())
    }

    /// Reserves a place for the response body, if the previous response was large.
    pub(super) fn with_place(
        &mut self,
        layers: &mut Layers<P, C>,
        arrival: &Arrival<P>,
        options: RequestOptions,
    ) -> Result<RequestOptions, Full> {
        let key = self.key(layers, arrival.hash, arrival.source, &options.requested);
        let reserves =
            self.representations.reserve(layers.now, key, arrival.group, self.pending_requests.reserved())?;
        Ok(if reserves { RequestOptions { storage: BodyStorage::Reserved, ..options } } else { options })
    }

    /// Returns `None` if the request has been answered.
    pub(super) fn receive_burst_request(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        requested: &BlockOptions,
    ) -> Option<Delivery> {
        let ReceivedRequest { arrival, message } = received;
        if let Some(block) = requested.q_block1() {
            return self.receive_upload(layers, received, requested, block);
        }
        let first = requested.q_block2()?;
        if first.num == 0 && message.values(OptionNumber::Q_BLOCK2).count() < 2 {
            return Some(Delivery::Unchanged);
        }
        let key = self.key(layers, arrival.hash, arrival.source, requested);
        let key = self.kept_key(key, message);
        let max_payloads = u32::from(self.burst_rules()?.max_payloads);
        let others = Overhead::of_response_to(message);
        // At least a round trip has passed since the last request for the response.
        let round_trip = self
            .representations
            .idle(layers.now, key)
            .map(|time| time.max(layers.transport.config.envelope.timeout_floor));
        let Some(kept) = self.representations.get(layers.now, key) else {
            return self.not_kept(layers, received);
        };
        let (bytes, version) = (kept.payload().len(), kept.version());
        let size = kept.size_in_bursts(first.size, others, layers.transport.config.limits.message_bytes);
        let blocks = bytes.div_ceil(first.size.bytes());
        let numbers =
            size.filter(|&size| size == first.size).and_then(|_| requested_blocks(message, max_payloads, blocks));
        let Some((numbers, to_the_end)) = numbers else {
            self.refuse(layers, received, Code::BAD_REQUEST, BEYOND);
            return None;
        };
        if message.ty() == Type::Confirmable {
            layers.transport.acknowledge_empty(layers.now, arrival.source, arrival.fingerprint, message.id());
        } else {
            layers.transport.remember_silence(layers.now, arrival.fingerprint);
        }
        let stored = StoredResponse { key, version, bytes, block: first, sequence: None };
        let to = BurstRecipient { source: arrival.source, group: arrival.group, token: message.token(), round_trip };
        self.send_in_bursts(layers, to, &stored, WantedBlocks { numbers: &numbers, to_the_end });
        None
    }

    /// Returns `Err` with the response to send instead if the table is full.
    pub(super) fn keep(
        &mut self,
        layers: &mut Layers<P, C>,
        to: &Recipient,
        whole: Representation,
    ) -> Result<(), Response> {
        let success = whole.code.is_success();
        let claim = match to.storage {
            Some(BodyStorage::Reserved) => Claim::Reserved,
            Some(BodyStorage::Once) => Claim::Irreplaceable(self.pending_requests.reserved()),
            Some(BodyStorage::IfRoom) | None => Claim::Share(self.pending_requests.reserved()),
        };
        let kept = self.representations.keep(layers.now, to.key, to.group, whole, claim);
        let can_be_repeated = matches!(to.storage, Some(BodyStorage::IfRoom | BodyStorage::Reserved));
        if kept == Err(Full) && can_be_repeated && success {
            layers.transport.stats.overloaded += 1;
            return Err(Response::new(Code::SERVICE_UNAVAILABLE, layers.transport.config.try_later()));
        }
        Ok(())
    }

    pub(super) fn kept_key(&mut self, key: Key, message: &Message<'_>) -> Key {
        let repeats = message.code() == Code::FETCH && message.payload().is_empty();
        if repeats { self.representations.contexts().fetched(key) } else { key }
    }

    /// Returns the block size in which a message that is too large would have fitted.
    pub(super) fn smaller_block(
        &self,
        layers: &Layers<P, C>,
        message: &Message<'_>,
        security: &Security,
    ) -> Option<Block> {
        let (bytes, payload) = (message.as_bytes().len(), message.payload().len());
        let limits = &layers.transport.config.limits;
        // Includes Block1, Size1 and a token of the maximum length.
        let others = bytes - payload + Token::MAX_LENGTH + BLOCK_BYTES + SIZE_BYTES + security.request_bytes();
        let size =
            BlockSize::fitting(limits.message_bytes.checked_sub(others)?)?.min(layers.transport.config.block_size);
        let cut = bytes > limits.message_bytes && payload > size.bytes() && payload <= limits.body_bytes;
        cut.then_some(Block { num: 0, more: false, size })
    }

    pub(super) fn recipient(
        &self,
        layers: &Layers<P, C>,
        pending: &PendingRequest<P>,
        overhead: Overhead,
    ) -> Recipient {
        let source = Source { from: pending.from, local: pending.local };
        let key = self.key(layers, layers.transport.peers.hash(&pending.from), source, &pending.requested);
        let storage = Some(pending.rules.storage()).filter(|_| !pending.is_to_group());
        Recipient { key, group: pending.group, requested: pending.requested, overhead, storage }
    }

    /// Returns the response as the peer gets it: complete, or the requested block with the rest
    /// kept.
    pub(super) fn cut_response(
        &mut self,
        layers: &mut Layers<P, C>,
        to: &Recipient,
        response: Response,
    ) -> Result<Response, RespondError> {
        let code = response.code;
        let content = response.body.content(code);
        if content.is_some_and(|content| content.option(OptionNumber::BLOCK2).is_some()) {
            // The application handles blocks itself.
            return Ok(response);
        }
        // Errors are cut into blocks only if they must be.
        if code.is_success() && code != Code::VALID && to.requested.response_in_bursts().is_some() {
            return self.cut_response_for_bursts(layers, to, response);
        }
        let mut whole = Representation::new(code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &layers.transport.config.limits);
        let goes_whole = layers.transport.config.goes_whole(to.overhead, &response.body);
        if bytes > limits.body_bytes && !goes_whole {
            return Err(RespondError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        let (block1, block2) = (to.requested.block1(), to.requested.block2());
        // Errors and responses without a body are not blocks of the requested body.
        let block2 = block2.filter(|_| code.is_success() && code != Code::VALID && (bytes > 0 || !goes_whole));
        let wanted = block2.map_or(BlockSize::B1024, |block| block.size).min(layers.transport.config.block_size);
        if bytes > wanted.bytes() || !goes_whole {
            let hash = layers.transport.hash;
            whole.tag(|payload| hash.hash(&payload).to_be_bytes());
        }
        // A body that fits into a message stays whole unless blocks were requested.
        let largest = if goes_whole && block2.is_none() { None } else { Some(layers.transport.config.block_size) };
        match whole.block(block2, block1, largest, to.overhead, limits.message_bytes) {
            Ok(cut) => {
                if cut.block.is_some() {
                    if let Err(refusal) = self.keep(layers, to, whole) {
                        return Ok(refusal);
                    }
                } else {
                    self.representations.forget(to.key);
                }
                Ok(Response { body: cut.body, ..response })
            }
            Err(BlockError::Missing(_)) => {
                let body = Body::builder().payload(BEYOND).build().unwrap_or_default();
                Ok(Response { code: Code::BAD_REQUEST, body, ..response })
            }
            Err(BlockError::NoRoom) => Ok(response),
        }
    }

    /// Returns the first block of 16 bytes, and keeps the body. `None` if the response is not the
    /// beginning of a body, or the message would exceed `most` bytes.
    pub(super) fn smallest_first_block(
        &mut self,
        layers: &mut Layers<P, C>,
        pending: &PendingRequest<P>,
        response: &Response,
        most: usize,
    ) -> Option<Response> {
        const SMALLEST: BlockSize = BlockSize::B16;
        let code = response.code;
        let to = self.recipient(layers, pending, Overhead::of(&pending.token));
        if !code.is_success() || code == Code::VALID || to.requested.response_in_bursts().is_some() {
            return None;
        }
        let (block1, limit) = (to.requested.block1(), layers.transport.config.limits.message_bytes);
        let first = Some(Block { num: 0, more: false, size: SMALLEST });
        let cut = |whole: &Representation| whole.block(first, block1, Some(SMALLEST), to.overhead, limit).ok();
        let body = match response.body.content(code)?.block(OptionNumber::BLOCK2).ok()? {
            // It was cut before, and the body is kept.
            Some(block) if block.num == 0 => {
                let body = cut(self.representations.get(layers.now, to.key)?)?.body;
                if !to.overhead.fits(&body, most) {
                    return None;
                }
                body
            }
            Some(_) => return None,
            None => {
                let (hash, mut whole) = (layers.transport.hash, Representation::new(code, &response.body));
                whole.tag(|payload| hash.hash(&payload).to_be_bytes());
                let body = cut(&whole)?.body;
                if !to.overhead.fits(&body, most) {
                    return None;
                }
                self.keep(layers, &to, whole).ok()?;
                body
            }
        };
        Some(Response { body, ..response.clone() })
    }

    /// Sets whether the stored body of a response is protected from eviction. Bodies for sources
    /// that are not validated are not, so that forged requests cannot fill the table. Without its
    /// body a request for another block goes to the application again, so the method must be safe.
    pub(super) fn protect_body(&mut self, layers: &Layers<P, C>, pending: &PendingRequest<P>, protect: bool) {
        if self.representations.created().is_none() || pending.rules.storage() == BodyStorage::Once {
            return;
        }
        let key = self.recipient(layers, pending, Overhead::of(&pending.token)).key;
        if protect {
            self.representations.get(layers.now, key);
        } else {
            self.representations.finish(key);
        }
    }

    /// Adds an ETag if every observer gets blocks.
    pub(super) fn notifiable(&self, layers: &Layers<P, C>, response: Response) -> Result<Response, NotifyError> {
        let longest_token = Overhead::of_token_length(layers.transport.config.longest_accepted_token());
        let overhead = longest_token.with(OBSERVE_BYTES).with(layers.most_protection());
        if layers.transport.config.goes_whole(overhead, &response.body) {
            return Ok(response);
        }
        let mut whole = Representation::new(response.code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &layers.transport.config.limits);
        if bytes > limits.body_bytes {
            return Err(NotifyError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        whole.tag(|payload| layers.transport.hash.hash(&payload).to_be_bytes());
        let limit = limits.message_bytes;
        match whole.block(None, None, Some(layers.transport.config.block_size), overhead, limit) {
            Ok(_) => Ok(Response { body: whole.into_body(), ..response }),
            Err(_) => Err(NotifyError::TooLarge { bytes: overhead.message(&response.body), limit }),
        }
    }

    /// Returns the notification as an observer gets it: complete, or the first block in the
    /// requested size and, with Q-Block2, the blocks that follow in bursts. The rest replaces the
    /// previous state (RFC 7959 §2.6).
    pub(super) fn cut_notification(
        &mut self,
        layers: &mut Layers<P, C>,
        notification: Notification,
    ) -> (Content, Option<StoredResponse>) {
        let Notification { key: observer, group, requested, security, content, .. } = notification;
        let overhead = Overhead::of(&observer.token).with(security.response_bytes());
        let (code, payload) = (content.code, content.body.payload());
        let wanted = requested.response_in_bursts().or(requested.block2());
        let fits = wanted.is_none_or(|block| payload.len() <= block.size.bytes());
        if fits && layers.transport.config.goes_whole(overhead, &content.body) {
            return (content, None);
        }
        let sequence = content.body.content(code).and_then(|content| content.uint(OptionNumber::OBSERVE));
        let body = content.body.rewritten(|number| number != OptionNumber::OBSERVE, &[], &payload);
        let source = Source { from: layers.transport.peers.get(observer.peer).key, local: observer.local };
        let key = self.key(layers, layers.transport.peers.hash(&source.from), source, &requested);
        let to = Recipient { key, group, requested, overhead: overhead.with(OBSERVE_BYTES), storage: None };
        // The size was checked when the application passed the notification.
        let Ok(cut) = self.cut_response(layers, &to, Response::new(code, body)) else { return (content, None) };
        let rest = self.behind_first(layers.now, &to, sequence, &cut);
        let body = sequence.map(|sequence| cut.body.with_uint(OptionNumber::OBSERVE, sequence));
        (Content { code, body: body.unwrap_or(cut.body) }, rest)
    }

    pub(crate) fn key(&self, layers: &Layers<P, C>, from: u64, source: Source<P>, requested: &BlockOptions) -> Key {
        let local = source.local.map_or(0, |local| layers.transport.hash.hash(&local));
        Key { from, identity: requested.identity ^ local }
    }

    /// Cuts a response to its first or requested block for a client with Q-Block2.
    fn cut_response_for_bursts(
        &mut self,
        layers: &mut Layers<P, C>,
        to: &Recipient,
        response: Response,
    ) -> Result<Response, RespondError> {
        let code = response.code;
        let block = to.requested.response_in_bursts();
        if to.requested.q_block2().is_none() && layers.transport.config.goes_whole(to.overhead, &response.body) {
            // No smaller blocks were requested.
            self.representations.forget(to.key);
            return Ok(response);
        }
        let mut whole = Representation::new(code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &layers.transport.config.limits);
        let (Some(block), others) = (block, to.overhead) else { return Ok(response) };
        if bytes > limits.body_bytes {
            return Err(RespondError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        let hash = layers.transport.hash;
        whole.tag(|payload| hash.hash(&payload).to_be_bytes());
        let Some(size) =
            whole.size_in_bursts(block.size.min(layers.transport.config.block_size), others, limits.message_bytes)
        else {
            return Ok(response);
        };
        if bytes <= size.bytes() && block.num == 0 {
            // The block is the complete body.
            self.representations.forget(to.key);
            return Ok(response);
        }
        match whole.block_of_burst(block.num, size, others, limits.message_bytes) {
            Some(body) => match self.keep(layers, to, whole) {
                Ok(()) => Ok(Response { body, ..response }),
                Err(refusal) => Ok(refusal),
            },
            None => {
                let body = Body::builder().payload(BEYOND).build().unwrap_or_default();
                Ok(Response { code: Code::BAD_REQUEST, body, ..response })
            }
        }
    }

    /// Returns the rest to be sent in bursts, if whole states were requested.
    fn behind_first(
        &mut self,
        now: Instant,
        to: &Recipient,
        sequence: Option<u32>,
        cut: &Response,
    ) -> Option<StoredResponse> {
        let requested = to.requested.response_in_bursts().filter(|requested| requested.more)?;
        let block = cut.body.content(cut.code)?.block(OptionNumber::Q_BLOCK2).ok()?.filter(|block| block.more)?;
        let kept = self.representations.get(now, to.key)?;
        let (bytes, version) = (kept.payload().len(), kept.version());
        let block = Block { more: requested.more, ..block };
        Some(StoredResponse { key: to.key, version, bytes, block, sequence })
    }
}

/// Returns the blocks, out of `blocks`, that the Q-Block2 options request, and whether all blocks
/// to the end of a set are requested. `None` if the options are not in ascending order or there is
/// no such block (RFC 9177 §4.4).
fn requested_blocks(message: &Message<'_>, max_payloads: u32, blocks: usize) -> Option<(Vec<u32>, bool)> {
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

impl CreateOnDemand for Representations {
    type Config = SharedConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self::new(Bounds::NONE) }
    }

    fn create(config: &SharedConfig) -> Self {
        // A client asks for the second block within a round trip, or 1.5 times ACK_TIMEOUT later if
        // the first was lost.
        let unused_stale = config.transmission.ack_timeout.saturating_mul(2);
        Self::new(Bounds { unused_stale, own_stale: Duration::ZERO, ..bounds(config) })
    }
}

pub(crate) fn bounds(config: &SharedConfig) -> Bounds {
    let (limits, transmission) = (&config.limits, &config.transmission);
    // Two consecutive transmissions were lost: 1.5 (1 + 2) times ACK_TIMEOUT.
    let stale = transmission.ack_timeout.saturating_mul(9) / 2;
    Bounds {
        per_peer: limits.transfers_per_peer,
        total: limits.transfers,
        bytes: limits.assembly_bytes,
        body_bytes: limits.body_bytes,
        idle: config.times().exchange_lifetime,
        longest: config.transfer_lifetime,
        stale,
        unused_stale: stale,
        own_stale: stale,
    }
}

pub(crate) struct Recipient {
    pub(crate) key: Key,
    pub(crate) group: Group,
    pub(crate) requested: BlockOptions,
    pub(crate) overhead: Overhead,
    /// The claim of its body to a place; `None` for notifications and responses to groups.
    pub(crate) storage: Option<BodyStorage>,
}

/// RFC 7959 §2.9.2 has the closest code: blocks that did not come "in the order required by the
/// server".
pub(crate) const IN_ORDER: &str = "this body is served from its beginning, one block after the other";

pub(crate) const BEYOND: &str = "the body ends before this block";

pub(crate) const TOO_LARGE: &str = "the body is too large";

/// How a request with blocks is passed to the application.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delivery {
    Unchanged,
    /// Reassembled from the blocks of this body and the message itself.
    JoinedBody(Key),
    /// Reassembled from the bursts of this body.
    Received(Key),
}
