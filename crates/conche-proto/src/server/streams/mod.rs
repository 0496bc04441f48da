//! Requests of peers whose request or response body is transferred block by block.
//!
//! Each block is a request with its own message ID, deduplication and response, which is
//! piggybacked if it is ready in time and separate otherwise, as for any slow handler. So a peer
//! waits as long as the application does, without retransmissions. All the blocks together occupy
//! one place among the requests that wait for a response; [`RequestId`] names it from the first
//! block to the last.

mod receive;
mod send;
mod table;

pub(crate) use table::Parts;

use crate::PeerKey;
use crate::blockwise::Key;
use crate::codec::{Body, Code, Message, Overhead};
use crate::error::RespondError;
use crate::event::{Event, StreamEnd};
use crate::exchange::{ExchangeId, Response};
use crate::incoming::{Came, RequestId, Waiting};
use crate::layers::Layers;
use crate::message::Reply;
use crate::server::Server;
use crate::server::options::Said;
use crate::server::receive::Arrival;
use crate::store::Number;
use conche_cc::{Controller, Instant};
use table::{Phase, Stream};

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Receives a request for a block of a body that is transferred in parts. Returns `false` if it
    /// is not one.
    pub(crate) fn receive_of_stream(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: Said,
    ) -> bool {
        if self.parts.made().is_none() {
            return false;
        }
        let key = self.key(layers, arrival.hash, arrival.source, &said.asked);
        match (said.asked.block1(), said.asked.block2().filter(|block| block.num > 0)) {
            (Some(block), _) => self.receive_part(layers, now, arrival, message, said, (key, block)),
            (None, Some(block)) => self.receive_ask(layers, now, arrival, message, said, (key, block)),
            (None, None) => false,
        }
    }

    /// Answers this message with the response that the application gave in advance, which ends the
    /// body.
    pub(crate) fn answer_late(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: Said,
        key: Key,
    ) {
        let Some(Stream { request, phase: Phase::Answered(response) }) = self.parts.streams.contexts.remove(key) else {
            return;
        };
        if self.reopen(layers, now, request, (arrival, message, said)) {
            self.incoming.let_place_go(request);
            self.incoming.answer_whole(request);
            if self.respond(layers, now, request, response).is_err() {
                let _ = self.respond(layers, now, request, Response::new(Code::INTERNAL_SERVER_ERROR, Body::EMPTY));
            }
        } else {
            self.give_up_place(layers, now, request);
        }
    }

    /// Makes this the open message of a request that keeps its place. Returns `false` if it was
    /// refused.
    pub(crate) fn reopen(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        request: RequestId,
        (arrival, message, said): (&Arrival<P>, &Message<'_>, Said),
    ) -> bool {
        let places = layers.transport.config.limits.incoming;
        let fits = self.incoming.admits_next(request, arrival.group, &message.token(), places);
        let taken = if fits { self.take_in_place(layers, now, arrival, message) } else { None };
        let Some(taken) = taken else {
            layers.transport.stats.overloaded += 1;
            self.refuse(layers, now, arrival, message, (Code::SERVICE_UNAVAILABLE, ""));
            return false;
        };
        let mut waiting = arrival.waiting(message, &said, taken);
        if let Some(before) = self.release(layers, now, request) {
            // The fingerprint of the earlier message is kept, since a FETCH need not repeat its
            // payload.
            waiting.asked.what = before.asked.what;
        }
        self.incoming.go_on(now, request, waiting);
        self.incoming.protect(request, &arrival.security);
        if !self.observers.is_empty() {
            self.registration_continued(layers, now, request, message);
        }
        true
    }

    /// Closes the open message of a request, if there is one, with at most an Empty ACK. A later
    /// message will be answered in its place.
    pub(crate) fn release(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        request: RequestId,
    ) -> Option<Waiting<P>> {
        let waiting = self.incoming.pause(request)?;
        if waiting.can_piggyback() {
            self.reply(layers, &waiting, Reply::EmptyAck);
        }
        if waiting.came != Came::Between {
            self.incoming.give_back(waiting.group, &waiting.token);
        }
        if let Some(peer) = waiting.peer.map(Number::get) {
            layers.transport.peers.let_go(now, peer);
        }
        Some(waiting)
    }

    /// Answers the open message of a request that keeps its place.
    pub(crate) fn answer_part(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        request: RequestId,
        response: Response,
    ) -> Option<ExchangeId> {
        let waiting = self.incoming.pause(request)?;
        let security = self.incoming.security(request).clone();
        self.send_response(layers, now, (&waiting, &security), None, response)
    }

    /// Ends a body early and reports it to the application.
    pub(crate) fn end_stream(&mut self, layers: &mut Layers<P, C>, now: Instant, key: Key, reason: StreamEnd) {
        let Some(Stream { request, phase }) = self.parts.streams.contexts.remove(key) else { return };
        self.give_up_place(layers, now, request);
        if !matches!(phase, Phase::Answered(_)) {
            layers.announce(Event::StreamOver { request, reason });
        }
    }

    /// Drops a request that will get no response, together with the observer that it registered.
    pub(crate) fn give_up_place(&mut self, layers: &mut Layers<P, C>, now: Instant, request: RequestId) {
        self.unregister(layers, now, request);
        self.release(layers, now, request);
        if let Some(waiting) = self.incoming.remove(request) {
            self.answered(layers, now, &waiting);
        }
    }

    /// Returns whether the application has answered this request in advance; the client gets the
    /// response with its next message.
    pub(crate) fn is_answered(&mut self, layers: &mut Layers<P, C>, request: RequestId) -> bool {
        let Some(key) = self.stream_of(layers, request) else { return false };
        self.parts.streams.contexts.peek_mut(key).is_some_and(|stream| matches!(stream.phase, Phase::Answered(_)))
    }

    /// Ends a body in parts because the application answers the request with a complete response.
    /// Returns whether the client will get the response only with its next message.
    pub(crate) fn answered_at_once(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        request: RequestId,
        response: &Response,
    ) -> Result<bool, RespondError> {
        let Some(key) = self.stream_of(layers, request) else { return Ok(false) };
        let Some(waiting) = self.open_message(request) else {
            let stream = self.parts.streams.find(now, key).ok_or(RespondError::NotPending)?;
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

    /// Removes the body of a request that gets no response or not the application's. The end is
    /// reported to the application if a reason is given.
    pub(crate) fn forget_stream(&mut self, layers: &mut Layers<P, C>, request: RequestId, reason: Option<StreamEnd>) {
        if let Some(key) = self.stream_of(layers, request) {
            self.parts.streams.contexts.remove(key);
            self.incoming.let_place_go(request);
            if let Some(reason) = reason {
                layers.announce(Event::StreamOver { request, reason });
            }
        }
    }

    /// Ends a body that the client has not continued in time. Returns `false` if there is none.
    /// While the client waits for the application, the body does not end.
    pub(crate) fn stream_expired(&mut self, layers: &mut Layers<P, C>, now: Instant) -> bool {
        let Some(key) = self.parts.made().and_then(|parts| parts.streams.contexts.expired(now)) else { return false };
        let Some(stream) = self.parts.streams.find(now, key) else { return true };
        let request = stream.request;
        // At the end of time nothing can be postponed.
        if self.open_message(request).is_none() || now == Instant::FAR_FUTURE {
            self.end_stream(layers, now, key, StreamEnd::Abandoned);
        }
        true
    }

    /// Returns the key of the body in parts that belongs to this request.
    pub(crate) fn stream_of(&mut self, layers: &mut Layers<P, C>, request: RequestId) -> Option<Key> {
        if self.parts.streams.len() == 0 {
            return None;
        }
        let waiting = self.incoming.get(request)?;
        let key = self.recipient(layers, waiting, Overhead::of(&waiting.token)).key;
        self.parts.streams.contexts.peek_mut(key).filter(|stream| stream.request == request).map(|_| key)
    }

    /// Returns the message of a request that waits for its response.
    pub(crate) fn open_message(&self, request: RequestId) -> Option<Waiting<P>> {
        self.incoming.get(request).cloned().filter(|waiting| waiting.came != Came::Between)
    }
}
