//! MAX_PAYLOADS bursts (RFC 9177 §7.2) with a single answer: to the controller, each burst is one
//! message.
//!
//! A burst is admitted as one message and occupies one slot. It counts as sent with its first
//! payload, and as acknowledged when the receiver reports all of it; the RTT is measured from the
//! last payload, which the receiver answers. If payloads are missing, the burst expires, and its
//! retransmission consists of these. In the peer's queue each payload nevertheless takes a turn:
//! after a burst of ten, its sender yields nine turns before the next burst. The payloads of a
//! burst are spaced by [`Train`](conche_cc::train::Train).

use alloc::boxed::Box;
use core::time::Duration;

use rand_core::RngCore;

use super::retransmission::LONGEST_ON_PATH;
use super::{Exchange, Exchanges, Failure, Next, State, Transferring, Work};
use crate::PeerKey;
use crate::blockwise::Mark;
use crate::blockwise::sets::Follows;
use crate::codec::{Message, Overhead};
use crate::peer::Peers;
use conche_cc::control::{AbandonReason, AckKind, Expired, Sent};
use conche_cc::{Controller, Instant};

/// The next step after the transmission of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The burst continues, or waits for its answer.
    Waits,
    /// It was the last payload, and no answer is expected.
    Over,
}

impl<C: Controller> Exchange<C> {
    /// Returns `true` if its messages are sent in bursts.
    pub(crate) fn sends_sets(&self) -> bool {
        !self.confirmable && self.transfer.as_ref().is_some_and(|transfer| transfer.sender().is_some())
    }

    /// Returns `true` if it sends this stored response.
    pub(crate) fn leaves(&self, mark: Mark) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
            Work::Kept(_, kept) => kept.mark == mark,
            Work::Blocks(_) | Work::Sets(_) => false,
        })
    }

    /// Returns `true` if its own body may not have arrived.
    pub(crate) fn is_sending(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.sender().is_some())
    }

    /// Returns `true` if a message answers a payload of a burst that has its own token.
    pub(crate) fn has_token_of_set(&self, message: &Message<'_>) -> bool {
        let token = self.transfer.as_ref().and_then(|transfer| transfer.token.as_ref());
        token.is_some_and(|token| token.as_slice() == message.token_bytes())
    }

    /// Returns `true` if its response arrives in bursts, now or later.
    pub(crate) fn receives_sets(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
            Work::Sets(transfer) => transfer.due().is_some(),
            _ => false,
        })
    }

    /// Returns `true` for a Q-Block request.
    pub(crate) fn is_in_sets(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| matches!(transfer.work, Work::Sets(_)))
    }

    /// Returns `true` for a Q-Block request with an answered message. While its next burst is
    /// queued, an answer to an earlier one may arrive.
    pub(crate) fn has_begun_in_sets(&self) -> bool {
        self.is_in_sets() && self.transfer.as_ref().is_some_and(|transfer| transfer.has_begun())
    }

    /// Returns `true` for an ordinary request so far, with a response that may arrive in bursts.
    pub(crate) fn asks_for_first_block(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
            Work::Sets(transfer) => transfer.sender.is_none() && transfer.due().is_none(),
            Work::Blocks(_) | Work::Kept(..) => false,
        })
    }

    /// Returns `true` if the controller gets its acknowledgement: for Confirmable messages and
    /// bursts.
    pub(super) fn is_answered(&self) -> bool {
        self.confirmable || self.sends_sets()
    }

    /// Returns `true` if it needs admission by the controller: everything but Non-confirmable
    /// responses of one message.
    pub(crate) fn is_controlled(&self) -> bool {
        !self.is_over_when_left() || self.sends_sets()
    }
}

impl<C: Controller> Exchanges<C> {
    /// Queues the next burst of an exchange at the end of the peer's queue.
    pub(crate) fn go_on_with_set<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) {
        let Some(transfer) = self.take_transfer(index) else { return };
        let body = self.slots[index].content.body.clone();
        self.slots[index].confirmable = false;
        self.slots[index].may_confirm = false;
        self.go_on(now, peers, index, (transfer, body), None);
        self.count_set(index);
    }

    /// Removes a burst from the queue because its response arrived.
    pub(crate) fn leave_queue<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) {
        self.dequeue(peers, index);
        self.slots[index].ask_again = Instant::FAR_FUTURE;
        self.await_response(now, index);
    }

    /// Replaces a transfer of which nothing was sent.
    pub(crate) fn renew_set(&mut self, index: u32, transfer: Option<Box<Transferring>>) {
        self.free_transfer(index);
        self.slots[index].transfer = transfer;
        if self.slots[index].state == State::Queued {
            self.count_set(index);
        }
    }

    /// Counts the bytes of a queued burst: its due payloads.
    fn count_set(&mut self, index: u32) {
        let exchange = &self.slots[index];
        let overhead = u32::try_from(Overhead::of(&exchange.token).and(OPTIONS)).unwrap_or(u32::MAX);
        let others = overhead.saturating_add(self.config.datagram_overhead);
        let bytes = exchange.transfer.as_ref().and_then(|transfer| transfer.set_bytes(others));
        let exchange = &mut self.slots[index];
        exchange.bytes = bytes.unwrap_or(exchange.bytes);
    }

    /// Records a transmitted payload of `bytes`; `first` for the first one of a burst.
    pub(crate) fn payload_left<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: u32,
        (first, bytes): (bool, u32),
        random: &mut impl RngCore,
    ) -> Left {
        let exchange = &mut self.slots[index];
        let (peer, controller) = peers.controlled(exchange.peer);
        let bytes = bytes.saturating_add(self.config.datagram_overhead);
        if first {
            exchange.sent.push(now);
            let attempt = exchange.attempt();
            let load = peer.load_without(exchange.bytes);
            let (bytes, random) = (exchange.bytes, random.next_u32());
            let event = Sent { now, attempt, confirmable: true, bytes, random, load };
            let wanted = controller.sent(&mut peer.control, &mut exchange.flight, &event);
            exchange.timeout = Some(self.config.envelope.hold(wanted, exchange.timeout));
        }
        peer.sent_non(now, bytes);
        if exchange.path.is_some() && !exchange.asks_again() {
            exchange.ask_again = now + LONGEST_ON_PATH;
        }
        let base = if first { Some(controller.base(&mut peer.control, now)) } else { None };
        if let Some(last) = exchange.sent.last_mut() {
            *last = now;
        }
        if let Some(transfer) = &mut exchange.transfer {
            transfer.count_in_sets();
            transfer.take_turn_later();
        }
        let answered_at_end = exchange.transfer.as_ref().is_some_and(|transfer| matches!(transfer.work, Work::Sets(_)));
        // After the last payload of a state, wait as after other notifications (RFC 7641 §4.5.1).
        let waits_at_end = answered_at_end || exchange.notifies();
        let Some(sender) = exchange.transfer.as_mut().and_then(|transfer| transfer.sender_mut()) else {
            return Left::Over;
        };
        if let Some(base) = base {
            sender.begin_train(base, bytes);
        }
        let next = sender.left(now, bytes);
        if !sender.has_left() {
            exchange.state = State::Departing;
            exchange.state_until = next;
        } else if sender.is_at_end() && !waits_at_end {
            return Left::Over;
        } else {
            let [shortest, longest] = self.config.times().non_timeout;
            let spread = u32::try_from((longest - shortest).as_micros()).unwrap_or(u32::MAX);
            let non_timeout = shortest + Duration::from_micros(u64::from(random.next_u32() % spread.max(1)));
            // Payloads in a queue on the path arrive later, by a fraction of the time over which
            // they were sent. By then a receiver that must request each burst has repeated a lost
            // request.
            let non_timeout = non_timeout + sender.span() / 2;
            let is_asked = exchange.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
                Work::Kept(_, kept) => !kept.all && !kept.confirmable,
                Work::Blocks(_) | Work::Sets(_) => false,
            });
            let patience =
                if is_asked { self.config.times().non_receive_timeout.saturating_mul(2) } else { Duration::ZERO };
            exchange.state = State::AwaitingAck;
            exchange.state_until = now + exchange.timeout.unwrap_or_default().max(non_timeout) + patience;
        }
        let wake = exchange.wake();
        self.timers.set(index, wake);
        Left::Waits
    }

    pub(crate) fn depart_later(&mut self, index: u32, at: Instant) {
        self.slots[index].state_until = at;
        self.arm(index);
    }

    /// Handles the acknowledgement of a whole burst.
    pub(crate) fn set_answered<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) {
        self.acknowledge(now, peers, index, AckKind::Piggybacked);
    }

    /// Handles a report of missing payloads: they are retransmitted when the controller permits.
    pub(crate) fn set_missing<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> Next {
        match self.slots[index].state {
            // They leave with the rest.
            State::Queued => {
                self.count_set(index);
                Next::Wait
            }
            State::Departing | State::Paused => Next::Wait,
            State::AwaitingAck | State::AwaitingResponse => self.send_set_again(now, peers, index),
        }
    }

    fn send_set_again<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> Next {
        let exchange = &mut self.slots[index];
        if exchange.holds_slot {
            let attempt = exchange.attempt();
            let (peer, controller) = peers.controlled(exchange.peer);
            let event = Expired { now, attempt, load: peer.load_without(exchange.bytes) };
            let at = controller.expired(&mut peer.control, &mut exchange.flight, &event);
            exchange.state = State::Departing;
            exchange.state_until = if at <= now { Instant::FAR_FUTURE } else { at };
            let wake = exchange.wake();
            self.timers.set(index, wake);
            return if at <= now { Next::Depart } else { Next::Wait };
        }
        self.go_on_with_set(now, peers, index);
        Next::Admit
    }

    /// Handles the timer of a burst: the next payload is due, or the answer is overdue.
    pub(super) fn set_due<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> Next {
        if self.slots[index].state == State::Departing {
            return Next::Depart;
        }
        let most = self.config.transmission.max_retransmit;
        let notifies = self.slots[index].notifies();
        let follows = match self.slots[index].transfer.as_mut().map(|transfer| &mut transfer.work) {
            Some(Work::Sets(transfer)) => transfer.sender.as_mut().map(|sender| sender.unanswered(most)),
            Some(Work::Kept(_, kept)) if kept.outdated => Some(Follows::Nothing),
            Some(Work::Kept(sender, kept)) if kept.all => Some(sender.unanswered(most)),
            _ => None,
        };
        match follows {
            Some(Follows::Set) => self.send_set_again(now, peers, index),
            // A notification's time has passed. A Confirmable message will check whether its client
            // still exists.
            Some(follows) if notifies => {
                let why = if follows == Follows::TooMuch { AbandonReason::GaveUp } else { AbandonReason::Cancelled };
                self.abandon(now, peers, index, why);
                Next::Over
            }
            Some(Follows::Nothing) => {
                // The whole body was sent; the response is missing.
                let exchange = &mut self.slots[index];
                exchange.free_slot(peers);
                self.await_response(now, index);
                Next::Admit
            }
            Some(Follows::TooMuch) | None => {
                self.abandon(now, peers, index, AbandonReason::GaveUp);
                Next::Fail(Failure::TimedOut)
            }
        }
    }

    /// Receives a response that arrives in bursts without a request, as if it had been requested.
    pub(crate) fn listen(&mut self, now: Instant, index: u32) {
        let exchange = &mut self.slots[index];
        exchange.sent.push(now);
        exchange.state = State::AwaitingResponse;
    }

    /// Records a request for missing blocks. It ends the exchange's own message, which can no
    /// longer be acknowledged or rejected.
    pub(crate) fn said(&mut self, index: u32) {
        let exchange = &mut self.slots[index];
        exchange.confirmable = false;
        let Some(mut transfer) = exchange.transfer.take() else { return };
        transfer.fold(exchange);
        transfer.count_in_sets();
        exchange.transfer = Some(transfer);
    }

    /// Waits for more of a response that arrives in bursts.
    pub(crate) fn await_set<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: u32, due: Instant) {
        let Some(mut transfer) = self.take_transfer(index) else { return };
        self.transfers += usize::from(transfer.begin(&self.slots[index]));
        self.count_transfer(&mut transfer);
        let exchange = &mut self.slots[index];
        exchange.transfer = Some(transfer);
        exchange.free_slot(peers);
        exchange.state = State::AwaitingResponse;
        exchange.state_until = due;
        let wake = exchange.wake();
        self.timers.set(index, wake);
    }
}

/// Approximate size of options and payload marker in a payload's message, in bytes.
const OPTIONS: usize = 24;
