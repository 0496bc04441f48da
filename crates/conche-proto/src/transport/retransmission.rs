//! Retransmission (RFC 7252 §4.2): reports transmissions to the controller, and handles timers.
//!
//! To the controller, a handshake flight is a Confirmable message. Flights are repeated according
//! to RFC 6347 §4.2.4. A handshake occupies one slot and counts on its path from its first flight
//! to its end.

use core::num::NonZeroU8;
use core::time::Duration;

use super::Transport;
use super::exchange::{Content, ExchangeId, ExchangeIndex, Failure, Purpose, State};
use super::exchange_table::Exchanges;
use super::path::{LEAST_UNMEASURED, TransmissionOutcome};
use super::peer::{PeerFlag, PeerIndex};
use super::peer_table::Peers;
use crate::PeerKey;
use conche_cc::control::{AbandonReason, Abandoned, AckKind, Acknowledged, Expired, Sent};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

/// Interval between two Non-confirmable notifications to a client without a measured RTT (RFC 7641
/// §4.5.1).
pub(super) const BETWEEN_NOTIFICATIONS: Duration = Duration::from_secs(3);

/// Maximum time that an exchange counts on its path, as a few peers that acknowledge late would
/// delay all others: twice the longest initial timeout of RFC 7252.
pub(super) const LONGEST_ON_PATH: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextAction {
    Wait,
    Depart,
    /// The peer's queue may admit a message of any exchange.
    Admit,
    /// Request the missing parts of the response (RFC 9177 §4.4).
    Ask,
    Fail(Failure),
    /// It ends without an event: the time of a Non-confirmable notification has passed.
    Over,
}

impl<C: Controller> Exchanges<C> {
    /// Records a transmission: the controller arms the timer. Returns its number.
    #[inline]
    pub(crate) fn sent<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        random: &mut impl RngCore,
    ) -> u8 {
        let exchange = &mut self.slots[index];
        let (peer, controller) = peers.controlled(exchange.peer);
        exchange.sent.push(now);
        let attempt = exchange.attempt();
        let event = Sent {
            now,
            attempt,
            confirmable: exchange.confirmable,
            bytes: exchange.bytes,
            random: random.next_u32(),
            load: peer.load_without(exchange.bytes),
        };
        let wanted = controller.sent(&mut peer.control, &mut exchange.flight, &event);
        let wanted = if peer.flags.has(PeerFlag::Seeded) { wanted.max(LEAST_UNMEASURED) } else { wanted };
        let mut timeout = self.config.envelope.hold(wanted, exchange.timeout);
        if exchange.confirmable && peer.flags.has(PeerFlag::Seeded) && !peer.flags.has(PeerFlag::Answered) {
            // Measurements from other peers must not reduce the retransmissions to this one.
            let longest = self.config.room_for_retransmissions(attempt, exchange.since_first(now));
            timeout = timeout.min(longest.max(exchange.timeout.unwrap_or_default()));
        }
        let is_measured = || !peer.flags.has(PeerFlag::Seeded) && controller.snapshot(&peer.control).srtt.is_some();
        if exchange.notifies() && !exchange.confirmable && !is_measured() {
            timeout = timeout.max(BETWEEN_NOTIFICATIONS);
        }
        exchange.timeout = Some(timeout);
        exchange.state = State::AwaitingAck;
        exchange.state_until = now + timeout;
        if exchange.confirmable {
            // Without an acknowledgement, no answer is expected after EXCHANGE_LIFETIME (RFC 7252
            // §4.7).
            exchange.state_until = exchange.state_until.min(exchange.sent[0] + self.config.times().exchange_lifetime);
            let transmission = &self.config.transmission;
            if !transmission.last_timeout && attempt >= transmission.max_retransmit {
                exchange.state_until = now;
            }
            peer.sent_confirmable(now, exchange.bytes, exchange.may_confirm);
        } else {
            peer.sent_non(now, exchange.bytes);
        }
        if exchange.path.is_some() {
            exchange.ask_again = now + LONGEST_ON_PATH;
        }
        let wake = exchange.wake();
        self.timers.set(index, wake);
        attempt
    }

    pub(crate) fn expired<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
    ) -> NextAction {
        let exchange = &mut self.slots[index];
        if now >= exchange.deadline {
            self.abandon(now, peers, index, AbandonReason::Cancelled);
            return NextAction::Fail(Failure::Deadline);
        }
        if exchange.path.is_some() && now >= exchange.ask_again {
            exchange.leave_path(peers, TransmissionOutcome::Lost);
            if now < exchange.state_until {
                self.arm(index);
                return NextAction::Wait;
            }
        }
        match exchange.state {
            State::Departing | State::AwaitingAck if exchange.sends_bursts() => self.burst_due(now, peers, index),
            State::AwaitingResponse if exchange.receives_bursts() => NextAction::Ask,
            State::Queued if now >= exchange.pause_ends(self.config.times()) => NextAction::Fail(exchange.expired()),
            State::Queued if exchange.asks_again() => {
                exchange.ask_again = Instant::FAR_FUTURE;
                let wake = exchange.wake();
                self.timers.set(index, wake);
                NextAction::Admit
            }
            State::Queued => NextAction::Fail(exchange.expired()),
            State::Departing if exchange.purpose == Purpose::Handshake => NextAction::Depart,
            State::Departing if exchange.since_first(now) > self.config.times().max_transmit_span => {
                self.give_up(now, peers, index)
            }
            State::Departing => NextAction::Depart,
            State::Paused => NextAction::Wait,
            State::AwaitingAck if exchange.purpose == Purpose::Handshake => self.flight_overdue(now, peers, index),
            State::AwaitingAck if exchange.confirmable => self.acknowledgement_overdue(now, peers, index),
            State::AwaitingAck if exchange.notifies() => NextAction::Over,
            State::AwaitingAck => self.response_to_non_overdue(now, peers, index),
            State::AwaitingResponse => {
                let told = exchange.acknowledged.is_some() || exchange.doubtful_ack;
                NextAction::Fail(if told { Failure::NoResponse } else { Failure::TimedOut })
            }
        }
    }

    /// Reports the first acknowledgement to the controller and frees the slot. A Non-confirmable
    /// request is acknowledged by its response (RFC 7252 §4.7), without an RTT sample, as the peer
    /// may answer late.
    #[inline]
    pub(super) fn acknowledge<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        kind: AckKind,
    ) {
        let exchange = &mut self.slots[index];
        let peer = peers.get(exchange.peer);
        if exchange.acknowledged.is_none() && exchange.is_answered() && !exchange.sent.is_empty() {
            let copy = exchange.acked_copy();
            let event = Acknowledged { now, sent: &exchange.sent, copy, kind, load: peer.load_without(exchange.bytes) };
            peers.acknowledged(exchange.peer, &exchange.flight, &event);
            let round_trip = (kind != AckKind::Separate).then(|| exchange.since_first(now));
            exchange.leave_path(peers, TransmissionOutcome::Answered { peer: exchange.peer, round_trip });
        } else if let Some(sent) = exchange.first_sent().filter(|_| exchange.holds_slot && !exchange.confirmable) {
            let peer = peers.get_mut(exchange.peer);
            peer.flags.set(PeerFlag::Answered, true);
            peer.non.answered(sent);
            exchange
                .leave_path(peers, TransmissionOutcome::Answered { peer: exchange.peer, round_trip: Some(now - sent) });
        }
        exchange.acknowledged.get_or_insert(now);
        exchange.free_slot(peers);
    }

    pub(crate) fn await_response(&mut self, now: Instant, index: ExchangeIndex) {
        let exchange = &mut self.slots[index];
        exchange.state = State::AwaitingResponse;
        exchange.state_until = now + self.config.times().response_timeout;
        let wake = exchange.wake();
        self.timers.set(index, wake);
    }

    pub(super) fn abandon<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        reason: AbandonReason,
    ) {
        let exchange = &mut self.slots[index];
        if exchange.is_answered() && exchange.acknowledged.is_none() && !exchange.sent.is_empty() {
            let load = peers.get(exchange.peer).load_without(exchange.bytes);
            let event = Abandoned { now, reason, sent: &exchange.sent, load };
            peers.abandoned(exchange.peer, &exchange.flight, &event);
            if reason == AbandonReason::Reset {
                exchange.leave_path(peers, TransmissionOutcome::Answered { peer: exchange.peer, round_trip: None });
            }
            if reason == AbandonReason::GaveUp {
                peers.get_mut(exchange.peer).flags.set(PeerFlag::Silent, true);
            }
        }
    }

    /// Replaces the content: the next transmission has a new message ID, while timeout and number
    /// of attempts continue (RFC 7641 §4.5.2).
    pub(crate) fn supersede<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: ExchangeIndex, content: Content) {
        self.slots[index].successor = Some(content);
        if self.slots[index].sent.is_empty() {
            self.replace(peers, index);
        }
    }

    /// Continues a sender with its next message, if it has one, at the head of the peer's queue.
    pub(crate) fn yield_next<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
    ) -> bool {
        if self.slots[index].successor.is_none() {
            return false;
        }
        let exchange = &mut self.slots[index];
        exchange.free_slot(peers);
        self.unidentify(index);
        self.replace(peers, index);
        let max_queueing_time = self.max_queueing_time(self.slots[index].purpose);
        let exchange = &mut self.slots[index];
        exchange.state = State::Queued;
        exchange.state_until = now + max_queueing_time;
        exchange.submitted = now;
        exchange.sent.clear();
        (exchange.timeout, exchange.acknowledged, exchange.flight) = (None, None, C::Flight::default());
        exchange.acknowledged_copy = None;
        let wake = exchange.wake();
        self.timers.set(index, wake);
        self.enqueue(peers, index, false);
        true
    }

    /// Retransmits if attempts are left and MAX_TRANSMIT_SPAN permits, otherwise gives up.
    fn acknowledgement_overdue<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
    ) -> NextAction {
        let exchange = &mut self.slots[index];
        let attempt = exchange.attempt();
        exchange.leave_path(peers, TransmissionOutcome::Lost);
        let (peer, controller) = peers.controlled(exchange.peer);
        let span = self.config.times().max_transmit_span;
        let departure = (attempt < self.config.transmission.max_retransmit && exchange.since_first(now) <= span)
            .then(|| {
                let event = Expired { now, attempt, load: peer.load_without(exchange.bytes) };
                controller.expired(&mut peer.control, &mut exchange.flight, &event)
            })
            .filter(|&at| exchange.since_first(at) <= span);
        let Some(at) = departure else { return self.give_up(now, peers, index) };
        exchange.state = State::Departing;
        exchange.state_until = if at <= now { Instant::FAR_FUTURE } else { at };
        let wake = exchange.wake();
        self.timers.set(index, wake);
        self.take_new_id(now, peers, index);
        if at <= now { NextAction::Depart } else { NextAction::Wait }
    }

    /// Gives a superseded message a new ID; retransmits the old one if no ID is free.
    fn take_new_id<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: ExchangeIndex) {
        let exchange = &self.slots[index];
        if exchange.successor.is_some()
            && let Ok(id) = peers.get_mut(exchange.peer).allocate_id(now, self.config.times().exchange_lifetime)
        {
            self.unidentify(index);
            self.replace(peers, index);
            self.identify(index, id);
        }
    }

    fn replace<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: ExchangeIndex) {
        let Some(content) = self.slots[index].successor.take() else { return };
        let bytes = self.message_bytes(index, &content.body);
        let exchange = &mut self.slots[index];
        if exchange.holds_slot {
            let peer = peers.get_mut(exchange.peer);
            peer.free_slot(exchange.bytes);
            peer.occupy_slot(bytes);
        }
        (exchange.content, exchange.bytes) = (content, bytes);
    }

    pub(super) fn give_up<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
    ) -> NextAction {
        self.abandon(now, peers, index, AbandonReason::GaveUp);
        let exchange = &mut self.slots[index];
        // The peer may have sent the untrusted ACK after all: the response is still to come.
        if exchange.doubtful_ack && exchange.purpose == Purpose::Request {
            exchange.free_slot(peers);
            self.await_response(now, index);
            return NextAction::Admit;
        }
        NextAction::Fail(Failure::TimedOut)
    }

    /// Frees the slot of a Non-confirmable request without a prompt response.
    fn response_to_non_overdue<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
    ) -> NextAction {
        let exchange = &mut self.slots[index];
        if exchange.wants_no_response() {
            return NextAction::Fail(Failure::NoResponse);
        }
        exchange.leave_path(peers, TransmissionOutcome::Lost);
        exchange.free_slot(peers);
        let first = exchange.first_sent().unwrap_or(now);
        self.await_response(first, index);
        NextAction::Admit
    }

    /// Records a flight. Each retransmission waits at least twice as long as the previous one; the
    /// next flight waits no shorter until an RTT is measured (RFC 6347 §4.2.4.1).
    pub(crate) fn flight_left<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        flight: &Flight,
        random: &mut impl RngCore,
    ) {
        if !flight.repeated {
            self.flight_answered(now, peers, index, None);
        } else if self.slots[index].state == State::AwaitingAck {
            // The peer repeats an answered flight: it did not receive the answer.
            self.flight_overdue(now, peers, index);
        }
        let datagrams = u32::try_from(flight.bytes).unwrap_or(u32::MAX);
        let bytes = datagrams.saturating_add(self.config.datagram_overhead);
        let exchange = &mut self.slots[index];
        if exchange.holds_slot {
            let peer = peers.get_mut(exchange.peer);
            peer.free_slot(exchange.bytes);
            peer.occupy_slot(bytes);
        }
        exchange.bytes = bytes;
        if exchange.acknowledged.take().is_some() {
            (exchange.flight, exchange.acknowledged_copy) = (C::Flight::default(), None);
            exchange.sent.clear();
        }
        let before = exchange.timeout.unwrap_or_default();
        let is_known = knows_path(peers, exchange.peer);
        self.sent(now, peers, index, random);
        let cap = self.config.envelope.timeout_cap;
        let dither = self.dither(flight.least_timeout, random);
        let exchange = &mut self.slots[index];
        let wanted = exchange.timeout.filter(|_| is_known).unwrap_or(dither);
        let least = flight.least_timeout.max(if flight.repeated { before.saturating_mul(2) } else { before });
        let timeout = wanted.max(least).min(cap);
        exchange.timeout = Some(timeout);
        // MAX_TRANSMIT_SPAN does not apply to handshakes.
        exchange.state_until = now + timeout;
        self.arm(index);
    }

    /// Records the start of the answer to the last flight. The timer continues: the rest of the
    /// answer may be lost.
    pub(crate) fn flight_answered<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        copy: Option<u8>,
    ) {
        let exchange = &mut self.slots[index];
        if exchange.sent.is_empty() || exchange.acknowledged.is_some() {
            return;
        }
        peers.get_mut(exchange.peer).heard();
        exchange.acknowledged_copy = copy.and_then(|copy| NonZeroU8::new(copy.saturating_add(1)));
        let (holds_slot, path) = (exchange.holds_slot, exchange.path);
        // If the answered transmission is unknown, the time may include the peer's own timer.
        let kind = if copy.is_some() { AckKind::Piggybacked } else { AckKind::Separate };
        self.acknowledge(now, peers, index, kind);
        let exchange = &mut self.slots[index];
        if holds_slot {
            peers.get_mut(exchange.peer).occupy_slot(exchange.bytes);
        }
        if let Some(path) = path {
            peers.enter_path(path.get(), exchange.peer);
        }
        (exchange.holds_slot, exchange.path) = (holds_slot, path);
        if copy.is_some() || knows_path(peers, self.slots[index].peer) {
            self.slots[index].timeout = None;
        }
    }

    /// Separates handshakes that start together (ACK_RANDOM_FACTOR, RFC 7252 §4.8).
    fn dither(&self, timeout: Duration, random: &mut impl RngCore) -> Duration {
        let spread = u128::from(self.config.transmission.ack_random_factor.permille.saturating_sub(1000));
        let most = timeout.as_nanos().saturating_mul(spread) / 1000;
        let more = most.saturating_mul(random.next_u32().into()) >> 32;
        timeout.saturating_add(Duration::from_nanos(u64::try_from(more).unwrap_or(u64::MAX)))
    }

    pub(super) fn flight_overdue<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
    ) -> NextAction {
        let exchange = &mut self.slots[index];
        exchange.leave_path(peers, TransmissionOutcome::Lost);
        let mut at = now;
        if exchange.acknowledged.is_none() {
            let (peer, controller) = peers.controlled(exchange.peer);
            let event = Expired { now, attempt: exchange.attempt(), load: peer.load_without(exchange.bytes) };
            at = controller.expired(&mut peer.control, &mut exchange.flight, &event);
        }
        at = at.min(now + self.config.envelope.timeout_cap);
        exchange.state = State::Departing;
        exchange.state_until = if at <= now { Instant::FAR_FUTURE } else { at };
        self.arm(index);
        if at <= now { NextAction::Depart } else { NextAction::Wait }
    }
}

/// A transmitted handshake flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// UDP payload of all its datagrams, in bytes.
    pub bytes: usize,
    /// This is a retransmission of the previous flight.
    pub repeated: bool,
    /// Minimum timeout: the peer may compute long, and the handshake may have measured the RTT.
    pub least_timeout: Duration,
}

/// Returns `true` for an RTT measured or from the path.
fn knows_path<P: PeerKey, C: Controller>(peers: &mut Peers<P, C>, peer: PeerIndex) -> bool {
    let (peer, controller) = peers.controlled(peer);
    peer.flags.has(PeerFlag::Seeded) || controller.snapshot(&peer.control).srtt.is_some()
}

impl<P: PeerKey, C: Controller> Transport<P, C> {
    pub(crate) fn flight_left(&mut self, now: Instant, handshake: ExchangeId, flight: &Flight) {
        if self.has_begun(handshake) {
            self.exchanges.flight_left(now, &mut self.peers, handshake.index, flight, &mut self.random);
            self.admit_waiting(now, self.exchanges.get(handshake.index).peer);
        }
    }

    pub(crate) fn flight_answered(&mut self, now: Instant, handshake: ExchangeId, copy: Option<u8>) {
        if self.has_begun(handshake) {
            self.exchanges.flight_answered(now, &mut self.peers, handshake.index, copy);
            self.admit_waiting(now, self.exchanges.get(handshake.index).peer);
        }
    }

    pub(crate) fn has_begun(&self, handshake: ExchangeId) -> bool {
        self.goes_on(handshake) && self.exchanges.get(handshake.index).state != State::Queued
    }

    pub(crate) fn goes_on(&self, handshake: ExchangeId) -> bool {
        self.exchanges.live(handshake).is_some_and(|exchange| exchange.purpose == Purpose::Handshake)
    }
}
