//! Sets of messages that get one answer (RFC 9177): for the controller each set is one message.
//!
//! It is admitted as one, holds one slot, and the controller is told of it as of any message that is answered. It is sent when
//! its first payload leaves, and acknowledged when the receiver says that it has all of it; how long that took is counted from
//! the last payload, which is what the receiver answered. If some are missing, the set expires and its next copy is what was
//! missing. Among those who wait for the same peer each payload has a turn all the same: after a set of ten, nine turns of its sender
//! pass before its next set. In between, a set's payloads are apart as [`Train`](conche_cc::train::Train) says.

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
use conche_cc::control::{AckKind, Expired, Sent, Why};
use conche_cc::{Controller, Instant};

/// What follows the departure of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Its set goes on, or waits for its answer.
    Waits,
    /// It was the last, and nobody answers it.
    Over,
}

impl<C: Controller> Exchange<C> {
    /// Its messages leave in sets.
    pub(crate) fn sends_sets(&self) -> bool {
        !self.confirmable && self.transfer.as_ref().is_some_and(|transfer| transfer.sender().is_some())
    }

    /// It is this response that leaves in sets.
    pub(crate) fn leaves(&self, mark: Mark) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
            Work::Kept(_, kept) => kept.mark == mark,
            Work::Blocks(_) | Work::Sets(_) => false,
        })
    }

    /// Its own body is not known to have arrived.
    pub(crate) fn is_sending(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.sender().is_some())
    }

    /// This answers the payload of a set that has a token of its own.
    pub(crate) fn has_token_of_set(&self, message: &Message<'_>) -> bool {
        let token = self.transfer.as_ref().and_then(|transfer| transfer.token.as_ref());
        token.is_some_and(|token| token.as_slice() == message.token_bytes())
    }

    /// Its response comes in sets, or will.
    pub(crate) fn receives_sets(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
            Work::Sets(transfer) => transfer.due().is_some(),
            _ => false,
        })
    }

    /// It is a request that goes in sets.
    pub(crate) fn is_in_sets(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| matches!(transfer.work, Work::Sets(_)))
    }

    /// It is such a request, and a message of it has been answered. While its next set waits for its turn, another answer may come to
    /// what has left.
    pub(crate) fn has_begun_in_sets(&self) -> bool {
        self.is_in_sets() && self.transfer.as_ref().is_some_and(|transfer| transfer.has_begun())
    }

    /// It is a request as any other so far, whose response may come in sets.
    pub(crate) fn asks_for_first_block(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
            Work::Sets(transfer) => transfer.sender.is_none() && transfer.due().is_none(),
            Work::Blocks(_) | Work::Kept(..) => false,
        })
    }

    /// The controller is told of an acknowledgement: it is Confirmable, or a set.
    pub(super) fn is_answered(&self) -> bool {
        self.confirmable || self.sends_sets()
    }

    /// It passes the controller: all but Non-confirmable responses of one message.
    pub(crate) fn is_controlled(&self) -> bool {
        !self.is_over_when_left() || self.sends_sets()
    }
}

impl<C: Controller> Exchanges<C> {
    /// The next set of an exchange is due: it waits for its turn at the end of the peer's queue.
    pub(crate) fn go_on_with_set<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) {
        let Some(transfer) = self.take_transfer(index) else { return };
        let body = self.slots[index].content.body.clone();
        self.slots[index].confirmable = false;
        self.slots[index].may_confirm = false;
        self.go_on(now, peers, index, (transfer, body), None);
        self.count_set(index);
    }

    /// The response came while the next set waited for its turn: none of it leaves any more.
    pub(crate) fn leave_queue<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) {
        self.dequeue(peers, index);
        self.slots[index].ask_again = Instant::FAR_FUTURE;
        self.await_response(now, index);
    }

    /// What leaves in sets is replaced before any of it has left.
    pub(crate) fn renew_set(&mut self, index: u32, transfer: Option<Box<Transferring>>) {
        self.free_transfer(index);
        self.slots[index].transfer = transfer;
        if self.slots[index].state == State::Queued {
            self.count_set(index);
        }
    }

    /// What is counted of a set that waits for admission: its payloads that are due.
    fn count_set(&mut self, index: u32) {
        let exchange = &self.slots[index];
        let overhead = u32::try_from(Overhead::of(&exchange.token).and(OPTIONS)).unwrap_or(u32::MAX);
        let others = overhead.saturating_add(self.config.datagram_overhead);
        let bytes = exchange.transfer.as_ref().and_then(|transfer| transfer.set_bytes(others));
        let exchange = &mut self.slots[index];
        exchange.bytes = bytes.unwrap_or(exchange.bytes);
    }

    /// A payload of so many bytes leaves, the first of its set if nothing of that has left so far.
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
        // After the last payload of a state nothing leaves for as long as after any other notification (RFC 7641 §4.5.1).
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
            // What waits in a queue on the way arrives later, by a part of the time in which it left. Who gets only what it
            // asks for has asked again by then, if its word was lost.
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

    /// A payload leaves at this time and not before.
    pub(crate) fn depart_later(&mut self, index: u32, at: Instant) {
        self.slots[index].state_until = at;
        self.arm(index);
    }

    /// The receiver has all of a set.
    pub(crate) fn set_answered<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) {
        self.acknowledge(now, peers, index, AckKind::Piggybacked);
    }

    /// The receiver misses some of a set: those leave again, and not before the controller says so.
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

    /// The timer of an exchange that sends a set ran out: its next payload leaves, or there was no answer to it.
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
            // A notification has had its time. Whether its client is there is found out by a Confirmable one.
            Some(follows) if notifies => {
                let why = if follows == Follows::TooMuch { Why::GaveUp } else { Why::Cancelled };
                self.abandon(now, peers, index, why);
                Next::Over
            }
            Some(Follows::Nothing) => {
                // All of the body has left, and its response is still to come.
                let exchange = &mut self.slots[index];
                exchange.free_slot(peers);
                self.await_response(now, index);
                Next::Admit
            }
            Some(Follows::TooMuch) | None => {
                self.abandon(now, peers, index, Why::GaveUp);
                Next::Fail(Failure::TimedOut)
            }
        }
    }

    /// A response comes by itself in sets, in this exchange from now on: as if it had been asked for.
    pub(crate) fn listen(&mut self, now: Instant, index: u32) {
        let exchange = &mut self.slots[index];
        exchange.sent.push(now);
        exchange.state = State::AwaitingResponse;
    }

    /// A message left that asks for more of a response in sets. The exchange's own message is over with that: nothing
    /// acknowledges it or refuses its options any more.
    pub(crate) fn said(&mut self, index: u32) {
        let exchange = &mut self.slots[index];
        exchange.confirmable = false;
        let Some(mut transfer) = exchange.transfer.take() else { return };
        transfer.fold(exchange);
        transfer.count_in_sets();
        exchange.transfer = Some(transfer);
    }

    /// Waits for more of a response that comes in sets.
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

/// About what options and payload marker take of a payload's message.
const OPTIONS: usize = 24;
