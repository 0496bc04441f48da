//! The standard normal distribution.

use statrs::distribution::{ContinuousCDF, Normal};

/// The value below which a standard normal variable lies with this probability.
#[must_use]
pub fn normal_quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_textbook_ones() {
        for (probability, expected) in [(0.5, 0.0), (0.975, 1.959_964), (0.841_344_75, 1.0), (0.001, -3.090_232)] {
            let found = normal_quantile(probability);
            assert!((found - expected).abs() < 1e-6, "{probability}: {found}");
        }
        assert!(normal_quantile(0.0).is_finite() && normal_quantile(1.0).is_finite());
    }
}
