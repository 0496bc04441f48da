//! Admission: decides which messages may leave, by NSTART, message IDs, PROBING_RATE and
//! controller.

use super::exchange::{ExchangeId, ExchangeIndex, Purpose, State};
use super::exchange_table::Exchanges;
use super::path::{Entry, PathIndex, TransmissionOutcome};
use super::peer::{PeerFlag, PeerIndex};
use super::peer_table::Peers;
use super::retransmission::BETWEEN_NOTIFICATIONS;
use super::transfer::{ActiveTransfer, SenderTurn};
use crate::PeerKey;
use crate::store::Compact;
use conche_cc::control::{Admission, NonHistory, Submission};
use conche_cc::{Controller, Instant};

/// The decision for the first message in a queue.
enum Turn {
    /// It leaves, as a Confirmable message or not.
    Leave {
        confirmable: bool,
        /// The path that the message counts on.
        path: Option<Compact<PathIndex>>,
    },
    Until(Instant),
    OnEvent,
    OnPath,
}

impl<C: Controller> Exchanges<C> {
    /// Admits a message: its exchange has a slot and a message ID. Call it until it returns `None`,
    /// after every event that may permit a message.
    #[inline]
    pub(crate) fn admit_next<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        peer: PeerIndex,
    ) -> Option<ExchangeId> {
        let state = peers.get_mut(peer);
        if !state.messages().queue.is_empty() {
            return self.admit_queued(now, peers, peer);
        }
        if state.messages().outstanding < self.config.transmission.nstart {
            state.starved_since = state.starved_since.min(now);
        }
        None
    }

    /// Admits a queued message. Out of line: queues are empty where peers keep up.
    #[inline(never)]
    fn admit_queued<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        peer: PeerIndex,
    ) -> Option<ExchangeId> {
        let state = peers.get_mut(peer);
        while let Some(index) = state.messages().queue.first() {
            let (alone, has_slot) =
                (state.messages().queued == 1, state.messages().outstanding < self.config.transmission.nstart);
            let turn = match self.slots[index].transfer.as_deref_mut() {
                Some(transfer) if has_slot => transfer.take_turn(alone),
                _ => SenderTurn::Leaves,
            };
            if turn == SenderTurn::Leaves {
                return self.admit_first(now, peers, peer, index);
            }
            let queue = &mut state.messages_mut().queue;
            queue.remove(&mut self.slots, index);
            let next = queue.first().filter(|&next| turn == SenderTurn::Passes && !self.owes(next));
            match next {
                Some(next) => {
                    queue.push_front(&mut self.slots, index);
                    self.pass(now, index);
                    return self.admit_first(now, peers, peer, next);
                }
                None => queue.push_back(&mut self.slots, index),
            }
        }
        None
    }

    pub(crate) fn admit_new<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        peer: PeerIndex,
        index: ExchangeIndex,
    ) -> Option<ExchangeId> {
        // A burst yields turns to others.
        if !peers.get(peer).messages().queue.is_empty() || self.slots[index].transfer.is_some() {
            self.enqueue(peers, index, true);
            return self.admit_next(now, peers, peer);
        }
        let turn = self.turn(now, peers, peer, index);
        if let Turn::Leave { confirmable, path } = turn {
            return Some(self.admit(now, peers, index, confirmable, path));
        }
        self.enqueue(peers, index, true);
        self.postpone(index, &turn);
        None
    }

    fn pass(&mut self, now: Instant, index: ExchangeIndex) {
        let max_queueing_time = self.config.times().response_timeout;
        let exchange = &mut self.slots[index];
        (exchange.submitted, exchange.state_until, exchange.ask_again) =
            (now, now + max_queueing_time, Instant::FAR_FUTURE);
        self.arm(index);
    }

    fn owes(&self, index: ExchangeIndex) -> bool {
        self.slots[index].transfer.as_deref().is_some_and(ActiveTransfer::owes)
    }

    #[inline]
    fn admit_first<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        peer: PeerIndex,
        index: ExchangeIndex,
    ) -> Option<ExchangeId> {
        let turn = self.turn(now, peers, peer, index);
        if let Turn::Leave { confirmable, path } = turn {
            self.dequeue(peers, index);
            // The departure replaces the timer: it follows with the next poll, before any timer.
            self.timers.cancel(index);
            return Some(self.admit(now, peers, index, confirmable, path));
        }
        self.postpone(index, &turn);
        None
    }

    /// Reports an idle period to the controller. Only the next message shows whether an empty queue
    /// was a pause of the application: a closed loop sends at once.
    #[inline]
    pub(crate) fn report_starvation<P: PeerKey>(&self, now: Instant, peers: &mut Peers<P, C>, peer: PeerIndex) {
        let (state, controller) = peers.controlled(peer);
        if core::mem::replace(&mut state.starved_since, Instant::FAR_FUTURE) < now {
            let load = state.load(0);
            controller.drained(&mut state.control, now, &load);
        }
    }

    #[inline]
    fn turn<P: PeerKey>(&self, now: Instant, peers: &mut Peers<P, C>, peer: PeerIndex, index: ExchangeIndex) -> Turn {
        let (state, controller) = peers.controlled(peer);
        let exchange = &self.slots[index];
        if state.messages().outstanding >= self.config.transmission.nstart && exchange.is_controlled() {
            return Turn::OnEvent;
        }
        if exchange.purpose != Purpose::Handshake
            && let Some(free) = state.ids_blocked_until(now, self.config.times().exchange_lifetime)
        {
            return Turn::Until(free);
        }
        if !exchange.is_controlled() {
            // A Non-confirmable response waits only for a message ID.
            return Turn::Leave { confirmable: false, path: None };
        }
        let probing_rate = self.config.transmission.probing_rate;
        let submission = Submission {
            confirmable: exchange.is_answered(),
            may_confirm: exchange.may_confirm,
            bytes: exchange.bytes,
            probing_rate,
        };
        let asks_at = if exchange.notifies() && exchange.may_confirm { asks_at(&state.non.history()) } else { None };
        let asks = asks_at.is_some_and(|at| at <= now);
        let or_asks = |at: Instant| asks_at.map_or(at, |asks_at| at.min(asks_at));
        let load = state.load(state.messages().queued.saturating_sub(1));
        let confirmable = match controller.admit(&mut state.control, now, &submission, &load) {
            Admission::At(at) if at > now && !asks => return Turn::Until(or_asks(at)),
            Admission::OnEvent if state.messages().outstanding > 0 => return Turn::OnEvent,
            Admission::At(at) if at > now => true,
            Admission::SendConfirmable => exchange.confirmable || exchange.may_confirm,
            // The event cannot occur, or the time has passed. NSTART and the envelope's timeouts
            // still apply.
            Admission::Send | Admission::At(_) | Admission::OnEvent => exchange.confirmable,
        };
        // PROBING_RATE applies to messages submitted as Non-confirmable, converted or not.
        match state.probing_allows_at(now, probing_rate).filter(|_| !exchange.confirmable) {
            Some(_) if asks => self.on_path(now, peers, index, true),
            Some(at) => Turn::Until(or_asks(at)),
            None => self.on_path(now, peers, index, confirmable),
        }
    }

    /// Responses do not wait for the path, nor do messages to a peer that did not answer the last
    /// one: they would delay all others.
    #[inline]
    fn on_path<P: PeerKey>(
        &self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        confirmable: bool,
    ) -> Turn {
        let exchange = &self.slots[index];
        let answers = matches!(exchange.purpose, Purpose::Response(_));
        if answers || peers.get(exchange.peer).flags.has(PeerFlag::Silent) {
            return Turn::Leave { confirmable, path: None };
        }
        match peers.ask_path(now, exchange.peer) {
            Entry::Free => Turn::Leave { confirmable, path: None },
            // Only acknowledgements open the window, so notifications that waited request one.
            Entry::Through { path, waited } => {
                let confirmable = confirmable || waited && exchange.notifies() && exchange.may_confirm;
                Turn::Leave { confirmable, path: Compact::of(path) }
            }
            Entry::Wait => Turn::OnPath,
        }
    }

    #[inline]
    fn admit<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        confirmable: bool,
        path: Option<Compact<PathIndex>>,
    ) -> ExchangeId {
        let exchange = &mut self.slots[index];
        exchange.holds_slot = true;
        exchange.leave_path(peers, TransmissionOutcome::Unknown);
        exchange.path = path;
        if let Some(path) = path {
            peers.enter_path(path.get(), exchange.peer);
        }
        exchange.confirmable = confirmable;
        exchange.state = State::Departing;
        exchange.state_until = Instant::FAR_FUTURE;
        exchange.ask_again = Instant::FAR_FUTURE;
        let name = exchange.id(index);
        let state = peers.get_mut(exchange.peer);
        state.occupy_slot(exchange.bytes);
        // No CoAP message answers a handshake flight, so it needs no ID.
        if exchange.purpose == Purpose::Handshake {
            return name;
        }
        let id = state.allocate_id(now, self.config.times().exchange_lifetime).unwrap_or(exchange.id);
        self.identify(index, id);
        name
    }

    fn postpone(&mut self, index: ExchangeIndex, turn: &Turn) {
        let exchange = &mut self.slots[index];
        let longest = exchange.pause_ends(self.config.times());
        let at = match *turn {
            Turn::Until(at) => at.min(longest),
            // As for a controller's pause.
            Turn::OnPath => longest,
            Turn::OnEvent | Turn::Leave { .. } => Instant::FAR_FUTURE,
        };
        if exchange.ask_again != at {
            exchange.ask_again = at;
            let wake = exchange.wake();
            self.timers.set(index, wake);
        }
    }
}

/// Returns when a notification to a silent peer is sent as a Confirmable message, to learn whether
/// the client still exists (RFC 7641 §4.5).
fn asks_at(non: &NonHistory) -> Option<Instant> {
    non.unanswered_since.and(non.last).map(|last| last + BETWEEN_NOTIFICATIONS)
}
