//! BDP-CoAP's state and estimates.

use core::time::Duration;

use super::window::Window;
use crate::backoff::Timer;
use crate::cocoa::draft03::CocoaPeer;
use crate::time::Instant;
use crate::units::{BytesPerSecond, Factor, Micros, Stamp};

/// With a heap apart, so that [`BdpPeer`] does not enlarge [`AnyPeer`](crate::any::AnyPeer).
#[cfg(feature = "alloc")]
pub(super) type Apart<T> = alloc::boxed::Box<T>;
#[cfg(not(feature = "alloc"))]
pub(super) type Apart<T> = T;

/// Per-peer state of BDP-CoAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BdpPeer {
    pub(super) samples: Apart<Samples>,
    pub(super) next_send: Instant,
    /// BtlBw; zero until the first estimate.
    pub(super) bandwidth: BytesPerSecond,
    /// RTprop; zero until the first sample.
    pub(super) rtprop: Micros,
    pub(super) rtprop_at: Stamp,
    /// Of the last acknowledged message.
    pub(super) throughput: BytesPerSecond,
    /// Acknowledged bytes that end the application limit.
    pub(super) app_limited_until: u32,
    pub(super) cycle: u8,
    /// No bandwidth sample: the path was empty and nothing queued.
    pub(super) is_first: bool,
    pub(super) has_sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Samples {
    pub(super) cocoa: CocoaPeer,
    pub(super) window: Window,
    pub(super) delivered_at: Instant,
    /// Bytes acknowledged, wrapping.
    pub(super) delivered: u32,
}

pub(super) const CYCLE: u8 = 10;

impl BdpPeer {
    /// Bytes of state without the heap pointer.
    pub(super) const BYTES: usize = size_of::<Self>() - size_of::<Apart<Samples>>() + size_of::<Samples>();

    /// One message in ten probes, the next drains the queue.
    fn pacing_gain(&self) -> Factor {
        match self.cycle {
            0 => Factor::from_permille(1_200),
            1 => Factor::from_permille(800),
            _ => Factor::ONE,
        }
    }

    pub(super) fn bdp(&self) -> Option<u32> {
        let known = self.bandwidth != BytesPerSecond::ZERO && self.rtprop != Micros::ZERO;
        known.then(|| self.bandwidth.bytes_in(self.rtprop))
    }

    pub(super) fn pace(&mut self, now: Instant, bytes: u32) {
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
    pub(super) delivered_at: Instant,
    pub(super) delivered: u32,
    pub(super) bytes: u32,
    pub(super) timer: Timer,
    pub(super) slot: u16,
    pub(super) app_limited: bool,
    pub(super) first: bool,
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
