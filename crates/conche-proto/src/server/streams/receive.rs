//! Receiving the bodies of requests block by block.

use alloc::boxed::Box;

use crate::PeerKey;
use crate::blockwise::{Claim, Key};
use crate::codec::{Block, Body, Code, Message, OptionNumber, OwnedMessage};
use crate::error::RespondError;
use crate::event::{Event, StreamEnd};
use crate::exchange::{ExchangeId, Response};
use crate::incoming::RequestId;
use crate::layers::Layers;
use crate::server::Server;
use crate::server::options::Said;
use crate::server::receive::Arrival;
use crate::server::streams::table::{Coming, Fit, Phase, Stream};
use conche_cc::{Controller, Instant};

const NOT_IN_ORDER: &str = "this block is not the next one of the body: begin anew";

/// Returns an arrival without the limit for unvalidated sources, since the source was validated
/// when the body began.
fn validated<P: Clone>(arrival: &Arrival<P>) -> Arrival<P> {
    Arrival { allowance: None, ..arrival.clone() }
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Sets which requests deliver their body block by block (RFC 7959 §2.5). `wanted` is called
    /// with the first block of each body that has several. [`Event::Request`] then contains that
    /// block, with the M bit set in its Block1 option, and [`Event::Part`] contains each further
    /// one.
    pub(crate) fn stream_requests(&mut self, wanted: Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>) {
        self.parts.streams.wanted = Some(wanted);
    }

    /// Reports that the application has taken a block of a request body.
    pub(crate) fn continue_request(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        request: RequestId,
    ) -> Result<Option<ExchangeId>, RespondError> {
        let key = self.stream_of(layers, request).ok_or(RespondError::NotPending)?;
        let comes = self.parts.streams.find(now, key).is_some_and(|stream| matches!(stream.phase, Phase::Coming(_)));
        let waiting = self.open_message(request).filter(|_| comes).ok_or(RespondError::NotPending)?;
        let block = waiting.asked.block1().filter(|block| block.more).ok_or(RespondError::NotPending)?;
        Ok(self.answer_part(layers, now, request, Response::new(Code::CONTINUE, self.continuing(layers, block))))
    }

    /// Receives a block of a request body. Returns `false` if the application does not take the
    /// body in parts.
    pub(crate) fn receive_part(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: Said,
        (key, block): (Key, Block),
    ) -> bool {
        let (code, payload) = (message.code(), message.payload());
        let digest = layers.transport.hash.digest(code.0, payload);
        let known = self.parts.streams.find(now, key).is_some();
        let begins = block.num == 0 && block.more && self.parts.streams.wants(message);
        if !known && !begins {
            return false;
        }
        // "The size of the payload matches exactly, except for the last block" (RFC 7959 §2.2).
        let fits = if block.more { payload.len() == block.size.bytes() } else { payload.len() <= block.size.bytes() };
        if !fits {
            let why = "the payload is not as long as the block's size says";
            self.refuse(layers, now, arrival, message, (Code::BAD_REQUEST, why));
            return true;
        }
        let Some(stream) = self.parts.streams.find(now, key) else {
            self.begin_stream(layers, now, arrival, message, said, (key, digest));
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
            Fit::Next if answered => self.answer_late(layers, now, arrival, message, said, key),
            Fit::Next if !open => {
                if self.reopen(layers, now, request, (&validated(arrival), message, said)) {
                    self.parts.streams.find(now, key).into_iter().for_each(|stream| {
                        let next = block.offset().saturating_add(payload.len());
                        stream.phase = Phase::Coming(Coming { code, next, last: digest });
                    });
                    let message = OwnedMessage::pooled(*message, &mut layers.pool);
                    layers.announce(Event::Part { request, message, last: !block.more });
                }
            }
            // The application still has the block; its response answers this message.
            Fit::Again if open => {
                self.reopen(layers, now, request, (&validated(arrival), message, said));
            }
            Fit::Again => {
                let body = self.continuing(layers, block);
                self.answer_remembered(layers, now, arrival, message, Code::CONTINUE, &body);
            }
            _ if block.num == 0 => {
                self.end_stream(layers, now, key, StreamEnd::BegunAnew);
                if !begins {
                    return false;
                }
                self.begin_stream(layers, now, arrival, message, said, (key, digest));
            }
            Fit::Next | Fit::Elsewhere => {
                self.refuse(layers, now, arrival, message, (Code::REQUEST_ENTITY_INCOMPLETE, NOT_IN_ORDER));
            }
        }
        true
    }

    /// Receives the first block of a body that the application takes in parts.
    pub(crate) fn begin_stream(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: Said,
        (key, digest): (Key, u64),
    ) {
        if arrival.allowance.is_some() {
            // An address validation later would have no room.
            return self.hold_or_challenge(layers, now, arrival, message);
        }
        let places = layers.transport.config.limits.incoming;
        let admitted = self.incoming.admits_in_parts(arrival.group, &message.token(), places);
        let taken = if admitted { self.take_in_place(layers, now, arrival, message) } else { None };
        let insert = |taken| self.incoming.insert(now, || arrival.waiting(message, &said, taken));
        let Some(id) = taken.and_then(insert) else {
            layers.transport.stats.overloaded += 1;
            return self.refuse(layers, now, arrival, message, (Code::SERVICE_UNAVAILABLE, ""));
        };
        self.incoming.protect(id, &arrival.security);
        let coming = Coming::begun(message.code(), message.payload().len(), digest);
        let stream = Stream { request: id, phase: Phase::Coming(coming) };
        if self.parts.streams.contexts.insert(now, key, arrival.group, (stream, 0), Claim::SHARE).is_err() {
            layers.transport.stats.overloaded += 1;
            let body = layers.transport.config.try_later();
            // The request waits, and the response fits.
            let _ = self.respond(layers, now, id, Response::new(Code::SERVICE_UNAVAILABLE, body));
            return;
        }
        self.incoming.keep_place(id);
        if !self.observers.is_empty() {
            self.observation_renewed(layers, now, id, message);
        }
        layers.transport.stats.requests_received += 1;
        let message = OwnedMessage::pooled(*message, &mut layers.pool);
        layers.announce(Event::Request { id, from: arrival.source.from, message });
    }

    /// Returns the body of 2.31 Continue for a block (RFC 7959 §2.3).
    pub(crate) fn continuing(&self, layers: &Layers<P, C>, block: Block) -> Body {
        let block = Block { size: block.size.min(layers.transport.config.block_size), ..block };
        Body::EMPTY.rewritten(|_| true, &[(OptionNumber::BLOCK1, block.encode())], b"")
    }
}
