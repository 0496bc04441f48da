//! BDP-CoAP: rate-based congestion control that keeps one bandwidth-delay product in flight.
//!
//! Source: BDP'19, Algorithm 1, which adapts BBR to single exchanges. Messages are paced at the
//! bottleneck bandwidth, estimated from ten transmissions; at most that times the minimum
//! round-trip time of 30 s is in flight. Timeouts are CoCoA+'s, without backoff.
//!
//! Gaps of the paper, by line of Algorithm 1, and resolutions:
//!
//! 1. line 8 on an ACK sets `first = true`, against the text: false;
//! 2. missed samples are counted only for first and application-limited messages: every
//!    transmission is counted;
//! 3. line 27 is an interval: it is added to the present time;
//! 4. an early return arms no timer: [`Admission`] distinguishes time and event;
//! 5. without initial estimates, `0 >= 0` blocks the first message: no estimate, no bound;
//! 6. a retransmission counts its own bytes in flight and never leaves, and its size is added
//!    twice: retransmissions are paced but not bounded, and bytes count until an exchange ends;
//! 7. RTprop is updated from the last transmission even after retransmissions: only exchanges
//!    without retransmissions count;
//! 8. no throughput recorded in the window: the estimate stays;
//! 9. the gain cycle starts at 1, so the first message has gain 1;
//! 10. with one exchange at a time, pacing limits the throughput from which it follows; with α at
//!     0.2 by loss, the rate falls towards zero: [`Bdp::segment_floor`], absent in
//!     [`Bdp::literal`];
//! 11. the timeout never backs off, against RFC 8085: [`Bdp::binary_backoff`];
//! 12. the first message "after short-term connection starvations" gives no bandwidth sample, but
//!     starvation is not detected: the message after a failed exchange is taken
//!     ([`Bdp::first_after_give_up`]);
//! 13. an estimate combines two throughputs, scaled by gains, so the first samples persist; lines 2
//!     and 3 cannot send before an estimate: [`Bdp::initial_rate`], an assumption.

use core::time::Duration;

use crate::any::Boxed;
use crate::backoff::Timer;
use crate::cocoa::draft03::CocoaPeer;
use crate::cocoa::{self, Cocoa};
use crate::control::{
    AbandonReason, Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission,
};
use crate::features::Features;
use crate::non::{PROBING_RATE, paced_by_rto};
use crate::parameters::Range;
use crate::path_history::PathHistory;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{BytesPerSecond, Factor, Micros, Stamp};

/// BDP-CoAP.
///
/// ```
/// use conche_cc::bdp::Bdp;
///
/// assert!(Bdp::default().segment_floor);
/// assert!(!Bdp::literal().segment_floor);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bdp {
    /// Source of timeouts.
    pub cocoa: Cocoa,
    /// Minimum bandwidth: a message per two SRTT (resolution 10).
    pub segment_floor: bool,
    /// Minimum bandwidth in bytes per second; zero counts as 1.
    pub min_rate: u32,
    /// Doubles the timeout with each retransmission (resolution 11).
    pub binary_backoff: bool,
    /// A failed exchange's successor gives no bandwidth sample (resolution 12).
    pub first_after_give_up: bool,
    /// Peers start from a bandwidth of a message per initial RTO, not unbounded (resolution 13).
    pub initial_rate: bool,
    /// Lifetime of a minimum round-trip time.
    pub rtprop_window: Duration,
}

impl Default for Bdp {
    fn default() -> Self {
        Self {
            cocoa: Cocoa::plus(),
            segment_floor: true,
            min_rate: PROBING_RATE,
            binary_backoff: false,
            first_after_give_up: true,
            initial_rate: true,
            rtprop_window: Duration::from_secs(30),
        }
    }
}

impl Bdp {
    /// Returns the algorithm as printed, with resolutions for progress.
    #[must_use]
    pub fn literal() -> Self {
        Self { segment_floor: false, ..Self::default() }
    }

    fn update_bandwidth(&self, peer: &mut BdpPeer, bytes: u32) {
        if let Some((max, min)) = peer.samples.window.extremes() {
            peer.bandwidth = max.blended(peer.samples.window.alpha(), min);
        } else if peer.bandwidth == BytesPerSecond::ZERO {
            return;
        }
        peer.bandwidth = peer.bandwidth.max(BytesPerSecond::new(self.min_rate.max(1)));
        if let Some(srtt) = peer.samples.cocoa.strong().srtt().or(peer.samples.cocoa.weak().srtt())
            && self.segment_floor
            && peer.bandwidth.bytes_in(srtt.times(2)) < bytes
        {
            peer.bandwidth = BytesPerSecond::of(bytes, srtt.times(2));
        }
    }

    fn update_rtprop(&self, peer: &mut BdpPeer, rtt: Micros, now: Stamp) {
        let window_ms = Micros::from(self.rtprop_window).get() / 1_000;
        let expired = peer.rtprop_at.age_ms(now) > window_ms;
        if peer.rtprop == Micros::ZERO || rtt <= peer.rtprop || expired {
            (peer.rtprop, peer.rtprop_at) = (rtt, now);
        }
    }
}

crate::parameters! {
    Bdp {
        "segment_floor" => segment_floor, Range::Flag,
            "minimum bandwidth: a message per two SRTT", "conche, resolution 10";
        "min_rate" => min_rate, Range::BytesPerSecond(1, 1_000_000), "minimum bandwidth", "RFC 7252 §4.8, PROBING_RATE";
        "binary_backoff" => binary_backoff, Range::Flag,
            "each retransmission doubles the timeout", "conche, resolution 11";
        "first_after_give_up" => first_after_give_up, Range::Flag,
            "the exchange after a failed one gives no bandwidth sample", "conche, resolution 12";
        "initial_rate" => initial_rate, Range::Flag,
            "a peer starts from a message per initial RTO", "conche, resolution 13";
        "rtprop_window" => rtprop_window, Range::millis(1, 3_600_000),
            "lifetime of a minimum round-trip time", "BDP'19, Algorithm 1";
    } + cocoa
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "BDP-CoAP: paced at the estimated bandwidth, at least a message per two SRTT",
    strong_rtt: true,
    weak_rtt: Some(u8::MAX),
    dithering: "[1, 1.5]",
    backoff: "none; copies are paced",
    ageing: cocoa::draft03::FEATURES.ageing,
    reuses_backed_off_rto: false,
    source: "BDP'19",
    peer_bytes: BdpPeer::BYTES,
    flight_bytes: size_of::<BdpFlight>(),
    published_bytes: None,
};

/// Feature table row as printed.
pub const LITERAL_FEATURES: Features =
    Features { about: "BDP-CoAP as printed: its rate may spiral to 1 B/s under loss", ..FEATURES };

impl Controller for Bdp {
    type Peer = BdpPeer;
    type Flight = BdpFlight;

    fn measures_rtt(&self) -> bool {
        true
    }

    #[allow(clippy::useless_conversion, reason = "without a heap, `Boxed` is the type itself")]
    fn peer(&self, now: Instant) -> BdpPeer {
        let samples =
            Samples { cocoa: self.cocoa.peer(now), window: Window::default(), delivered_at: now, delivered: 0 };
        BdpPeer {
            samples: samples.into(),
            next_send: now,
            bandwidth: BytesPerSecond::ZERO,
            rtprop: Micros::ZERO,
            rtprop_at: Stamp::at(now),
            throughput: BytesPerSecond::ZERO,
            app_limited_until: 0,
            cycle: 1,
            is_first: true,
            has_sent: false,
        }
    }

    fn seed(&self, now: Instant, _history: &PathHistory) -> BdpPeer {
        self.peer(now)
    }

    fn admit(&self, peer: &mut BdpPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if !message.confirmable {
            self.cocoa.age(&mut peer.samples.cocoa, now);
            return paced_by_rto(now, message, &load.non, self.cocoa.rto(&peer.samples.cocoa));
        }
        if now < peer.next_send {
            return Admission::At(peer.next_send);
        }
        match peer.bdp() {
            Some(bdp) if load.bytes > 0 && load.bytes >= bdp => Admission::OnEvent,
            _ => Admission::Send,
        }
    }

    fn sent(&self, peer: &mut BdpPeer, flight: &mut BdpFlight, event: &Sent) -> Duration {
        if event.confirmable {
            if event.attempt == 0 {
                if !peer.has_sent {
                    (peer.samples.delivered_at, peer.has_sent) = (event.now, true);
                    if self.initial_rate {
                        peer.bandwidth = BytesPerSecond::of(event.bytes, self.cocoa.ack_timeout.into());
                    }
                }
                peer.cycle = (peer.cycle + 1) % CYCLE;
                *flight = BdpFlight {
                    delivered_at: peer.samples.delivered_at,
                    delivered: peer.samples.delivered,
                    bytes: event.bytes,
                    timer: Timer::default(),
                    slot: peer.samples.window.push(false),
                    app_limited: peer.app_limited_until > 0,
                    first: peer.is_first,
                };
            } else {
                peer.samples.window.push(true);
            }
        }
        self.cocoa.age(&mut peer.samples.cocoa, event.now);
        self.cocoa.transmitted(&mut peer.samples.cocoa, event.now);
        peer.pace(event.now, event.bytes);
        let factor = if self.binary_backoff { Factor::TWO } else { Factor::ONE };
        flight.timer.arm(event, || self.cocoa.draw(&peer.samples.cocoa, event), factor, self.cocoa.max_rto.into())
    }

    fn expired(&self, peer: &mut BdpPeer, _flight: &mut BdpFlight, event: &Expired) -> Instant {
        event.now.max(peer.next_send)
    }

    fn acknowledged(&self, peer: &mut BdpPeer, flight: &BdpFlight, event: &Acknowledged<'_>) {
        let strong_rtt = sample::strong_rtt(event);
        self.cocoa.acknowledged(&mut peer.samples.cocoa, &RuleFlight::default(), event);
        if let Some(rtt) = strong_rtt {
            self.update_rtprop(peer, rtt, Stamp::at(event.now));
        }
        let samples: &mut Samples = &mut peer.samples;
        samples.delivered = samples.delivered.wrapping_add(flight.bytes);
        let delivered = samples.delivered.wrapping_sub(flight.delivered);
        peer.throughput = BytesPerSecond::of(delivered, Micros::between(flight.delivered_at, event.now));
        samples.delivered_at = event.now;
        if strong_rtt.is_some() && !flight.app_limited && !flight.first {
            samples.window.record(flight.slot, peer.throughput);
        }
        self.update_bandwidth(peer, flight.bytes);
        peer.app_limited_until = peer.app_limited_until.saturating_sub(flight.bytes);
        peer.is_first = false;
    }

    fn abandoned(&self, peer: &mut BdpPeer, flight: &BdpFlight, event: &Abandoned<'_>) {
        peer.app_limited_until = peer.app_limited_until.saturating_sub(flight.bytes);
        peer.is_first |= self.first_after_give_up && event.reason == AbandonReason::GaveUp;
    }

    fn drained(&self, peer: &mut BdpPeer, _now: Instant, load: &Load) {
        peer.app_limited_until = load.bytes;
        if load.bytes == 0 {
            peer.is_first = true;
        }
    }

    fn base(&self, peer: &mut BdpPeer, now: Instant) -> Duration {
        self.cocoa.base(&mut peer.samples.cocoa, now)
    }

    fn snapshot(&self, peer: &BdpPeer) -> Snapshot {
        let bandwidth = peer.state().bandwidth.map(BytesPerSecond::get);
        Snapshot { bandwidth, ..self.cocoa.snapshot(&peer.samples.cocoa) }
    }
}

/// Per-peer state of BDP-CoAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BdpPeer {
    samples: Boxed<Samples>,
    next_send: Instant,
    /// BtlBw; zero until the first estimate.
    bandwidth: BytesPerSecond,
    /// RTprop; zero until the first sample.
    rtprop: Micros,
    rtprop_at: Stamp,
    throughput: BytesPerSecond,
    /// Acknowledged bytes that end the application limit.
    app_limited_until: u32,
    cycle: u8,
    /// Gives no bandwidth sample.
    is_first: bool,
    has_sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Samples {
    cocoa: CocoaPeer,
    window: Window,
    delivered_at: Instant,
    delivered: u32,
}

const CYCLE: u8 = 10;

impl BdpPeer {
    /// Without the heap pointer.
    const BYTES: usize = size_of::<Self>() - size_of::<Boxed<Samples>>() + size_of::<Samples>();

    /// One message in ten probes, the next drains the queue.
    fn pacing_gain(&self) -> Factor {
        match self.cycle {
            0 => Factor::from_permille(1_200),
            1 => Factor::from_permille(800),
            _ => Factor::ONE,
        }
    }

    fn bdp(&self) -> Option<u32> {
        let known = self.bandwidth != BytesPerSecond::ZERO && self.rtprop != Micros::ZERO;
        known.then(|| self.bandwidth.bytes_in(self.rtprop))
    }

    fn pace(&mut self, now: Instant, bytes: u32) {
        if self.bandwidth != BytesPerSecond::ZERO {
            self.next_send = now + self.bandwidth.scaled(self.pacing_gain()).time_for(bytes);
        }
    }

    /// Returns the estimates.
    #[must_use]
    pub fn state(&self) -> BdpState {
        BdpState {
            pacing_gain: self.pacing_gain(),
            next_send: (self.bandwidth != BytesPerSecond::ZERO).then_some(self.next_send),
            throughput: self.throughput,
            retransmitted: self.samples.window.retransmitted(),
            alpha: self.samples.window.alpha(),
            bandwidth: (self.bandwidth != BytesPerSecond::ZERO).then_some(self.bandwidth),
            rtprop: (self.rtprop != Micros::ZERO).then_some(self.rtprop.into()),
            bdp: self.bdp(),
        }
    }
}

/// A peer's estimates in the paper's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BdpState {
    /// The last message's pacing gain.
    pub pacing_gain: Factor,
    /// Earliest departure of the next message, with a bandwidth estimate.
    pub next_send: Option<Instant>,
    /// th: throughput of the last acknowledged message.
    pub throughput: BytesPerSecond,
    /// f_r: share of retransmissions among ten transmissions.
    pub retransmitted: Factor,
    /// α: weight of the largest throughput against the smallest.
    pub alpha: Factor,
    /// BtlBw.
    pub bandwidth: Option<BytesPerSecond>,
    /// RTprop: minimum round-trip time.
    pub rtprop: Option<Duration>,
    /// Bandwidth-delay product in bytes.
    pub bdp: Option<u32>,
}

/// Per-exchange state: the counters at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BdpFlight {
    delivered_at: Instant,
    delivered: u32,
    bytes: u32,
    timer: Timer,
    slot: u16,
    app_limited: bool,
    first: bool,
}

impl BdpFlight {
    /// Returns the exchange's bytes in flight.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns whether its original transmission found an empty path.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.first
    }
}

const LENGTH: u16 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    /// Zero where none is recorded.
    throughputs: [BytesPerSecond; LENGTH as usize],
    /// Bit n: slot n was a retransmission.
    retransmissions: u16,
    /// Next number; those below [`LENGTH`] are used once, while the window fills.
    next: u16,
}

const NUMBERS: u16 = 60_000;

impl Window {
    /// Returns the number for [`Self::record`].
    fn push(&mut self, retransmission: bool) -> u16 {
        let number = self.next;
        let slot = usize::from(number % LENGTH);
        self.throughputs[slot] = BytesPerSecond::ZERO;
        let bit = 1 << slot;
        if retransmission {
            self.retransmissions |= bit
        } else {
            self.retransmissions &= !bit
        }
        self.next = if number < LENGTH + NUMBERS - 1 { number + 1 } else { LENGTH };
        number
    }

    fn record(&mut self, number: u16, throughput: BytesPerSecond) {
        // Two rounds keep the difference positive.
        let age = (u32::from(self.next) + 2 * u32::from(NUMBERS) - u32::from(number)) % u32::from(NUMBERS);
        if (1..=u32::from(self.len())).contains(&age) {
            self.throughputs[usize::from(number % LENGTH)] = throughput;
        }
    }

    fn extremes(&self) -> Option<(BytesPerSecond, BytesPerSecond)> {
        let mut recorded = self.throughputs.iter().copied().filter(|throughput| *throughput != BytesPerSecond::ZERO);
        let first = recorded.next()?;
        Some(recorded.fold((first, first), |(max, min), throughput| (max.max(throughput), min.min(throughput))))
    }

    fn len(&self) -> u16 {
        self.next.min(LENGTH)
    }

    /// 0.2 if at least a fifth of the window are retransmissions, else 0.6.
    fn alpha(&self) -> Factor {
        let lossy = self.retransmissions.count_ones() * 5 >= u32::from(self.len().max(1));
        if lossy { Factor::from_permille(200) } else { Factor::from_permille(600) }
    }

    fn retransmitted(&self) -> Factor {
        Factor::share(self.retransmissions.count_ones(), u32::from(self.len()))
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod window_tests {
    use std::vec::Vec;

    use super::*;

    const RATE: BytesPerSecond = BytesPerSecond::new(500);

    #[test]
    fn the_eleventh_transmission_pushes_the_first_out() {
        let mut window = Window::default();
        window.push(true);
        for _ in 0..9 {
            window.push(false);
        }
        assert_eq!(window.retransmitted(), Factor::from_permille(100));
        window.push(false);
        assert_eq!(window.retransmitted(), Factor::from_permille(0));
    }

    #[test]
    fn a_throughput_that_comes_after_its_slot_was_reused_is_dropped() {
        let mut window = Window::default();
        let first = window.push(false);
        for _ in 0..10 {
            window.push(false);
        }
        window.record(first, RATE);
        assert_eq!(window.extremes(), None);
    }

    #[test]
    fn numbers_stay_in_step_with_slots_when_they_wrap() {
        let mut window = Window { next: LENGTH + NUMBERS - 1, ..Window::default() };
        let last = window.push(false);
        let wrapped = window.push(false);
        window.record(last, RATE);
        window.record(wrapped, BytesPerSecond::new(300));
        assert_eq!((last, wrapped), (LENGTH + NUMBERS - 1, LENGTH));
        assert_eq!(window.extremes(), Some((RATE, BytesPerSecond::new(300))));
    }

    #[test]
    fn the_ring_is_the_last_ten_transmissions_for_longer_than_its_numbers_last() {
        let mut window = Window::default();
        let mut all: Vec<(u16, bool, BytesPerSecond)> = Vec::new();
        let mut state = 7_u32;
        for n in 0..2 * usize::from(NUMBERS) + 50 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let retransmission = state >> 30 == 0;
            all.push((window.push(retransmission), retransmission, BytesPerSecond::ZERO));
            // One of the last 16, of which six may have left the window.
            let recorded = n.saturating_sub(usize::from(state.to_be_bytes()[1] % 16));
            all[recorded].2 = BytesPerSecond::new(1 + (state >> 16));
            window.record(all[recorded].0, all[recorded].2);

            let last = &all[all.len().saturating_sub(usize::from(LENGTH))..];
            let retransmissions = last.iter().filter(|(_, retransmission, _)| *retransmission).count();
            let share = Factor::share(u32::try_from(retransmissions).expect("ten"), u32::from(window.len()));
            let rates = || last.iter().map(|(_, _, rate)| *rate).filter(|rate| *rate != BytesPerSecond::ZERO);
            assert_eq!(usize::from(window.len()), last.len());
            assert_eq!(window.retransmitted(), share, "transmission {n}");
            assert_eq!(window.extremes(), rates().max().zip(rates().min()), "transmission {n}");
        }
    }
}
