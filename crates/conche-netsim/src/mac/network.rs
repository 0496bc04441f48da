//! A radio network at work: its stations on their air, driven by events.

use std::collections::VecDeque;
use std::time::Duration;

use super::access::{Access, Decision, Outcome, Transmitted};
use super::attempt::Step;
use super::config::MacConfig;
use super::fragments::Datagrams;
use super::queue::QueueIndex;
use super::rdc::Rdc;
use super::station::Interface;
use crate::packet::PacketRef;
use crate::radio::{Air, Places, Station, Via};
use crate::wired::Surroundings;
use crate::{Instant, NodeId, PacketId, sim};

/// The stations of one network and what is between them.
#[derive(Debug)]
pub(crate) struct RadioNetwork {
    pub(super) number: u16,
    pub(super) mac: MacConfig,
    pub(super) air: Air,
    pub(super) stations: Vec<Interface>,
    pub(super) places: Places,
    /// Who received the frame that ends now; kept for its memory.
    pub(super) receivers: Vec<Via>,
    /// Who hears the train that begins; kept for its memory.
    pub(super) hearers: Vec<Station>,
    /// Datagrams that travel in fragments.
    pub(super) datagrams: Datagrams,
    /// What hosts are still to be told of their frames, in the order of the events for it.
    pub(super) told: VecDeque<(NodeId, PacketId, Transmitted)>,
    pub(crate) counters: RadioCounters,
    pub(crate) dropped: u64,
    /// Broadcasts that have left their station.
    pub(crate) broadcast: u64,
    /// Copies of broadcasts.
    pub(crate) copies: u64,
}

/// What happened in a radio network so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadioCounters {
    /// Frames that were transmitted, retransmissions included, acknowledgments not.
    pub frames: u64,
    /// Acknowledgments that were transmitted.
    pub acknowledgments: u64,
    /// Frames that were received by the station they are for, copies included.
    pub received: u64,
    /// Received frames that were copies of the frame before.
    pub duplicates: u64,
    /// Attempts that found the channel busy.
    pub busy: u64,
    /// Attempts without acknowledgment.
    pub no_ack: u64,
    /// Frames that were sent and, where acknowledgments are used, acknowledged.
    pub succeeded: u64,
    /// Frames that were given up because the channel was busy.
    pub channel_access_failures: u64,
    /// Frames that were given up because no acknowledgment came.
    pub unacknowledged: u64,
    /// Frames of [`ControlTraffic`](super::ControlTraffic) that were sent; they count above as well.
    pub control: u64,
}

/// From one station to another: what a packet is handed over for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    /// The number of the radio network.
    pub(crate) network: u16,
    pub(crate) from: Station,
    pub(crate) to: Station,
}

/// What happens at a station by itself.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct Event {
    /// The number of the radio network.
    pub(crate) network: u16,
    what: What,
    station: Station,
}

// With the simulation's own tag it is as large as a wired event.
const _: () = assert!(size_of::<Event>() <= 8);

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A backoff has ended.
    Attempt(QueueIndex),
    /// The attempt's present step has ended.
    Step,
    /// The frame or acknowledgment on the air has ended.
    FrameEnd,
    /// No acknowledgment came in this wait.
    AckTimeout(u16),
    /// The turnaround before an acknowledgment has ended.
    Ack,
    /// An assessment of a channel check, with the number of those before it.
    Check(u8),
    /// A receiver has listened for a while.
    Doze,
    /// Control traffic is due.
    Control,
}

impl RadioNetwork {
    pub(crate) fn new(number: u16, mac: MacConfig, mut air: Air, stations: Vec<Interface>, places: Places) -> Self {
        if mac.rdc != Rdc::AlwaysOn {
            // All sleep.
            (0..).zip(&stations).for_each(|(station, _)| air.deafen(station, Instant::FAR_FUTURE));
        }
        Self {
            number,
            mac,
            air,
            stations,
            places,
            receivers: Vec::new(),
            hearers: Vec::new(),
            datagrams: Datagrams::default(),
            told: VecDeque::new(),
            counters: RadioCounters::default(),
            dropped: 0,
            broadcast: 0,
            copies: 0,
        }
    }

    /// What the next one of the hosts that are to be told of a frame is told.
    pub(crate) fn next_told(&mut self) -> Option<(NodeId, PacketId, Transmitted)> {
        self.told.pop_front()
    }

    /// Something happens; the answer is a packet that has come to a node by it.
    pub(crate) fn happen(&mut self, around: &mut Surroundings<'_>, event: Event) -> Option<(PacketRef, NodeId)> {
        let at = event.station;
        let station = &mut self.stations[usize::from(at)];
        match event.what {
            What::Attempt(queue) if station.step == Step::Idle => self.begin(around, at, queue),
            What::Attempt(queue) => station.queues.get(queue).ready = true,
            What::Step => self.step(around, at),
            What::FrameEnd if station.step == Step::Transmitting => {
                return match self.mac.rdc {
                    Rdc::AlwaysOn => self.end_frame(around, at),
                    Rdc::ContikiMac(config) => self.end_strobe(around, at, &config),
                };
            }
            What::FrameEnd => self.end_ack(around, at),
            What::AckTimeout(wait) if station.step == Step::AwaitingAck && station.wait == wait => {
                self.end(around, at, Outcome::NoAck);
            }
            What::AckTimeout(_) => {}
            What::Ack => self.transmit_ack(around, at),
            What::Control => self.send_control(around, at),
            What::Check(_) | What::Doze => self.follow_duty_cycle(around, at, event.what),
        }
        None
    }

    /// A frame has come to the head of its queue; `after` is how the one ended that it has waited behind, if that matters.
    pub(super) fn start(
        &mut self,
        around: &mut Surroundings<'_>,
        at: Station,
        queue: QueueIndex,
        after: Option<Outcome>,
    ) {
        let station = &mut self.stations[usize::from(at)];
        let access = &mut station.queues.get(queue).access;
        let pause = after.map_or(Duration::ZERO, |outcome| access.pause_after(outcome));
        let wait = pause + access.first(&mut station.stream);
        let when = around.scheduler.now().max(station.rest_until) + self.mac.load + wait;
        self.schedule(around, when, at, What::Attempt(queue));
    }

    /// The backoff of a queue has ended.
    #[inline]
    fn begin(&mut self, around: &mut Surroundings<'_>, at: Station, queue: QueueIndex) {
        self.stations[usize::from(at)].attempting = queue;
        match self.mac.rdc {
            Rdc::AlwaysOn => self.assess(around, at),
            Rdc::ContikiMac(config) => self.begin_train(around, at, &config),
        }
    }

    #[inline]
    fn step(&mut self, around: &mut Surroundings<'_>, at: Station) {
        match self.mac.rdc {
            Rdc::AlwaysOn => self.step_always_on(around, at),
            Rdc::ContikiMac(config) => self.step_of_train(around, at, &config),
        }
    }

    fn follow_duty_cycle(&mut self, around: &mut Surroundings<'_>, at: Station, what: What) {
        match (self.mac.rdc, what) {
            (Rdc::ContikiMac(config), What::Check(before)) => self.check(around, at, &config, before),
            (Rdc::ContikiMac(config), What::Doze) => self.doze(around, at, &config),
            _ => {}
        }
    }

    /// An attempt has ended: what follows for its frame, and then for those that wait.
    pub(super) fn end(&mut self, around: &mut Surroundings<'_>, at: Station, outcome: Outcome) {
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
            Decision::Wait(time) => self.schedule(around, around.scheduler.now() + time, at, What::Attempt(queue)),
            Decision::GiveUp => self.leave(around, at, queue, outcome),
        }
        // An attempt may be put off, so that another one's turn comes.
        loop {
            let station = &mut self.stations[usize::from(at)];
            if station.step != Step::Idle {
                break;
            }
            let Some(ready) = station.queues.take_ready() else { break };
            self.begin(around, at, ready);
        }
    }

    pub(super) fn wait(&mut self, around: &mut Surroundings<'_>, at: Station, step: Step, time: Duration) {
        self.stations[usize::from(at)].step = step;
        self.schedule(around, around.scheduler.now() + time, at, What::Step);
    }

    pub(super) fn schedule(&self, around: &mut Surroundings<'_>, when: Instant, station: Station, what: What) {
        around.scheduler.schedule(when, sim::Event::Radio(Event { network: self.number, what, station }));
    }
}
