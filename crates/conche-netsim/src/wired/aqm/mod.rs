//! Active queue management: frames are dropped before the queue is full, so that it stays short.
//!
//! | file | what it holds | where it drops |
//! |---|---|---|
//! | `red` | Random Early Detection, gentle | at arrival, by the mean length |
//! | `codel` | Controlled Delay | at departure, by how long the frame has waited |
//! | `pie` | Proportional Integral Controller Enhanced | at arrival, by a probability that follows the delay |
//!
//! None of them marks: CoAP's datagrams are dropped.

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

/// Which frames are dropped although they fit into the queue.
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

/// What a frame finds when it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Frames that wait, the one in transmission not counted.
    pub(super) frames: usize,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Nothing waits and nothing is transmitted.
    pub(super) idle: bool,
}

/// The state of one of all, or of none.
#[derive(Clone, Debug)]
pub(super) enum AnyAqm {
    None,
    Red(RedState),
    CoDel(CoDelState),
    Pie(PieState),
}

impl AnyAqm {
    /// For a link of this rate (as far as it has one) that draws from `stream`.
    pub(super) fn new(config: Option<Aqm>, rate: Option<BitRate>, stream: Stream) -> Self {
        match config {
            None => Self::None,
            Some(Aqm::Red(config)) => Self::Red(RedState::new(config, rate, stream)),
            Some(Aqm::CoDel(config)) => Self::CoDel(CoDelState::new(config)),
            Some(Aqm::Pie(config)) => Self::Pie(PieState::new(config, stream)),
        }
    }

    /// Whether a frame that fits may enter.
    pub(super) fn admits(&mut self, now: Instant, found: Found) -> bool {
        match self {
            Self::None | Self::CoDel(_) => true,
            Self::Red(red) => red.admits(now, found),
            Self::Pie(pie) => pie.admits(now, found),
        }
    }

    /// A frame was dropped because it did not fit.
    pub(super) fn overflowed(&mut self) {
        if let Self::Pie(pie) = self {
            pie.overflowed();
        }
    }

    /// Takes the frame that is transmitted next; `drop` takes those before it that are not.
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

    /// The link has nothing more to do.
    pub(super) fn idle(&mut self, now: Instant) {
        match self {
            Self::None | Self::CoDel(_) => {}
            Self::Red(red) => red.idle(now),
            Self::Pie(pie) => pie.dequeued(now, std::time::Duration::ZERO),
        }
    }
}
