//! Channel access: the decisions that all MACs make, and the choice of one.

use std::time::Duration;

use super::contiki::{Contiki27, Contiki30, Contiki31, Contiki31Access, TimeBaseAccess};
use super::ieee802154::{Ieee802154, Ieee802154Access};
use super::tinyos::{BinaryExponential, BinaryExponentialAccess, TinyOs, TinyOsAccess};
use crate::rng::Stream;

/// How one attempt to send a frame ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was acknowledged, or is sent and needs no acknowledgment.
    Sent,
    /// The channel was busy; nothing was sent.
    Busy,
    /// It was sent and no acknowledgment came.
    NoAck,
}

/// How a frame ended that a host handed over with [`Port::transmit`](crate::host::Port::transmit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transmitted {
    /// It was acknowledged, or is sent and needs no acknowledgment.
    Sent,
    /// It was given up because the channel was busy.
    Busy,
    /// It was given up because no acknowledgment came. It may have been received all the same.
    NoAck,
    /// There was no room in the queue, or no queue for a further neighbour.
    QueueFull,
    /// It does not fit into a frame.
    TooLong,
    /// The host's node, or the one that the frame is for, has no station in this radio network.
    NoStation,
}

impl From<Outcome> for Transmitted {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Sent => Self::Sent,
            Outcome::Busy => Self::Busy,
            Outcome::NoAck => Self::NoAck,
        }
    }
}

/// What follows an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Another attempt, after this time.
    Wait(Duration),
    /// No further attempt.
    GiveUp,
}

/// When to attempt, and when to give up: the state of one frame at the head of its queue.
pub(crate) trait Access {
    /// A new frame is at the head: how long to wait before its first attempt.
    fn first(&mut self, stream: &mut Stream) -> Duration;

    /// The channel was busy.
    fn busy(&mut self, stream: &mut Stream) -> Decision;

    /// No acknowledgment came.
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
    /// Unslotted CSMA-CA of the standard.
    Ieee802154(Ieee802154),
    /// Contiki 2.7's CSMA.
    Contiki27(Contiki27),
    /// Contiki 3.0's CSMA.
    Contiki30(Contiki30),
    /// Contiki 3.1's CSMA.
    Contiki31(Contiki31),
    /// TinyOS's CC2420 stack.
    TinyOs(TinyOs),
    /// Binary exponential backoff in TinyOS's place.
    BinaryExponential(BinaryExponential),
}

/// The state of one of all, chosen at run time.
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
    /// How long the next frame waits beside its own backoff because it waited behind another one, which ended so: Contiki
    /// 2.7 and 3.0 set their timer to a time base (`free_packet`).
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

/// A number of whole units below `bound`, as a time.
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

    /// The shortest, the mean and the longest of many draws.
    pub(crate) fn spread(mut draw: impl FnMut() -> Duration) -> (Duration, Duration, Duration) {
        let draws: Vec<Duration> = (0..100_000).map(|_| draw()).collect();
        let mean = draws.iter().sum::<Duration>() / 100_000;
        (draws.iter().copied().min().unwrap_or_default(), mean, draws.iter().copied().max().unwrap_or_default())
    }

    /// How many attempts fail in this way before a frame is given up, at most 1000.
    pub(crate) fn attempts<A: Access>(access: &mut A, fail: impl Fn(&mut A, &mut Stream) -> Decision) -> u32 {
        let mut stream = stream();
        access.first(&mut stream);
        (1..1000).find(|_| fail(access, &mut stream) == Decision::GiveUp).unwrap_or(1000)
    }
}
