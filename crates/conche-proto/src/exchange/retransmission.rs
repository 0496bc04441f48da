//! Retransmission (RFC 7252 §4.2): what the controller is told of each copy, inside the envelope, and what its timers do.

use rand_core::RngCore;

use core::time::Duration;

use super::{Content, Exchanges, Failure, Purpose, State};
use crate::PeerKey;
use crate::peer::{Fate, LEAST_UNMEASURED, Mark, Peers};
use conche_cc::control::{Abandoned, AckKind, Acknowledged, Expired, Sent, Why};
use conche_cc::{Controller, Instant};

/// Between two Non-confirmable notifications to a client whose round-trip time is not known (RFC 7641 §4.5.1).
pub(super) const BETWEEN_NOTIFICATIONS: Duration = Duration::from_secs(3);

/// An exchange counts on its path for at most this time, even if its own timer is longer: a few
/// peers that acknowledge late would hold up all others. It is twice RFC 7252's longest first
/// timer.
pub(super) const LONGEST_ON_PATH: Duration = Duration::from_secs(6);

/// What follows for an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing yet: its timer is set.
    Wait,
    /// A copy leaves.
    Depart,
    /// A message of the peer gets a turn, of this exchange or another one.
    Admit,
    /// What is missing of its response is asked for (RFC 9177 §4.4).
    Ask,
    /// It fails.
    Fail(Failure),
    /// It is over, and nobody needs to be told: a Non-confirmable notification has had its time.
    Over,
}

impl<C: Controller> Exchanges<C> {
    /// A copy leaves: the controller arms its timer, inside the envelope. The answer is the number of the copy.
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
            // Measurements of other peers do not cost this one any of its retransmissions.
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
            // Nothing is expected any longer than this without an acknowledgement (RFC 7252 §4.7).
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

    /// The timer of an exchange ran out.
    pub(crate) fn expired<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> Next {
        let exchange = &mut self.slots[index];
        if now >= exchange.deadline {
            self.abandon(now, peers, index, Why::Cancelled);
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

    /// The first acknowledgement of an exchange arrived: the controller receives it, and the slot
    /// is free. A Non-confirmable request is acknowledged by its response, and outstanding until
    /// then (RFC 7252 §4.7); that gives no round-trip time, as the peer may take any time to
    /// answer.
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

    /// A request was acknowledged; its response comes later.
    pub(crate) fn await_response(&mut self, now: Instant, index: u32) {
        let exchange = &mut self.slots[index];
        exchange.state = State::AwaitingResponse;
        exchange.state_until = now + self.config.times().response_timeout;
        let wake = exchange.wake();
        self.timers.set(index, wake);
    }

    /// Tells the controller that a Confirmable message ends unacknowledged.
    pub(crate) fn abandon<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32, why: Why) {
        let exchange = &mut self.slots[index];
        if exchange.is_answered() && exchange.acknowledged.is_none() && !exchange.sent.is_empty() {
            let load = peers.get(exchange.peer).load_without(exchange.bytes);
            let event = Abandoned { now, why, sent: &exchange.sent, load };
            peers.abandoned(exchange.peer, &exchange.flight, &event);
            if why == Why::Reset {
                exchange.leave_path(peers, Fate::Answered { peer: exchange.peer, round_trip: None });
            }
            if why == Why::GaveUp {
                peers.get_mut(exchange.peer).marks.set(Mark::Silent, true);
            }
        }
    }

    /// What this exchange sends is out of date: the next copy carries `content` under a new message ID, while the timeout
    /// and the number of attempts go on, as the path has not changed (RFC 7641 §4.5.2).
    pub(crate) fn supersede<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: u32, content: Content) {
        self.slots[index].successor = Some(content);
        if self.slots[index].sent.is_empty() {
            self.replace(peers, index);
        }
    }

    /// A sender whose message was acknowledged yields the next one, if it has one, and keeps its place: it stands at the
    /// head of the peer's queue.
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

    /// The retransmission timer ran out: send another copy, if one is left and it still falls inside MAX_TRANSMIT_SPAN, or
    /// give up.
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

    /// A superseded message is retransmitted as another one; if there is no ID for that yet, as itself once more.
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

    /// The successor takes the place of the content, in what is counted too.
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
        self.abandon(now, peers, index, Why::GaveUp);
        let exchange = &mut self.slots[index];
        // Somebody acknowledged the request. If it was the peer after all, the response is still to come.
        if exchange.doubtful_ack && exchange.purpose == Purpose::Request {
            exchange.free_slot(peers);
            self.await_response(now, index);
            return Next::Admit;
        }
        Next::Fail(Failure::TimedOut)
    }

    /// The response to a NON request is not expected any more within the controller's timeout: its slot is free, though
    /// the response may still come.
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
