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
use super::pending_requests::{PendingRequest, RequestKind};
use super::receive::{Arrival, ReceivedRequest, RequestOptions};
use super::respond::AnsweredRequest;
use crate::PeerKey;
use crate::blockwise::{
    Assemblies, BlockError, Bounds, Claim, Contexts, ExtractedBlock, Key, Missing, NewContext, Representation,
};
use crate::codec::{Block, BlockSize, Body, Code, Message, OptionNumber, Overhead, OwnedMessage};
use crate::config::SharedConfig;
use crate::error::RespondError;
use crate::event::{BodyClosed, Event, IncompleteBody, StreamEnd};
use crate::layers::Layers;
use crate::store::{Compact, CreateOnDemand};
use crate::transport::{ExchangeId, RemainingBody, Reply, RequestId, Response};
use bytes::Bytes;
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Receives a block of a body in parts, or a request for one. Returns `false` if it is not one.
    pub(in crate::server) fn receive_of_stream(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        options: RequestOptions,
    ) -> bool {
        let arrival = received.arrival;
        if self.streamed_bodies.created().is_none() {
            return false;
        }
        let key = self.key(layers, arrival.hash, arrival.source, &options.requested);
        match (options.requested.block1(), options.requested.block2().filter(|block| block.num > 0)) {
            (Some(block), _) => self.receive_part(layers, received, options, key, block),
            (None, Some(block)) => self.receive_ask(layers, received, options, key, block),
            (None, None) => false,
        }
    }

    fn answer_late(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        options: RequestOptions,
        key: Key,
    ) {
        let Some(Stream { request, phase: StreamPhase::Answered(response) }) =
            self.streamed_bodies.streams.contexts.remove(key)
        else {
            return;
        };
        if self.reopen(layers, request, received, options) {
            self.pending_requests.let_place_go(request);
            self.pending_requests.answer_whole(request);
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
        options: RequestOptions,
    ) -> bool {
        let ReceivedRequest { arrival, message } = received;
        let places = layers.transport.config.limits.incoming;
        let fits = self.pending_requests.admits_next(request, arrival.group, &message.token(), places);
        let taken = if fits { self.take_in_place(layers, received) } else { None };
        let Some(taken) = taken else {
            layers.transport.stats.overloaded += 1;
            self.refuse(layers, received, Code::SERVICE_UNAVAILABLE, "");
            return false;
        };
        let mut pending = arrival.pending(message, &options, taken);
        if let Some(before) = self.release(layers, request) {
            // A FETCH need not repeat its payload.
            pending.requested.identity = before.requested.identity;
        }
        self.pending_requests.go_on(layers.now, request, pending);
        self.pending_requests.protect(request, &arrival.security);
        if self.has_observers() {
            self.registration_continued(layers, request, message);
        }
        true
    }

    /// Closes the open message of a request with at most an Empty ACK.
    fn release(&mut self, layers: &mut Layers<P, C>, request: RequestId) -> Option<PendingRequest<P>> {
        let pending = self.pending_requests.pause(request)?;
        if pending.can_piggyback() {
            self.reply(layers, &pending, Reply::EmptyAck);
        }
        if pending.kind != RequestKind::BetweenBlocks {
            self.pending_requests.give_back(pending.group, &pending.token);
        }
        if let Some(peer) = pending.peer.map(Compact::get) {
            layers.transport.peers.let_go(layers.now, peer);
        }
        Some(pending)
    }

    fn answer_part(&mut self, layers: &mut Layers<P, C>, request: RequestId, response: Response) -> Option<ExchangeId> {
        let pending = self.pending_requests.pause(request)?;
        let security = self.pending_requests.security(request).clone();
        self.send_response(layers, AnsweredRequest { pending: &pending, security: &security }, None, response)
    }

    fn end_stream(&mut self, layers: &mut Layers<P, C>, key: Key, reason: StreamEnd) {
        let Some(Stream { request, phase }) = self.streamed_bodies.streams.contexts.remove(key) else { return };
        self.release_stream(layers, request);
        if !matches!(phase, StreamPhase::Answered(_)) {
            layers.announce(Event::StreamOver { request, reason });
        }
    }

    /// Drops a request and the observer that it registered.
    fn release_stream(&mut self, layers: &mut Layers<P, C>, request: RequestId) {
        self.unregister(layers, request);
        self.release(layers, request);
        if let Some(pending) = self.pending_requests.remove(request) {
            self.answered(layers, &pending);
        }
    }

    pub(in crate::server) fn is_answered(&mut self, layers: &mut Layers<P, C>, request: RequestId) -> bool {
        let Some(key) = self.stream_of(layers, request) else { return false };
        self.streamed_bodies
            .streams
            .contexts
            .peek_mut(key)
            .is_some_and(|stream| matches!(stream.phase, StreamPhase::Answered(_)))
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
        let Some(pending) = self.open_message(request) else {
            let stream = self.streamed_bodies.streams.find(layers.now, key).ok_or(RespondError::NotPending)?;
            stream.phase = StreamPhase::Answered(response.clone());
            return Ok(true);
        };
        self.streamed_bodies.streams.contexts.remove(key);
        self.pending_requests.let_place_go(request);
        if pending.requested.block1().is_some_and(|block| block.more) {
            // The success concerns the request, not this block (RFC 7959 §2.3).
            self.pending_requests.answer_whole(request);
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
            self.streamed_bodies.streams.contexts.remove(key);
            self.pending_requests.let_place_go(request);
            if let Some(reason) = reason {
                layers.announce(Event::StreamOver { request, reason });
            }
        }
    }

    /// Ends a body that the client has not continued in time. Returns `false` if there is none.
    pub(in crate::server) fn stream_expired(&mut self, layers: &mut Layers<P, C>) -> bool {
        let Some(key) = self.streamed_bodies.streams.contexts.expired(layers.now) else { return false };
        let Some(stream) = self.streamed_bodies.streams.find(layers.now, key) else { return true };
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
        let pending = self.pending_requests.get(request)?;
        let key = self.recipient(layers, pending, Overhead::of(&pending.token)).key;
        self.streamed_bodies.streams.contexts.peek_mut(key).filter(|stream| stream.request == request).map(|_| key)
    }

    fn open_message(&self, request: RequestId) -> Option<PendingRequest<P>> {
        self.pending_requests.get(request).cloned().filter(|pending| pending.kind != RequestKind::BetweenBlocks)
    }

    pub(crate) fn stream_requests(&mut self, wanted: Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>) {
        self.streamed_bodies.streams.wanted = Some(wanted);
    }

    pub(crate) fn continue_request(
        &mut self,
        layers: &mut Layers<P, C>,
        request: RequestId,
    ) -> Result<Option<ExchangeId>, RespondError> {
        let key = self.stream_of(layers, request).ok_or(RespondError::NotPending)?;
        let comes = self
            .streamed_bodies
            .streams
            .find(layers.now, key)
            .is_some_and(|stream| matches!(stream.phase, StreamPhase::Receiving(_)));
        let pending = self.open_message(request).filter(|_| comes).ok_or(RespondError::NotPending)?;
        let block = pending.requested.block1().filter(|block| block.more).ok_or(RespondError::NotPending)?;
        Ok(self.answer_part(layers, request, Response::new(Code::CONTINUE, self.continuing(layers, block))))
    }

    /// Returns `false` if the application does not take the body in parts.
    fn receive_part(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        options: RequestOptions,
        key: Key,
        block: Block,
    ) -> bool {
        let ReceivedRequest { arrival, message } = received;
        let (code, payload) = (message.code(), message.payload());
        let digest = layers.transport.hash.digest(code.0, payload);
        let known = self.streamed_bodies.streams.find(layers.now, key).is_some();
        let begins = block.num == 0 && block.more && self.streamed_bodies.streams.wants(message);
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
        let Some(stream) = self.streamed_bodies.streams.find(layers.now, key) else {
            self.begin_stream(layers, received, options, key, digest);
            return true;
        };
        let request = stream.request;
        let fit = match &mut stream.phase {
            StreamPhase::Receiving(coming) => coming.fit(code, block, payload.len(), digest),
            StreamPhase::Answered(_) if block.num > 0 => BlockPosition::Next,
            StreamPhase::Answered(_) | StreamPhase::Sending(_) => BlockPosition::OutOfOrder,
        };
        let answered = matches!(stream.phase, StreamPhase::Answered(_));
        let open = self.open_message(request).is_some();
        match fit {
            BlockPosition::Next if answered => self.answer_late(layers, received, options, key),
            BlockPosition::Next if !open => {
                if self.reopen(layers, request, ReceivedRequest { arrival: &validated(arrival), message }, options) {
                    self.streamed_bodies.streams.find(layers.now, key).into_iter().for_each(|stream| {
                        let next = block.offset().saturating_add(payload.len());
                        stream.phase = StreamPhase::Receiving(Receiving { code, next, last: digest });
                    });
                    let message = OwnedMessage::pooled(*message, &mut layers.pool);
                    layers.announce(Event::Part { request, message, last: !block.more });
                }
            }
            // The application still has the block; its response answers this message.
            BlockPosition::Duplicate if open => {
                self.reopen(layers, request, ReceivedRequest { arrival: &validated(arrival), message }, options);
            }
            BlockPosition::Duplicate => {
                let body = self.continuing(layers, block);
                self.answer_remembered(layers, received, Code::CONTINUE, &body);
            }
            _ if block.num == 0 => {
                self.end_stream(layers, key, StreamEnd::BegunAnew);
                if !begins {
                    return false;
                }
                self.begin_stream(layers, received, options, key, digest);
            }
            BlockPosition::Next | BlockPosition::OutOfOrder => {
                self.refuse(layers, received, Code::REQUEST_ENTITY_INCOMPLETE, NOT_IN_ORDER);
            }
        }
        true
    }

    fn begin_stream(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        options: RequestOptions,
        key: Key,
        digest: u64,
    ) {
        let ReceivedRequest { arrival, message } = received;
        if arrival.allowance.is_some() {
            // An address validation later would have no room.
            return self.hold_or_challenge(layers, received);
        }
        let places = layers.transport.config.limits.incoming;
        let admitted = self.pending_requests.admits_in_parts(arrival.group, &message.token(), places);
        let taken = if admitted { self.take_in_place(layers, received) } else { None };
        let insert = |taken| self.pending_requests.insert(layers.now, || arrival.pending(message, &options, taken));
        let Some(id) = taken.and_then(insert) else {
            layers.transport.stats.overloaded += 1;
            return self.refuse(layers, received, Code::SERVICE_UNAVAILABLE, "");
        };
        self.pending_requests.protect(id, &arrival.security);
        let coming = Receiving::begun(message.code(), message.payload().len(), digest);
        let stream = Stream { request: id, phase: StreamPhase::Receiving(coming) };
        let new = NewContext { key, group: arrival.group, value: stream, bytes: 0 };
        if self.streamed_bodies.streams.contexts.insert(layers.now, new, Claim::SHARE).is_err() {
            layers.transport.stats.overloaded += 1;
            let body = layers.transport.config.try_later();
            // The request waits, and the response fits.
            let _ = self.respond(layers, id, Response::new(Code::SERVICE_UNAVAILABLE, body));
            return;
        }
        self.pending_requests.keep_place(id);
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
        rest: RemainingBody,
    ) -> Result<bool, RespondError> {
        let pending = self.open_message(request).ok_or(RespondError::NotPending)?;
        self.check_code(&response)?;
        if pending.is_to_group() {
            return Err(RespondError::ToGroup);
        }
        if Self::is_unwanted(&pending, &response) {
            self.ignore(layers, request);
            return Ok(false);
        }
        let refusal = match pending.requested.block2() {
            _ if pending.requested.q_block2().is_some() => Some(Response::new(Code::BAD_OPTION, Body::EMPTY)),
            Some(block) if block.num > 0 => Some(diagnosed(Code::REQUEST_ENTITY_INCOMPLETE, IN_ORDER)),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return self.respond(layers, request, refusal).map(|_| false);
        }
        let mut whole = Representation::beginning(response.code, &response.body, rest.size);
        let tag = layers.transport.random.next_u64().to_be_bytes();
        whole.tag(|_| tag);
        let key = self.recipient(layers, &pending, Overhead::of(&pending.token)).key;
        let phase = StreamPhase::Sending(Box::new(Sending::new(whole, layers.transport.config.block_size)));
        match self.streamed_bodies.streams.find(layers.now, key) {
            Some(stream) if stream.request == request => stream.phase = phase,
            before => {
                let limit = layers.transport.config.limits.transfers;
                if !self.pending_requests.admits(
                    pending.group,
                    pending.token.places(),
                    layers.transport.config.limits.incoming,
                ) {
                    return Err(RespondError::TooManyStreams { limit });
                }
                if before.is_some() {
                    self.end_stream(layers, key, StreamEnd::BegunAnew);
                }
                let new = NewContext { key, group: pending.group, value: Stream { request, phase }, bytes: 0 };
                let entered = self.streamed_bodies.streams.contexts.insert(layers.now, new, Claim::SHARE);
                entered.map_err(|_| RespondError::TooManyStreams { limit })?;
                self.pending_requests.keep_place(request);
            }
        }
        if pending.requested.block1().is_some_and(|block| block.more) {
            self.pending_requests.answer_whole(request);
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
        options: RequestOptions,
        key: Key,
        block: Block,
    ) -> bool {
        let ReceivedRequest { arrival, message } = received;
        let repeats = message.code() == Code::FETCH && message.payload().is_empty();
        let key = if repeats { self.streamed_bodies.streams.contexts.fetched(key) } else { key };
        let others = Overhead::of_response_to(message).with(arrival.security.response_bytes());
        let (largest, limit) = (layers.transport.config.block_size, layers.transport.config.limits.message_bytes);
        let Some(stream) = self.streamed_bodies.streams.find(layers.now, key) else { return false };
        let request = stream.request;
        let leaving = match &mut stream.phase {
            StreamPhase::Receiving(_) => return false,
            StreamPhase::Answered(_) => {
                self.answer_late(layers, received, options, key);
                return true;
            }
            StreamPhase::Sending(leaving) => leaving,
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
            Err(BlockError::Missing(Missing::Later(_))) => {
                self.reopen(layers, request, received, options);
                self.announce_wanted_of(layers, key);
            }
            Err(BlockError::Missing(Missing::Gone)) => {
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
    ) -> Result<(), BodyClosed> {
        let key = self.stream_of(layers, request).ok_or(BodyClosed)?;
        // Data from the application does not show that the client is still there.
        let taken = match self.streamed_bodies.streams.contexts.peek_mut(key).map(|stream| &mut stream.phase) {
            Some(StreamPhase::Sending(leaving)) => leaving.whole.outgoing().supply(more, last),
            _ => false,
        };
        if !taken {
            return Err(BodyClosed);
        }
        self.serve(layers, key);
        Ok(())
    }

    /// Sends the next block of a response, if the client waits for it and it was supplied.
    fn serve(&mut self, layers: &mut Layers<P, C>, key: Key) {
        let (largest, limit) = (layers.transport.config.block_size, layers.transport.config.limits.message_bytes);
        let Some(stream) = self.streamed_bodies.created().and_then(|parts| parts.streams.find(layers.now, key)) else {
            return;
        };
        let (request, StreamPhase::Sending(leaving)) = (stream.request, &mut stream.phase) else { return };
        let open = self.pending_requests.get(request).filter(|pending| pending.kind != RequestKind::BetweenBlocks);
        let Some(pending) = open else { return self.announce_wanted_of(layers, key) };
        let protection = self.pending_requests.security(request).response_bytes();
        let (requested, others) = (&pending.requested, Overhead::of(&pending.token).with(protection));
        let code = leaving.whole.code;
        match leaving.cut(requested.block2(), requested.block1(), largest, others, limit) {
            Ok(cut) if cut.block.is_some_and(|block| block.more) => {
                self.answer_part(layers, request, Response::new(code, cut.body));
                self.announce_wanted_of(layers, key);
            }
            Ok(cut) => {
                self.answer_part(layers, request, Response::new(code, cut.body));
                self.finish(layers, key);
            }
            Err(BlockError::Missing(Missing::Later(_))) => self.announce_wanted_of(layers, key),
            Err(BlockError::NoRoom | BlockError::Missing(_)) => {
                let code = Code::INTERNAL_SERVER_ERROR;
                self.answer_part(layers, request, Response::new(code, Body::EMPTY));
                self.end_stream(layers, key, StreamEnd::TooLarge);
            }
        }
    }

    fn announce_wanted_of(&mut self, layers: &mut Layers<P, C>, key: Key) {
        let Some(stream) = self.streamed_bodies.streams.find(layers.now, key) else { return };
        let body = IncompleteBody::Response(stream.request);
        if let StreamPhase::Sending(leaving) = &mut stream.phase
            && let Some(bytes) = leaving.wants()
        {
            layers.announce(Event::Wanted { body, bytes });
        }
    }

    /// Finishes a body; its last block can be requested again.
    pub(in crate::server) fn finish(&mut self, layers: &mut Layers<P, C>, key: Key) {
        let Some(stream) = self.streamed_bodies.streams.contexts.remove(key) else { return };
        let group = self.pending_requests.get(stream.request).map(|pending| pending.group);
        if let (StreamPhase::Sending(leaving), Some(group)) = (stream.phase, group)
            && leaving.served > 0
        {
            // If the table is full, a repeated request for the last block goes to the application.
            let claim = Claim::Share(self.pending_requests.reserved());
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

pub(crate) type StreamFilter = Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>;

pub(crate) struct Streams {
    pub(crate) contexts: Contexts<Stream>,
    pub(crate) wanted: Option<StreamFilter>,
}

/// Keeps its place among the pending requests.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) request: RequestId,
    pub(crate) phase: StreamPhase,
}

#[derive(Debug)]
pub(crate) enum StreamPhase {
    Receiving(Receiving),
    /// The client gets the response with its next message.
    Answered(Response),
    Sending(Box<Sending>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiving {
    pub(crate) code: Code,
    pub(crate) next: usize,
    pub(crate) last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockPosition {
    Next,
    /// The last block again, in another message: its response was lost.
    Duplicate,
    OutOfOrder,
}

impl Receiving {
    /// Begins a body with its first block.
    pub(in crate::server) fn begun(code: Code, bytes: usize, digest: u64) -> Self {
        Self { code, next: bytes, last: digest }
    }

    pub(in crate::server) fn fit(&self, code: Code, block: Block, bytes: usize, digest: u64) -> BlockPosition {
        let (begin, end) = (block.offset(), block.offset().saturating_add(bytes));
        match code == self.code {
            true if begin == self.next => BlockPosition::Next,
            true if end == self.next && digest == self.last => BlockPosition::Duplicate,
            _ => BlockPosition::OutOfOrder,
        }
    }
}

/// A response whose blocks are sent in order.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) whole: Representation,
    /// In bytes.
    pub(crate) served: usize,
    pub(crate) size: BlockSize,
}

impl Sending {
    pub(crate) fn new(whole: Representation, size: BlockSize) -> Self {
        Self { whole, served: 0, size }
    }

    /// Returns the requested block, which must be the one sent last or the next one, and forgets
    /// the body before it.
    pub(in crate::server) fn cut(
        &mut self,
        requested: Option<Block>,
        block1: Option<Block>,
        largest: BlockSize,
        others: Overhead,
        limit: usize,
    ) -> Result<ExtractedBlock, BlockError> {
        let offset = requested.map_or(0, Block::offset);
        if offset > self.served {
            return Err(BlockError::Missing(Missing::Gone));
        }
        // The client may request larger blocks than before, which need more data.
        self.size = requested.map_or(largest, |requested| requested.size.min(largest));
        let cut = self.whole.block(requested, block1, Some(largest), others, limit)?;
        self.whole.outgoing().forget_before(offset);
        if let Some(block) = cut.block {
            self.size = block.size;
            self.served = self.served.max(offset + block.size.bytes());
        }
        Ok(cut)
    }

    /// Returns the number of bytes needed, if it is to be reported.
    pub(crate) fn wants(&mut self) -> Option<usize> {
        let (served, size) = (self.served, self.size);
        self.whole.outgoing().wants(served, size)
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

pub(crate) struct StreamedBodies {
    pub(crate) assemblies: Assemblies,
    pub(crate) streams: Streams,
}

impl CreateOnDemand for StreamedBodies {
    type Config = SharedConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self { assemblies: Assemblies::new(Bounds::NONE), streams: Streams::new(Bounds::NONE) } }
    }

    fn create(config: &SharedConfig) -> Self {
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
