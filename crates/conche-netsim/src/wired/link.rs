//! A unidirectional link: what happens to a frame that is offered to it.

use std::time::Duration;

use super::delay::{DelayLine, Distribution, Jitter};
use super::loss::{Loss, LossProcess};
use super::queue::{Backlog, DropTail};
use super::service::{Service, Stalls};
use crate::mac::Hop;
use crate::rng::{Entity, Purpose, Stream, Streams};
use crate::{BitRate, Instant, LinkId, NodeId};

/// How a link behaves. The default is a link without rate, delay, loss or limit: what is sent over it is there at once,
/// and costs no event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// How fast frames are serialised; `None`: in no time, so that nothing ever waits.
    pub rate: Option<BitRate>,
    /// How the time that a frame takes at this rate differs from frame to frame.
    pub service: Service,
    /// Frames that hold the link up. Without a rate none does.
    pub stalls: Stalls,
    /// Propagation delay, the same for each frame.
    pub delay: Duration,
    /// Further delay that is drawn for each frame.
    pub jitter: Jitter,
    /// What waits for the link.
    pub queue: DropTail,
    /// Loss on the wire, after the queue.
    pub loss: Loss,
    /// Probability that a frame enters the queue twice.
    pub duplicate: f64,
    /// Bytes of a frame beyond the UDP payload, for the rate and for queues in bytes. Default: 28, IPv4 and UDP.
    pub header_bytes: u32,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: None,
            service: Service::Exact,
            stalls: Stalls::default(),
            delay: Duration::ZERO,
            jitter: Jitter::default(),
            queue: DropTail::default(),
            loss: Loss::None,
            duplicate: 0.0,
            header_bytes: 28,
        }
    }
}

/// A link at work.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) to: NodeId,
    pub(super) kind: Kind,
}

/// What a link is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// It does nothing at all to a frame.
    Transparent,
    /// A wire with its queue. Elsewhere, so that a million links that have none take little memory.
    Wire(Box<Wire>),
    /// A hop of a radio network, which is told to carry the frame.
    Hop(Hop),
}

/// A wire at work.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    config: LinkConfig,
    backlog: Backlog,
    loss: LossProcess,
    delay: DelayLine,
    duplication: Stream,
    fading: Stream,
    stalling: Stream,
}

/// What becomes of a frame.
pub(super) enum Fate {
    /// The queue is full.
    Refused,
    /// It leaves the queue, but is lost on the wire at this time.
    Lost(Instant),
    /// It arrives at this time.
    Arrives(Instant),
}

impl Link {
    pub(super) fn new(id: LinkId, to: NodeId, config: LinkConfig, streams: &Streams) -> Self {
        let transparent = config.rate.is_none()
            && config.delay.is_zero()
            && config.jitter.distribution == Distribution::Zero
            && config.loss == Loss::None
            && config.duplicate <= 0.0;
        let kind = if transparent { Kind::Transparent } else { Kind::Wire(Box::new(Wire::new(id, config, streams))) };
        Self { to, kind }
    }

    /// A hop of a radio network.
    pub(super) const fn hop(to: NodeId, hop: Hop) -> Self {
        Self { to, kind: Kind::Hop(hop) }
    }
}

impl Wire {
    fn new(id: LinkId, config: LinkConfig, streams: &Streams) -> Self {
        let stream = |purpose| streams.stream(Entity::Link(id), Purpose::named(purpose));
        Self {
            config,
            backlog: Backlog::new(config.queue),
            loss: LossProcess::new(config.loss, stream("loss")),
            delay: DelayLine::new(config.delay, config.jitter, stream("jitter")),
            duplication: stream("duplication"),
            fading: stream("service"),
            stalling: stream("stalls"),
        }
    }

    /// Whether the next frame enters the queue twice.
    pub(super) fn duplicates_next(&mut self) -> bool {
        self.config.duplicate > 0.0 && self.duplication.chance(self.config.duplicate)
    }

    /// Takes a frame with this many bytes of UDP payload.
    pub(super) fn offer(&mut self, now: Instant, payload_bytes: u32) -> Fate {
        let departure = match self.config.rate {
            None => Some(now),
            Some(rate) => {
                let bytes = payload_bytes.saturating_add(self.config.header_bytes);
                let service_nanos = self.config.service.nanos(rate.serialisation_nanos(bytes), &mut self.fading);
                let stall_nanos = self.config.stalls.nanos(&mut self.stalling);
                self.backlog.accept(now, bytes, service_nanos.saturating_add(stall_nanos))
            }
        };
        match departure {
            None => Fate::Refused,
            Some(departure) if self.loss.next_is_lost() => Fate::Lost(departure),
            Some(departure) => Fate::Arrives(self.delay.arrival(departure)),
        }
    }
}
