//! Handshake flights: to the controller each is a Confirmable message. Flights are repeated
//! according to RFC 6347 §4.2.4, as long as their creator continues.
//!
//! A handshake occupies one slot and counts on its path from its first flight to its end.

use core::num::NonZeroU8;
use core::time::Duration;

use rand_core::RngCore;

use super::{Exchanges, Next, State};
use crate::PeerKey;
use crate::peer::{Fate, Mark, Peers};
use conche_cc::control::{AckKind, Expired};
use conche_cc::{Controller, Instant};

/// A transmitted handshake flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// UDP payload of all its datagrams, in bytes.
    pub bytes: usize,
    /// This is a retransmission of the previous flight.
    pub repeated: bool,
    /// Minimum timeout: the peer may need long to compute its answer, and the handshake may have
    /// measured the RTT itself.
    pub least_timeout: Duration,
}

impl<C: Controller> Exchanges<C> {
    /// Records a transmitted flight: the controller arms its timer if it has an RTT. Each
    /// retransmission waits at least twice as long as the previous one. The next flight waits no
    /// shorter until an RTT is measured (RFC 6347 §4.2.4.1).
    pub(crate) fn flight_left<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: u32,
        flight: &Flight,
        random: &mut impl RngCore,
    ) {
        if !flight.repeated {
            self.flight_answered(now, peers, index, None);
        } else if self.slots[index].state == State::AwaitingAck {
            // The peer repeats an answered flight, hence did not receive the answer.
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
            (exchange.flight, exchange.told_copy) = (C::Flight::default(), None);
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

    /// Records the start of the answer to the last flight, for transmission `copy` if known. The
    /// timer continues, because the rest of the answer may be lost.
    pub(crate) fn flight_answered<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: u32,
        copy: Option<u8>,
    ) {
        let exchange = &mut self.slots[index];
        if exchange.sent.is_empty() || exchange.acknowledged.is_some() {
            return;
        }
        peers.get_mut(exchange.peer).heard();
        exchange.told_copy = copy.and_then(|copy| NonZeroU8::new(copy.saturating_add(1)));
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

    /// Randomizes a timeout to separate handshakes that start together (ACK_RANDOM_FACTOR, RFC 7252
    /// §4.8).
    fn dither(&self, timeout: Duration, random: &mut impl RngCore) -> Duration {
        let spread = u128::from(self.config.transmission.ack_random_factor.permille.saturating_sub(1000));
        let most = timeout.as_nanos().saturating_mul(spread) / 1000;
        let more = most.saturating_mul(random.next_u32().into()) >> 32;
        timeout.saturating_add(Duration::from_nanos(u64::try_from(more).unwrap_or(u64::MAX)))
    }

    /// Handles the timeout of a flight: it is retransmitted when the controller permits.
    pub(super) fn flight_overdue<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32) -> Next {
        let exchange = &mut self.slots[index];
        exchange.leave_path(peers, Fate::Lost);
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
        if at <= now { Next::Depart } else { Next::Wait }
    }
}

/// Returns `true` if the peer's controller has an RTT, measured or from its path.
fn knows_path<P: PeerKey, C: Controller>(peers: &mut Peers<P, C>, peer: u32) -> bool {
    let (peer, controller) = peers.controlled(peer);
    peer.marks.has(Mark::Seeded) || controller.snapshot(&peer.control).srtt.is_some()
}
