//! A radio network: stations on a channel, driven by events.

use std::collections::VecDeque;
use std::time::Duration;

use super::access::{Access, Decision, Outcome, TransmitOutcome};
use super::config::{MacConfig, RadioConfig};
use super::fragments::Datagrams;
use super::queue::QueueIndex;
use super::rdc::Rdc;
use super::station::{Interface, Step};
use crate::event::{Event, EventContext, RadioEvent, RadioEventKind};
use crate::packet::PacketRef;
use crate::radio::phy::SHR_PHR_OCTETS;
use crate::radio::{Air, AnyMedium, LinkQuality, Position, RadioError, ReceptionLink, Station, StationMap};
use crate::rng::{Entity, Purpose, Streams};
use crate::{Instant, NodeId, PacketId};

#[derive(Debug)]
pub(crate) struct RadioNetwork {
    pub(super) number: u16,
    pub(super) mac: MacConfig,
    pub(super) air: Air,
    pub(super) stations: Vec<Interface>,
    pub(super) station_map: StationMap,
    /// Receivers of the frame that ends now; reuses the allocation.
    pub(super) receivers: Vec<ReceptionLink>,
    /// Hearers of the strobe train that begins.
    pub(super) hearers: Vec<Station>,
    pub(super) datagrams: Datagrams,
    pub(super) outcomes: VecDeque<(NodeId, PacketId, TransmitOutcome)>,
    pub(crate) counters: RadioCounters,
    pub(crate) dropped: u64,
    pub(crate) broadcast: u64,
    pub(crate) copies: u64,
}

/// Counters of a radio network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadioCounters {
    /// Frames transmitted, including retransmissions but not acknowledgments.
    pub frames: u64,
    /// Acknowledgments transmitted.
    pub acknowledgments: u64,
    /// Frames received by their destination, including duplicates.
    pub received: u64,
    /// Received duplicates of the previous frame.
    pub duplicates: u64,
    /// Attempts that found the channel busy.
    pub busy: u64,
    /// Attempts without acknowledgment.
    pub no_ack: u64,
    /// Frames sent and, if required, acknowledged.
    pub succeeded: u64,
    /// Frames given up because the channel was busy.
    pub channel_access_failures: u64,
    /// Frames given up because no acknowledgment arrived.
    pub unacknowledged: u64,
    /// Frames of [`ControlTraffic`](super::ControlTraffic), counted above.
    pub control: u64,
}

impl RadioNetwork {
    pub(crate) fn new(
        number: u16,
        mac: MacConfig,
        mut air: Air,
        stations: Vec<Interface>,
        station_map: StationMap,
    ) -> Self {
        if mac.rdc != Rdc::AlwaysOn {
            (0..).zip(&stations).for_each(|(station, _)| air.receiver_off_until(station, Instant::FAR_FUTURE));
        }
        Self {
            number,
            mac,
            air,
            stations,
            station_map,
            receivers: Vec::new(),
            hearers: Vec::new(),
            datagrams: Datagrams::default(),
            outcomes: VecDeque::new(),
            counters: RadioCounters::default(),
            dropped: 0,
            broadcast: 0,
            copies: 0,
        }
    }

    pub(crate) fn next_outcome(&mut self) -> Option<(NodeId, PacketId, TransmitOutcome)> {
        self.outcomes.pop_front()
    }

    /// Returns a packet that the event delivers to a node.
    pub(crate) fn handle_event(
        &mut self,
        around: &mut EventContext<'_>,
        event: RadioEvent,
    ) -> Option<(PacketRef, NodeId)> {
        let at = event.station;
        let station = &mut self.stations[usize::from(at)];
        match event.kind {
            RadioEventKind::Attempt(queue) if station.step == Step::Idle => self.begin(around, at, queue),
            RadioEventKind::Attempt(queue) => station.queues.get(queue).ready = true,
            RadioEventKind::Step => self.step(around, at),
            RadioEventKind::FrameEnd if station.step == Step::Transmitting => {
                return match self.mac.rdc {
                    Rdc::AlwaysOn => self.end_frame(around, at),
                    Rdc::ContikiMac(config) => self.end_strobe(around, at, &config),
                };
            }
            RadioEventKind::FrameEnd => self.end_ack(around, at),
            RadioEventKind::AckTimeout(wait) if station.step == Step::AwaitingAck && station.wait == wait => {
                self.end(around, at, Outcome::NoAck);
            }
            RadioEventKind::AckTimeout(_) => {}
            RadioEventKind::Ack => self.transmit_ack(around, at),
            RadioEventKind::Control => self.send_control(around, at),
            RadioEventKind::Check(_) | RadioEventKind::EndListening => self.follow_duty_cycle(around, at, event.kind),
        }
        None
    }

    /// `after` is the outcome of the frame before it, if it waited.
    pub(super) fn start(
        &mut self,
        around: &mut EventContext<'_>,
        at: Station,
        queue: QueueIndex,
        after: Option<Outcome>,
    ) {
        let station = &mut self.stations[usize::from(at)];
        let access = &mut station.queues.get(queue).access;
        let pause = after.map_or(Duration::ZERO, |outcome| access.pause_after(outcome));
        let wait = pause + access.first(&mut station.stream);
        let when = around.scheduler.now().max(station.rest_until) + self.mac.load + wait;
        self.schedule(around, when, at, RadioEventKind::Attempt(queue));
    }

    #[inline]
    fn begin(&mut self, around: &mut EventContext<'_>, at: Station, queue: QueueIndex) {
        self.stations[usize::from(at)].attempting = queue;
        match self.mac.rdc {
            Rdc::AlwaysOn => self.assess(around, at),
            Rdc::ContikiMac(config) => self.begin_train(around, at, &config),
        }
    }

    #[inline]
    fn step(&mut self, around: &mut EventContext<'_>, at: Station) {
        match self.mac.rdc {
            Rdc::AlwaysOn => self.step_always_on(around, at),
            Rdc::ContikiMac(config) => self.step_of_train(around, at, &config),
        }
    }

    fn follow_duty_cycle(&mut self, around: &mut EventContext<'_>, at: Station, kind: RadioEventKind) {
        match (self.mac.rdc, kind) {
            (Rdc::ContikiMac(config), RadioEventKind::Check(before)) => self.check(around, at, &config, before),
            (Rdc::ContikiMac(config), RadioEventKind::EndListening) => self.end_listening(around, at, &config),
            _ => {}
        }
    }

    pub(super) fn end(&mut self, around: &mut EventContext<'_>, at: Station, outcome: Outcome) {
        let station = &mut self.stations[usize::from(at)];
        station.step = Step::Idle;
        let (queue, stream) = (station.attempting, &mut station.stream);
        let access = &mut station.queues.get(queue).access;
        let decision = match outcome {
            Outcome::Sent => Decision::GiveUp,
            Outcome::Busy => access.busy(stream),
            Outcome::NoAck => access.no_ack(stream),
        };
        self.count(outcome, decision);
        match decision {
            Decision::Wait(time) => {
                self.schedule(around, around.scheduler.now() + time, at, RadioEventKind::Attempt(queue))
            }
            Decision::GiveUp => self.leave(around, at, queue, outcome),
        }
        loop {
            let station = &mut self.stations[usize::from(at)];
            if station.step != Step::Idle {
                break;
            }
            let Some(ready) = station.queues.take_ready() else { break };
            self.begin(around, at, ready);
        }
    }

    pub(super) fn wait(&mut self, around: &mut EventContext<'_>, at: Station, step: Step, time: Duration) {
        self.stations[usize::from(at)].step = step;
        self.schedule(around, around.scheduler.now() + time, at, RadioEventKind::Step);
    }

    pub(super) fn schedule(
        &self,
        around: &mut EventContext<'_>,
        when: Instant,
        station: Station,
        kind: RadioEventKind,
    ) {
        around.scheduler.schedule(when, Event::Radio(RadioEvent { network: self.number, kind, station }));
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) name: String,
    pub(crate) config: RadioConfig,
    pub(crate) stations: Vec<(NodeId, Position)>,
}

impl Layout {
    pub(crate) fn station_map(&self) -> StationMap {
        StationMap::new(self.stations.iter().map(|(node, _)| *node))
    }

    fn medium(&self, streams: &Streams) -> Result<AnyMedium, RadioError> {
        if Station::try_from(self.stations.len()).is_err() {
            return Err(RadioError::TooManyStations(self.stations.len()));
        }
        let positions: Vec<Position> = self.stations.iter().map(|(_, position)| *position).collect();
        self.config.medium.build(&positions, streams)
    }

    pub(crate) fn quality(&self, streams: &Streams, psdu_octets: u8) -> Result<LinkQuality, RadioError> {
        let octets = SHR_PHR_OCTETS + u32::from(psdu_octets);
        let ratios = self.medium(streams)?.reception_ratios(self.stations.len(), octets);
        let nodes = self.stations.iter().map(|(node, _)| *node).collect();
        Ok(LinkQuality::of_neighbours(nodes, ratios))
    }

    pub(crate) fn build(&self, number: u16, streams: &Streams) -> Result<RadioNetwork, RadioError> {
        self.config.mac.check()?;
        let medium = self.medium(streams)?;
        let stream = |node, what: &str| {
            // A node may have stations in several networks.
            streams.stream(Entity::Node(node), Purpose::named(&format!("{what} {}", self.name)))
        };
        let air = Air::new(medium, self.stations.iter().map(|(node, _)| stream(*node, "reception")));
        let interface = |node| Interface::new(node, &self.config.mac, |purpose| stream(node, purpose));
        let interfaces = self.stations.iter().map(|(node, _)| interface(*node)).collect();
        Ok(RadioNetwork::new(number, self.config.mac, air, interfaces, self.station_map()))
    }
}
