//! What BDP-CoAP remembers of a peer and of an exchange, and what can be shown of it.

use core::time::Duration;

use super::window::Window;
use crate::backoff::Timer;
use crate::cocoa::draft03::CocoaPeer;
use crate::time::Instant;
use crate::units::{BytesPerSecond, Factor, Micros, Stamp};

/// Where [`Samples`] lie: behind a pointer, where there is a heap, so that what is left fits among the states of the other
/// algorithms in [`AnyPeer`](crate::any::AnyPeer).
#[cfg(feature = "alloc")]
pub(super) type Apart<T> = alloc::boxed::Box<T>;
/// Without a heap they lie beside the rest.
#[cfg(not(feature = "alloc"))]
pub(super) type Apart<T> = T;

/// What BDP-CoAP remembers of a peer: what decides when the next message may leave, and what that is computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BdpPeer {
    pub(super) samples: Apart<Samples>,
    pub(super) next_send: Instant,
    /// BtlBw; zero until the first estimate.
    pub(super) bandwidth: BytesPerSecond,
    /// The least round-trip time; zero until the first sample.
    pub(super) rtprop: Micros,
    /// When that was measured.
    pub(super) rtprop_at: Stamp,
    /// The throughput of the last acknowledged message, recorded or not.
    pub(super) throughput: BytesPerSecond,
    /// Messages are application-limited until this many bytes have been acknowledged.
    pub(super) app_limited_until: u32,
    /// The position in the cycle of pacing gains.
    pub(super) cycle: u8,
    /// Nothing is on its way and nothing was waiting: the next message says nothing of the bandwidth.
    pub(super) is_first: bool,
    pub(super) has_sent: bool,
}

/// What the estimates are computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Samples {
    pub(super) cocoa: CocoaPeer,
    pub(super) window: Window,
    /// When `delivered` last grew.
    pub(super) delivered_at: Instant,
    /// Bytes acknowledged so far, wrapping.
    pub(super) delivered: u32,
}

/// The length of the cycle of pacing gains.
pub(super) const CYCLE: u8 = 10;

impl BdpPeer {
    /// Bytes of state, wherever they lie, and without the pointer to those that lie apart.
    pub(super) const BYTES: usize = size_of::<Self>() - size_of::<Apart<Samples>>() + size_of::<Samples>();

    /// One message in ten probes for more bandwidth, the next drains what that may have queued.
    fn pacing_gain(&self) -> Factor {
        match self.cycle {
            0 => Factor::from_permille(1_200),
            1 => Factor::from_permille(800),
            _ => Factor::ONE,
        }
    }

    /// BtlBw · RTprop in bytes, once both are known.
    pub(super) fn bdp(&self) -> Option<u32> {
        let known = self.bandwidth != BytesPerSecond::ZERO && self.rtprop != Micros::ZERO;
        known.then(|| self.bandwidth.bytes_in(self.rtprop))
    }

    pub(super) fn pace(&mut self, now: Instant, bytes: u32) {
        if self.bandwidth != BytesPerSecond::ZERO {
            self.next_send = now + self.bandwidth.scaled(self.pacing_gain()).time_for(bytes);
        }
    }

    /// What the algorithm has estimated so far.
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

/// The estimates of BDP-CoAP for a peer, in the paper's terms, for logs and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BdpState {
    /// The pacing gain of the last message.
    pub pacing_gain: Factor,
    /// The earliest departure of the next message, once there is a bandwidth to pace by.
    pub next_send: Option<Instant>,
    /// th: the throughput of the last acknowledged message, recorded or not.
    pub throughput: BytesPerSecond,
    /// f_r: the share of retransmissions among the last ten transmissions.
    pub retransmitted: Factor,
    /// α: the weight of the largest throughput against the smallest.
    pub alpha: Factor,
    /// BtlBw.
    pub bandwidth: Option<BytesPerSecond>,
    /// RTprop: the least round-trip time of the window.
    pub rtprop: Option<Duration>,
    /// The bandwidth-delay product, in bytes.
    pub bdp: Option<u32>,
}

/// What an exchange remembers: the counters when it began, of which its throughput is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BdpFlight {
    pub(super) delivered_at: Instant,
    pub(super) delivered: u32,
    pub(super) bytes: u32,
    pub(super) timer: Timer,
    pub(super) slot: u16,
    pub(super) app_limited: bool,
    pub(super) first: bool,
}

impl BdpFlight {
    /// The bytes that this exchange has on its way.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Its original transmission was the first after the path had been empty.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.first
    }
}
