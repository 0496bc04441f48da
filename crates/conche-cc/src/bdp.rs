//! BDP-CoAP: rate-based congestion control that keeps one bandwidth-delay product in flight.
//!
//! Source: BDP'19, Algorithm 1, which adapts BBR to single exchanges. Messages are paced at the
//! bottleneck bandwidth, estimated from ten transmissions; at most that times the minimum
//! round-trip time of 30 s is in flight. Timeouts are CoCoA+'s, without backoff.
//!
//! Gaps of the paper, by line of Algorithm 1, and resolutions:
//!
//!  1. line 8 on an ACK sets `first = true`, against the text: false;
//!  2. missed samples are counted only within the test for first and application-limited messages:
//!     every transmission is counted;
//!  3. line 27 is an interval: it is added to the present time;
//!  4. an early return arms no timer: [`Admission`] distinguishes time and event;
//!  5. without initial estimates, `0 >= 0` blocks the first message: no estimate, no bound;
//!  6. a retransmission counts its own bytes in flight and never leaves, and its size is added
//!     twice: retransmissions are paced but not bounded, and bytes count until an exchange ends;
//!  7. RTprop is updated from the last transmission even after retransmissions, far too short: only
//!     exchanges without retransmissions count;
//!  8. no throughput recorded in the window: the estimate stays;
//!  9. the gain cycle starts at 1, so the first message has gain 1;
//! 10. with one exchange at a time, pacing limits the throughput from which it follows; with α at
//!     0.2 by loss, the rate falls towards zero: [`Bdp::segment_floor`], absent in
//!     [`Bdp::literal`];
//! 11. the timeout never backs off, against RFC 8085: [`Bdp::binary_backoff`];
//! 12. the first message "after short-term connection starvations" gives no bandwidth sample, but
//!     starvation is not detected: the message after a failed exchange is taken
//!     ([`Bdp::first_after_give_up`]);
//! 13. an estimate combines two throughputs, scaled by gains, so the first samples persist; lines 2
//!     and 3 cannot send before an estimate: [`Bdp::initial_rate`], an assumption.

mod peer;
mod window;

use core::time::Duration;

use crate::backoff::Timer;
use crate::cocoa::{self, Cocoa};
use crate::control::{
    AbandonReason, Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission,
};
use crate::features::Features;
use crate::non::{PROBING_RATE, paced_by_rto};
use crate::path_history::PathHistory;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{BytesPerSecond, Factor, Micros, Stamp};
pub use peer::{BdpFlight, BdpPeer, BdpState};
use peer::{CYCLE, Samples};
use window::Window;

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
    /// The source of timeouts.
    pub cocoa: Cocoa,
    /// Minimum bandwidth: a message per two SRTT (resolution 10).
    pub segment_floor: bool,
    /// Minimum bandwidth in bytes per second; zero counts as 1.
    pub min_rate: u32,
    /// Doubles the timeout with each retransmission (resolution 11).
    pub binary_backoff: bool,
    /// A failed exchange's successor gives no bandwidth sample (resolution 12).
    pub first_after_give_up: bool,
    /// Peers start from a bandwidth of a message per initial RTO when the first leaves, not
    /// unbounded (resolution 13).
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

    #[allow(clippy::useless_conversion, reason = "without a heap, `Apart` is the type itself")]
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

#[cfg(test)]
mod tests;
