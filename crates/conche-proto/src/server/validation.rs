//! [`Validation`]: keeps the endpoint from amplifying traffic towards a forged address (RFC 9175
//! §2.4, item 3; RFC 9000 §8).
//!
//! Until a source has proved that it receives datagrams at its address, each of its own may be
//! answered with three times its bytes, in one message that is never retransmitted. If the response
//! is larger or must be retransmitted, or the request registers an observer or uses Q-Block, the
//! response or the request is held and the source is sent a *ping*: an Empty Confirmable message of
//! 4 bytes with a random message ID. Every endpoint answers it with a Reset (RFC 7252 §4.3), which
//! validates the source and releases the message. Clients need not know Echo, and each handler runs
//! once.
//!
//! ```text
//!   client                     server
//!     | GET (20 bytes) --------> |  handler: 1000 bytes are more than 60
//!     | <-- CON, Empty, ID 7d34  |  response held
//!     | RST, ID 7d34 ----------> |  source validated for 247 s
//!     | <-- ACK, 2.05, 1000 bytes|
//! ```
//!
//! Without an answer the response leaves after 12 s as far as the allowance goes: the first block
//! of 16 bytes. Requests for further blocks pay for those.
//!
//! Held messages are bounded ([`Pings`]), in total and by source group. Without room for a message
//! or a block, and with [`SourceValidation::Echo`], the request is answered with 4.01 and an Echo
//! value (RFC 9175 §2.3), which validates its source when the request is repeated. A response to a
//! request that is not idempotent is then cut to its code: a repetition would repeat the effect.
//!
//! A source also counts as validated when it acknowledges a Confirmable response or notification.
//!
//! # Limits
//! An Echo value of 16 bytes exceeds three times the shortest requests, so those get one of 6
//! bytes. Its MAC of 32 bits could be guessed: after [`ECHO_GUESSES`] wrong ones no brief value is
//! accepted for the rest of a [`LIFETIME`], so a forger guesses one in some eight years. The
//! message ID of a ping has 16 bits; wrong answers are counted by host, and after 64 of all hosts a
//! source must answer two pings in a row.
//!
//! A host that runs CoAP at the forged address and port answers the ping. Only
//! [`SourceValidation::Echo`] protects such hosts.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::time::Duration;

use super::Server;
use super::pending_requests::{EMPTY_BYTES, PendingRequest, RequestKind};
use super::receive::{Arrival, ReceivedRequest};
use super::respond::AnsweredRequest;
use crate::PeerKey;
use crate::blockwise::BlockOptions;
use crate::codec::{Body, Code, Message, MessageId, OptionNumber, Overhead, OwnedMessage, Type, encode_empty};
use crate::config::SourceValidation;
use crate::echo::Freshness;
use crate::hash::Fingerprint;
use crate::layers::Layers;
use crate::observe::REGISTER;
use crate::security::Security;
use crate::shares::{Group, Shares};
use crate::store::{Arena, Index, Linked, Links, List, index_type};
use crate::transport::{GROUP_IDS, PeerIndex, Reliability, Response, Source, allows};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;
use smallvec::SmallVec;

/// Bytes of an Echo option with a value of 16 bytes, and with a brief one.
const ECHO_BYTES: usize = 3 + Freshness::LENGTH;
const BRIEF_ECHO_BYTES: usize = 2 + Freshness::BRIEF;

/// Validity of an Echo value and of a validation: EXCHANGE_LIFETIME (RFC 7252 §4.8.2), as long as a
/// retransmission can arrive.
pub(crate) const LIFETIME: Duration = Duration::from_secs(247);

/// The maximum number of wrong brief Echo values that are checked in each [`LIFETIME`].
const ECHO_GUESSES: u32 = 4096;

/// State of address validation.
#[derive(Debug)]
pub(crate) struct Validation<P> {
    freshness: Freshness,
    pub(crate) validated: ValidatedSources,
    pub(crate) pings: Pings<P>,
    /// The number of wrong brief Echo values in the period that ends at `guessed_until`.
    guessed: u32,
    guessed_until: Instant,
}

impl<P> Validation<P> {
    pub(crate) fn new(random: &mut impl RngCore, ack_timeout: Duration) -> Self {
        let mut key = [0; 16];
        random.fill_bytes(&mut key);
        Self {
            freshness: Freshness::new(key, LIFETIME),
            validated: ValidatedSources::new(),
            pings: Pings::new(ack_timeout),
            guessed: 0,
            guessed_until: Instant::ZERO,
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.pings.next_due()
    }

    pub(crate) fn pinged(&self) -> usize {
        self.pings.len()
    }

    pub(crate) fn held(&self) -> usize {
        self.pings.held()
    }

    /// Returns the age of an Echo value of this source; `None` if it is invalid.
    pub(in crate::server) fn age(&mut self, now: Instant, from: &P, value: &[u8]) -> Option<Duration>
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

    /// Returns whether brief values are accepted.
    fn takes_brief(&mut self, now: Instant) -> bool {
        if now >= self.guessed_until {
            (self.guessed, self.guessed_until) = (0, now + LIFETIME);
        }
        self.guessed < ECHO_GUESSES
    }

    /// Returns the Echo value for a source, in an option of at most `room` bytes.
    pub(in crate::server) fn value(
        &mut self,
        now: Instant,
        from: &P,
        room: usize,
    ) -> Option<SmallVec<[u8; Freshness::LENGTH]>>
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

/// Returns whether a response exceeds the allowance or must be Confirmable.
#[inline]
pub(crate) fn needs_proof<P>(pending: &PendingRequest<P>, response: &Response) -> bool {
    let confirmable = match response.reliability {
        Some(reliability) => reliability == Reliability::Confirmable,
        None => pending.kind == RequestKind::Confirmable,
    };
    let confirmable = confirmable && !pending.can_piggyback();
    confirmable || !allows(pending.allowance, Overhead::of(&pending.token).message(&response.body))
}

/// Returns an unpredictable message ID outside the range for group requests.
fn ping_id(random: &mut impl RngCore) -> MessageId {
    let id = random.next_u32() % u32::from(*GROUP_IDS.start());
    MessageId(u16::try_from(id).unwrap_or_default())
}

/// The answer to an unvalidated source has at most this many times its bytes.
const FACTOR: usize = 3;

#[derive(Clone, Copy)]
pub(super) struct ReplyRoom<P> {
    pub(super) to: P,
    pub(super) allowance: Option<NonZeroU16>,
    pub(super) overhead: Overhead,
}

impl<P: Copy> ReceivedRequest<'_, P> {
    pub(super) fn room(&self) -> ReplyRoom<P> {
        let &Arrival { source, allowance, .. } = self.arrival;
        ReplyRoom { to: source.from, allowance, overhead: Overhead::of_response_to(self.message) }
    }
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Returns the number of bytes that may answer this message; `None` without a limit.
    #[inline]
    pub(crate) fn allowance(
        &mut self,
        layers: &mut Layers<P, C>,
        source: &Source<P>,
        hash: u64,
        message: &Message<'_>,
    ) -> Option<NonZeroU16> {
        if layers.transport.config.source_validation == SourceValidation::Off {
            return None;
        }
        // No source can be validated before the first one was asked for a proof.
        if let Some(validation) = &mut self.validation {
            if validation.validated.contains(layers.now, hash) {
                return None;
            }
            if let Some(echo) = message.option(OptionNumber::ECHO)
                && let Some(age) = validation.age(layers.now, &source.from, echo)
            {
                self.validate(layers, hash, layers.now + LIFETIME.saturating_sub(age));
                return None;
            }
        }
        let bytes = u16::try_from(message.as_bytes().len().saturating_mul(FACTOR)).unwrap_or(u16::MAX);
        Some(NonZeroU16::new(bytes).unwrap_or(NonZeroU16::MIN))
    }

    /// Holds a request or answers it with 4.01 if its source must be validated first: notifications
    /// or a burst of payloads would follow, or repeating it with an Echo value would repeat its
    /// effect. Returns whether it did.
    pub(super) fn challenges(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        requested: &BlockOptions,
    ) -> bool {
        let ReceivedRequest { arrival, message } = received;
        if arrival.allowance.is_none() {
            return false;
        }
        let follows = message.uint(OptionNumber::OBSERVE) == Some(REGISTER) || requested.is_in_bursts();
        // After a ping the client repeats nothing. A client that sends a POST and sleeps would not
        // answer one.
        let repeats =
            layers.transport.config.source_validation == SourceValidation::Echo && !message.code().is_idempotent();
        if follows || repeats {
            self.hold_or_challenge(layers, received);
        }
        follows || repeats
    }

    /// Holds a request until its source is validated, or answers it with 4.01.
    pub(super) fn hold_or_challenge(&mut self, layers: &mut Layers<P, C>, received: ReceivedRequest<'_, P>) {
        if !self.hold_request(layers, received) {
            self.challenge_at_once(layers, received);
        }
    }

    fn challenge_at_once(&mut self, layers: &mut Layers<P, C>, received: ReceivedRequest<'_, P>) {
        let body = self.challenge(layers, received.room());
        self.answer_at_once(layers, received, Code::UNAUTHORIZED, &body);
    }

    /// Holds a request until its source is validated. Returns `false` if that is impossible.
    pub(super) fn hold_request(&mut self, layers: &mut Layers<P, C>, received: ReceivedRequest<'_, P>) -> bool {
        let ReceivedRequest { arrival, message } = received;
        let &Arrival { source, hash, group, fingerprint, .. } = arrival;
        let origin = MessageOrigin { source, hash, group, host: layers.transport.host_of(&source.from), fingerprint };
        let held = HeldMessage::Request(Box::new(HeldRequest {
            arrival: arrival.clone(),
            message: OwnedMessage::from(*message),
        }));
        self.hold(layers, &origin, held).is_ok()
    }

    /// Holds a message, and sends its source a ping unless one is unanswered.
    pub(super) fn hold(
        &mut self,
        layers: &mut Layers<P, C>,
        origin: &MessageOrigin<P>,
        held: HeldMessage<P>,
    ) -> Result<(), HeldMessage<P>> {
        if layers.transport.config.source_validation != SourceValidation::Ping {
            return Err(held);
        }
        while !self.validation_made(layers).pings.has_room(origin.group, &held) {
            let Some(overdue) = self.validation_made(layers).pings.make_room(layers.now, origin.group) else {
                return Err(held);
            };
            self.give_up(layers, overdue);
        }
        let id = ping_id(&mut layers.transport.random);
        if let Some(id) = self.validation_made(layers).pings.hold(layers.now, origin, id, held)? {
            self.ping_source(layers, origin.source, id);
        }
        Ok(())
    }

    fn ping_source(&mut self, layers: &mut Layers<P, C>, to: Source<P>, id: MessageId) {
        layers.transport.stats.validation_pings += 1;
        layers.transport.push_empty(to, Type::Confirmable, id);
    }

    fn validation_made(&mut self, layers: &mut Layers<P, C>) -> &mut Validation<P> {
        let (random, ack_timeout) = (&mut layers.transport.random, layers.transport.config.transmission.ack_timeout);
        self.validation.get_or_insert_with(|| Box::new(Validation::new(random, ack_timeout)))
    }

    /// Returns whether a request repeats a held one, or one with a held response.
    #[inline]
    pub(super) fn is_held(
        &mut self,
        layers: &mut Layers<P, C>,
        hash: u64,
        fingerprint: Fingerprint,
        allowance: Option<NonZeroU16>,
    ) -> bool {
        let Some(validation) = self.validation.as_mut().filter(|validation| !validation.pings.is_empty()) else {
            return false;
        };
        let held = allowance.is_some_and(|allowance| validation.pings.is_held(hash, fingerprint, allowance));
        layers.transport.stats.duplicates += u64::from(held);
        held
    }

    /// Handles an Empty ACK or a Reset. Returns whether it answers a ping, which validates the
    /// source or, after many wrong answers, is followed by a second ping.
    #[inline]
    pub(crate) fn validates(&mut self, layers: &mut Layers<P, C>, from: &P, id: MessageId) -> bool {
        let Some(validation) = self.validation.as_mut().filter(|validation| !validation.pings.is_empty()) else {
            return false;
        };
        let hash = layers.transport.peers.hash(from);
        match validation.pings.answered(layers.now, hash, id, || ping_id(&mut layers.transport.random)) {
            PingAnswer::Wrong => return false,
            PingAnswer::First(to, next) => self.ping_source(layers, to, next),
            PingAnswer::Proof => self.validate(layers, hash, layers.now + LIFETIME),
        }
        true
    }

    /// Marks a source as validated, and continues with its held messages.
    fn validate(&mut self, layers: &mut Layers<P, C>, hash: u64, until: Instant) {
        let validation = self.validation_made(layers);
        validation.validated.insert(layers.now, hash, until);
        let held = validation.pings.take(hash).into_iter().flat_map(PingedSource::into_held);
        for held in held {
            match held {
                HeldMessage::Request(request) => {
                    let HeldRequest { arrival, message } = *request;
                    let arrival = Arrival { allowance: None, ..arrival };
                    self.receive_arrived(layers, ReceivedRequest { arrival: &arrival, message: &message.view() });
                }
                HeldMessage::Response(response) => {
                    let HeldResponse { pending, security, response } = *response;
                    let pending = PendingRequest { allowance: None, ..pending };
                    self.protect_body(layers, &pending, true);
                    let request = AnsweredRequest { pending: &pending, security: &security };
                    self.send_response(layers, request, None, response);
                }
            }
        }
    }

    /// Validates a peer that acknowledged a Confirmable response or notification.
    pub(crate) fn acknowledged_by(&mut self, layers: &mut Layers<P, C>, peer: PeerIndex) {
        if layers.transport.config.source_validation == SourceValidation::Off {
            return;
        }
        let peers = &mut layers.transport.peers;
        let state = peers.get_mut(peer);
        if state.trust.is_given(layers.now) {
            let key = state.key;
            let hash = peers.hash(&key);
            self.validate(layers, hash, layers.now + LIFETIME);
        }
    }

    /// Drops the messages held for a source that its ping did not reach.
    pub(crate) fn ping_unreachable(&mut self, layers: &mut Layers<P, C>, peer: &P, quoted: Option<&[u8]>) {
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
            if let HeldMessage::Response(response) = held {
                self.answered(layers, &response.pending);
            }
        }
    }

    /// Sends another ping to a source, or gives the source up. Returns `false` if nothing is due.
    pub(super) fn ping_due(&mut self, layers: &mut Layers<P, C>) -> bool {
        let due = self.validation.as_mut().and_then(|validation| validation.pings.pop_due(layers.now));
        match due {
            None => return false,
            Some(PingDue::Wait) => {}
            Some(PingDue::Ping(to, id)) => self.ping_source(layers, to, id),
            Some(PingDue::Over(pinged)) => self.give_up(layers, pinged),
        }
        true
    }

    /// Answers held messages within the allowance, after the time for an answer or to make room:
    /// with the first block of 16 bytes, which leads a client without Echo to the body, or with
    /// 4.01.
    fn give_up(&mut self, layers: &mut Layers<P, C>, pinged: PingedSource<P>) {
        let mut credit = pinged.credit();
        for held in pinged.into_held() {
            match held {
                HeldMessage::Request(request) => {
                    let message = &request.message.view();
                    self.challenge_at_once(layers, ReceivedRequest { arrival: &request.arrival, message });
                }
                HeldMessage::Response(response) => {
                    let HeldResponse { pending, security, response } = *response;
                    let allowance = pending.allowance.map_or(0, |allowance| usize::from(allowance.get()));
                    let most = allowance + credit;
                    let block = match security.is_plain() {
                        true => self.smallest_first_block(layers, &pending, &response, most),
                        false => None,
                    };
                    self.protect_body(layers, &pending, false);
                    let response = match block {
                        Some(block) => {
                            let bytes = Overhead::of(&pending.token).message(&block.body);
                            credit -= bytes.saturating_sub(allowance);
                            Response { reliability: Some(Reliability::NeverConfirmable), ..block }
                        }
                        None => self.in_place_of(layers, &pending, &response),
                    };
                    self.send_now(layers, AnsweredRequest { pending: &pending, security: &security }, None, response);
                }
            }
        }
    }

    /// Returns an answer that fits into the allowance: itself, 4.01 in place of a success, or only
    /// the code of an error.
    pub(super) fn within_allowance(
        &mut self,
        layers: &mut Layers<P, C>,
        room: ReplyRoom<P>,
        code: Code,
        body: &Body,
    ) -> (Code, Body) {
        if allows(room.allowance, room.overhead.message(body)) {
            (code, body.clone())
        } else if code.is_success() {
            (Code::UNAUTHORIZED, self.challenge(layers, room))
        } else {
            (code, Body::EMPTY)
        }
    }

    /// Holds a response, or returns the one that is sent in its place.
    pub(super) fn hold_response(
        &mut self,
        layers: &mut Layers<P, C>,
        request: AnsweredRequest<'_, P>,
        response: Response,
    ) -> Option<Response> {
        let AnsweredRequest { pending, security } = request;
        let hash = layers.transport.peers.hash(&pending.from);
        let source = Source { from: pending.from, local: pending.local };
        let ty = if pending.kind == RequestKind::Confirmable { Type::Confirmable } else { Type::NonConfirmable };
        let fingerprint = layers.transport.fingerprint_of(source, hash, ty, pending.id, pending.token.as_slice());
        let origin = MessageOrigin {
            source,
            hash,
            group: pending.group,
            host: layers.transport.host_of(&source.from),
            fingerprint,
        };
        let held = HeldMessage::Response(Box::new(HeldResponse {
            pending: pending.clone(),
            security: security.clone(),
            response,
        }));
        self.protect_body(layers, pending, false);
        match self.hold(layers, &origin, held) {
            Ok(()) => None,
            Err(HeldMessage::Response(response)) => Some(self.in_place_of(layers, pending, &response.response)),
            Err(HeldMessage::Request(_)) => None,
        }
    }

    /// Returns a response that fits into the allowance: itself, 4.01, or only its code if repeating
    /// the request would repeat its effect.
    fn in_place_of(&mut self, layers: &mut Layers<P, C>, pending: &PendingRequest<P>, response: &Response) -> Response {
        let overhead = Overhead::of(&pending.token);
        let repeatable =
            pending.remembered.is_none_or(|remembered| layers.transport.received.is_idempotent(remembered));
        let room = ReplyRoom { to: pending.from, allowance: pending.allowance, overhead };
        let (code, body) = match repeatable || allows(pending.allowance, overhead.message(&response.body)) {
            true => self.within_allowance(layers, room, response.code, &response.body),
            false => (response.code, Body::EMPTY),
        };
        Response { reliability: Some(Reliability::NeverConfirmable), ..Response::new(code, body) }
    }

    /// Returns a body with an Echo option; empty if not even a brief value fits.
    pub(super) fn challenge(
        &mut self,
        layers: &mut Layers<P, C>,
        ReplyRoom { to, allowance, overhead }: ReplyRoom<P>,
    ) -> Body {
        layers.transport.stats.challenged += 1;
        let most = allowance.map_or(usize::MAX, |allowance| allowance.get().into());
        let room = overhead.room(most).unwrap_or_default();
        let echo = self.validation_made(layers).value(layers.now, &to, room);
        echo.and_then(|echo| Body::builder().option(OptionNumber::ECHO, &echo).build().ok()).unwrap_or_default()
    }
}

/// Maximum number of pings to a source without a new datagram of it.
const MOST_PINGS: u8 = 3;

const INTERVALS: u8 = 6;

/// Bytes of an allowance kept for a 4.01 with an Echo value and a token of 8 bytes.
const RESERVE: u16 = 35;

/// Maximum number of messages held for one source.
const HELD_PER_SOURCE: usize = 16;

/// Maximum bytes of all held messages, each counted with [`OVERHEAD`].
const HELD_BYTES: usize = 1 << 20;

const OVERHEAD: usize = 256;

/// Maximum number of wrong answers from one host in each [`LIFETIME`]; then its answers prove
/// nothing until the next period. A forger guesses one of the 2^16 message IDs of a host in three
/// days. Other hosts of its network keep their proofs: anybody can send wrong answers.
const PING_GUESSES: usize = 64;

/// Maximum number of wrong answers from all hosts in each [`LIFETIME`]. After that a source must
/// answer two pings in a row: a few guesses for each address of a network are soon right for one of
/// them.
const GUESSES_OF_ALL: u32 = 64;

#[derive(Debug)]
pub(crate) struct HeldRequest<P> {
    arrival: Arrival<P>,
    message: OwnedMessage,
}

#[derive(Debug)]
pub(crate) struct HeldResponse<P> {
    pending: PendingRequest<P>,
    security: Security,
    response: Response,
}

/// A message held until its source answers a ping.
#[derive(Debug)]
pub(crate) enum HeldMessage<P> {
    Request(Box<HeldRequest<P>>),
    Response(Box<HeldResponse<P>>),
}

impl<P> HeldMessage<P> {
    fn bytes(&self) -> usize {
        OVERHEAD
            + match self {
                Self::Request(request) => request.message.view().as_bytes().len(),
                Self::Response(response) => response.response.body.len(),
            }
    }

    fn allowance(&mut self) -> &mut Option<NonZeroU16> {
        match self {
            Self::Request(request) => &mut request.arrival.allowance,
            Self::Response(response) => &mut response.pending.allowance,
        }
    }

    /// Pays for a ping from the allowance of the request, unless less than `left` would remain.
    fn pays(&mut self, left: u16) -> bool {
        let allowance = self.allowance();
        let rest =
            allowance.and_then(|allowance| allowance.get().checked_sub(EMPTY_BYTES)).filter(|&rest| rest >= left);
        if let Some(rest) = rest {
            *allowance = Some(NonZeroU16::new(rest).unwrap_or(NonZeroU16::MIN));
        }
        rest.is_some()
    }
}

/// A source with an unanswered ping.
#[derive(Debug)]
pub(crate) struct PingedSource<P> {
    hash: u64,
    to: Source<P>,
    group: Group,
    host: Group,
    id: MessageId,
    /// The message ID of the ping before, if the source has answered the first of two.
    answered: Option<MessageId>,
    due: Instant,
    pings: u8,
    intervals: u8,
    /// The bytes that retransmissions of held requests paid for, less those of pings.
    credit: usize,
    held: Vec<(Fingerprint, HeldMessage<P>)>,
    links: Links,
}

impl<P> PingedSource<P> {
    pub(in crate::server) fn into_held(self) -> impl Iterator<Item = HeldMessage<P>> {
        self.held.into_iter().map(|(_, held)| held)
    }

    pub(in crate::server) fn credit(&self) -> usize {
        self.credit
    }

    fn pays_for_another(&mut self) -> bool {
        if self.pings >= MOST_PINGS {
            return false;
        }
        if let Some(rest) = self.credit.checked_sub(EMPTY_BYTES.into()) {
            self.credit = rest;
            return true;
        }
        self.held.iter_mut().any(|(_, held)| held.pays(RESERVE))
    }
}

#[derive(Debug)]
struct ByDue;

impl<P> Linked<ByDue> for PingedSource<P> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The meaning of an Empty ACK or a Reset for a pinged source.
pub(in crate::server) enum PingAnswer<P> {
    /// It does not answer the ping.
    Wrong,
    /// It answers the first of two pings. Send the second.
    First(Source<P>, MessageId),
    Proof,
}

pub(crate) enum PingDue<P> {
    Ping(Source<P>, MessageId),
    Wait,
    /// Its time for an answer is over.
    Over(PingedSource<P>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageOrigin<P> {
    pub(crate) source: Source<P>,
    pub(crate) hash: u64,
    pub(crate) group: Group,
    pub(crate) host: Group,
    pub(crate) fingerprint: Fingerprint,
}

index_type!(PingedSourceIndex);

#[derive(Debug)]
pub(crate) struct Pings<P> {
    pinged: Arena<PingedSource<P>, PingedSourceIndex>,
    index: Index<PingedSourceIndex>,
    /// The interval is the same for all, so the first is due first.
    order: List<ByDue, PingedSourceIndex>,
    interval: Duration,
    /// Bytes of the held messages, by source group.
    shares: Shares,
    held: usize,
    /// Wrong answers in the period that ends at `guesses_until`, by host.
    guesses: Shares,
    guesses_of_all: u32,
    guesses_until: Instant,
}

impl<P> Pings<P> {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self {
            pinged: Arena::new(),
            index: Index::new(),
            order: List::new(),
            interval,
            shares: Shares::new(),
            held: 0,
            guesses: Shares::new(),
            guesses_of_all: 0,
            guesses_until: Instant::ZERO,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pinged.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.pinged.len()
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        Some(self.pinged.get(self.order.first()?)?.due)
    }

    /// Credits a retransmission of a held request to its source's pings. Returns `false` without
    /// one.
    pub(in crate::server) fn is_held(&mut self, hash: u64, fingerprint: Fingerprint, allowance: NonZeroU16) -> bool {
        let Some(index) = self.find(hash) else { return false };
        let pinged = &mut self.pinged[index];
        let held = pinged.held.iter().any(|(held, _)| *held == fingerprint);
        if held {
            pinged.credit = pinged.credit.saturating_add(allowance.get().into());
            pinged.pings = 0;
        }
        held
    }

    /// Holds a message until its source answers a ping. Returns the message ID of the ping to send,
    /// or `None` if one is unanswered. The group must [have room](Self::has_room).
    ///
    /// # Errors
    /// Returns the message if its source holds too many, its bytes do not pay for a ping, or its
    /// host made too many wrong answers.
    pub(in crate::server) fn hold(
        &mut self,
        now: Instant,
        from: &MessageOrigin<P>,
        id: MessageId,
        mut held: HeldMessage<P>,
    ) -> Result<Option<MessageId>, HeldMessage<P>>
    where
        P: Copy,
    {
        let bytes = held.bytes();
        if !self.believes(now, from.host) {
            return Err(held);
        }
        let index = match self.find(from.hash) {
            Some(index) if self.pinged[index].held.len() >= HELD_PER_SOURCE => return Err(held),
            Some(index) => {
                self.pinged[index].held.push((from.fingerprint, held));
                self.pinged[index].intervals = 0;
                self.held += 1;
                self.shares.take(from.group, bytes);
                return Ok(None);
            }
            None if !held.pays(0) => return Err(held),
            None => {
                let pinged = PingedSource {
                    hash: from.hash,
                    to: from.source,
                    group: from.group,
                    host: from.host,
                    id,
                    answered: None,
                    due: now + self.interval,
                    pings: 1,
                    intervals: 0,
                    credit: 0,
                    held: Vec::new(),
                    links: Links::default(),
                };
                match self.pinged.insert(pinged) {
                    Some(index) => index,
                    None => return Err(held),
                }
            }
        };
        self.pinged[index].held.push((from.fingerprint, held));
        self.index.insert(from.hash, index);
        self.order.push_back(&mut self.pinged, index);
        self.held += 1;
        self.shares.take(from.group, bytes);
        Ok(Some(id))
    }

    /// Removes a source to make room for another one of this group, if it has had half an interval
    /// for its answer and its own group holds more bytes. Messages of forged sources in the cells
    /// of this group do not count.
    pub(in crate::server) fn make_room(&mut self, now: Instant, group: Group) -> Option<PingedSource<P>> {
        let first = self.order.first()?;
        let pinged = &self.pinged[first];
        let is_young = pinged.intervals == 0 && pinged.due > now + self.interval / 2;
        if is_young || self.shares.held(pinged.group) <= self.shares.excess(group, OVERHEAD) {
            return None;
        }
        self.remove(first)
    }

    pub(in crate::server) fn has_room(&self, group: Group, held: &HeldMessage<P>) -> bool {
        self.shares.admits(group, held.bytes(), HELD_BYTES)
    }

    /// Handles an Empty ACK or a Reset of a source. A wrong message ID is counted, and voids the
    /// answer to the first of two pings. `next` draws the ID of the second.
    pub(in crate::server) fn answered(
        &mut self,
        now: Instant,
        hash: u64,
        id: MessageId,
        next: impl FnOnce() -> MessageId,
    ) -> PingAnswer<P>
    where
        P: Copy,
    {
        let Some(index) = self.find(hash) else { return PingAnswer::Wrong };
        let PingedSource { host, id: expected, answered, .. } = self.pinged[index];
        if !self.believes(now, host) {
            return PingAnswer::Wrong;
        }
        if id != expected {
            // A copy of the answer to the first ping changes nothing.
            if answered != Some(id) {
                self.guesses.take(host, 1);
                self.guesses_of_all = self.guesses_of_all.saturating_add(1);
                self.pinged[index].answered = None;
            }
            return PingAnswer::Wrong;
        }
        if answered.is_some() || self.guesses_of_all < GUESSES_OF_ALL {
            return PingAnswer::Proof;
        }
        // The answer pays for the second ping.
        self.order.remove(&mut self.pinged, index);
        let pinged = &mut self.pinged[index];
        (pinged.answered, pinged.id) = (Some(id), next());
        (pinged.due, pinged.pings, pinged.intervals) = (now + self.interval, 1, 0);
        let first = PingAnswer::First(pinged.to, pinged.id);
        self.order.push_back(&mut self.pinged, index);
        first
    }

    pub(in crate::server) fn has_id(&mut self, hash: u64, id: MessageId) -> bool {
        self.find(hash).is_some_and(|index| self.pinged[index].id == id)
    }

    pub(in crate::server) fn take(&mut self, hash: u64) -> Option<PingedSource<P>> {
        let index = self.find(hash)?;
        self.remove(index)
    }

    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<PingDue<P>>
    where
        P: Copy,
    {
        let index = self.order.first().filter(|&first| self.pinged[first].due <= now)?;
        self.order.remove(&mut self.pinged, index);
        let pinged = &mut self.pinged[index];
        pinged.intervals += 1;
        if pinged.intervals >= INTERVALS {
            self.order.push_back(&mut self.pinged, index);
            return self.remove(index).map(PingDue::Over);
        }
        pinged.due = now + self.interval;
        let again = pinged.pays_for_another();
        pinged.pings += u8::from(again);
        let due = if again { PingDue::Ping(pinged.to, pinged.id) } else { PingDue::Wait };
        self.order.push_back(&mut self.pinged, index);
        Some(due)
    }

    /// Returns whether answers of this host are accepted. [`PING_GUESSES`] of each other host in
    /// its cells do not count.
    fn believes(&mut self, now: Instant, host: Group) -> bool {
        if now >= self.guesses_until {
            (self.guesses, self.guesses_of_all, self.guesses_until) = (Shares::new(), 0, now + LIFETIME);
        }
        self.guesses.excess(host, PING_GUESSES) < PING_GUESSES
    }

    fn remove(&mut self, index: PingedSourceIndex) -> Option<PingedSource<P>> {
        self.order.remove(&mut self.pinged, index);
        self.index.remove(index);
        let pinged = self.pinged.take(index)?;
        for (_, held) in &pinged.held {
            self.shares.give_back(pinged.group, held.bytes());
        }
        self.held -= pinged.held.len();
        Some(pinged)
    }

    fn find(&mut self, hash: u64) -> Option<PingedSourceIndex> {
        self.index.find(&self.pinged, hash, |pinged: &PingedSource<P>| pinged.hash == hash)
    }
}

/// The maximum number of sources. Beyond it, the one validated longest ago is removed.
const CAPACITY: usize = 65_536;

index_type!(SourceIndex);

/// Validated sources, by a keyed hash of their address. Forged addresses never enter.
#[derive(Debug)]
pub(crate) struct ValidatedSources {
    sources: Arena<ValidSource, SourceIndex>,
    index: Index<SourceIndex>,
    order: List<ByTime, SourceIndex>,
}

#[derive(Debug)]
struct ByTime;

#[derive(Debug)]
struct ValidSource {
    hash: u64,
    until: Instant,
    links: Links,
}

impl Linked<ByTime> for ValidSource {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl ValidatedSources {
    pub(crate) const fn new() -> Self {
        Self { sources: Arena::new(), index: Index::new(), order: List::new() }
    }

    #[inline]
    pub(in crate::server) fn contains(&mut self, now: Instant, hash: u64) -> bool {
        self.sources.len() > 0 && self.find(hash).is_some_and(|index| now < self.sources[index].until)
    }

    pub(crate) fn insert(&mut self, now: Instant, hash: u64, until: Instant) {
        match self.find(hash) {
            Some(index) => {
                self.order.remove(&mut self.sources, index);
                self.order.push_back(&mut self.sources, index);
                let source = &mut self.sources[index];
                source.until = source.until.max(until);
            }
            None => {
                while let Some(oldest) = self.order.first()
                    && (self.sources.len() >= CAPACITY || self.sources[oldest].until <= now)
                {
                    self.order.remove(&mut self.sources, oldest);
                    self.index.remove(oldest);
                    self.sources.remove(oldest);
                }
                if let Some(index) = self.sources.insert(ValidSource { hash, until, links: Links::default() }) {
                    self.index.insert(hash, index);
                    self.order.push_back(&mut self.sources, index);
                }
            }
        }
    }

    #[inline]
    fn find(&mut self, hash: u64) -> Option<SourceIndex> {
        self.index.find(&self.sources, hash, |source: &ValidSource| source.hash == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1_000)
    }

    fn hash(n: usize) -> u64 {
        (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn the_source_validated_longest_ago_makes_room_and_expired_ones_do_first() {
        let mut validated = ValidatedSources::new();
        for n in 0..=CAPACITY {
            validated.insert(at(1), hash(n), at(100));
        }
        assert!(!validated.contains(at(2), hash(0)));
        assert!(validated.contains(at(2), hash(1)) && validated.contains(at(2), hash(CAPACITY)));
        assert!(!validated.contains(at(100), hash(1)), "it is too long ago");
        validated.insert(at(100), hash(0), at(200));
        assert_eq!(validated.sources.len(), 1);
    }

    #[test]
    fn a_source_that_is_validated_again_stays_and_its_time_is_never_shortened() {
        let mut validated = ValidatedSources::new();
        validated.insert(at(1), hash(0), at(100));
        validated.insert(at(1), hash(0), at(50));
        assert!(validated.contains(at(99), hash(0)));
        assert_eq!(validated.sources.len(), 1);
    }
}
