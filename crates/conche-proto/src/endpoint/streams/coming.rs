//! Receiving the bodies of requests block by block.

use alloc::boxed::Box;

use super::StreamEnd;
use super::table::{Coming, Fit, Phase, Stream};
use crate::PeerKey;
use crate::blockwise::{Claim, Key};
use crate::codec::{Block, Body, Code, Message, OptionNumber, OwnedMessage};
use crate::endpoint::options::Said;
use crate::endpoint::receive::Arrival;
use crate::endpoint::{Endpoint, Event, RespondError};
use crate::exchange::{ExchangeId, Response};
use crate::incoming::RequestId;
use conche_cc::{Controller, Instant};

const NOT_IN_ORDER: &str = "this block is not the next one of the body: begin anew";

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Sets which requests deliver their body block by block (RFC 7959 §2.5). `wanted` is called
    /// with the first block of each body that has several. [`Event::Request`] then contains that
    /// block, with the M bit set in its Block1 option, and [`Event::Part`] contains each further
    /// one. Bodies sent with Q-Block1 (RFC 9177) or to groups are still delivered whole.
    ///
    /// At most [`Limits::transfers`](crate::Limits::transfers) such requests and responses [in
    /// parts](Self::respond_in_parts) exist; further ones are answered with 5.03.
    /// [`Limits::body_bytes`](crate::Limits::body_bytes) does not apply to them.
    pub fn stream_requests(&mut self, wanted: Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>) {
        self.parts.streams.wanted = Some(wanted);
    }

    /// Reports that the application has taken a block of a request body. The client is sent 2.31
    /// Continue and may send the next block. An exchange is returned as by
    /// [`respond`](Self::respond).
    ///
    /// The application may [respond](Self::respond) at any time instead, which ends the body (RFC
    /// 7959 §2.9.3: 4.13). It must respond to the last block.
    ///
    /// # Errors
    /// If the request does not wait for this call.
    pub fn continue_request(&mut self, now: Instant, request: RequestId) -> Result<Option<ExchangeId>, RespondError> {
        let key = self.stream_of(request).ok_or(RespondError::NotPending)?;
        let comes = self.parts.streams.find(now, key).is_some_and(|stream| matches!(stream.phase, Phase::Coming(_)));
        let waiting = self.open_message(request).filter(|_| comes).ok_or(RespondError::NotPending)?;
        let block = waiting.asked.block1().filter(|block| block.more).ok_or(RespondError::NotPending)?;
        Ok(self.answer_part(now, request, Response::new(Code::CONTINUE, self.continuing(block))))
    }

    /// Receives a block of a request body. Returns `false` if the application does not take the
    /// body in parts.
    pub(super) fn receive_part(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: Said,
        (key, block): (Key, Block),
    ) -> bool {
        let (code, payload) = (message.code(), message.payload());
        let digest = self.transport.hash.digest(code.0, payload);
        let known = self.parts.streams.find(now, key).is_some();
        let begins = block.num == 0 && block.more && self.parts.streams.wants(message);
        if !known && !begins {
            return false;
        }
        // "The size of the payload matches exactly, except for the last block" (RFC 7959 §2.2).
        let fits = if block.more { payload.len() == block.size.bytes() } else { payload.len() <= block.size.bytes() };
        if !fits {
            let why = "the payload is not as long as the block's size says";
            self.refuse(now, arrival, message, (Code::BAD_REQUEST, why));
            return true;
        }
        let Some(stream) = self.parts.streams.find(now, key) else {
            self.begin_stream(now, arrival, message, said, (key, digest));
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
            Fit::Next if answered => self.answer_late(now, arrival, message, said, key),
            Fit::Next if !open => {
                if self.reopen(now, request, (&validated(arrival), message, said)) {
                    self.parts.streams.find(now, key).into_iter().for_each(|stream| {
                        let next = block.offset().saturating_add(payload.len());
                        stream.phase = Phase::Coming(Coming { code, next, last: digest });
                    });
                    let message = OwnedMessage::pooled(*message, &mut self.requests);
                    self.announce(Event::Part { request, message, last: !block.more });
                }
            }
            // The application still has the block; its response answers this message.
            Fit::Again if open => {
                self.reopen(now, request, (&validated(arrival), message, said));
            }
            Fit::Again => {
                let body = self.continuing(block);
                self.answer_remembered(now, arrival, message, Code::CONTINUE, &body);
            }
            _ if block.num == 0 => {
                self.end_stream(now, key, StreamEnd::BegunAnew);
                if !begins {
                    return false;
                }
                self.begin_stream(now, arrival, message, said, (key, digest));
            }
            Fit::Next | Fit::Elsewhere => {
                self.refuse(now, arrival, message, (Code::REQUEST_ENTITY_INCOMPLETE, NOT_IN_ORDER));
            }
        }
        true
    }

    /// Receives the first block of a body that the application takes in parts.
    fn begin_stream(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: Said,
        (key, digest): (Key, u64),
    ) {
        if arrival.allowance.is_some() {
            // An address validation later would have no room.
            return self.hold_or_challenge(now, arrival, message);
        }
        let places = self.transport.config.limits.incoming;
        let admitted = self.incoming.admits_in_parts(arrival.group, &message.token(), places);
        let taken = if admitted { self.take_in_place(now, arrival, message) } else { None };
        let insert = |taken| self.incoming.insert(now, || arrival.waiting(message, &said, taken));
        let Some(id) = taken.and_then(insert) else {
            self.transport.stats.overloaded += 1;
            return self.refuse(now, arrival, message, (Code::SERVICE_UNAVAILABLE, ""));
        };
        self.incoming.protect(id, &arrival.security);
        let coming = Coming::begun(message.code(), message.payload().len(), digest);
        let stream = Stream { request: id, phase: Phase::Coming(coming) };
        if self.parts.streams.contexts.insert(now, key, arrival.group, (stream, 0), Claim::SHARE).is_err() {
            self.transport.stats.overloaded += 1;
            let body = self.try_later();
            // The request waits, and the response fits.
            let _ = self.respond(now, id, Response::new(Code::SERVICE_UNAVAILABLE, body));
            return;
        }
        self.incoming.keep_place(id);
        if !self.observers.is_empty() {
            self.observation_renewed(now, id, message);
        }
        self.transport.stats.requests_received += 1;
        let message = OwnedMessage::pooled(*message, &mut self.requests);
        self.announce(Event::Request { id, from: arrival.source.from, message });
    }

    /// Returns the body of 2.31 Continue for a block (RFC 7959 §2.3).
    fn continuing(&self, block: Block) -> Body {
        let block = Block { size: block.size.min(self.transport.config.block_size), ..block };
        Body::EMPTY.rewritten(|_| true, &[(OptionNumber::BLOCK1, block.encode())], b"")
    }
}

/// Returns an arrival without the limit for unvalidated sources, since the source was validated
/// when the body began.
fn validated<P: Clone>(arrival: &Arrival<P>) -> Arrival<P> {
    Arrival { allowance: None, ..arrival.clone() }
}
