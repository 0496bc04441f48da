//! Requests of peers with a body that passes block by block between the application and the
//! endpoint ([`Streams`]).
//!
//! Each block is a request with its own message ID, deduplication and response, piggybacked if it
//! is ready in time. A peer thus waits as long as the application does, without retransmissions.
//! All blocks of a body together occupy one place among the pending requests; [`RequestId`] names
//! it from the first block to the last.

use alloc::boxed::Box;
use core::time::Duration;

use super::Server;
use super::blockwise::{BEYOND, IN_ORDER, bounds};
use super::pending_requests::{Came, Waiting};
use super::receive::{Arrival, ReceivedRequest, RequestOptions};
use super::respond::AnsweredRequest;
use crate::PeerKey;
use crate::blockwise::{Assemblies, Bounds, Claim, Contexts, Cut, Key, Missing, NewContext, NoBlock, Representation};
use crate::codec::{Block, BlockSize, Body, Code, Message, OptionNumber, Overhead, OwnedMessage};
use crate::config::SharedConfig;
use crate::error::RespondError;
use crate::event::{Event, NotWanted, StreamEnd, Unfinished};
use crate::layers::Layers;
use crate::store::{Compact, Seldom};
use crate::transport::{ExchangeId, Reply, RequestId, Response, Rest};
use bytes::Bytes;
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Receives a block of a body in parts, or a request for one. Returns `false` if it is not one.
    pub(in crate::server) fn receive_of_stream(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        said: RequestOptions,
    ) -> bool {
        let arrival = received.arrival;
        if self.parts.made().is_none() {
            return false;
        }
        let key = self.key(layers, arrival.hash, arrival.source, &said.asked);
        match (said.asked.block1(), said.asked.block2().filter(|block| block.num > 0)) {
            (Some(block), _) => self.receive_part(layers, received, said, key, block),
            (None, Some(block)) => self.receive_ask(layers, received, said, key, block),
            (None, None) => false,
        }
    }

    fn answer_late(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        said: RequestOptions,
        key: Key,
    ) {
        let Some(Stream { request, phase: Phase::Answered(response) }) = self.parts.streams.contexts.remove(key) else {
            return;
        };
        if self.reopen(layers, request, received, said) {
            self.incoming.let_place_go(request);
            self.incoming.answer_whole(request);
            if self.respond(layers, request, response).is_err() {
                let _ = self.respond(layers, request, Response::new(Code::INTERNAL_SERVER_ERROR, Body::EMPTY));
            }
        } else {
            self.release_stream(layers, request);
        }
    }

    /// Makes this the open message of a request. Returns `false` if it was refused.
    fn reopen(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
        received: ReceivedRequest<'_, P>,
        said: RequestOptions,
    ) -> bool {
        let ReceivedRequest { arrival, message } = received;
        let places = layers.transport.config.limits.incoming;
        let fits = self.incoming.admits_next(request, arrival.group, &message.token(), places);
        let taken = if fits { self.take_in_place(layers, received) } else { None };
        let Some(taken) = taken else {
            layers.transport.stats.overloaded += 1;
            self.refuse(layers, received, Code::SERVICE_UNAVAILABLE, "");
            return false;
        };
        let mut waiting = arrival.waiting(message, &said, taken);
        if let Some(before) = self.release(layers, request) {
            // A FETCH need not repeat its payload.
            waiting.asked.what = before.asked.what;
        }
        self.incoming.go_on(layers.now, request, waiting);
        self.incoming.protect(request, &arrival.security);
        if self.has_observers() {
            self.registration_continued(layers, request, message);
        }
        true
    }

    /// Closes the open message of a request with at most an Empty ACK.
    fn release(&mut self, layers: &mut Layers<P, C>, request: RequestId) -> Option<Waiting<P>> {
        let waiting = self.incoming.pause(request)?;
        if waiting.can_piggyback() {
            self.reply(layers, &waiting, Reply::EmptyAck);
        }
        if waiting.came != Came::Between {
            self.incoming.give_back(waiting.group, &waiting.token);
        }
        if let Some(peer) = waiting.peer.map(Compact::get) {
            layers.transport.peers.let_go(layers.now, peer);
        }
        Some(waiting)
    }

    fn answer_part(&mut self, layers: &mut Layers<P, C>, request: RequestId, response: Response) -> Option<ExchangeId> {
        let waiting = self.incoming.pause(request)?;
        let security = self.incoming.security(request).clone();
        self.send_response(layers, AnsweredRequest { waiting: &waiting, security: &security }, None, response)
    }

    fn end_stream(&mut self, layers: &mut Layers<P, C>, key: Key, reason: StreamEnd) {
        let Some(Stream { request, phase }) = self.parts.streams.contexts.remove(key) else { return };
        self.release_stream(layers, request);
        if !matches!(phase, Phase::Answered(_)) {
            layers.announce(Event::StreamOver { request, reason });
        }
    }

    /// Drops a request and the observer that it registered.
    fn release_stream(&mut self, layers: &mut Layers<P, C>, request: RequestId) {
        self.unregister(layers, request);
        self.release(layers, request);
        if let Some(waiting) = self.incoming.remove(request) {
            self.answered(layers, &waiting);
        }
    }

    pub(in crate::server) fn is_answered(&mut self, layers: &mut Layers<P, C>, request: RequestId) -> bool {
        let Some(key) = self.stream_of(layers, request) else { return false };
        self.parts.streams.contexts.peek_mut(key).is_some_and(|stream| matches!(stream.phase, Phase::Answered(_)))
    }

    /// Ends a body in parts because the application answers with a complete response. Returns
    /// whether the client will get the response only with its next message.
    pub(in crate::server) fn answered_at_once(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
        response: &Response,
    ) -> Result<bool, RespondError> {
        let Some(key) = self.stream_of(layers, request) else { return Ok(false) };
        let Some(waiting) = self.open_message(request) else {
            let stream = self.parts.streams.find(layers.now, key).ok_or(RespondError::NotPending)?;
            stream.phase = Phase::Answered(response.clone());
            return Ok(true);
        };
        self.parts.streams.contexts.remove(key);
        self.incoming.let_place_go(request);
        if waiting.asked.block1().is_some_and(|block| block.more) {
            // The success concerns the request, not this block (RFC 7959 §2.3).
            self.incoming.answer_whole(request);
        }
        Ok(false)
    }

    /// Removes the body of a request. Reports the end if a reason is given.
    pub(in crate::server) fn forget_stream(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
        reason: Option<StreamEnd>,
    ) {
        if let Some(key) = self.stream_of(layers, request) {
            self.parts.streams.contexts.remove(key);
            self.incoming.let_place_go(request);
            if let Some(reason) = reason {
                layers.announce(Event::StreamOver { request, reason });
            }
        }
    }

    /// Ends a body that the client has not continued in time. Returns `false` if there is none.
    pub(in crate::server) fn stream_expired(&mut self, layers: &mut Layers<P, C>) -> bool {
        let Some(key) = self.parts.streams.contexts.expired(layers.now) else { return false };
        let Some(stream) = self.parts.streams.find(layers.now, key) else { return true };
        let request = stream.request;
        // At the end of time nothing can be postponed.
        if self.open_message(request).is_none() || layers.now == Instant::FAR_FUTURE {
            self.end_stream(layers, key, StreamEnd::Abandoned);
        }
        true
    }

    fn stream_of(&mut self, layers: &mut Layers<P, C>, request: RequestId) -> Option<Key> {
        if !self.has_streams() {
            return None;
        }
        let waiting = self.incoming.get(request)?;
        let key = self.recipient(layers, waiting, Overhead::of(&waiting.token)).key;
        self.parts.streams.contexts.peek_mut(key).filter(|stream| stream.request == request).map(|_| key)
    }

    fn open_message(&self, request: RequestId) -> Option<Waiting<P>> {
        self.incoming.get(request).cloned().filter(|waiting| waiting.came != Came::Between)
    }

    pub(crate) fn stream_requests(&mut self, wanted: Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>) {
        self.parts.streams.wanted = Some(wanted);
    }

    pub(crate) fn continue_request(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
    ) -> Result<Option<ExchangeId>, RespondError> {
        let key = self.stream_of(layers, request).ok_or(RespondError::NotPending)?;
        let comes =
            self.parts.streams.find(layers.now, key).is_some_and(|stream| matches!(stream.phase, Phase::Coming(_)));
        let waiting = self.open_message(request).filter(|_| comes).ok_or(RespondError::NotPending)?;
        let block = waiting.asked.block1().filter(|block| block.more).ok_or(RespondError::NotPending)?;
        Ok(self.answer_part(layers, request, Response::new(Code::CONTINUE, self.continuing(layers, block))))
    }

    /// Returns `false` if the application does not take the body in parts.
    fn receive_part(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        said: RequestOptions,
        key: Key,
        block: Block,
    ) -> bool {
        let ReceivedRequest { arrival, message } = received;
        let (code, payload) = (message.code(), message.payload());
        let digest = layers.transport.hash.digest(code.0, payload);
        let known = self.parts.streams.find(layers.now, key).is_some();
        let begins = block.num == 0 && block.more && self.parts.streams.wants(message);
        if !known && !begins {
            return false;
        }
        // "The size of the payload matches exactly, except for the last block" (RFC 7959 §2.2).
        let fits = if block.more { payload.len() == block.size.bytes() } else { payload.len() <= block.size.bytes() };
        if !fits {
            let why = "the payload is not as long as the block's size says";
            self.refuse(layers, received, Code::BAD_REQUEST, why);
            return true;
        }
        let Some(stream) = self.parts.streams.find(layers.now, key) else {
            self.begin_stream(layers, received, said, key, digest);
            return true;
        };
        let request = stream.request;
        let fit = match &mut stream.phase {
            Phase::Coming(coming) => coming.fit(code, block, payload.len(), digest),
            Phase::Answered(_) if block.num > 0 => Fit::Next,
            Phase::Answered(_) | Phase::Leaving(_) => Fit::Elsewhere,
        };
        let answered = matches!(stream.phase, Phase::Answered(_));
        let open = self.open_message(request).is_some();
        match fit {
            Fit::Next if answered => self.answer_late(layers, received, said, key),
            Fit::Next if !open => {
                if self.reopen(layers, request, ReceivedRequest { arrival: &validated(arrival), message }, said) {
                    self.parts.streams.find(layers.now, key).into_iter().for_each(|stream| {
                        let next = block.offset().saturating_add(payload.len());
                        stream.phase = Phase::Coming(Coming { code, next, last: digest });
                    });
                    let message = OwnedMessage::pooled(*message, &mut layers.pool);
                    layers.announce(Event::Part { request, message, last: !block.more });
                }
            }
            // The application still has the block; its response answers this message.
            Fit::Again if open => {
                self.reopen(layers, request, ReceivedRequest { arrival: &validated(arrival), message }, said);
            }
            Fit::Again => {
                let body = self.continuing(layers, block);
                self.answer_remembered(layers, received, Code::CONTINUE, &body);
            }
            _ if block.num == 0 => {
                self.end_stream(layers, key, StreamEnd::BegunAnew);
                if !begins {
                    return false;
                }
                self.begin_stream(layers, received, said, key, digest);
            }
            Fit::Next | Fit::Elsewhere => {
                self.refuse(layers, received, Code::REQUEST_ENTITY_INCOMPLETE, NOT_IN_ORDER);
            }
        }
        true
    }

    fn begin_stream(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        said: RequestOptions,
        key: Key,
        digest: u64,
    ) {
        let ReceivedRequest { arrival, message } = received;
        if arrival.allowance.is_some() {
            // An address validation later would have no room.
            return self.hold_or_challenge(layers, received);
        }
        let places = layers.transport.config.limits.incoming;
        let admitted = self.incoming.admits_in_parts(arrival.group, &message.token(), places);
        let taken = if admitted { self.take_in_place(layers, received) } else { None };
        let insert = |taken| self.incoming.insert(layers.now, || arrival.waiting(message, &said, taken));
        let Some(id) = taken.and_then(insert) else {
            layers.transport.stats.overloaded += 1;
            return self.refuse(layers, received, Code::SERVICE_UNAVAILABLE, "");
        };
        self.incoming.protect(id, &arrival.security);
        let coming = Coming::begun(message.code(), message.payload().len(), digest);
        let stream = Stream { request: id, phase: Phase::Coming(coming) };
        let new = NewContext { key, group: arrival.group, value: stream, bytes: 0 };
        if self.parts.streams.contexts.insert(layers.now, new, Claim::SHARE).is_err() {
            layers.transport.stats.overloaded += 1;
            let body = layers.transport.config.try_later();
            // The request waits, and the response fits.
            let _ = self.respond(layers, id, Response::new(Code::SERVICE_UNAVAILABLE, body));
            return;
        }
        self.incoming.keep_place(id);
        if self.has_observers() {
            self.observation_renewed(layers, id, message);
        }
        layers.transport.stats.requests_received += 1;
        let message = OwnedMessage::pooled(*message, &mut layers.pool);
        layers.announce(Event::Request { id, from: arrival.source.from, message });
    }

    /// Returns the body of 2.31 Continue for a block (RFC 7959 §2.3).
    fn continuing(&self, layers: &Layers<P, C>, block: Block) -> Body {
        let block = Block { size: block.size.min(layers.transport.config.block_size), ..block };
        Body::EMPTY.rewritten(|_| true, &[(OptionNumber::BLOCK1, block.encode())], b"")
    }

    pub(crate) fn respond_in_parts(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
        response: Response,
        rest: Rest,
    ) -> Result<bool, RespondError> {
        let waiting = self.open_message(request).ok_or(RespondError::NotPending)?;
        self.check_code(&response)?;
        if waiting.is_to_group() {
            return Err(RespondError::ToGroup);
        }
        if Self::is_unwanted(&waiting, &response) {
            self.ignore(layers, request);
            return Ok(false);
        }
        let refusal = match waiting.asked.block2() {
            _ if waiting.asked.q_block2().is_some() => Some(Response::new(Code::BAD_OPTION, Body::EMPTY)),
            Some(block) if block.num > 0 => Some(diagnosed(Code::REQUEST_ENTITY_INCOMPLETE, IN_ORDER)),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return self.respond(layers, request, refusal).map(|_| false);
        }
        let mut whole = Representation::beginning(response.code, &response.body, rest.size);
        let tag = layers.transport.random.next_u64().to_be_bytes();
        whole.tag(|_| tag);
        let key = self.recipient(layers, &waiting, Overhead::of(&waiting.token)).key;
        let phase = Phase::Leaving(Box::new(Leaving::new(whole, layers.transport.config.block_size)));
        match self.parts.streams.find(layers.now, key) {
            Some(stream) if stream.request == request => stream.phase = phase,
            before => {
                let limit = layers.transport.config.limits.transfers;
                if !self.incoming.admits(waiting.group, waiting.token.places(), layers.transport.config.limits.incoming)
                {
                    return Err(RespondError::TooManyStreams { limit });
                }
                if before.is_some() {
                    self.end_stream(layers, key, StreamEnd::BegunAnew);
                }
                let new = NewContext { key, group: waiting.group, value: Stream { request, phase }, bytes: 0 };
                let entered = self.parts.streams.contexts.insert(layers.now, new, Claim::SHARE);
                entered.map_err(|_| RespondError::TooManyStreams { limit })?;
                self.incoming.keep_place(request);
            }
        }
        if waiting.asked.block1().is_some_and(|block| block.more) {
            self.incoming.answer_whole(request);
        }
        self.unregister(layers, request);
        self.representations.forget(key);
        self.serve(layers, key);
        Ok(true)
    }

    /// Returns `false` if no response in parts has this key.
    fn receive_ask(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        said: RequestOptions,
        key: Key,
        block: Block,
    ) -> bool {
        let ReceivedRequest { arrival, message } = received;
        let repeats = message.code() == Code::FETCH && message.payload().is_empty();
        let key = if repeats { self.parts.streams.contexts.fetched(key) } else { key };
        let others = Overhead::of_response_to(message).with(arrival.security.response_bytes());
        let (largest, limit) = (layers.transport.config.block_size, layers.transport.config.limits.message_bytes);
        let Some(stream) = self.parts.streams.find(layers.now, key) else { return false };
        let request = stream.request;
        let leaving = match &mut stream.phase {
            Phase::Coming(_) => return false,
            Phase::Answered(_) => {
                self.answer_late(layers, received, said, key);
                return true;
            }
            Phase::Leaving(leaving) => leaving,
        };
        let code = leaving.whole.code;
        match leaving.cut(Some(block), None, largest, others, limit) {
            Ok(cut) => {
                // No reply is stored: a duplicate gets the same block.
                self.answer_at_once(layers, received, code, &cut.body);
                self.release(layers, request);
                match cut.block.is_some_and(|block| block.more) {
                    true => self.announce_wanted_of(layers, key),
                    false => self.finish(layers, key),
                }
            }
            Err(NoBlock::Missing(Missing::Later(_))) => {
                self.reopen(layers, request, received, said);
                self.announce_wanted_of(layers, key);
            }
            Err(NoBlock::Missing(Missing::Gone)) => {
                self.refuse(layers, received, Code::REQUEST_ENTITY_INCOMPLETE, IN_ORDER);
            }
            Err(_) => self.refuse(layers, received, Code::BAD_REQUEST, BEYOND),
        }
        true
    }

    pub(crate) fn supply_response(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
        more: Bytes,
        last: bool,
    ) -> Result<(), NotWanted> {
        let key = self.stream_of(layers, request).ok_or(NotWanted)?;
        // Data from the application does not show that the client is still there.
        let taken = match self.parts.streams.contexts.peek_mut(key).map(|stream| &mut stream.phase) {
            Some(Phase::Leaving(leaving)) => leaving.whole.outflow().supply(more, last),
            _ => false,
        };
        if !taken {
            return Err(NotWanted);
        }
        self.serve(layers, key);
        Ok(())
    }

    /// Sends the next block of a response, if the client waits for it and it was supplied.
    fn serve(&mut self, layers: &mut Layers<P, C>, key: Key) {
        let (largest, limit) = (layers.transport.config.block_size, layers.transport.config.limits.message_bytes);
        let Some(stream) = self.parts.made().and_then(|parts| parts.streams.find(layers.now, key)) else { return };
        let (request, Phase::Leaving(leaving)) = (stream.request, &mut stream.phase) else { return };
        let open = self.incoming.get(request).filter(|waiting| waiting.came != Came::Between);
        let Some(waiting) = open else { return self.announce_wanted_of(layers, key) };
        let protection = self.incoming.security(request).response_bytes();
        let (asked, others) = (&waiting.asked, Overhead::of(&waiting.token).with(protection));
        let code = leaving.whole.code;
        match leaving.cut(asked.block2(), asked.block1(), largest, others, limit) {
            Ok(cut) if cut.block.is_some_and(|block| block.more) => {
                self.answer_part(layers, request, Response::new(code, cut.body));
                self.announce_wanted_of(layers, key);
            }
            Ok(cut) => {
                self.answer_part(layers, request, Response::new(code, cut.body));
                self.finish(layers, key);
            }
            Err(NoBlock::Missing(Missing::Later(_))) => self.announce_wanted_of(layers, key),
            Err(NoBlock::NoRoom | NoBlock::Missing(_)) => {
                let code = Code::INTERNAL_SERVER_ERROR;
                self.answer_part(layers, request, Response::new(code, Body::EMPTY));
                self.end_stream(layers, key, StreamEnd::TooLarge);
            }
        }
    }

    fn announce_wanted_of(&mut self, layers: &mut Layers<P, C>, key: Key) {
        let Some(stream) = self.parts.streams.find(layers.now, key) else { return };
        let body = Unfinished::Response(stream.request);
        if let Phase::Leaving(leaving) = &mut stream.phase
            && let Some(bytes) = leaving.wants()
        {
            layers.announce(Event::Wanted { body, bytes });
        }
    }

    /// Finishes a body; its last block can be requested again.
    pub(in crate::server) fn finish(&mut self, layers: &mut Layers<P, C>, key: Key) {
        let Some(stream) = self.parts.streams.contexts.remove(key) else { return };
        let group = self.incoming.get(stream.request).map(|waiting| waiting.group);
        if let (Phase::Leaving(leaving), Some(group)) = (stream.phase, group)
            && leaving.served > 0
        {
            // If the table is full, a repeated request for the last block goes to the application.
            let claim = Claim::Share(self.incoming.reserved());
            let _ = self.representations.keep(layers.now, key, group, leaving.whole, claim);
            self.representations.finish(key);
        }
        self.release_stream(layers, stream.request);
    }
}

const NOT_IN_ORDER: &str = "this block is not the next one of the body: begin anew";

/// Removes the limit: the source was validated when the body began.
fn validated<P: Clone>(arrival: &Arrival<P>) -> Arrival<P> {
    Arrival { allowance: None, ..arrival.clone() }
}

fn diagnosed(code: Code, why: &'static str) -> Response {
    Response::new(code, Body::builder().payload(why).build().unwrap_or_default())
}

pub(crate) type Wanted = Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>;

pub(crate) struct Streams {
    pub(crate) contexts: Contexts<Stream>,
    pub(crate) wanted: Option<Wanted>,
}

/// Keeps its place among the pending requests.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) request: RequestId,
    pub(crate) phase: Phase,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Coming(Coming),
    /// The client gets the response with its next message.
    Answered(Response),
    Leaving(Box<Leaving>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    pub(crate) code: Code,
    pub(crate) next: usize,
    pub(crate) last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Next,
    /// The last block again, in another message: its response was lost.
    Again,
    Elsewhere,
}

impl Coming {
    /// Begins a body with its first block.
    pub(in crate::server) fn begun(code: Code, bytes: usize, digest: u64) -> Self {
        Self { code, next: bytes, last: digest }
    }

    pub(in crate::server) fn fit(&self, code: Code, block: Block, bytes: usize, digest: u64) -> Fit {
        let (begin, end) = (block.offset(), block.offset().saturating_add(bytes));
        match code == self.code {
            true if begin == self.next => Fit::Next,
            true if end == self.next && digest == self.last => Fit::Again,
            _ => Fit::Elsewhere,
        }
    }
}

/// A response whose blocks are sent in order.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) whole: Representation,
    /// In bytes.
    pub(crate) served: usize,
    pub(crate) size: BlockSize,
}

impl Leaving {
    pub(crate) fn new(whole: Representation, size: BlockSize) -> Self {
        Self { whole, served: 0, size }
    }

    /// Returns the requested block, which must be the one sent last or the next one, and forgets
    /// the body before it.
    pub(in crate::server) fn cut(
        &mut self,
        asked: Option<Block>,
        block1: Option<Block>,
        largest: BlockSize,
        others: Overhead,
        limit: usize,
    ) -> Result<Cut, NoBlock> {
        let offset = asked.map_or(0, Block::offset);
        if offset > self.served {
            return Err(NoBlock::Missing(Missing::Gone));
        }
        // The client may request larger blocks than before, which need more data.
        self.size = asked.map_or(largest, |asked| asked.size.min(largest));
        let cut = self.whole.block(asked, block1, Some(largest), others, limit)?;
        self.whole.outflow().forget_before(offset);
        if let Some(block) = cut.block {
            self.size = block.size;
            self.served = self.served.max(offset + block.size.bytes());
        }
        Ok(cut)
    }

    /// Returns the number of bytes needed, if it is to be reported.
    pub(crate) fn wants(&mut self) -> Option<usize> {
        let (served, size) = (self.served, self.size);
        self.whole.outflow().wants(served, size)
    }
}

impl Streams {
    const fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds), wanted: None }
    }

    pub(crate) fn find(&mut self, now: Instant, key: Key) -> Option<&mut Stream> {
        self.contexts.use_of(now, key).map(|(_, stream)| stream)
    }

    pub(crate) fn wants(&self, message: &Message<'_>) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted(message))
    }

    /// Purges expired bodies, which must have been [taken out](Contexts::expired). Returns the time
    /// of the next expiry.
    pub(crate) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    pub(crate) fn len(&self) -> usize {
        self.contexts.len()
    }
}

pub(crate) struct Parts {
    pub(crate) assemblies: Assemblies,
    pub(crate) streams: Streams,
}

impl Seldom for Parts {
    type Recipe = SharedConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self { assemblies: Assemblies::new(Bounds::NONE), streams: Streams::new(Bounds::NONE) } }
    }

    fn make(config: &SharedConfig) -> Self {
        let bounds = bounds(config);
        // A body in parts may take any time in total, and none is evicted for another's.
        let of_streams = Bounds {
            longest: Duration::MAX,
            stale: Duration::MAX,
            unused_stale: Duration::MAX,
            own_stale: Duration::MAX,
            ..bounds
        };
        Self { assemblies: Assemblies::new(bounds), streams: Streams::new(of_streams) }
    }
}
