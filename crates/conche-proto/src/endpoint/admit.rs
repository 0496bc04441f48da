//! Admission: which messages may leave now, by NSTART, the peer's message IDs, PROBING_RATE and the controller.

use super::{Endpoint, TimerKey};
use crate::PeerKey;
use crate::exchange::State;
use conche_cc::control::{Admission, Submission};
use conche_cc::{Controller, Instant};

/// What becomes of the first message in a peer's queue.
enum Turn {
    /// It leaves, as a Confirmable message or not.
    Leave { confirmable: bool },
    /// It gets its next chance then.
    Until(Instant),
    /// It gets its next chance when something happens to the peer.
    OnEvent,
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Lets leave what may leave of a peer's queue, in order. Called after every event that can make a difference.
    pub(super) fn admit_waiting(&mut self, now: Instant, peer: u32) {
        self.timers.cancel(TimerKey::Peer(peer));
        while let Some(&index) = self.peers.get(peer).queue.front() {
            match self.turn(now, peer, index) {
                Turn::Leave { confirmable } => self.admit(now, peer, index, confirmable),
                Turn::Until(at) => return self.timers.set(TimerKey::Peer(peer), at),
                Turn::OnEvent => return,
            }
        }
        let state = self.peers.get_mut(peer);
        if state.starved_since.is_none() && state.outstanding < self.config.transmission.nstart {
            state.starved_since = Some(now);
        }
    }

    /// Tells the controller, before a new message is looked at, that nothing had waited for a while. Whether a queue
    /// that ran empty was a pause of the application shows only when its next message comes: a closed loop that sends
    /// again at once has not paused.
    pub(super) fn tell_starvation(&mut self, now: Instant, peer: u32) {
        let state = self.peers.get_mut(peer);
        if state.starved_since.take().is_some_and(|since| since < now) {
            let load = state.load(0);
            self.controllers[usize::from(state.controller.0)].drained(&mut state.control, now, &load);
        }
    }

    fn turn(&mut self, now: Instant, peer: u32, index: u32) -> Turn {
        let state = self.peers.get_mut(peer);
        if state.outstanding >= self.config.transmission.nstart {
            return Turn::OnEvent;
        }
        if let Some(free) = state.ids.blocked_until(now, self.derived.exchange_lifetime) {
            return Turn::Until(free);
        }
        let exchange = &self.exchanges[index as usize];
        let submission = Submission {
            confirmable: exchange.confirmable,
            may_confirm: exchange.may_confirm,
            bytes: exchange.bytes,
            probing_rate: self.config.transmission.probing_rate,
        };
        let load = state.load(state.queue.len().saturating_sub(1));
        let controller = &self.controllers[usize::from(state.controller.0)];
        let confirmable = match controller.admit(&mut state.control, now, &submission, &load) {
            Admission::At(at) if at > now => return Turn::Until(at),
            Admission::OnEvent if state.outstanding > 0 => return Turn::OnEvent,
            Admission::SendConfirmable => exchange.confirmable || exchange.may_confirm,
            // A controller that waits for an event where none can come, or for a time that has passed, would wait for
            // ever: the message leaves, NSTART and the timeouts around it still hold.
            Admission::Send | Admission::At(_) | Admission::OnEvent => exchange.confirmable,
        };
        // Converted or not, what was submitted as Non-confirmable keeps to PROBING_RATE.
        match state.probing_allows_at(now, self.config.transmission.probing_rate).filter(|_| !exchange.confirmable) {
            Some(at) => Turn::Until(at),
            None => Turn::Leave { confirmable },
        }
    }

    /// The first message of the queue gets a slot and a message ID, and goes to the outbox.
    fn admit(&mut self, now: Instant, peer: u32, index: u32, confirmable: bool) {
        let state = self.peers.get_mut(peer);
        let exchange = &mut self.exchanges[index as usize];
        state.queue.pop_front();
        self.queued -= 1;
        state.occupy_slot(exchange.bytes);
        exchange.holds_slot = true;
        exchange.confirmable = confirmable;
        exchange.state = State::Departing;
        exchange.state_until = Instant::FAR_FUTURE;
        exchange.id = state.ids.allocate(now, self.derived.exchange_lifetime).unwrap_or(exchange.id);
        self.by_id.insert((peer, exchange.id), index);
        self.timers.set(TimerKey::Exchange(index), exchange.deadline);
        self.push_departure(index);
    }
}
