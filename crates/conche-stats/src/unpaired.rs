//! Comparison of two independent samples.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::Interval;
use super::interval::variance;

/// Returns the ratio of the geometric means of two samples, and its 95 % interval by Welch's t of
/// the logarithms. `None` if a value has no logarithm or a sample is empty; no interval for fewer
/// than two values.
#[must_use]
pub fn ratio_of_means(one: &[f64], other: &[f64]) -> Option<(f64, Option<Interval>)> {
    let (one, other) = (logarithms(one)?, logarithms(other)?);
    let difference = mean(&one) - mean(&other);
    let interval = half_width(&one, &other)
        .map(|half| Interval { low: (difference - half).exp(), high: (difference + half).exp() });
    Some((difference.exp(), interval))
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let positive = !values.is_empty() && values.iter().all(|value| value.is_finite() && *value > 0.0);
    positive.then(|| values.iter().map(|value| value.ln()).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of the difference of two means, with degrees of freedom by Welch and Satterthwaite.
fn half_width(one: &[f64], other: &[f64]) -> Option<f64> {
    let part = |values: &[f64]| Some((variance(values)? / values.len() as f64, values.len() as f64 - 1.0));
    let ((one, one_freedom), (other, other_freedom)) = (part(one)?, part(other)?);
    let sum = one + other;
    if sum <= 0.0 {
        return Some(0.0);
    }
    let freedom = sum * sum / (one * one / one_freedom + other * other / other_freedom);
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.975);
    Some(t * sum.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_ratio_is_that_of_welch() {
        // Logarithms 1, 2, 3 and 0, 1, 2, 3: means 2 and 1.5, s²/n = 1/3 and 5/12, 4.96 degrees of
        // freedom, t = 2.5770.
        let sample = |logarithms: &[f64]| logarithms.iter().map(|value| value.exp()).collect::<Vec<_>>();
        let (ratio, interval) =
            ratio_of_means(&sample(&[1.0, 2.0, 3.0]), &sample(&[0.0, 1.0, 2.0, 3.0])).expect("both are positive");
        let interval = interval.expect("two values of each");
        assert!((ratio.ln() - 0.5).abs() < 1e-9);
        assert!((interval.high.ln() - 0.5 - 2.2317).abs() < 1e-3, "{}", interval.high.ln() - 0.5);
        assert!((interval.low.ln() + interval.high.ln() - 1.0).abs() < 1e-9, "it is symmetric in logarithms");
    }

    #[test]
    fn constant_samples_give_an_interval_of_zero_width() {
        let (ratio, interval) = ratio_of_means(&[4.0, 4.0], &[2.0, 2.0]).expect("both are positive");
        let interval = interval.expect("two values of each");
        assert!((ratio - 2.0).abs() < 1e-12 && (interval.high - interval.low).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_interval_and_nothing_no_ratio() {
        assert_eq!(ratio_of_means(&[2.0], &[1.0, 1.0]).map(|(_, interval)| interval), Some(None));
        assert_eq!(ratio_of_means(&[], &[1.0]), None);
        assert_eq!(ratio_of_means(&[0.0], &[1.0]), None);
    }
}
