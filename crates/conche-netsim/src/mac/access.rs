//! Channel access algorithms.

use std::time::Duration;

use super::contiki::{Contiki27, Contiki30, Contiki31, Contiki31Access, TimeBaseAccess};
use super::ieee802154::{Ieee802154, Ieee802154Access};
use super::tinyos::{BinaryExponential, BinaryExponentialAccess, TinyOs, TinyOsAccess};
use crate::rng::Stream;

/// The outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Acknowledged, or sent without acknowledgment.
    Sent,
    /// The channel was busy; nothing was sent.
    Busy,
    /// Sent, but not acknowledged.
    NoAck,
}

/// The outcome of [`Port::transmit`](crate::host::Port::transmit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransmitOutcome {
    /// Acknowledged, or sent without acknowledgment.
    Sent,
    /// Given up because the channel was busy.
    Busy,
    /// Given up without acknowledgment; the frame may have been received.
    NoAck,
    /// No room in the queue, or for another neighbour's queue.
    QueueFull,
    /// Too long for a frame.
    TooLong,
    /// The sender or receiver has no station in this network.
    NoStation,
}

impl From<Outcome> for TransmitOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Sent => Self::Sent,
            Outcome::Busy => Self::Busy,
            Outcome::NoAck => Self::NoAck,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Another attempt after this time.
    Wait(Duration),
    GiveUp,
}

/// The channel access state of one frame.
pub(crate) trait Access {
    fn first(&mut self, stream: &mut Stream) -> Duration;

    fn busy(&mut self, stream: &mut Stream) -> Decision;

    fn no_ack(&mut self, stream: &mut Stream) -> Decision;
}

/// A channel access algorithm with its parameters.
///
/// ```toml
/// access = "ieee802154"
/// access = { contiki30 = { max_doublings = 2 } }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AccessConfig {
    /// Unslotted CSMA-CA of IEEE 802.15.4.
    Ieee802154(Ieee802154),
    /// Contiki 2.7's CSMA.
    Contiki27(Contiki27),
    /// Contiki 3.0's CSMA.
    Contiki30(Contiki30),
    /// Contiki 3.1's CSMA.
    Contiki31(Contiki31),
    /// TinyOS's CC2420 stack.
    TinyOs(TinyOs),
    /// Binary exponential backoff.
    BinaryExponential(BinaryExponential),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum AnyAccess {
    Ieee802154(Ieee802154Access),
    TimeBase(TimeBaseAccess),
    Contiki31(Contiki31Access),
    TinyOs(TinyOsAccess),
    BinaryExponential(BinaryExponentialAccess),
}

macro_rules! with_access {
    ($access:ident, |$inner:ident| $call:expr) => {
        match $access {
            AnyAccess::Ieee802154($inner) => $call,
            AnyAccess::TimeBase($inner) => $call,
            AnyAccess::Contiki31($inner) => $call,
            AnyAccess::TinyOs($inner) => $call,
            AnyAccess::BinaryExponential($inner) => $call,
        }
    };
}

impl Access for AnyAccess {
    fn first(&mut self, stream: &mut Stream) -> Duration {
        with_access!(self, |access| access.first(stream))
    }

    fn busy(&mut self, stream: &mut Stream) -> Decision {
        with_access!(self, |access| access.busy(stream))
    }

    fn no_ack(&mut self, stream: &mut Stream) -> Decision {
        with_access!(self, |access| access.no_ack(stream))
    }
}

impl AnyAccess {
    /// Returns the extra wait of a frame behind one with this outcome (Contiki's `free_packet`).
    pub(super) fn pause_after(&self, outcome: Outcome) -> Duration {
        match self {
            Self::TimeBase(access) => access.pause_after(outcome),
            _ => Duration::ZERO,
        }
    }
}

impl AccessConfig {
    pub(crate) fn build(self) -> AnyAccess {
        match self {
            Self::Ieee802154(config) => AnyAccess::Ieee802154(Ieee802154Access::new(config)),
            Self::Contiki27(config) => AnyAccess::TimeBase(config.into()),
            Self::Contiki30(config) => AnyAccess::TimeBase(config.into()),
            Self::Contiki31(config) => AnyAccess::Contiki31(Contiki31Access::new(config)),
            Self::TinyOs(config) => AnyAccess::TinyOs(TinyOsAccess::new(config)),
            Self::BinaryExponential(config) => AnyAccess::BinaryExponential(BinaryExponentialAccess::new(config)),
        }
    }
}

pub(crate) fn draw(stream: &mut Stream, bound: u64, unit: Duration) -> Duration {
    Duration::from_nanos(stream.below(bound) * crate::units::nanos(unit))
}

#[cfg(test)]
pub(crate) mod testing {
    use std::time::Duration;

    use super::{Access, Decision};
    use crate::rng::{Entity, Purpose, Stream, Streams};

    pub(crate) fn stream() -> Stream {
        Streams::new(2).stream(Entity::Run, Purpose::named("mac"))
    }

    pub(crate) fn spread(mut draw: impl FnMut() -> Duration) -> (Duration, Duration, Duration) {
        let draws: Vec<Duration> = (0..100_000).map(|_| draw()).collect();
        let mean = draws.iter().sum::<Duration>() / 100_000;
        (draws.iter().copied().min().unwrap_or_default(), mean, draws.iter().copied().max().unwrap_or_default())
    }

    pub(crate) fn attempts<A: Access>(access: &mut A, fail: impl Fn(&mut A, &mut Stream) -> Decision) -> u32 {
        let mut stream = stream();
        access.first(&mut stream);
        (1..1000).find(|_| fail(access, &mut stream) == Decision::GiveUp).unwrap_or(1000)
    }
}
