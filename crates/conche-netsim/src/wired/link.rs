//! A unidirectional link.

use std::sync::Arc;
use std::time::Duration;

use super::aqm::Aqm;
use super::buffer::Buffer;
use super::delay::{DelayState, Distribution, Jitter};
use super::link_trace::LinkTrace;
use super::loss::{Loss, LossState};
use super::queue::{Backlog, DropTail};
use super::rate_trace::{RateTrace, Rates};
use super::service::{Service, Stalls};
use super::topology::{TopologyError, check_wire};
use super::wakes::{Wakes, Windows};
use crate::ids::Hop;
use crate::rng::{Entity, Purpose, Stream, Streams};
use crate::{BitRate, Instant, LinkId, NodeId};

/// The behaviour of a link.
///
/// By default, packets arrive at once, without an event.
///
/// ```toml
/// rate = "30kbit/s"
/// delay = "200ms"
/// jitter = { uniform = ["10ms", "20ms"], order = "free" }
/// queue = "2500B"
/// loss = "1%"
/// stalls = { probability = "0.2%", mean = "1300ms" }
/// header_bytes = 28
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// Serialisation rate. `None`: no serialisation time or waiting. A trace replaces it
    /// ([`Topology::trace`](super::Topology::trace), [`Topology::rates`](super::Topology::rates)).
    pub rate: Option<BitRate>,
    /// Variation of serialisation times.
    pub service: Service,
    /// Random stalls, which need a rate.
    pub stalls: Stalls,
    /// Constant propagation delay.
    pub delay: Duration,
    /// Additional delay per frame.
    pub jitter: Jitter,
    /// The queue before the link.
    pub queue: DropTail,
    /// Active queue management. Default: none.
    pub aqm: Option<Aqm>,
    /// Windows in which transmissions begin. Default: at any time.
    pub wakes: Option<Wakes>,
    /// Maximum share of the time in transmission, above 0; below 1, the link needs a rate. After a
    /// frame of duration t, the sender is silent for t/`duty_cycle` − t, as LoRaWAN 1.0.2 §7 has it
    /// for the limits of ETSI EN 300 220. Default: 1.
    pub duty_cycle: f64,
    /// Loss on the wire, after the queue.
    pub loss: Loss,
    /// Probability of a frame entering the queue twice.
    pub duplicate: f64,
    /// Bytes beyond the UDP payload, for the rate and byte-limited queues. Default: 28, IPv4 and
    /// UDP.
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
            aqm: None,
            wakes: None,
            duty_cycle: 1.0,
            loss: Loss::None,
            duplicate: 0.0,
            header_bytes: 28,
        }
    }
}

impl LinkConfig {
    /// Checks its values.
    ///
    /// # Errors
    /// The value that is out of range, with the `link`'s name.
    pub fn check(&self, link: &str) -> Result<(), TopologyError> {
        check_wire(link, self)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) to: NodeId,
    pub(super) up: bool,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// No effect.
    Transparent,
    /// A wire that knows each departure on arrival. Boxed: most links are none.
    Wire(Box<Wire>),
    /// A wire with an event per departure.
    Buffer(Box<Buffer>),
    /// A radio hop.
    Hop(Hop),
}

#[derive(Clone, Debug, Default)]
pub(super) struct LinkFeatures {
    pub(super) changing: bool,
    pub(super) trace: Option<LinkTrace>,
    /// Rates, and their point at the start of the run.
    pub(super) rates: Option<(RateTrace, Option<Duration>)>,
    /// Its frames wake receivers.
    pub(super) wakes_others: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Wire {
    line: Line,
    backlog: Backlog,
}

/// The links of a group share their configuration, which then stays in the cache.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) config: Arc<LinkConfig>,
    loss: LossState,
    delay: DelayState,
    duplication: Stream,
    fading: Stream,
    stalling: Stream,
    rates: Option<Box<Rates>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FrameOutcome {
    Refused,
    Lost(Instant),
    Arrives(Instant),
}

impl Link {
    pub(super) fn new(
        id: LinkId,
        to: NodeId,
        config: Arc<LinkConfig>,
        equipment: LinkFeatures,
        streams: &Streams,
    ) -> Self {
        let transparent = config.rate.is_none()
            && config.delay.is_zero()
            && config.jitter.distribution == Distribution::Zero
            && config.loss == Loss::None
            && config.duplicate <= 0.0
            && !equipment.wakes_others;
        let LinkFeatures { changing, trace, rates, wakes_others: _ } = equipment;
        let is_awake = config.wakes.is_none() && config.duty_cycle >= 1.0;
        let is_buffer = changing || trace.is_some() || rates.is_some() || config.aqm.is_some() || !is_awake;
        let queue = config.queue;
        let line = || Line::new(id, config, rates, streams);
        let kind = if is_buffer {
            let stream = |purpose| streams.stream(Entity::Link(id), Purpose::named(purpose));
            let windows = Windows::new(stream("wakes"));
            Kind::Buffer(Box::new(Buffer::new(line(), trace, windows, stream("aqm"))))
        } else if transparent {
            Kind::Transparent
        } else {
            Kind::Wire(Box::new(Wire { line: line(), backlog: Backlog::new(queue) }))
        };
        Self { to, up: true, kind }
    }

    pub(super) const fn hop(to: NodeId, hop: Hop) -> Self {
        Self { to, up: true, kind: Kind::Hop(hop) }
    }
}

impl Wire {
    pub(super) fn line(&mut self) -> &mut Line {
        &mut self.line
    }

    /// Returns `None` if the queue is full.
    pub(super) fn accept(&mut self, now: Instant, payload_bytes: u32) -> Option<Instant> {
        match self.line.config.rate {
            None => Some(now),
            Some(rate) => {
                let bytes = self.line.frame_bytes(payload_bytes);
                let nanos = self.line.service_nanos(rate, bytes);
                self.backlog.accept(now, bytes, nanos)
            }
        }
    }
}

impl Wire {
    pub(super) fn waiting(&self, now: Instant) -> Option<(u64, u64)> {
        self.line.config.rate.map(|_| self.backlog.waiting(now))
    }
}

impl Line {
    fn new(
        id: LinkId,
        config: Arc<LinkConfig>,
        rates: Option<(RateTrace, Option<Duration>)>,
        streams: &Streams,
    ) -> Self {
        let stream = |purpose| streams.stream(Entity::Link(id), Purpose::named(purpose));
        Self {
            config,
            loss: LossState::new(stream("loss"), stream("sojourns")),
            delay: DelayState::new(stream("jitter")),
            duplication: stream("duplication"),
            fading: stream("service"),
            stalling: stream("stalls"),
            rates: rates.map(|(trace, start)| Box::new(Rates::new(trace, start, stream("rates")))),
        }
    }

    pub(super) fn change(&mut self, config: LinkConfig) {
        self.config = Arc::new(config);
    }

    pub(super) fn duplicates_next(&mut self) -> bool {
        self.config.duplicate > 0.0 && self.duplication.chance(self.config.duplicate)
    }

    pub(super) fn frame_bytes(&self, payload_bytes: u32) -> u32 {
        payload_bytes.saturating_add(self.config.header_bytes)
    }

    pub(super) fn service_nanos(&mut self, rate: BitRate, bytes: u32) -> u64 {
        let service_nanos = self.config.service.nanos(rate.serialisation_nanos(bytes), &mut self.fading);
        service_nanos.saturating_add(self.config.stalls.nanos(&mut self.stalling))
    }

    /// Returns the time of a frame that begins `now`; `None` without a rate.
    pub(super) fn service_nanos_at(&mut self, now: Instant, bytes: u32) -> Option<u64> {
        let Some(rates) = &self.rates else { return self.config.rate.map(|rate| self.service_nanos(rate, bytes)) };
        let at_one = BitRate::bit(1).serialisation_nanos(bytes);
        let service_nanos = rates.nanos(now, self.config.service.nanos(at_one, &mut self.fading));
        Some(service_nanos.saturating_add(self.config.stalls.nanos(&mut self.stalling)))
    }

    /// Returns the rate without a duty cycle; the mean one of a trace.
    pub(super) fn mean_rate(&self) -> Option<BitRate> {
        self.rates.as_ref().map(|rates| rates.mean_rate()).or(self.config.rate)
    }

    pub(super) fn leave(&mut self, departure: Instant) -> FrameOutcome {
        if self.loss.next_is_lost(&self.config.loss, departure) {
            FrameOutcome::Lost(departure)
        } else {
            FrameOutcome::Arrives(self.delay.arrival(departure, self.config.delay, &self.config.jitter))
        }
    }
}
