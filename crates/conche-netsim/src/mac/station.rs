//! A node's interface to a radio network.

use super::config::MacConfig;
use super::control::ControlSource;
use super::queue::{Enqueued, Frame, QueueIndex, Queues};
use super::rdc::{DutyCycle, Rdc};
use crate::radio::Station;
use crate::rng::Stream;
use crate::{Instant, NodeId};

#[derive(Debug)]
pub(crate) struct Interface {
    pub(super) node: NodeId,
    pub(super) queues: Queues,
    pub(super) step: Step,
    pub(super) attempting: QueueIndex,
    /// Identifies stale timeouts.
    pub(super) wait: u16,
    pub(super) reply: Reply,
    /// Earliest time of a new frame (interframe spacing).
    pub(super) rest_until: Instant,
    pub(super) stream: Stream,
    pub(super) control: Option<Box<ControlSource>>,
    duty: Option<Box<DutyCycle>>,
    /// macDSN of the next frame.
    dsn: u8,
    /// Sorted.
    last_dsn: Vec<(Station, u8)>,
}

impl Interface {
    pub(crate) fn new(node: NodeId, config: &MacConfig, stream: impl Fn(&str) -> Stream) -> Self {
        let mut access = stream("channel access");
        // macDSN starts at a random value (Table 86).
        let dsn = u8::try_from(access.below(256)).unwrap_or(0);
        let duty = match config.rdc {
            Rdc::AlwaysOn => None,
            Rdc::ContikiMac(config) => Some(Box::new(DutyCycle::new(&config, &mut stream("duty cycle")))),
        };
        let control = config.control.map(|config| Box::new(ControlSource::new(&config, stream("control"))));
        Self {
            node,
            queues: Queues::new(config.queue, config.access),
            step: Step::Idle,
            attempting: 0,
            wait: 0,
            reply: Reply::None,
            rest_until: Instant::ZERO,
            stream: access,
            control,
            duty,
            dsn,
            last_dsn: Vec::new(),
        }
    }

    pub(super) fn enqueue(&mut self, frame: Frame) -> Enqueued {
        let queued = self.queues.push(Frame { dsn: self.dsn, ..frame });
        if queued != Enqueued::Full {
            self.dsn = self.dsn.wrapping_add(1);
        }
        queued
    }

    pub(super) fn frame(&mut self) -> &mut Frame {
        self.queues.head(self.attempting)
    }

    pub(super) fn accepts(&mut self, from: Station, dsn: u8) -> bool {
        match self.last_dsn.binary_search_by_key(&from, |(station, _)| *station) {
            Ok(place) => std::mem::replace(&mut self.last_dsn[place].1, dsn) != dsn,
            Err(place) => {
                self.last_dsn.insert(place, (from, dsn));
                true
            }
        }
    }

    pub(super) fn awaits_ack(&self) -> bool {
        matches!(self.step, Step::AwaitingAck | Step::ReadingAck)
    }

    pub(super) fn duty(&mut self) -> &mut DutyCycle {
        self.duty.as_mut().expect("a station of a duty-cycled network has one")
    }

    pub(super) fn expects(&mut self, dsn: u8) -> Option<bool> {
        self.awaits_ack().then(|| self.frame().dsn == dsn)
    }
}

/// The steps of an attempt.
///
/// ```text
///   sender    │ CCA │ prepare │ turnaround ░░│ frame ▓▓▓▓▓▓▓▓│ wait for the ACK ....      │ spacing │
///   receiver  │                              │ ............. │ turnaround ░░│ ACK ▓▓▓│
/// ```
///
/// A station does not receive while it switches or transmits. While it owes an acknowledgment, its
/// attempts find the channel busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    #[default]
    Idle,
    Assessing,
    Preparing,
    Switching,
    Transmitting,
    AwaitingAck,
    /// Duty cycling: a signal follows the frame and is being read.
    ReadingAck,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reply {
    #[default]
    None,
    Ack {
        /// Sequence number of the acknowledged frame.
        dsn: u8,
    },
}
