//! What idleness does to an RTO of CoCoA: small ones grow, large ones shrink, both towards what a blind sender uses.
//!
//! Source: draft-ietf-core-cocoa-03 §4.3; ETFA'14, equation (6). Ageing is lazy, and equivalent to timers that had
//! fired in between: a step moves the reference by its own period. The draft's pseudocode takes one step and Californium
//! several, but both then set the reference to the present and so lose the remainder; Contiki ages repeatedly without
//! moving it at all. None of these is followed.

use crate::backoff::{LARGE_RTO, SMALL_RTO};
use crate::time::Instant;
use crate::units::{Micros, Stamp};

/// From when idleness is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aging {
    /// From the last change of the RTO, as the draft says. Acknowledgements that do not change it (after three or more
    /// retransmissions) count as idleness, so that a congested peer's RTO ages *down* while it is in use.
    Literal,
    /// From the last acknowledgement, whether or not it changed the RTO; and for a large RTO from the last transmission, so
    /// that it shrinks while nothing happens, not while an exchange backs off.
    #[default]
    SinceActivity,
    /// Never. The figures of ANRW'18 come out without ageing, not with the literal rule.
    Off,
}

/// An RTO that ages, and the reference that its idleness is counted from: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgingRto {
    rto: Micros,
    last: Stamp,
}

impl AgingRto {
    pub(crate) fn new(rto: Micros, now: Instant) -> Self {
        Self { rto, last: Stamp::at(now) }
    }

    /// The RTO, without ageing that may be due.
    pub(crate) fn get(self) -> Micros {
        self.rto
    }

    /// Sets the RTO from a sample.
    pub(crate) fn set(&mut self, rto: Micros, now: Instant) {
        *self = Self::new(rto.max(Micros::MIN), now);
    }

    /// Applies all ageing that is due; the answer is the RTO after it.
    pub(crate) fn aged(&mut self, aging: Aging, now: Instant) -> Micros {
        if aging != Aging::Off {
            age(&mut self.rto, &mut self.last, Stamp::at(now));
        }
        self.rto
    }

    /// A copy leaves.
    pub(crate) fn transmitted(&mut self, aging: Aging, now: Instant) {
        if aging == Aging::SinceActivity && self.aged(aging, now) > LARGE_RTO {
            self.last = Stamp::at(now);
        }
    }

    /// An acknowledgement arrives, whether or not it gives a sample.
    pub(crate) fn acknowledged(&mut self, aging: Aging, now: Instant) {
        self.aged(aging, now);
        if aging == Aging::SinceActivity {
            self.last = Stamp::at(now);
        }
    }
}

/// How a small RTO grows when it is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SmallAging {
    /// It doubles (the draft, Californium).
    #[default]
    Double,
    /// It becomes 16 times itself: ETFA'14, equation (6) as printed, almost surely a typo for doubling.
    Mul16,
}

/// Longer loops than this cannot be due: 32 doublings exceed any RTO.
const MAX_STEPS: u8 = 32;

/// Applies all ageing that is due at `now`; `last` is the reference and moves on with each step.
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

/// Applies the ageing of ETFA'14, which knows small RTOs only.
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

fn exceeds(idle_ms: u32, span: Micros) -> bool {
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
