//! Mean and its 95 % confidence interval over replications, by Student's t.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The bounds of a 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Interval {
    /// Returns both bounds times a factor above 0.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { low: self.low * factor, high: self.high * factor }
    }

    /// Whether the value lies inside, bounds included.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Returns the mean of one value per replication, and its interval if there are at least two.
///
/// # Panics
/// If `values` is empty.
#[must_use]
pub fn mean_interval(values: &[f64]) -> (f64, Option<Interval>) {
    assert!(!values.is_empty(), "a mean needs at least one replication");
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let Some(variance) = variance(values) else { return (mean, None) };
    let t = StudentsT::new(0.0, 1.0, count - 1.0).expect("at least one degree of freedom").inverse_cdf(0.975);
    let half = t * (variance / count).sqrt();
    (mean, Some(Interval { low: mean - half, high: mean + half }))
}

/// Returns the sample variance; `None` for fewer than two values.
pub(super) fn variance(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.len() > 1)
        .then(|| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_textbook_one() {
        // Mean 3, s = 1.5811, t(4; .975) = 2.7764: half-width 2.7764·1.5811/√5 = 1.9632.
        let (mean, interval) = mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let interval = interval.expect("five replications");
        assert!((mean - 3.0).abs() < 1e-12);
        assert!((interval.low - 1.0368).abs() < 1e-4 && (interval.high - 4.9632).abs() < 1e-4, "{interval:?}");
    }

    #[test]
    fn a_single_replication_has_no_interval() {
        assert_eq!(mean_interval(&[7.0]), (7.0, None));
    }
}
