//! Two schemes compared replication by replication.
//!
//! The runs of two schemes under one replication share their random numbers, so what differs between them differs by the
//! scheme: the interval of the difference is narrower than those of its two sides let one think.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::Interval;
use super::interval::mean_interval;

/// The 95 % interval of the mean difference, by Student's t over the differences. `None` with fewer than two pairs.
#[must_use]
pub fn difference_interval(one: &[f64], other: &[f64]) -> Option<Interval> {
    residuals(one, other, 1.0).and_then(|differences| mean_interval(&differences).1)
}

/// The 95 % interval of the first mean over the second one: that of the linearised ratio (Cochran, *Sampling Techniques*,
/// §6.4), whose residuals are what the first is more than the ratio times the second. `None` with fewer than two pairs, or
/// where the second mean is not above 0.
#[must_use]
pub fn ratio_interval(one: &[f64], other: &[f64]) -> Option<Interval> {
    let (above, below) = (mean(one), mean(other));
    if below <= 0.0 {
        return None;
    }
    let residuals = residuals(one, other, above / below)?;
    let around_zero = mean_interval(&residuals).1?;
    let half = (around_zero.high - around_zero.low) / 2.0 / below;
    Some(Interval { low: above / below - half, high: above / below + half })
}

/// How much more the first differs from replication to replication than the second: the ratio of their standard deviations,
/// and its 95 % interval by the F distribution. `None` with fewer than two values of either, or where one does not differ.
#[must_use]
pub fn spread_ratio(one: &[f64], other: &[f64]) -> Option<(f64, Interval)> {
    let ratio = variance(one)? / variance(other)?;
    if !(ratio.is_finite() && ratio > 0.0) {
        return None;
    }
    let freedom = |values: &[f64]| values.len() as f64 - 1.0;
    let f = FisherSnedecor::new(freedom(one), freedom(other)).ok()?;
    let bound = |share| (ratio / f.inverse_cdf(share)).sqrt();
    Some((ratio.sqrt(), Interval { low: bound(0.975), high: bound(0.025) }))
}

/// `None` unless the values are in pairs, two of them or more.
fn residuals(one: &[f64], other: &[f64], factor: f64) -> Option<Vec<f64>> {
    let are_pairs = one.len() == other.len() && one.len() > 1;
    are_pairs.then(|| one.iter().zip(other).map(|(one, other)| one - factor * other).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    (values.len() > 1)
        .then(|| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_is(interval: Option<Interval>, (low, high): (f64, f64)) {
        let interval = interval.expect("an interval");
        assert!((interval.low - low).abs() < 2e-3 && (interval.high - high).abs() < 2e-3, "{interval:?}");
    }

    #[test]
    fn what_both_share_widens_no_interval() {
        // Differences 1, 2, 3: mean 2, s = 1, t(2; .975) = 4.3027.
        assert_is(difference_interval(&[101.0, 22.0, 3.0], &[100.0, 20.0, 0.0]), (2.0 - 2.4842, 2.0 + 2.4842));
        // Each is twice the other, whatever the replication.
        assert_is(ratio_interval(&[200.0, 40.0, 2.0], &[100.0, 20.0, 1.0]), (2.0, 2.0));
    }

    #[test]
    fn the_interval_of_a_ratio_is_that_of_its_residuals() {
        // Ratio 2; residuals 1, 0, -1: s = 1, 4.3027/√3/2 = 1.2421.
        assert_is(ratio_interval(&[5.0, 4.0, 3.0], &[2.0, 2.0, 2.0]), (2.0 - 1.2421, 2.0 + 1.2421));
        assert_eq!(ratio_interval(&[1.0, 2.0], &[0.0, 0.0]), None);
    }

    #[test]
    fn five_replications_say_little_of_a_spread() {
        // Standard deviations 2·1.5811 and 1.5811; F(4, 4; .975) = 9.6045.
        let (ratio, interval) =
            spread_ratio(&[2.0, 4.0, 6.0, 8.0, 10.0], &[1.0, 2.0, 3.0, 4.0, 5.0]).expect("both spread");
        assert!((ratio - 2.0).abs() < 1e-12);
        assert_is(Some(interval), (2.0 / 9.6045_f64.sqrt(), 2.0 * 9.6045_f64.sqrt()));
        assert_eq!(spread_ratio(&[1.0, 1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn what_is_not_in_pairs_has_no_interval() {
        assert_eq!(difference_interval(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(difference_interval(&[1.0], &[1.0]), None);
        assert_eq!(ratio_interval(&[1.0], &[1.0]), None);
    }
}
