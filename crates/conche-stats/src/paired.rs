//! Comparisons of several schemes over paired replications.
//!
//! The runs of two schemes in one replication share their random numbers, so the interval of a
//! difference is narrower than those of its two sides suggest.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::Interval;
use super::interval::{mean_interval, variance};

/// Returns the half-width of the 95 % interval of a function of means, such as a difference or a
/// ratio, over the same replications: by the jackknife, which leaves out one replication after the
/// other, and Student's t. For a difference it equals the paired result. `None` with fewer than two
/// replications, unequal numbers of them, or where the function has no value.
#[must_use]
pub fn half_width(of_runs: &[&[f64]], function: impl Fn(&[f64]) -> Option<f64>) -> Option<f64> {
    let runs = of_runs.first()?.len();
    if runs < 2 || of_runs.iter().any(|values| values.len() != runs) {
        return None;
    }
    let count = runs as f64;
    let sums: Vec<f64> = of_runs.iter().map(|values| values.iter().sum()).collect();
    let all = function(&sums.iter().map(|sum| sum / count).collect::<Vec<_>>())?;
    let pseudo_value = |run: usize| {
        let without = sums.iter().zip(of_runs).map(|(sum, values)| (sum - values[run]) / (count - 1.0));
        Some(count * all - (count - 1.0) * function(&without.collect::<Vec<_>>())?)
    };
    let pseudo_values = (0..runs).map(pseudo_value).collect::<Option<Vec<_>>>()?;
    mean_interval(&pseudo_values).1.map(|interval| (interval.high - interval.low) / 2.0)
}

/// Returns a function of means, and its 95 % interval by [`half_width`], if it has one. `None`
/// where the function has no value.
///
/// The means are parameters because a percentile over all replications is not the mean of the
/// replications' percentiles.
#[must_use]
pub fn estimate(
    means: &[f64],
    of_runs: &[&[f64]],
    function: impl Fn(&[f64]) -> Option<f64>,
) -> Option<(f64, Option<Interval>)> {
    let value = function(means)?;
    let interval = half_width(of_runs, function).map(|half| Interval { low: value - half, high: value + half });
    Some((value, interval))
}

/// Returns the ratio of the standard deviations of two samples of replications, and its 95 %
/// interval by the F distribution. `None` if a sample has fewer than two values or no variance.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_is(half: Option<f64>, expected: f64) {
        let half = half.expect("an interval");
        assert!((half - expected).abs() < 2e-3, "{half} instead of {expected}");
    }

    fn difference(means: &[f64]) -> Option<f64> {
        Some(means[0] - means[1])
    }

    fn ratio(means: &[f64]) -> Option<f64> {
        (means[1] > 0.0).then(|| means[0] / means[1])
    }

    #[test]
    fn common_variation_does_not_widen_a_paired_interval() {
        // Differences 1, 2, 3: s = 1, t(2; .975) = 4.3027, over √3.
        assert_is(half_width(&[&[101.0, 22.0, 3.0], &[100.0, 20.0, 0.0]], difference), 2.4842);
        assert_is(half_width(&[&[200.0, 40.0, 2.0], &[100.0, 20.0, 1.0]], ratio), 0.0);
    }

    #[test]
    fn the_interval_of_a_ratio_is_that_of_its_residuals() {
        // Ratio 2; residuals 1, 0, -1: s = 1, 4.3027/√3/2.
        assert_is(half_width(&[&[5.0, 4.0, 3.0], &[2.0, 2.0, 2.0]], ratio), 1.2421);
        assert_eq!(half_width(&[&[1.0, 2.0], &[0.0, 0.0]], ratio), None);
    }

    #[test]
    fn unpaired_or_single_values_have_no_interval() {
        assert_eq!(half_width(&[&[1.0, 2.0], &[1.0]], difference), None);
        assert_eq!(half_width(&[&[1.0], &[1.0]], difference), None);
        assert_eq!(half_width(&[], difference), None);
    }

    #[test]
    fn five_replications_give_a_wide_interval_of_a_spread_ratio() {
        // Standard deviations 2·1.5811 and 1.5811; F(4, 4; .975) = 9.6045.
        let (ratio, interval) =
            spread_ratio(&[2.0, 4.0, 6.0, 8.0, 10.0], &[1.0, 2.0, 3.0, 4.0, 5.0]).expect("both spread");
        assert!((ratio - 2.0).abs() < 1e-12);
        assert_is(Some(interval.low), 2.0 / 9.6045_f64.sqrt());
        assert_is(Some(interval.high), 2.0 * 9.6045_f64.sqrt());
        assert_eq!(spread_ratio(&[1.0, 1.0], &[1.0, 2.0]), None);
    }
}
