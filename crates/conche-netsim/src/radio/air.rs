//! The channel: which stations transmit, and what each station hears and receives of it.

use std::time::Duration;

use super::medium::{AnyMedium, Arrival, Hearing, Medium};
use super::neighbours::Station;
use super::phy::BIT;
use super::power::Power;
use super::reception::Stretch;
use crate::Instant;
use crate::rng::Stream;
use crate::units::nanos;

/// The air that the stations of one radio network share.
#[derive(Debug)]
pub(crate) struct Air {
    medium: AnyMedium,
    signals: Signals,
    /// The signal-to-noise ratio of each link in dB, if the medium has noise.
    snr_db: Vec<f64>,
}

/// Which link brought a frame to a station that received it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Via {
    pub(crate) station: Station,
    /// The number of the link.
    link: u32,
}

/// What is on the air, whatever the medium.
#[derive(Debug)]
struct Signals {
    ears: Vec<Ear>,
    /// Each receiver's randomness.
    streams: Vec<Stream>,
    voices: Vec<Voice>,
}

/// A station's receiver.
#[derive(Debug)]
struct Ear {
    /// All that it hears.
    level: Power,
    /// When that changed last, and what it was before.
    changed: (Instant, Power),
    /// Until then it transmits or switches.
    deaf_until: Instant,
    reception: Option<Reception>,
    /// Since when what the interference does to the reception is to be computed; never, if it does not matter.
    unsettled: Instant,
}

/// A frame that a receiver has synchronised with.
#[derive(Clone, Copy, Debug)]
struct Reception {
    from: Station,
    signal: Power,
    /// Bits in the frame.
    bits: f64,
    /// The probability that all went well before the interference changed last.
    success: f64,
}

/// A station's transmitter. It sends one frame at a time.
#[derive(Debug, Default)]
struct Voice {
    /// The numbers of the links over which its frame is heard and not only disturbs.
    heard_over: Vec<u32>,
}

/// Takes the medium apart, so that `$call` is compiled for each of them.
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
    /// Silence. Each station draws from a stream of its own.
    pub(crate) fn new(medium: AnyMedium, streams: impl Iterator<Item = Stream>) -> Self {
        let streams: Vec<Stream> = streams.collect();
        let ears = streams.iter().map(|_| Ear::new()).collect();
        let voices = streams.iter().map(|_| Voice::default()).collect();
        let snr_db = medium.snr_db();
        Self { medium, signals: Signals { ears, streams, voices }, snr_db }
    }

    /// What clear channel assessment says. It measures what was there up to now, not what begins or ends in this instant:
    /// two stations whose assessments end together both find the channel clear, and so does one whose assessment ends
    /// when another begins to transmit.
    pub(crate) fn is_busy(&self, at: Station, now: Instant) -> bool {
        let ear = &self.signals.ears[usize::from(at)];
        let level = if ear.changed.0 == now { ear.changed.1 } else { ear.level };
        match &self.medium {
            AnyMedium::Udgm(medium) => medium.is_busy(level),
            AnyMedium::Mrm31(medium) => medium.is_busy(level),
            AnyMedium::Sinr(medium) => medium.is_busy(level),
        }
    }

    /// Whether the receiver has synchronised with a frame.
    pub(crate) fn is_receiving(&self, at: Station) -> bool {
        self.signals.ears[usize::from(at)].reception.is_some()
    }

    /// Whose frame it is.
    pub(crate) fn receiving_from(&self, at: Station) -> Option<Station> {
        Some(self.signals.ears[usize::from(at)].reception?.from)
    }

    /// Calls `heard` for each station where this one's signal alone makes the channel busy.
    pub(crate) fn heard_by(&self, from: Station, mut heard: impl FnMut(Station)) {
        let medium: &dyn Medium = match &self.medium {
            AnyMedium::Udgm(medium) => medium,
            AnyMedium::Mrm31(medium) => medium,
            AnyMedium::Sinr(medium) => medium,
        };
        let audible = medium.neighbours().from(from).filter(|(_, link)| medium.is_busy(link.power));
        audible.for_each(|(_, link)| heard(link.to));
    }

    /// The receiver is off until then; a reception under way is lost.
    pub(crate) fn deafen(&mut self, station: Station, until: Instant) {
        let ear = &mut self.signals.ears[usize::from(station)];
        ear.end_reception();
        ear.deaf_until = until;
    }

    /// A frame of this duration begins. Whoever calls this has deafened the station, and calls [`Air::finish`] in time.
    /// `wants` names the stations that will look at the frame; whether the others receive it is not computed, though they
    /// are occupied by it all the same.
    pub(crate) fn begin(&mut self, from: Station, now: Instant, airtime: Duration, wants: impl Fn(Station) -> bool) {
        with_medium!(self, |medium, signals| signals.begin(&*medium, from, now, airtime, wants));
    }

    /// A frame ends: `received` is called for those who wanted and received it.
    pub(crate) fn finish(&mut self, from: Station, now: Instant, received: impl FnMut(Via)) {
        with_medium!(self, |medium, signals| signals.finish(medium, from, now, received));
    }

    /// The signal-to-noise ratio of a received frame, interference apart, in dB; `None` if the medium has no noise.
    pub(crate) fn snr_db(&self, via: Via) -> Option<f64> {
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
        let mut heard_over = std::mem::take(&mut self.voices[usize::from(from)].heard_over);
        medium.reach(from, &mut self.streams, &mut heard_over);
        let neighbours = medium.neighbours();
        for link in neighbours.faint(from) {
            let ear = &mut self.ears[usize::from(link.to)];
            ear.settle(medium, now);
            ear.change(now, ear.level.plus(link.power));
        }
        heard_over.retain(|number| {
            let link = neighbours.link(*number);
            let ear = &mut self.ears[usize::from(link.to)];
            match medium.arrive(link, ear.hearing(now)) {
                Arrival::Unheard => return false,
                Arrival::Noise => ear.settle(medium, now),
                Arrival::Receive => ear.receive(from, link.power, bits, now, wants(link.to)),
                Arrival::Replace => {
                    if let Some(lost) = ear.reception {
                        ear.change(now, ear.level.minus(lost.signal));
                        // Two stations transmit and a third hears both, so that `from` is not the one that is lost.
                        let lost_over = &mut self.voices[usize::from(lost.from)].heard_over;
                        lost_over.retain(|other| neighbours.link(*other).to != link.to);
                    }
                    ear.receive(from, link.power, bits, now, wants(link.to));
                }
            }
            ear.change(now, ear.level.plus(link.power));
            true
        });
        self.voices[usize::from(from)].heard_over = heard_over;
    }

    fn finish<M: Medium>(&mut self, medium: &mut M, from: Station, now: Instant, mut received: impl FnMut(Via)) {
        for link in medium.neighbours().faint(from) {
            let ear = &mut self.ears[usize::from(link.to)];
            ear.settle(&*medium, now);
            ear.change(now, ear.level.minus(link.power));
        }
        let mut heard_over = std::mem::take(&mut self.voices[usize::from(from)].heard_over);
        for number in heard_over.drain(..) {
            let link = medium.neighbours().link(number);
            let (ear, stream) = (&mut self.ears[usize::from(link.to)], &mut self.streams[usize::from(link.to)]);
            if ear.reception.is_some_and(|reception| reception.from == from) {
                if ear.succeeds(medium, number, now, stream) {
                    received(Via { station: link.to, link: number });
                }
                ear.end_reception();
            } else {
                ear.settle(medium, now);
            }
            ear.change(now, ear.level.minus(link.power));
        }
        self.voices[usize::from(from)].heard_over = heard_over;
    }
}

impl Ear {
    fn new() -> Self {
        Self {
            level: Power::ZERO,
            changed: (Instant::ZERO, Power::ZERO),
            deaf_until: Instant::ZERO,
            reception: None,
            unsettled: Instant::FAR_FUTURE,
        }
    }

    fn hearing(&self, now: Instant) -> Hearing {
        Hearing {
            level: self.level,
            receiving: self.reception.map(|reception| reception.signal),
            listening: now >= self.deaf_until,
        }
    }

    fn change(&mut self, now: Instant, level: Power) {
        if self.changed.0 != now {
            self.changed = (now, self.level);
        }
        self.level = level;
    }

    fn receive(&mut self, from: Station, signal: Power, bits: f64, now: Instant, wanted: bool) {
        // What nobody looks at has no chance, so that nothing of it is computed or drawn.
        let (success, unsettled) = if wanted { (1.0, now) } else { (0.0, Instant::FAR_FUTURE) };
        self.reception = Some(Reception { from, signal, bits, success });
        self.unsettled = unsettled;
    }

    fn end_reception(&mut self) {
        self.reception = None;
        self.unsettled = Instant::FAR_FUTURE;
    }

    /// The interference is about to change: accounts for the stretch that ends.
    #[inline]
    fn settle<M: Medium>(&mut self, medium: &M, now: Instant) {
        // A frame that begins in the very instant in which another ends does not overlap it.
        if self.unsettled < now {
            self.account(medium, now);
        }
    }

    // Out of line, so that the loop over all those whom a frame only disturbs is a few instructions for most of them.
    #[inline(never)]
    fn account<M: Medium>(&mut self, medium: &M, now: Instant) {
        let Some(reception) = &mut self.reception else { return };
        let bits = nanos(now - self.unsettled) as f64 / nanos(BIT) as f64;
        let interference = self.level.minus(reception.signal);
        reception.success *= medium.survives(reception.signal, interference, Stretch { bits, of: reception.bits });
        self.unsettled = if reception.success > 0.0 { now } else { Instant::FAR_FUTURE };
    }

    /// Whether the frame that ends now was received.
    fn succeeds<M: Medium>(&mut self, medium: &mut M, link: u32, now: Instant, stream: &mut Stream) -> bool {
        self.settle(medium, now);
        let success = self.reception.map_or(0.0, |reception| reception.success);
        if success <= 0.0 {
            return false;
        }
        let probability = success * medium.passes(link, now, stream);
        // What is certain needs no draw.
        probability >= 1.0 || stream.chance(probability)
    }
}
