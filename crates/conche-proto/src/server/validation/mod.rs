//! [`Validation`]: keeps the endpoint from amplifying traffic towards a forged address (RFC 9175
//! §2.4, item 3; RFC 9000 §8).
//!
//! Until a source has proved that it receives datagrams at its address, each of its own may be
//! answered with three times its bytes. Such a request gets one message that is never
//! retransmitted: a piggybacked response, or a Non-confirmable one. If that is not enough, because
//! the response is larger or must be retransmitted, or the request registers an observer or uses
//! Q-Block, the response or the request is held and the source is sent a *ping*: an Empty
//! Confirmable message of 4 bytes with a random message ID. Every endpoint answers it with a Reset
//! (RFC 7252 §4.3). The answer validates the source and releases the message. Clients need not know
//! Echo, and each handler runs once.
//!
//! ```text
//!   client                     server
//!     | GET (20 bytes) --------> |  handler: 1000 bytes are more than 60
//!     | <-- CON, Empty, ID 7d34  |  response held
//!     | RST, ID 7d34 ----------> |  source validated for 247 s
//!     | <-- ACK, 2.05, 1000 bytes|
//! ```
//!
//! Without an answer to the ping the response leaves after 12 s as far as the allowance goes: the
//! first block of 16 bytes. Requests for further blocks pay for those.
//!
//! Held messages are bounded ([`pings`]). Without room for one, without room for a block, and with
//! [`SourceValidation::Echo`], the request is answered with 4.01 and an Echo value (RFC 9175 §2.3).
//! A request with that value validates its source at once. A response to a request that is not
//! idempotent is then cut to its code, since a client that repeated the request would repeat its
//! effect.
//!
//! A source also counts as validated when it acknowledges a Confirmable response or notification.
//!
//! # Limits
//! An Echo value of 16 bytes needs more room than three times the shortest requests, so those get
//! one of 6 bytes. Its MAC of 32 bits could be guessed: after [`GUESSES`] wrong ones no brief value
//! is accepted for the rest of a [`LIFETIME`], so a forger guesses one in some eight years. The
//! message ID of a ping has 16 bits; wrong answers are counted by host.
//!
//! A host that runs CoAP at the forged address and port answers the ping although it requested
//! nothing. Only [`SourceValidation::Echo`] protects such hosts.

use alloc::boxed::Box;
use core::num::NonZeroU16;
use core::time::Duration;

use rand_core::RngCore;
use smallvec::SmallVec;

use crate::PeerKey;
use crate::blockwise::Asked;
use crate::codec::{Body, Code, Message, MessageId, OptionNumber, Overhead, OwnedMessage, Type, encode_empty};
use crate::config::SourceValidation;
use crate::echo::Freshness;
use crate::exchange::{Reliability, Response};
use crate::hash::Fingerprint;
use crate::incoming::{Came, Waiting};
use crate::layers::Layers;
use crate::message::GROUP_IDS;
use crate::observe::REGISTER;
use crate::security::Security;
use crate::server::Server;
use crate::server::receive::Arrival;
use crate::server::validation::pings::{Due, Held, Origin, Pinged, Pings};
use crate::server::validation::sources::Validated;
use crate::transport::{Source, allows};
use conche_cc::{Controller, Instant};

mod pings;
mod sources;

/// The answer to a datagram from a source that is not validated may have at most this many times its
/// bytes.
const FACTOR: usize = 3;

/// The bytes of an Echo option with a value of 16 bytes (with one more byte for the length), and
/// with a brief one.
const ECHO_BYTES: usize = 3 + Freshness::LENGTH;
const BRIEF_ECHO_BYTES: usize = 2 + Freshness::BRIEF;

/// How long an Echo value is valid, and a source after it was validated: as long as a
/// retransmission of its request can arrive (EXCHANGE_LIFETIME, RFC 7252 §4.8.2).
const LIFETIME: Duration = Duration::from_secs(247);

/// The maximum number of wrong brief Echo values that are checked in each [`LIFETIME`].
const GUESSES: u32 = 4096;

/// State of address validation, created when the first source has to prove its address.
#[derive(Debug)]
pub(crate) struct Validation<P> {
    freshness: Freshness,
    validated: Validated,
    pings: Pings<P>,
    /// The number of wrong brief Echo values in the period that ends at `guessed_until`.
    guessed: u32,
    guessed_until: Instant,
}

impl<P> Validation<P> {
    fn new(random: &mut impl RngCore, ack_timeout: Duration) -> Self {
        let mut key = [0; 16];
        random.fill_bytes(&mut key);
        Self {
            freshness: Freshness::new(key, LIFETIME),
            validated: Validated::new(),
            pings: Pings::new(ack_timeout),
            guessed: 0,
            guessed_until: Instant::ZERO,
        }
    }

    /// Returns when the next interval of a pinged source ends.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.pings.next_due()
    }

    /// Returns the number of sources that have not answered a ping.
    pub(crate) fn pinged(&self) -> usize {
        self.pings.len()
    }

    /// Returns the number of held requests and responses.
    pub(crate) fn held(&self) -> usize {
        self.pings.held()
    }

    /// Returns the age of the Echo value that this source returned. `None` if it is not one of its
    /// values or is too old.
    fn age(&mut self, now: Instant, from: &P, value: &[u8]) -> Option<Duration>
    where
        P: PeerKey,
    {
        let Ok(brief) = <[u8; Freshness::BRIEF]>::try_from(value) else {
            return self.freshness.check(now, from, value).ok();
        };
        if !self.takes_brief(now) {
            return None;
        }
        let age = self.freshness.check_brief(now, from, brief);
        if age.is_none() {
            self.guessed += 1;
        }
        age
    }

    /// Returns whether brief values are accepted: fewer than [`GUESSES`] wrong ones arrived in this
    /// period.
    fn takes_brief(&mut self, now: Instant) -> bool {
        if now >= self.guessed_until {
            (self.guessed, self.guessed_until) = (0, now + LIFETIME);
        }
        self.guessed < GUESSES
    }

    /// Returns the Echo value for a source, in an option of at most `room` bytes.
    fn value(&mut self, now: Instant, from: &P, room: usize) -> Option<SmallVec<[u8; Freshness::LENGTH]>>
    where
        P: PeerKey,
    {
        match room {
            ECHO_BYTES.. => Some(self.freshness.challenge(now, from).into()),
            BRIEF_ECHO_BYTES.. if self.takes_brief(now) => {
                Some(SmallVec::from_slice(&self.freshness.brief_challenge(now, from)))
            }
            _ => None,
        }
    }
}

/// Returns whether a response may only be sent to a validated source: it is larger than the
/// allowance, or must be sent in a Confirmable message.
#[inline]
pub(crate) fn needs_proof<P>(waiting: &Waiting<P>, response: &Response) -> bool {
    let confirmable = match response.reliability {
        Some(reliability) => reliability == Reliability::Confirmable,
        None => waiting.came == Came::Confirmable,
    };
    let confirmable = confirmable && !waiting.can_piggyback();
    confirmable || !allows(waiting.allowance, Overhead::of(&waiting.token).message(&response.body))
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Returns the number of bytes that may answer this message; `None` without a limit.
    #[inline]
    pub(crate) fn allowance(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        source: &Source<P>,
        hash: u64,
        message: &Message<'_>,
    ) -> Option<NonZeroU16> {
        if layers.transport.config.source_validation == SourceValidation::Off {
            return None;
        }
        // No source can be validated before the first one was asked for a proof.
        if let Some(validation) = &mut self.validation {
            if validation.validated.contains(now, hash) {
                return None;
            }
            if let Some(echo) = message.option(OptionNumber::ECHO)
                && let Some(age) = validation.age(now, &source.from, echo)
            {
                self.validate(layers, now, hash, now + LIFETIME.saturating_sub(age));
                return None;
            }
        }
        let bytes = u16::try_from(message.as_bytes().len().saturating_mul(FACTOR)).unwrap_or(u16::MAX);
        Some(NonZeroU16::new(bytes).unwrap_or(NonZeroU16::MIN))
    }

    /// Holds a request or answers it with 4.01 if its source must be validated first, because
    /// notifications or a burst of payloads would follow, or because repeating the request with an
    /// Echo value would repeat its effect. Returns whether it did.
    pub(crate) fn challenges(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
    ) -> bool {
        if arrival.allowance.is_none() {
            return false;
        }
        let follows = message.uint(OptionNumber::OBSERVE) == Some(REGISTER) || asked.is_in_sets();
        // After a ping the client repeats nothing. A client that sends a POST and sleeps would not
        // answer one.
        let repeats =
            layers.transport.config.source_validation == SourceValidation::Echo && !message.code().is_idempotent();
        if follows || repeats {
            self.hold_or_challenge(layers, now, arrival, message);
        }
        follows || repeats
    }

    /// Holds a request until its source is validated. If that is impossible, answers it with 4.01.
    pub(crate) fn hold_or_challenge(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
    ) {
        if !self.hold_request(layers, now, arrival, message) {
            self.challenge_at_once(layers, now, arrival, message);
        }
    }

    /// Answers a request with 4.01 and an Echo value.
    pub(crate) fn challenge_at_once(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
    ) {
        let body =
            self.challenge(layers, now, &arrival.source.from, arrival.allowance, Overhead::of_response_to(message));
        self.answer_at_once(layers, now, arrival, message, Code::UNAUTHORIZED, &body);
    }

    /// Holds a request until its source is validated. Returns `false` if that is impossible.
    pub(crate) fn hold_request(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
    ) -> bool {
        let &Arrival { source, hash, group, what, .. } = arrival;
        let origin = Origin { source, hash, group, host: layers.transport.host_of(&source.from), what };
        let held = Held::Request(Box::new((arrival.clone(), OwnedMessage::from(*message))));
        self.hold(layers, now, &origin, held).is_ok()
    }

    /// Holds a message, and sends its source a ping unless one is unanswered.
    pub(crate) fn hold(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        origin: &Origin<P>,
        held: Held<P>,
    ) -> Result<(), Held<P>> {
        if layers.transport.config.source_validation != SourceValidation::Ping {
            return Err(held);
        }
        while !self.validation_made(layers).pings.has_room(origin.group, &held) {
            let Some(overdue) = self.validation_made(layers).pings.make_room(now, origin.group) else {
                return Err(held);
            };
            self.give_up(layers, now, overdue);
        }
        let id = self.ping_id(layers);
        if let Some(id) = self.validation_made(layers).pings.hold(now, origin, id, held)? {
            self.ping_source(layers, origin.source, id);
        }
        Ok(())
    }

    pub(crate) fn ping_source(&mut self, layers: &mut Layers<P, C>, to: Source<P>, id: MessageId) {
        layers.transport.stats.validation_pings += 1;
        layers.transport.push_empty(to, Type::Confirmable, id);
    }

    /// Returns an unpredictable message ID outside the range for group requests.
    pub(crate) fn ping_id(&mut self, layers: &mut Layers<P, C>) -> MessageId {
        let id = layers.transport.random.next_u32() % u32::from(*GROUP_IDS.start());
        MessageId(u16::try_from(id).unwrap_or_default())
    }

    pub(crate) fn validation_made(&mut self, layers: &mut Layers<P, C>) -> &mut Validation<P> {
        let (random, ack_timeout) = (&mut layers.transport.random, layers.transport.config.transmission.ack_timeout);
        self.validation.get_or_insert_with(|| Box::new(Validation::new(random, ack_timeout)))
    }

    /// Returns whether a request is a retransmission of a held one, or of one with a held response.
    #[inline]
    pub(crate) fn is_held(
        &mut self,
        layers: &mut Layers<P, C>,
        hash: u64,
        what: Fingerprint,
        allowance: Option<NonZeroU16>,
    ) -> bool {
        let Some(validation) = self.validation.as_mut().filter(|validation| !validation.pings.is_empty()) else {
            return false;
        };
        let held = allowance.is_some_and(|allowance| validation.pings.is_held(hash, what, allowance));
        layers.transport.stats.duplicates += u64::from(held);
        held
    }

    /// Handles an Empty ACK or a Reset. Returns whether it answers a ping, which validates the
    /// source.
    #[inline]
    pub(crate) fn validates(&mut self, layers: &mut Layers<P, C>, now: Instant, from: &P, id: MessageId) -> bool {
        if self.validation.as_ref().is_none_or(|validation| validation.pings.is_empty()) {
            return false;
        }
        let hash = layers.transport.peers.hash(from);
        let is_answer = self.validation_made(layers).pings.is_answered(now, hash, id);
        if is_answer {
            self.validate(layers, now, hash, now + LIFETIME);
        }
        is_answer
    }

    /// Marks a source as validated until then, and continues with its held messages.
    pub(crate) fn validate(&mut self, layers: &mut Layers<P, C>, now: Instant, hash: u64, until: Instant) {
        let validation = self.validation_made(layers);
        validation.validated.insert(now, hash, until);
        let held = validation.pings.take(hash).into_iter().flat_map(Pinged::into_held);
        for held in held {
            match held {
                Held::Request(request) => {
                    let (arrival, message) = *request;
                    self.receive_arrived(layers, now, &Arrival { allowance: None, ..arrival }, &message.view());
                }
                Held::Response(response) => {
                    let (waiting, security, response) = *response;
                    let waiting = Waiting { allowance: None, ..waiting };
                    self.send_response(layers, now, (&waiting, &security), None, response);
                }
            }
        }
    }

    /// Validates a peer that acknowledged a Confirmable response or notification.
    pub(crate) fn acknowledged_by(&mut self, layers: &mut Layers<P, C>, now: Instant, peer: u32) {
        if layers.transport.config.source_validation == SourceValidation::Off {
            return;
        }
        let peer = layers.transport.peers.get_mut(peer);
        if peer.trust.is_given(now) {
            let hash = {
                let key = peer.key;
                layers.transport.peers.hash(&key)
            };
            self.validate(layers, now, hash, now + LIFETIME);
        }
    }

    /// Drops the messages held for a source that its ping did not reach.
    pub(crate) fn ping_unreachable(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        peer: &P,
        quoted: Option<&[u8]>,
    ) {
        let Some(validation) = self.validation.as_mut().filter(|validation| !validation.pings.is_empty()) else {
            return;
        };
        let id = quoted.map(|quoted| match *quoted {
            [_, _, high, low, ..] => MessageId(u16::from_be_bytes([high, low])),
            _ => MessageId(u16::MAX),
        });
        if id.is_some_and(|id| !quoted.is_some_and(|quoted| quoted.starts_with(&encode_empty(Type::Confirmable, id)))) {
            return;
        }
        let hash = layers.transport.peers.hash(peer);
        if id.is_some_and(|id| !validation.pings.has_id(hash, id)) {
            return;
        }
        let Some(pinged) = validation.pings.take(hash) else { return };
        for held in pinged.into_held() {
            if let Held::Response(response) = held {
                self.answered(layers, now, &response.0);
            }
        }
    }

    /// Sends another ping to a source, or gives the source up. Returns `false` if nothing is due.
    pub(crate) fn ping_due(&mut self, layers: &mut Layers<P, C>, now: Instant) -> bool {
        let due = self.validation.as_mut().and_then(|validation| validation.pings.pop_due(now));
        match due {
            None => return false,
            Some(Due::Wait) => {}
            Some(Due::Ping(to, id)) => self.ping_source(layers, to, id),
            Some(Due::Over(pinged)) => self.give_up(layers, now, pinged),
        }
        true
    }

    /// Answers held messages of a source that did not answer its ping, or makes room, within the
    /// allowance: with the first block of 16 bytes, which leads a client without Echo to the body,
    /// or else with 4.01.
    pub(crate) fn give_up(&mut self, layers: &mut Layers<P, C>, now: Instant, pinged: Pinged<P>) {
        let mut credit = pinged.credit();
        for held in pinged.into_held() {
            match held {
                Held::Request(request) => self.challenge_at_once(layers, now, &request.0, &request.1.view()),
                Held::Response(response) => {
                    let (waiting, security, response) = *response;
                    let block =
                        security.is_plain().then(|| self.smallest_first_block(layers, now, &waiting, &response));
                    let bytes = |block: &Response| Overhead::of(&waiting.token).message(&block.body);
                    let allowance = waiting.allowance.map_or(0, |allowance| usize::from(allowance.get()));
                    let response = match block.flatten().filter(|block| bytes(block) <= allowance + credit) {
                        Some(block) => {
                            credit -= bytes(&block).saturating_sub(allowance);
                            Response { reliability: Some(Reliability::NeverConfirmable), ..block }
                        }
                        None => self.in_place_of(layers, now, &waiting, &response),
                    };
                    self.send_now(layers, now, (&waiting, &security), None, response);
                }
            }
        }
    }

    /// Returns an answer that fits into the allowance: the answer itself, 4.01 in place of a
    /// success, or only the code of an error.
    pub(crate) fn within_allowance(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        from: &P,
        allowance: Option<NonZeroU16>,
        overhead: Overhead,
        (code, body): (Code, &Body),
    ) -> (Code, Body) {
        if allows(allowance, overhead.message(body)) {
            (code, body.clone())
        } else if code.is_success() {
            (Code::UNAUTHORIZED, self.challenge(layers, now, from, allowance, overhead))
        } else {
            (code, Body::EMPTY)
        }
    }

    /// Holds a response that needs a proof of its source's address, or returns what is sent in its
    /// place.
    pub(crate) fn hold_response(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        waiting: &Waiting<P>,
        security: &Security,
        response: Response,
    ) -> Option<Response> {
        let hash = layers.transport.peers.hash(&waiting.from);
        let source = Source { from: waiting.from, local: waiting.local };
        let ty = u8::from(waiting.came == Came::Confirmable);
        let what = layers.transport.fingerprint_of(source, hash, (ty, waiting.id, waiting.token.as_slice()));
        let origin = Origin { source, hash, group: waiting.group, host: layers.transport.host_of(&source.from), what };
        let held = Held::Response(Box::new((waiting.clone(), security.clone(), response)));
        match self.hold(layers, now, &origin, held) {
            Ok(()) => None,
            Err(Held::Response(response)) => Some(self.in_place_of(layers, now, waiting, &response.2)),
            Err(Held::Request(_)) => None,
        }
    }

    /// Returns a response that fits into the allowance: the response itself, 4.01, or only the code
    /// of the response if repeating the request would repeat its effect.
    pub(crate) fn in_place_of(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        waiting: &Waiting<P>,
        response: &Response,
    ) -> Response {
        let overhead = Overhead::of(&waiting.token);
        let repeatable =
            waiting.remembered.is_none_or(|remembered| layers.transport.received.is_idempotent(remembered));
        let answer = (response.code, &response.body);
        let (code, body) = match repeatable || allows(waiting.allowance, overhead.message(&response.body)) {
            true => self.within_allowance(layers, now, &waiting.from, waiting.allowance, overhead, answer),
            false => (response.code, Body::EMPTY),
        };
        Response { reliability: Some(Reliability::NeverConfirmable), ..Response::new(code, body) }
    }

    /// Returns a body with an Echo option, or an empty one if not even a brief value fits.
    pub(crate) fn challenge(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        from: &P,
        allowance: Option<NonZeroU16>,
        overhead: Overhead,
    ) -> Body {
        layers.transport.stats.challenged += 1;
        let most = allowance.map_or(usize::MAX, |allowance| allowance.get().into());
        let room = overhead.room(most).unwrap_or_default();
        let echo = self.validation_made(layers).value(now, from, room);
        echo.and_then(|echo| Body::builder().option(OptionNumber::ECHO, &echo).build().ok()).unwrap_or_default()
    }
}
