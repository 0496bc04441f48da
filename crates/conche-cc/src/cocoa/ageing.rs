//! Ageing of an idle peer's RTO towards that of a peer without samples.
//!
//! Source: draft-ietf-core-cocoa-03 §4.3; ETFA'14, equation (6).
//!
//! Divergence: each step advances the reference time by its own period, as timers would. The
//! draft's pseudocode takes one step, Californium several, and both reset it to the present and
//! lose the remainder; Contiki never advances it.

use crate::backoff::{LARGE_RTO, SMALL_RTO};
use crate::parameters::words;
use crate::time::Instant;
use crate::units::{Micros, Stamp};

/// The start of an idle period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aging {
    /// The last change of the RTO, as in the draft. An acknowledgement after three or more
    /// retransmissions is none, so a congested peer's RTO ages *down* in use.
    Literal,
    /// The last acknowledgement; for a large RTO also the last transmission, so that it does not
    /// shrink while an exchange backs off.
    #[default]
    SinceActivity,
    /// No ageing. Reproduces ANRW'18, unlike the literal rule.
    Off,
}

words!(Aging { Literal = "literal", SinceActivity = "since-activity", Off = "off" });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgingRto {
    rto: Micros,
    last: Stamp,
}

impl AgingRto {
    pub(crate) fn new(rto: Micros, now: Instant) -> Self {
        Self { rto, last: Stamp::at(now) }
    }

    pub(crate) fn get(self) -> Micros {
        self.rto
    }

    pub(crate) fn set(&mut self, rto: Micros, now: Instant) {
        *self = Self::new(rto.max(Micros::MIN), now);
    }

    pub(crate) fn age(&mut self, aging: Aging, now: Instant) {
        if aging != Aging::Off {
            age(&mut self.rto, &mut self.last, Stamp::at(now));
        }
    }

    pub(crate) fn transmitted(&mut self, aging: Aging, now: Instant) {
        if aging == Aging::SinceActivity {
            self.age(aging, now);
            if self.rto > LARGE_RTO {
                self.last = Stamp::at(now);
            }
        }
    }

    pub(crate) fn acknowledged(&mut self, aging: Aging, now: Instant) {
        if aging == Aging::SinceActivity {
            self.last = Stamp::at(now);
        }
    }
}

/// Growth of a small, idle RTO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SmallAging {
    /// Doubled (draft-ietf-core-cocoa-03, Californium).
    #[default]
    Double,
    /// Multiplied by 16: ETFA'14, equation (6) as printed, probably a typo.
    Mul16,
}

words!(SmallAging { Double = "double", Mul16 = "mul16" });

/// 32 doublings exceed every RTO.
const MAX_STEPS: u8 = 32;

fn age(rto: &mut Micros, last: &mut Stamp, now: Stamp) {
    for _ in 0..MAX_STEPS {
        let idle = last.age_ms(now);
        if *rto < SMALL_RTO && exceeds(idle, rto.times(16)) {
            *last = last.later_by(rto.times(16));
            *rto = rto.times(2);
        } else if *rto > LARGE_RTO && exceeds(idle, rto.times(4)) {
            *last = last.later_by(rto.times(4));
            *rto = Micros::from_millis(1_000).plus(rto.shifted(1));
        } else {
            break;
        }
    }
}

pub(crate) fn age_small(rto: &mut Micros, last: &mut Stamp, now: Stamp, by: SmallAging) {
    for _ in 0..MAX_STEPS {
        if *rto >= SMALL_RTO || !exceeds(last.age_ms(now), rto.times(16)) {
            break;
        }
        *last = last.later_by(rto.times(16));
        *rto = rto.times(match by {
            SmallAging::Double => 2,
            SmallAging::Mul16 => 16,
        });
    }
}

pub(super) fn exceeds(idle_ms: u32, span: Micros) -> bool {
    u64::from(idle_ms) * 1_000 > u64::from(span.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aged(rto_ms: u32, idle_ms: u64) -> u32 {
        let (mut rto, mut last) = (Micros::from_millis(rto_ms), Stamp::at(Instant::ZERO));
        age(&mut rto, &mut last, Stamp::at(Instant::from_millis(idle_ms)));
        rto.get() / 1_000
    }

    #[test]
    fn a_small_rto_doubles_after_sixteen_of_itself() {
        assert_eq!(aged(100, 1_600), 100);
        assert_eq!(aged(100, 1_601), 200);
    }

    #[test]
    fn a_large_rto_moves_half_way_to_two_seconds_after_four_of_itself() {
        assert_eq!(aged(10_000, 40_000), 10_000);
        assert_eq!(aged(10_000, 40_001), 6_000);
    }

    #[test]
    fn ageing_asked_often_or_once_ends_at_the_same_rto() {
        for idle in [2_000_u64, 30_000, 300_000] {
            for start_ms in [60, 333, 5_000, 60_000] {
                let (mut rto, mut last) = (Micros::from_millis(start_ms), Stamp::at(Instant::ZERO));
                for ms in (0..=idle).step_by(50) {
                    age(&mut rto, &mut last, Stamp::at(Instant::from_millis(ms)));
                }
                assert_eq!(rto.get() / 1_000, aged(start_ms, idle), "{start_ms} ms after {idle} ms");
            }
        }
    }

    #[test]
    fn a_middling_rto_never_ages() {
        assert_eq!(aged(1_000, 1_000_000_000), 1_000);
        assert_eq!(aged(3_000, 1_000_000_000), 3_000);
    }

    #[test]
    fn the_shortest_rto_reaches_a_second_within_the_bounded_loop() {
        let (mut rto, mut last) = (Micros::MIN, Stamp::at(Instant::ZERO));
        age(&mut rto, &mut last, Stamp::at(Instant::from_millis(1_000_000)));
        assert!(rto >= SMALL_RTO);
    }

    #[test]
    fn the_printed_equation_multiplies_by_sixteen() {
        let (mut rto, mut last) = (Micros::from_millis(183), Stamp::at(Instant::ZERO));
        let now = Stamp::at(Instant::from_millis(3_000));
        age_small(&mut rto, &mut last, now, SmallAging::Mul16);
        assert_eq!(rto, Micros::from_millis(2_928));
    }
}
