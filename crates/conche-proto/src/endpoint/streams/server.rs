//! Requests of peers whose body, or whose response's body, goes block by block.
//!
//! Each block is a request of its own, with its own message ID, deduplication and answer: in time that is piggybacked, and
//! later it is a message of its own, as for any handler that is slow. So a peer waits as long as the application does, and
//! retransmits nothing meanwhile. The request as a whole keeps one place among those that wait for a response, which is
//! what [`RequestId`] names from its first block to its last.

use super::StreamEnd;
use super::table::{Phase, Stream};
use crate::PeerKey;
use crate::blockwise::Key;
use crate::codec::{Body, Code, Message, Overhead};
use crate::endpoint::options::Said;
use crate::endpoint::receive::Arrival;
use crate::endpoint::{Endpoint, Event, RespondError};
use crate::exchange::{ExchangeId, Response};
use crate::incoming::{Came, RequestId, Waiting};
use crate::message::Reply;
use crate::store::Number;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// A request that is about a block of such a body, and has been dealt with. `false`: it is none.
    pub(in crate::endpoint) fn receive_of_stream(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: Said,
    ) -> bool {
        if self.parts.made().is_none() {
            return false;
        }
        let key = self.key(arrival.hash, arrival.source, &said.asked);
        match (said.asked.block1(), said.asked.block2().filter(|block| block.num > 0)) {
            (Some(block), _) => self.receive_part(now, arrival, message, said, (key, block)),
            (None, Some(block)) => self.receive_ask(now, arrival, message, said, (key, block)),
            (None, None) => false,
        }
    }

    /// What the application said in advance answers this message, and ends the body.
    pub(super) fn answer_late(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: Said,
        key: Key,
    ) {
        let Some(Stream { request, phase: Phase::Answered(response) }) = self.parts.streams.contexts.remove(key) else {
            return;
        };
        if self.reopen(now, request, (arrival, message, said)) {
            self.incoming.let_place_go(request);
            self.incoming.answer_whole(request);
            if self.respond(now, request, response).is_err() {
                let _ = self.respond(now, request, Response::new(Code::INTERNAL_SERVER_ERROR, Body::EMPTY));
            }
        } else {
            self.give_up_place(now, request);
        }
    }

    /// The next message of a request that keeps its place; `false` if it was refused.
    pub(super) fn reopen(
        &mut self,
        now: Instant,
        request: RequestId,
        (arrival, message, said): (&Arrival<P>, &Message<'_>, Said),
    ) -> bool {
        let places = self.config.limits.incoming;
        let fits = self.incoming.admits_next(request, arrival.group, &message.token(), places);
        let taken = if fits { self.take_in_place(now, arrival, message) } else { None };
        let Some(taken) = taken else {
            self.stats.overloaded += 1;
            self.refuse(now, arrival, message, (Code::SERVICE_UNAVAILABLE, ""));
            return false;
        };
        let mut waiting = arrival.waiting(message, &said, taken);
        if let Some(before) = self.release(now, request) {
            // Of what it asks for: a FETCH need not repeat its payload.
            waiting.asked.what = before.asked.what;
        }
        self.incoming.go_on(now, request, waiting);
        self.incoming.protect(request, &arrival.security);
        if !self.observers.is_empty() {
            self.registration_continued(now, request, message);
        }
        true
    }

    /// The open message of a request, if there is one, gets no answer but an Empty ACK: a later one stands for it.
    pub(super) fn release(&mut self, now: Instant, request: RequestId) -> Option<Waiting<P>> {
        let waiting = self.incoming.pause(request)?;
        if waiting.can_piggyback() {
            self.reply(&waiting, Reply::EmptyAck);
        }
        if waiting.came != Came::Between {
            self.incoming.give_back(waiting.group, &waiting.token);
        }
        if let Some(peer) = waiting.peer.map(Number::get) {
            self.peers.let_go(now, peer);
        }
        Some(waiting)
    }

    /// Answers the open message of a request that keeps its place.
    pub(super) fn answer_part(&mut self, now: Instant, request: RequestId, response: Response) -> Option<ExchangeId> {
        let waiting = self.incoming.pause(request)?;
        let security = self.incoming.security(request).clone();
        self.send_response(now, (&waiting, &security), None, response)
    }

    /// A body is over before its end, and the application has to know.
    pub(super) fn end_stream(&mut self, now: Instant, key: Key, reason: StreamEnd) {
        let Some(Stream { request, phase }) = self.parts.streams.contexts.remove(key) else { return };
        self.give_up_place(now, request);
        if !matches!(phase, Phase::Answered(_)) {
            self.announce(Event::StreamOver { request, reason });
        }
    }

    /// Drops a request that gets no response any more, with the observer that it registered.
    pub(super) fn give_up_place(&mut self, now: Instant, request: RequestId) {
        self.unregister(now, request);
        self.release(now, request);
        if let Some(waiting) = self.incoming.remove(request) {
            self.answered(now, &waiting);
        }
    }

    /// The application has answered this request, and its client will hear when it goes on.
    pub(in crate::endpoint) fn is_answered(&mut self, request: RequestId) -> bool {
        let Some(key) = self.stream_of(request) else { return false };
        self.parts.streams.contexts.peek_mut(key).is_some_and(|stream| matches!(stream.phase, Phase::Answered(_)))
    }

    /// The application answers a request all at once: a body that came or left in parts ends with that. `true` if the client
    /// will hear only when it asks for more.
    pub(in crate::endpoint) fn answered_at_once(
        &mut self,
        now: Instant,
        request: RequestId,
        response: &Response,
    ) -> Result<bool, RespondError> {
        let Some(key) = self.stream_of(request) else { return Ok(false) };
        let Some(waiting) = self.open_message(request) else {
            let stream = self.parts.streams.find(now, key).ok_or(RespondError::NotPending)?;
            stream.phase = Phase::Answered(response.clone());
            return Ok(true);
        };
        self.parts.streams.contexts.remove(key);
        self.incoming.let_place_go(request);
        if waiting.asked.block1().is_some_and(|block| block.more) {
            // "This block" is not what was successful (RFC 7959 §2.3).
            self.incoming.answer_whole(request);
        }
        Ok(false)
    }

    /// A request will get no answer, or another one than the application's: a body of it is over. It is told if there is a
    /// reason to tell.
    pub(in crate::endpoint) fn forget_stream(&mut self, request: RequestId, reason: Option<StreamEnd>) {
        if let Some(key) = self.stream_of(request) {
            self.parts.streams.contexts.remove(key);
            self.incoming.let_place_go(request);
            if let Some(reason) = reason {
                self.announce(Event::StreamOver { request, reason });
            }
        }
    }

    /// A body that the client has not gone on with for too long is over; `false` if there is none. Where the client waits for
    /// the application, there is no hurry.
    pub(in crate::endpoint) fn stream_expired(&mut self, now: Instant) -> bool {
        let Some(key) = self.parts.made().and_then(|parts| parts.streams.contexts.expired(now)) else { return false };
        let Some(stream) = self.parts.streams.find(now, key) else { return true };
        let request = stream.request;
        // At the end of time nothing can be put off any more.
        if self.open_message(request).is_none() || now == Instant::FAR_FUTURE {
            self.end_stream(now, key, StreamEnd::Abandoned);
        }
        true
    }

    /// Under which key the body of this request is found that goes in parts.
    pub(super) fn stream_of(&mut self, request: RequestId) -> Option<Key> {
        if self.parts.streams.len() == 0 {
            return None;
        }
        let waiting = self.incoming.get(request)?;
        let key = self.recipient(waiting, Overhead::of(&waiting.token)).key;
        self.parts.streams.contexts.peek_mut(key).filter(|stream| stream.request == request).map(|_| key)
    }

    /// The message of a request that waits for its answer.
    pub(super) fn open_message(&self, request: RequestId) -> Option<Waiting<P>> {
        self.incoming.get(request).cloned().filter(|waiting| waiting.came != Came::Between)
    }
}
