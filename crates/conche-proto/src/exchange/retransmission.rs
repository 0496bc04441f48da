//! Retransmission (RFC 7252 §4.2): reports transmissions to the controller, within the envelope,
//! and handles timers.

use rand_core::RngCore;

use core::time::Duration;

use super::{Content, Exchanges, Failure, Purpose, State};
use crate::PeerKey;
use crate::peer::{Fate, LEAST_UNMEASURED, Mark, Peers};
use conche_cc::control::{AbandonReason, Abandoned, AckKind, Acknowledged, Expired, Sent};
use conche_cc::{Controller, Instant};

/// Interval between two Non-confirmable notifications to a client without a measured RTT (RFC 7641
/// §4.5.1).
pub(super) const BETWEEN_NOTIFICATIONS: Duration = Duration::from_secs(3);

/// Maximum time that an exchange counts on its path, even if its own timer is longer: a few peers
/// that acknowledge late would delay all others. Twice the longest initial timeout of RFC 7252.
pub(super) const LONGEST_ON_PATH: Duration = Duration::from_secs(6);

/// The next step of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// None; its timer is set.
    Wait,
    /// A transmission is due.
    Depart,
    /// The peer's queue may admit a message, of this exchange or another.
    Admit,
    /// Request the missing parts of the response (RFC 9177 §4.4).
    Ask,
    /// It fails.
    Fail(Failure),
    /// It ends without an event: the time of a Non-confirmable notification has passed.
    Over,
}

impl<C: Controller> Exchanges<C> {
    /// Records a transmission: the controller arms its timer, within the envelope. Returns the
    /// number of the transmission.
    #[inline]
    pub(crate) fn sent<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: u32,
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
        let wanted = if peer.marks.has(Mark::Seeded) { wanted.max(LEAST_UNMEASURED) } else { wanted };
        let mut timeout = self.config.envelope.hold(wanted, exchange.timeout);
        if exchange.confirmable && peer.marks.has(Mark::Seeded) && !peer.marks.has(Mark::Answered) {
            // Measurements from other peers must not reduce the retransmissions to this one.
            let longest = self.config.room_for_retransmissions(attempt, exchange.since_first(now));
            timeout = timeout.min(longest.max(exchange.timeout.unwrap_or_default()));
        }
        let is_measured = || !peer.marks.has(Mark::Seeded) && controller.snapshot(&peer.control).srtt.is_some();
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

    /// Handles the timer of an exchange.
    pub(crate) fn expired<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> Next {
        let exchange = &mut self.slots[index];
        if now >= exchange.deadline {
            self.abandon(now, peers, index, AbandonReason::Cancelled);
            return Next::Fail(Failure::Deadline);
        }
        if exchange.path.is_some() && now >= exchange.ask_again {
            exchange.leave_path(peers, Fate::Lost);
            if now < exchange.state_until {
                self.arm(index);
                return Next::Wait;
            }
        }
        match exchange.state {
            State::Departing | State::AwaitingAck if exchange.sends_sets() => self.set_due(now, peers, index),
            State::AwaitingResponse if exchange.receives_sets() => Next::Ask,
            State::Queued if now >= exchange.pause_ends(self.config.times()) => Next::Fail(exchange.expired()),
            State::Queued if exchange.asks_again() => {
                exchange.ask_again = Instant::FAR_FUTURE;
                let wake = exchange.wake();
                self.timers.set(index, wake);
                Next::Admit
            }
            State::Queued => Next::Fail(exchange.expired()),
            State::Departing if exchange.purpose == Purpose::Handshake => Next::Depart,
            State::Departing if exchange.since_first(now) > self.config.times().max_transmit_span => {
                self.give_up(now, peers, index)
            }
            State::Departing => Next::Depart,
            State::Paused => Next::Wait,
            State::AwaitingAck if exchange.purpose == Purpose::Handshake => self.flight_overdue(now, peers, index),
            State::AwaitingAck if exchange.confirmable => self.acknowledgement_overdue(now, peers, index),
            State::AwaitingAck if exchange.notifies() => Next::Over,
            State::AwaitingAck => self.response_to_non_overdue(now, peers, index),
            State::AwaitingResponse => {
                let told = exchange.acknowledged.is_some() || exchange.doubtful_ack;
                Next::Fail(if told { Failure::NoResponse } else { Failure::TimedOut })
            }
        }
    }

    /// Handles the first acknowledgement of an exchange: reports it to the controller and frees the
    /// slot. A Non-confirmable request is acknowledged by its response and outstanding until then
    /// (RFC 7252 §4.7). This gives no RTT sample, as the peer may answer late.
    #[inline]
    pub(crate) fn acknowledge<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32, kind: AckKind) {
        let exchange = &mut self.slots[index];
        let peer = peers.get(exchange.peer);
        if exchange.acknowledged.is_none() && exchange.is_answered() && !exchange.sent.is_empty() {
            let copy = exchange.acked_copy();
            let event = Acknowledged { now, sent: &exchange.sent, copy, kind, load: peer.load_without(exchange.bytes) };
            peers.acknowledged(exchange.peer, &exchange.flight, &event);
            let round_trip = (kind != AckKind::Separate).then(|| exchange.since_first(now));
            exchange.leave_path(peers, Fate::Answered { peer: exchange.peer, round_trip });
        } else if let Some(sent) = exchange.first_sent().filter(|_| exchange.holds_slot && !exchange.confirmable) {
            let peer = peers.get_mut(exchange.peer);
            peer.marks.set(Mark::Answered, true);
            peer.non.answered(sent);
            exchange.leave_path(peers, Fate::Answered { peer: exchange.peer, round_trip: Some(now - sent) });
        }
        exchange.acknowledged.get_or_insert(now);
        exchange.free_slot(peers);
    }

    /// Waits for the response to an acknowledged request.
    pub(crate) fn await_response(&mut self, now: Instant, index: u32) {
        let exchange = &mut self.slots[index];
        exchange.state = State::AwaitingResponse;
        exchange.state_until = now + self.config.times().response_timeout;
        let wake = exchange.wake();
        self.timers.set(index, wake);
    }

    /// Reports to the controller that a Confirmable message ends unacknowledged.
    pub(crate) fn abandon<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: u32,
        reason: AbandonReason,
    ) {
        let exchange = &mut self.slots[index];
        if exchange.is_answered() && exchange.acknowledged.is_none() && !exchange.sent.is_empty() {
            let load = peers.get(exchange.peer).load_without(exchange.bytes);
            let event = Abandoned { now, reason, sent: &exchange.sent, load };
            peers.abandoned(exchange.peer, &exchange.flight, &event);
            if reason == AbandonReason::Reset {
                exchange.leave_path(peers, Fate::Answered { peer: exchange.peer, round_trip: None });
            }
            if reason == AbandonReason::GaveUp {
                peers.get_mut(exchange.peer).marks.set(Mark::Silent, true);
            }
        }
    }

    /// Replaces the content of this exchange with a newer one: the next transmission has a new
    /// message ID, while timeout and number of attempts continue because the path is the same
    /// (RFC 7641 §4.5.2).
    pub(crate) fn supersede<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: u32, content: Content) {
        self.slots[index].successor = Some(content);
        if self.slots[index].sent.is_empty() {
            self.replace(peers, index);
        }
    }

    /// Continues a sender with its next message after an acknowledgement, if it has one. It keeps
    /// its place at the head of the peer's queue.
    pub(crate) fn yield_next<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> bool {
        if self.slots[index].successor.is_none() {
            return false;
        }
        let exchange = &mut self.slots[index];
        exchange.free_slot(peers);
        self.unidentify(index);
        self.replace(peers, index);
        let patience = self.patience(self.slots[index].purpose);
        let exchange = &mut self.slots[index];
        exchange.state = State::Queued;
        exchange.state_until = now + patience;
        exchange.submitted = now;
        exchange.sent.clear();
        (exchange.timeout, exchange.acknowledged, exchange.flight) = (None, None, C::Flight::default());
        exchange.told_copy = None;
        let wake = exchange.wake();
        self.timers.set(index, wake);
        self.enqueue(peers, index, false);
        true
    }

    /// Handles the retransmission timeout: retransmits if attempts are left and MAX_TRANSMIT_SPAN
    /// permits, otherwise gives up.
    fn acknowledgement_overdue<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> Next {
        let exchange = &mut self.slots[index];
        let attempt = exchange.attempt();
        exchange.leave_path(peers, Fate::Lost);
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
        if at <= now { Next::Depart } else { Next::Wait }
    }

    /// Gives a superseded message a new ID; retransmits the old one if no ID is free.
    fn take_new_id<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) {
        let exchange = &self.slots[index];
        if exchange.successor.is_some()
            && let Ok(id) = peers.get_mut(exchange.peer).allocate_id(now, self.config.times().exchange_lifetime)
        {
            self.unidentify(index);
            self.replace(peers, index);
            self.identify(index, id);
        }
    }

    /// Replaces the content with its successor and updates the byte counts.
    fn replace<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: u32) {
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

    pub(super) fn give_up<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> Next {
        self.abandon(now, peers, index, AbandonReason::GaveUp);
        let exchange = &mut self.slots[index];
        // An untrusted ACK arrived. If the peer sent it after all, the response is still to come.
        if exchange.doubtful_ack && exchange.purpose == Purpose::Request {
            exchange.free_slot(peers);
            self.await_response(now, index);
            return Next::Admit;
        }
        Next::Fail(Failure::TimedOut)
    }

    /// Ends the wait for a prompt response to a Non-confirmable request: its slot is free, but the
    /// response may still arrive.
    fn response_to_non_overdue<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> Next {
        let exchange = &mut self.slots[index];
        if exchange.wants_no_response() {
            return Next::Fail(Failure::NoResponse);
        }
        exchange.leave_path(peers, Fate::Lost);
        exchange.free_slot(peers);
        let first = exchange.first_sent().unwrap_or(now);
        self.await_response(first, index);
        Next::Admit
    }
}
