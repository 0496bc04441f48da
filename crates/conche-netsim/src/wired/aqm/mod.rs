//! Active queue management: drops frames early to keep the queue short.
//!
//! | file | algorithm | drops |
//! |---|---|---|
//! | `red` | Random Early Detection, gentle | at arrival, by the mean length |
//! | `codel` | Controlled Delay | at departure, by the frame's waiting time |
//! | `pie` | Proportional Integral Controller Enhanced | at arrival, controlled by the delay |
//!
//! None of them marks frames (ECN).

mod codel;
mod pie;
mod red;

pub use codel::CoDel;
pub use pie::Pie;
pub use red::Red;

use self::codel::CoDelState;
use self::pie::PieState;
use self::red::RedState;
use super::buffer::{Fifo, Frame};
use crate::rng::Stream;
use crate::{BitRate, Instant};

/// An active queue management algorithm.
///
/// ```toml
/// aqm = "codel"
/// aqm = { pie = { target = "20ms" } }
/// aqm = { red = { min_packets = 5, max_packets = 15 } }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aqm {
    /// Random Early Detection.
    Red(Red),
    /// Controlled Delay.
    CoDel(CoDel),
    /// Proportional Integral Controller Enhanced.
    Pie(Pie),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct QueueState {
    pub(super) frames: usize,
    pub(super) bytes: u64,
    pub(super) idle: bool,
}

#[derive(Clone, Debug)]
pub(super) enum AnyAqm {
    None,
    Red(RedState),
    CoDel(CoDelState),
    Pie(PieState),
}

impl AnyAqm {
    pub(super) fn new(config: Option<Aqm>, rate: Option<BitRate>, stream: Stream) -> Self {
        match config {
            None => Self::None,
            Some(Aqm::Red(config)) => Self::Red(RedState::new(config, rate, stream)),
            Some(Aqm::CoDel(config)) => Self::CoDel(CoDelState::new(config)),
            Some(Aqm::Pie(config)) => Self::Pie(PieState::new(config, stream)),
        }
    }

    pub(super) fn admits(&mut self, now: Instant, found: QueueState) -> bool {
        match self {
            Self::None | Self::CoDel(_) => true,
            Self::Red(red) => red.admits(now, found),
            Self::Pie(pie) => pie.admits(now, found),
        }
    }

    pub(super) fn overflowed(&mut self) {
        if let Self::Pie(pie) = self {
            pie.overflowed();
        }
    }

    pub(super) fn next(&mut self, now: Instant, waiting: &mut Fifo, drop: impl FnMut(Frame)) -> Option<Frame> {
        match self {
            Self::None | Self::Red(_) => waiting.pop(),
            Self::CoDel(codel) => codel.next(now, waiting, drop),
            Self::Pie(pie) => {
                let frame = waiting.pop();
                if let Some(frame) = &frame {
                    pie.dequeued(now, now - frame.since);
                }
                frame
            }
        }
    }

    pub(super) fn idle(&mut self, now: Instant) {
        match self {
            Self::None | Self::CoDel(_) => {}
            Self::Red(red) => red.idle(now),
            Self::Pie(pie) => pie.dequeued(now, std::time::Duration::ZERO),
        }
    }
}
