//! The channel: frames in transmission and their reception.

use std::time::Duration;

use super::medium::{AnyMedium, Arrival, Medium, ReceiverState};
use super::phy::BIT;
use super::power::Power;
use super::reception::FramePart;
use crate::Instant;
use crate::ids::Station;
use crate::rng::Stream;
use crate::units::nanos;

#[derive(Debug)]
pub(crate) struct Air {
    medium: AnyMedium,
    signals: Signals,
    snr_db: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceptionLink {
    pub(crate) station: Station,
    link: u32,
}

#[derive(Debug)]
struct Signals {
    receivers: Vec<Receiver>,
    streams: Vec<Stream>,
    transmitters: Vec<Transmitter>,
}

#[derive(Debug)]
struct Receiver {
    /// Sum of all received power.
    level: Power,
    /// Time of its last change, and the previous value.
    changed: (Instant, Power),
    /// End of the time without reception: transmitting, switching or asleep.
    off_until: Instant,
    reception: Option<Reception>,
    /// Start of the reception's unaccounted part; far future if unwanted.
    unsettled: Instant,
}

/// A frame with which a receiver has synchronised.
#[derive(Clone, Copy, Debug)]
struct Reception {
    from: Station,
    signal: Power,
    bits: f64,
    /// Probability of success up to the last change of interference.
    success: f64,
}

#[derive(Debug, Default)]
struct Transmitter {
    heard_over: Vec<u32>,
}

macro_rules! with_medium {
    ($air:ident, |$medium:ident, $signals:ident| $call:expr) => {{
        let $signals = &mut $air.signals;
        match &mut $air.medium {
            AnyMedium::Udgm($medium) => $call,
            AnyMedium::Mrm31($medium) => $call,
            AnyMedium::Sinr($medium) => $call,
        }
    }};
}

impl Air {
    pub(crate) fn new(medium: AnyMedium, streams: impl Iterator<Item = Stream>) -> Self {
        let streams: Vec<Stream> = streams.collect();
        let receivers = streams.iter().map(|_| Receiver::new()).collect();
        let transmitters = streams.iter().map(|_| Transmitter::default()).collect();
        let snr_db = medium.snr_db();
        Self { medium, signals: Signals { receivers, streams, transmitters }, snr_db }
    }

    /// Assesses the channel just before `now`.
    ///
    /// A signal that begins at this instant does not count; one that ends does. So assessments that
    /// end together, or as another station starts, find the channel clear.
    pub(crate) fn is_busy(&self, at: Station, now: Instant) -> bool {
        let receiver = &self.signals.receivers[usize::from(at)];
        let level = if receiver.changed.0 == now { receiver.changed.1 } else { receiver.level };
        match &self.medium {
            AnyMedium::Udgm(medium) => medium.is_busy(level),
            AnyMedium::Mrm31(medium) => medium.is_busy(level),
            AnyMedium::Sinr(medium) => medium.is_busy(level),
        }
    }

    pub(crate) fn is_receiving(&self, at: Station) -> bool {
        self.signals.receivers[usize::from(at)].reception.is_some()
    }

    pub(crate) fn receiving_from(&self, at: Station) -> Option<Station> {
        Some(self.signals.receivers[usize::from(at)].reception?.from)
    }

    /// Calls `heard` where this signal alone makes the channel busy.
    pub(crate) fn heard_by(&self, from: Station, mut heard: impl FnMut(Station)) {
        let medium: &dyn Medium = match &self.medium {
            AnyMedium::Udgm(medium) => medium,
            AnyMedium::Mrm31(medium) => medium,
            AnyMedium::Sinr(medium) => medium,
        };
        let audible = medium.neighbours().from(from).filter(|(_, link)| medium.is_busy(link.power));
        audible.for_each(|(_, link)| heard(link.to));
    }

    pub(crate) fn receiver_off_until(&mut self, station: Station, until: Instant) {
        let receiver = &mut self.signals.receivers[usize::from(station)];
        receiver.end_reception();
        receiver.off_until = until;
    }

    /// Begins a frame; [`Air::finish`] must follow.
    ///
    /// The sender's receiver must be off. `wants` selects the stations that read the frame; it
    /// occupies others without computing success.
    pub(crate) fn begin(&mut self, from: Station, now: Instant, airtime: Duration, wants: impl Fn(Station) -> bool) {
        with_medium!(self, |medium, signals| signals.begin(&*medium, from, now, airtime, wants));
    }

    /// Calls `received` for the stations that wanted and received the frame.
    pub(crate) fn finish(&mut self, from: Station, now: Instant, received: impl FnMut(ReceptionLink)) {
        with_medium!(self, |medium, signals| signals.finish(medium, from, now, received));
    }

    /// Returns the signal-to-noise ratio in dB, `None` without noise.
    pub(crate) fn snr_db(&self, via: ReceptionLink) -> Option<f64> {
        self.snr_db.get(via.link as usize).copied()
    }
}

impl Signals {
    fn begin<M: Medium>(
        &mut self,
        medium: &M,
        from: Station,
        now: Instant,
        airtime: Duration,
        wants: impl Fn(Station) -> bool,
    ) {
        let bits = nanos(airtime) as f64 / nanos(BIT) as f64;
        let mut heard_over = std::mem::take(&mut self.transmitters[usize::from(from)].heard_over);
        medium.reach(from, &mut self.streams, &mut heard_over);
        let neighbours = medium.neighbours();
        for link in neighbours.interfering(from) {
            let receiver = &mut self.receivers[usize::from(link.to)];
            receiver.settle(medium, now);
            receiver.change(now, receiver.level.plus(link.power));
        }
        heard_over.retain(|number| {
            let link = neighbours.link(*number);
            let receiver = &mut self.receivers[usize::from(link.to)];
            match medium.arrive(link, receiver.state(now)) {
                Arrival::Unheard => return false,
                Arrival::Noise => receiver.settle(medium, now),
                Arrival::Receive => receiver.receive(from, link.power, bits, now, wants(link.to)),
                Arrival::Replace => {
                    if let Some(lost) = receiver.reception {
                        receiver.change(now, receiver.level.minus(lost.signal));
                        // A station sends one frame at a time.
                        let lost_over = &mut self.transmitters[usize::from(lost.from)].heard_over;
                        lost_over.retain(|other| neighbours.link(*other).to != link.to);
                    }
                    receiver.receive(from, link.power, bits, now, wants(link.to));
                }
            }
            receiver.change(now, receiver.level.plus(link.power));
            true
        });
        self.transmitters[usize::from(from)].heard_over = heard_over;
    }

    fn finish<M: Medium>(
        &mut self,
        medium: &mut M,
        from: Station,
        now: Instant,
        mut received: impl FnMut(ReceptionLink),
    ) {
        for link in medium.neighbours().interfering(from) {
            let receiver = &mut self.receivers[usize::from(link.to)];
            receiver.settle(&*medium, now);
            receiver.change(now, receiver.level.minus(link.power));
        }
        let mut heard_over = std::mem::take(&mut self.transmitters[usize::from(from)].heard_over);
        for number in heard_over.drain(..) {
            let link = medium.neighbours().link(number);
            let (receiver, stream) =
                (&mut self.receivers[usize::from(link.to)], &mut self.streams[usize::from(link.to)]);
            if receiver.reception.is_some_and(|reception| reception.from == from) {
                if receiver.succeeds(medium, number, now, stream) {
                    received(ReceptionLink { station: link.to, link: number });
                }
                receiver.end_reception();
            } else {
                receiver.settle(medium, now);
            }
            receiver.change(now, receiver.level.minus(link.power));
        }
        self.transmitters[usize::from(from)].heard_over = heard_over;
    }
}

impl Receiver {
    fn new() -> Self {
        Self {
            level: Power::ZERO,
            changed: (Instant::ZERO, Power::ZERO),
            off_until: Instant::ZERO,
            reception: None,
            unsettled: Instant::FAR_FUTURE,
        }
    }

    fn state(&self, now: Instant) -> ReceiverState {
        ReceiverState {
            level: self.level,
            receiving: self.reception.map(|reception| reception.signal),
            listening: now >= self.off_until,
        }
    }

    fn change(&mut self, now: Instant, level: Power) {
        if self.changed.0 != now {
            self.changed = (now, self.level);
        }
        self.level = level;
    }

    fn receive(&mut self, from: Station, signal: Power, bits: f64, now: Instant, wanted: bool) {
        let (success, unsettled) = if wanted { (1.0, now) } else { (0.0, Instant::FAR_FUTURE) };
        self.reception = Some(Reception { from, signal, bits, success });
        self.unsettled = unsettled;
    }

    fn end_reception(&mut self) {
        self.reception = None;
        self.unsettled = Instant::FAR_FUTURE;
    }

    #[inline]
    fn settle<M: Medium>(&mut self, medium: &M, now: Instant) {
        // Of two frames, one may end as the other starts, without overlap.
        if self.unsettled < now {
            self.account(medium, now);
        }
    }

    // Out of line, to keep the loop over interfering links short.
    #[inline(never)]
    fn account<M: Medium>(&mut self, medium: &M, now: Instant) {
        let Some(reception) = &mut self.reception else { return };
        let bits = nanos(now - self.unsettled) as f64 / nanos(BIT) as f64;
        let interference = self.level.minus(reception.signal);
        reception.success *= medium.survives(reception.signal, interference, FramePart { bits, of: reception.bits });
        self.unsettled = if reception.success > 0.0 { now } else { Instant::FAR_FUTURE };
    }

    fn succeeds<M: Medium>(&mut self, medium: &mut M, link: u32, now: Instant, stream: &mut Stream) -> bool {
        self.settle(medium, now);
        let success = self.reception.map_or(0.0, |reception| reception.success);
        if success <= 0.0 {
            return false;
        }
        let probability = success * medium.passes(link, now, stream);
        // A certain reception draws nothing.
        probability >= 1.0 || stream.chance(probability)
    }
}
