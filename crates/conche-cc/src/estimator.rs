//! The round-trip time estimator of RFC 6298 §2; algorithms set gains and weight of the variation.
//!
//! RTTVAR is updated first, from the old SRTT (RFC 6298 §2.3), as in ETFA'14's code, though it
//! prints the reverse order.

use core::time::Duration;

use crate::units::Micros;

/// SRTT and RTTVAR, in 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimator {
    srtt: Micros,
    rttvar: Micros,
}

/// An [`Estimator`]'s gains, as negative powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gains {
    /// α = 1/2^`srtt_shift`.
    pub srtt_shift: u8,
    /// β = 1/2^`rttvar_shift`.
    pub rttvar_shift: u8,
}

impl Gains {
    /// α = 1/8, β = 1/4.
    pub const RFC6298: Self = Self { srtt_shift: 3, rttvar_shift: 2 };
    /// α = 1/4, β = 1/8: ETFA'14's, the reverse of RFC 6298.
    pub const ETFA14: Self = Self { srtt_shift: 2, rttvar_shift: 3 };
}

impl Estimator {
    /// Returns an estimator with these values.
    #[must_use]
    pub fn starting(srtt: Micros, rttvar: Micros) -> Self {
        Self { srtt: srtt.max(Micros::MIN), rttvar }
    }

    /// Returns whether there is no sample.
    #[must_use]
    pub fn is_unmeasured(self) -> bool {
        self.srtt == Micros::ZERO
    }

    /// Takes a round-trip time sample.
    pub fn sample(&mut self, rtt: Micros, gains: Gains) {
        if self.is_unmeasured() {
            *self = Self::starting(rtt, rtt.shifted(1));
            return;
        }
        self.rttvar = self.rttvar.towards(self.srtt.distance(rtt), gains.rttvar_shift);
        self.srtt = self.srtt.towards(rtt, gains.srtt_shift).max(Micros::MIN);
    }

    /// Returns SRTT + `k`·RTTVAR; zero without a sample.
    #[must_use]
    pub fn rto(self, k: u32) -> Micros {
        self.srtt.plus(self.rttvar.times(k))
    }

    /// Returns SRTT, if there is a sample.
    #[must_use]
    pub fn srtt(self) -> Option<Micros> {
        (!self.is_unmeasured()).then_some(self.srtt)
    }

    /// Returns RTTVAR, if there is a sample.
    #[must_use]
    pub fn rttvar(self) -> Option<Micros> {
        (!self.is_unmeasured()).then_some(self.rttvar)
    }

    pub(crate) fn snapshot(self, rto: Micros) -> Snapshot {
        Snapshot {
            rto: rto.into(),
            srtt: self.srtt().map(Duration::from),
            rttvar: self.rttvar().map(Duration::from),
            bandwidth: None,
        }
    }
}

/// A peer's estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Initial RTO before randomisation, without due ageing.
    pub rto: Duration,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Round-trip time variation.
    pub rttvar: Option<Duration>,
    /// Estimated bottleneck bandwidth in bytes per second.
    pub bandwidth: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u32) -> Micros {
        Micros::from_millis(millis)
    }

    #[test]
    fn the_first_sample_sets_half_of_it_as_variation() {
        let mut estimator = Estimator::default();
        estimator.sample(ms(300), Gains::RFC6298);
        assert_eq!((estimator.srtt(), estimator.rttvar()), (Some(ms(300)), Some(ms(150))));
        assert_eq!(estimator.rto(4), ms(900));
    }

    #[test]
    fn variation_is_taken_from_the_old_smoothed_value() {
        let mut estimator = Estimator::starting(ms(800), ms(400));
        estimator.sample(ms(1_600), Gains::RFC6298);
        // |800 - 1600| = 800, not |900 - 1600| = 700.
        assert_eq!(estimator.rttvar(), Some(ms(500)));
        assert_eq!(estimator.srtt(), Some(ms(900)));
    }

    #[test]
    fn a_zero_sample_still_ends_blindness() {
        let mut estimator = Estimator::default();
        estimator.sample(Micros::ZERO, Gains::RFC6298);
        assert!(!estimator.is_unmeasured());
        assert!(estimator.rto(4) > Micros::ZERO);
    }
}
