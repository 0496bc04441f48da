//! The statistics of experiments and load tests: pooled percentiles, ratios and 95 % confidence
//! intervals.
//!
//! The clients of one run influence each other, so the independent observation is the replication:
//! intervals of means use the means of replications, and the bootstrap, from ten on, resamples them.

mod interval;
mod paired;
mod pooled;
mod unpaired;

pub use interval::{Interval, mean_interval};
pub use paired::{estimate, half_width, spread_ratio};
pub use pooled::{Pooled, percentile};
pub use unpaired::ratio_of_means;

use statrs::distribution::{ContinuousCDF, Normal};

/// Jain's fairness index (Jain, Chiu, Hawe 1984), (Σx)²/(n·Σx²): 1 if all shares are equal, 1/n if
/// one share is everything; `None` if the sum is 0.
#[must_use]
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The quantile of the standard normal distribution at this probability.
#[must_use]
pub fn normal_quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_1_among_equals_and_1_nth_if_one_has_everything() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain_index(&[7.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[0.0, 0.0]), None);
    }

    #[test]
    fn quantiles_are_the_textbook_ones() {
        for (probability, expected) in [(0.5, 0.0), (0.975, 1.959_964), (0.841_344_75, 1.0), (0.001, -3.090_232)] {
            let found = normal_quantile(probability);
            assert!((found - expected).abs() < 1e-6, "{probability}: {found}");
        }
        assert!(normal_quantile(0.0).is_finite() && normal_quantile(1.0).is_finite());
    }
}
