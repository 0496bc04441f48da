//! Stations' clocks, and a sender's table of its neighbours' phases (`phase.c`).

use std::time::Duration;

use super::ContikiMac;
use crate::Instant;
use crate::mac::access::Outcome;
use crate::radio::Station;
use crate::rng::Stream;
use crate::units::nanos;

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    first: Instant,
    cycle: Duration,
}

/// Wake-up times of neighbours.
#[derive(Debug, Default)]
pub(super) struct Phases(Vec<Phase>);

#[derive(Clone, Copy, Debug)]
struct Phase {
    neighbour: Station,
    /// Start of the last acknowledged strobe.
    time: Instant,
    /// Unacknowledged transmissions since then.
    noacks: u8,
    /// A further one after this makes the phase stale.
    noacks_end: Instant,
}

impl Clock {
    pub(super) fn new(config: &ContikiMac, stream: &mut Stream) -> Self {
        const BILLION: u64 = 1_000_000_000;
        let cycle = nanos(config.cycle_time);
        let ppb = u64::from(config.clock_drift_ppm.min(1_000_000)) * 1000;
        let first = Instant::from_nanos(stream.below(cycle));
        let pace = u128::from(BILLION - ppb + stream.between(0, 2 * ppb));
        let nanos = u128::from(cycle) * pace / u128::from(BILLION);
        Self { first, cycle: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).max(1)) }
    }

    pub(super) fn check_after(&self, now: Instant) -> Instant {
        if now < self.first { self.first } else { next(self.first, self.cycle, now + Duration::from_nanos(1)) }
    }
}

impl Phases {
    /// `guard` before the wake-up of a neighbour with known phase (`phase_wait`).
    pub(super) fn begin(&self, neighbour: Station, now: Instant, clock: &Clock, guard: Duration) -> Option<Instant> {
        let phase = self.0.iter().find(|phase| phase.neighbour == neighbour)?;
        Some(now + (next(phase.time, clock.cycle, now + guard) - (now + guard)))
    }

    /// `strobe` is the start of the transmission's last strobe (`phase_update`).
    pub(super) fn update(
        &mut self,
        config: &ContikiMac,
        neighbour: Station,
        strobe: Instant,
        outcome: Outcome,
        now: Instant,
    ) {
        let known = self.0.iter().position(|phase| phase.neighbour == neighbour);
        match (known, outcome) {
            (Some(known), Outcome::Sent) => (self.0[known].time, self.0[known].noacks) = (strobe, 0),
            (None, Outcome::Sent) => {
                self.0.push(Phase { neighbour, time: strobe, noacks: 0, noacks_end: Instant::ZERO });
            }
            (Some(known), Outcome::NoAck) => {
                let phase = &mut self.0[known];
                phase.noacks += 1;
                if phase.noacks == 1 {
                    phase.noacks_end = now + config.max_noacks_time;
                }
                if phase.noacks >= config.max_noacks || now >= phase.noacks_end {
                    self.0.remove(known);
                }
            }
            (None, Outcome::NoAck) | (_, Outcome::Busy) => {}
        }
    }
}

/// The first of `from`, `from` + cycle, … not before `earliest`.
fn next(from: Instant, cycle: Duration, earliest: Instant) -> Instant {
    let cycles = (earliest - from).as_nanos().div_ceil(cycle.as_nanos());
    from + Duration::from_nanos(u64::try_from(cycles * cycle.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    const GUARD: Duration = Duration::from_millis(16);

    fn exact() -> (ContikiMac, Clock) {
        let config = ContikiMac { clock_drift_ppm: 0, ..ContikiMac::contiki27() };
        (config, Clock { first: Instant::from_millis(40), cycle: config.cycle_time })
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn checks_are_a_cycle_apart() {
        let (_, clock) = exact();
        assert_eq!(clock.check_after(at(0)), at(40));
        assert_eq!(clock.check_after(at(39)), at(40));
        assert_eq!(clock.check_after(at(40)), at(165));
        assert_eq!(clock.check_after(at(1_000_039)), at(1_000_040));
    }

    #[test]
    fn clocks_start_within_a_cycle_and_are_off_by_their_drift_at_most() {
        let config = ContikiMac::contiki27();
        let mut stream = Streams::new(1).stream(Entity::Run, Purpose::named("clock"));
        let clocks: Vec<Clock> = (0..1000).map(|_| Clock::new(&config, &mut stream)).collect();
        assert!(clocks.iter().all(|clock| clock.first < Instant::ZERO + config.cycle_time));
        let off: Vec<u128> = clocks.iter().map(|clock| clock.cycle.as_nanos().abs_diff(125_000_000)).collect();
        // 20 ppm of 125 ms are 2500 ns; the largest of 1000 draws is close to that.
        assert!((2400..=2500).contains(off.iter().max().expect("1000 clocks")));
    }

    #[test]
    fn a_transmission_begins_a_guard_time_before_the_next_expected_check() {
        let (config, clock) = exact();
        let mut phases = Phases::default();
        assert_eq!(phases.begin(7, at(0), &clock, GUARD), None);
        phases.update(&config, 7, at(1000), Outcome::Sent, at(1003));
        assert_eq!(phases.begin(7, at(1003), &clock, GUARD), Some(at(1125 - 16)));
        assert_eq!(phases.begin(7, at(1109), &clock, GUARD), Some(at(1109)));
        assert_eq!(phases.begin(7, at(1110), &clock, GUARD), Some(at(1250 - 16)));
        assert_eq!(phases.begin(8, at(1003), &clock, GUARD), None);
    }

    #[test]
    fn a_phase_is_forgotten_after_16_misses_or_30_seconds_of_them() {
        let (config, clock) = exact();
        let known = |phases: &Phases| phases.begin(7, at(100_000), &clock, GUARD).is_some();
        let mut phases = Phases::default();
        phases.update(&config, 7, at(1000), Outcome::Sent, at(1003));
        (0..15).for_each(|_| phases.update(&config, 7, at(2000), Outcome::NoAck, at(2003)));
        (0..99).for_each(|_| phases.update(&config, 7, at(2000), Outcome::Busy, at(2003)));
        assert!(known(&phases));
        phases.update(&config, 7, at(3000), Outcome::Sent, at(3003));
        phases.update(&config, 7, at(4000), Outcome::NoAck, at(4003));
        phases.update(&config, 7, at(34_002), Outcome::NoAck, at(34_002));
        assert!(known(&phases));
        phases.update(&config, 7, at(34_003), Outcome::NoAck, at(34_003));
        assert!(!known(&phases));

        phases.update(&config, 7, at(1000), Outcome::Sent, at(1003));
        (0..16).for_each(|_| phases.update(&config, 7, at(2000), Outcome::NoAck, at(2003)));
        assert!(!known(&phases));
    }
}
