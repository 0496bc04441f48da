//! A radio network at work: its stations on their air, driven by events.

use std::time::Duration;

use super::access::{Access, Decision, Outcome};
use super::attempt::{Reply, Step};
use super::config::MacConfig;
use super::queue::{QueueIndex, Queued};
use super::station::Interface;
use crate::packet::PacketRef;
use crate::radio::phy::{A_MAX_PHY_PACKET_SIZE, ACK_PSDU_OCTETS, airtime};
use crate::radio::{Air, Station};
use crate::trace::{DropReason, Observer};
use crate::wired::Surroundings;
use crate::{Instant, LinkId, NodeId, sim};

/// The stations of one network and what is between them.
#[derive(Debug)]
pub(crate) struct RadioNetwork {
    number: u16,
    mac: MacConfig,
    air: Air,
    stations: Vec<Interface>,
    /// Who received the frame that ends now; kept for its memory.
    receivers: Vec<Station>,
    pub(crate) counters: RadioCounters,
    pub(crate) dropped: u64,
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
    /// Packets whose frame was sent and, where acknowledgments are used, acknowledged.
    pub succeeded: u64,
    /// Packets that were given up because the channel was busy.
    pub channel_access_failures: u64,
    /// Packets that were given up because no acknowledgment came.
    pub unacknowledged: u64,
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
pub(crate) struct Event {
    /// The number of the radio network.
    pub(crate) network: u16,
    what: What,
    station: Station,
}

// With the simulation's own tag it is as large as a wired event.
const _: () = assert!(size_of::<Event>() <= 8);

#[derive(Clone, Copy, Debug)]
enum What {
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
}

impl RadioNetwork {
    pub(crate) fn new(number: u16, mac: MacConfig, air: Air, stations: Vec<Interface>) -> Self {
        let (receivers, counters) = (Vec::new(), RadioCounters::default());
        Self { number, mac, air, stations, receivers, counters, dropped: 0 }
    }

    /// Takes a packet that leaves a station over a hop.
    pub(crate) fn send<O: Observer>(
        &mut self,
        around: &mut Surroundings<'_, O>,
        packet: PacketRef,
        hop: Hop,
        link: LinkId,
    ) {
        let octets = around.packets.get(packet).bytes().len() + usize::from(self.mac.overhead_octets);
        let Some(psdu) = u8::try_from(octets).ok().filter(|psdu| *psdu <= A_MAX_PHY_PACKET_SIZE) else {
            return self.drop(around, packet, DropReason::TooLong(link));
        };
        match self.stations[usize::from(hop.from)].enqueue(packet, link, hop.to, psdu) {
            Queued::First(queue) => self.start(around, hop.from, queue),
            Queued::Behind => {}
            Queued::Full => self.drop(around, packet, DropReason::QueueFull(link)),
        }
    }

    /// Something happens; the answer is a packet that has come to a node by it.
    pub(crate) fn happen<O: Observer>(
        &mut self,
        around: &mut Surroundings<'_, O>,
        event: Event,
    ) -> Option<(PacketRef, NodeId)> {
        let at = event.station;
        let station = &mut self.stations[usize::from(at)];
        match event.what {
            What::Attempt(queue) if station.step == Step::Idle => self.begin(around, at, queue),
            What::Attempt(queue) => station.queues.get(queue).ready = true,
            What::Step => self.step(around, at),
            What::FrameEnd if station.step == Step::Transmitting => return self.end_frame(around, at),
            What::FrameEnd => self.end_ack(around, at),
            What::AckTimeout(wait) if station.step == Step::AwaitingAck && station.wait == wait => {
                self.end(around, at, Outcome::NoAck);
            }
            What::AckTimeout(_) => {}
            What::Ack => self.transmit_ack(around, at),
        }
        None
    }

    /// A frame has come to the head of its queue.
    fn start<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station, queue: QueueIndex) {
        let station = &mut self.stations[usize::from(at)];
        let wait = station.queues.get(queue).access.first(&mut station.stream);
        let when = around.scheduler.now().max(station.rest_until) + wait;
        self.schedule(around, when, at, What::Attempt(queue));
    }

    fn begin<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station, queue: QueueIndex) {
        let station = &mut self.stations[usize::from(at)];
        station.attempting = queue;
        match self.mac.attempt.cca {
            Some(duration) => self.wait(around, at, Step::Assessing, duration),
            None => self.switch(around, at),
        }
    }

    /// A step of the attempt has ended: the next one.
    fn step<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station) {
        match self.stations[usize::from(at)].step {
            Step::Assessing if self.air.is_busy(at, around.scheduler.now()) => self.end(around, at, Outcome::Busy),
            Step::Assessing if !self.mac.attempt.preparation.is_zero() => {
                self.wait(around, at, Step::Preparing, self.mac.attempt.preparation);
            }
            Step::Assessing | Step::Preparing => self.switch(around, at),
            Step::Switching => self.transmit(around, at),
            Step::Idle | Step::Transmitting | Step::AwaitingAck => {
                unreachable!("these steps have no time of their own")
            }
        }
    }

    fn switch<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station) {
        if self.stations[usize::from(at)].reply != Reply::None {
            return self.end(around, at, Outcome::Busy);
        }
        self.air.deafen(at, Instant::FAR_FUTURE);
        match self.mac.attempt.tx_turnaround {
            Duration::ZERO => self.transmit(around, at),
            turnaround => self.wait(around, at, Step::Switching, turnaround),
        }
    }

    fn transmit<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station) {
        let station = &mut self.stations[usize::from(at)];
        station.step = Step::Transmitting;
        let frame = *station.frame();
        let duration = airtime(frame.psdu_octets);
        self.counters.frames += 1;
        self.air.deafen(at, Instant::FAR_FUTURE);
        self.air.begin(at, around.scheduler.now(), duration, |station| station == frame.to);
        self.schedule(around, around.scheduler.now() + duration, at, What::FrameEnd);
    }

    fn end_frame<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station) -> Option<(PacketRef, NodeId)> {
        let now = around.scheduler.now();
        let frame = *self.stations[usize::from(at)].frame();
        let mut received = false;
        self.air.deafen(at, now + self.mac.attempt.rx_turnaround);
        self.air.finish(at, now, |_| received = true);
        let arrived = if received { self.receive(around, at, frame.to, frame.dsn) } else { None };
        match self.mac.attempt.acknowledgment {
            None => self.end(around, at, Outcome::Sent),
            Some(acknowledgment) => {
                let station = &mut self.stations[usize::from(at)];
                station.step = Step::AwaitingAck;
                station.wait = station.wait.wrapping_add(1);
                let timeout = What::AckTimeout(station.wait);
                self.schedule(around, now + acknowledgment.wait, at, timeout);
            }
        }
        arrived
    }

    /// A station received a frame that is for it.
    fn receive<O: Observer>(
        &mut self,
        around: &mut Surroundings<'_, O>,
        from: Station,
        at: Station,
        dsn: u8,
    ) -> Option<(PacketRef, NodeId)> {
        self.counters.received += 1;
        if let Some(acknowledgment) = self.mac.attempt.acknowledgment {
            self.stations[usize::from(at)].reply = Reply::Ack { dsn };
            self.air.deafen(at, Instant::FAR_FUTURE);
            self.schedule(around, around.scheduler.now() + acknowledgment.turnaround, at, What::Ack);
        }
        let station = &mut self.stations[usize::from(at)];
        let (accepted, node) = (station.accepts(from, dsn), station.node);
        if !accepted {
            self.counters.duplicates += 1;
            return None;
        }
        // The packet goes on with the first copy; the sender needs only the frame to repeat it.
        let packet = self.stations[usize::from(from)].frame().packet.take()?;
        Some((packet, node))
    }

    /// An acknowledgment has no address: whoever waits for one looks at its number.
    fn transmit_ack<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station) {
        let (now, duration) = (around.scheduler.now(), airtime(ACK_PSDU_OCTETS));
        self.counters.acknowledgments += 1;
        let waits = |station: Station| self.stations[usize::from(station)].step == Step::AwaitingAck;
        self.air.begin(at, now, duration, waits);
        self.schedule(around, now + duration, at, What::FrameEnd);
    }

    fn end_ack<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station) {
        let now = around.scheduler.now();
        let Reply::Ack { dsn } = std::mem::take(&mut self.stations[usize::from(at)].reply) else { return };
        self.air.deafen(at, now + self.mac.attempt.rx_turnaround);
        let mut receivers = std::mem::take(&mut self.receivers);
        self.air.finish(at, now, |station| receivers.push(station));
        let another_ends = self.mac.attempt.acknowledgment.is_some_and(|config| config.another_ends_the_wait);
        for station in receivers.drain(..) {
            match self.stations[usize::from(station)].expects(dsn) {
                Some(true) => self.end(around, station, Outcome::Sent),
                Some(false) if another_ends => self.end(around, station, Outcome::NoAck),
                Some(false) | None => {}
            }
        }
        self.receivers = receivers;
    }

    /// An attempt has ended: what follows for its frame, and then for those that wait.
    fn end<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station, outcome: Outcome) {
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
        if let Some(ready) = self.stations[usize::from(at)].queues.take_ready() {
            self.begin(around, at, ready);
        }
    }

    /// A frame leaves its queue, with this outcome of its last attempt.
    fn leave<O: Observer>(
        &mut self,
        around: &mut Surroundings<'_, O>,
        at: Station,
        queue: QueueIndex,
        outcome: Outcome,
    ) {
        let station = &mut self.stations[usize::from(at)];
        let (frame, more) = station.queues.pop(queue);
        if let (Outcome::Sent, Some(spacing)) = (outcome, self.mac.attempt.spacing) {
            station.rest_until = around.scheduler.now() + spacing.after(frame.psdu_octets);
        }
        if let Some(packet) = frame.packet {
            let reason = match outcome {
                // Sent and not received, or taken for a copy of another frame with its number.
                Outcome::Sent => DropReason::Lost(frame.link),
                Outcome::Busy => DropReason::ChannelBusy(frame.link),
                Outcome::NoAck => DropReason::Unacknowledged(frame.link),
            };
            self.drop(around, packet, reason);
        }
        if more {
            self.start(around, at, queue);
        }
    }

    fn count(&mut self, outcome: Outcome, decision: Decision) {
        let given_up = u64::from(decision == Decision::GiveUp);
        match outcome {
            Outcome::Sent => self.counters.succeeded += 1,
            Outcome::Busy => {
                self.counters.busy += 1;
                self.counters.channel_access_failures += given_up;
            }
            Outcome::NoAck => {
                self.counters.no_ack += 1;
                self.counters.unacknowledged += given_up;
            }
        }
    }

    fn wait<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, at: Station, step: Step, time: Duration) {
        self.stations[usize::from(at)].step = step;
        self.schedule(around, around.scheduler.now() + time, at, What::Step);
    }

    fn schedule<O>(&self, around: &mut Surroundings<'_, O>, when: Instant, station: Station, what: What) {
        around.scheduler.schedule(when, sim::Event::Radio(Event { network: self.number, what, station }));
    }

    fn drop<O: Observer>(&mut self, around: &mut Surroundings<'_, O>, packet: PacketRef, reason: DropReason) {
        self.dropped += 1;
        around.observer.on_dropped(around.scheduler.now(), around.packets.get(packet), reason);
        around.packets.remove(packet);
    }
}
