//! Service times.

use std::time::Duration;

use crate::rng::Stream;
use crate::units::nanos;

/// Distribution of a frame's transmission time around its size over the link's rate.
///
/// That quotient is always the mean, so the long-term rate is unchanged.
///
/// ```toml
/// service = "rayleigh"
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// No deviation.
    #[default]
    Exact,
    /// A Rayleigh-distributed factor of mean 1: √X/Γ(3/2), X exponential of mean 1 (standard
    /// deviation 0.523). Models a rate that varies between frames, such as of a fading radio that
    /// repeats blocks.
    Rayleigh,
    /// An exponentially distributed factor of mean 1. Models repetition until success, where the
    /// remaining time does not depend on the elapsed.
    Exponential,
}

/// Stalls: some frames take much longer than their size implies, as when a radio link is lost and
/// set up again.
///
/// ```toml
/// probability = "0.2%"
/// mean = "1300ms"
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Probability that a frame stalls. Default: 0, never.
    pub probability: f64,
    /// Mean length of a stall, exponential.
    pub mean: Duration,
}

/// Γ(3/2) = √π/2, the mean of √X for exponential X of mean 1.
const MEAN_OF_ROOT: f64 = 0.886_226_925_452_758;

impl Service {
    pub(super) fn nanos(self, nanos: u64, stream: &mut Stream) -> u64 {
        match self {
            Self::Exact => nanos,
            Self::Rayleigh => scaled(nanos, libm::sqrt(stream.exponential()) / MEAN_OF_ROOT),
            Self::Exponential => scaled(nanos, stream.exponential()),
        }
    }
}

impl Stalls {
    pub(super) fn nanos(&self, stream: &mut Stream) -> u64 {
        if self.probability <= 0.0 || !stream.chance(self.probability) {
            return 0;
        }
        scaled(nanos(self.mean), stream.exponential())
    }
}

pub(super) fn scaled(nanos: u64, factor: f64) -> u64 {
    // Float casts saturate; the product is not negative.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let scaled = (nanos as f64 * factor + 0.5) as u64;
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    const FRAMES: u32 = 200_000;
    const NANOS: u64 = 50_000_000;

    fn drawn(service: Service) -> Vec<f64> {
        let mut stream = Streams::new(5).stream(Entity::Run, Purpose::named("test"));
        (0..FRAMES).map(|_| service.nanos(NANOS, &mut stream) as f64 / NANOS as f64).collect()
    }

    /// Compares the share of factors above several x with its expectation.
    fn assert_tail(factors: &[f64], expected: impl Fn(f64) -> f64) {
        for x in [0.2, 1.0, 2.0, 3.0] {
            let share = factors.iter().filter(|factor| **factor > x).count() as f64 / f64::from(FRAMES);
            let error = (expected(x) * (1.0 - expected(x)) / f64::from(FRAMES)).sqrt();
            assert!((share - expected(x)).abs() < 4.0 * error, "{x}: {share} instead of {}", expected(x));
        }
    }

    #[test]
    fn the_mean_time_is_that_of_the_rate() {
        for (service, deviation) in [(Service::Exact, 0.0), (Service::Rayleigh, 0.523), (Service::Exponential, 1.0)] {
            let mean = drawn(service).iter().sum::<f64>() / f64::from(FRAMES);
            assert!((mean - 1.0).abs() <= 4.0 * deviation / f64::from(FRAMES).sqrt(), "{service:?}: {mean}");
        }
    }

    /// P(factor > x) = exp(−πx²/4) and exp(−x).
    #[test]
    fn service_times_follow_the_tail_of_the_distribution() {
        assert_tail(&drawn(Service::Rayleigh), |x| (-std::f64::consts::FRAC_PI_4 * x * x).exp());
        assert_tail(&drawn(Service::Exponential), |x| (-x).exp());
    }

    #[test]
    fn stalls_meet_their_share_of_frames_and_have_their_mean() {
        let mut stream = Streams::new(6).stream(Entity::Run, Purpose::named("test"));
        let stalls = Stalls { probability: 0.02, mean: Duration::from_nanos(NANOS) };
        let lengths: Vec<u64> = (0..FRAMES).map(|_| stalls.nanos(&mut stream)).filter(|length| *length > 0).collect();
        let (count, expected) = (lengths.len() as f64, 0.02 * f64::from(FRAMES));
        assert!((count - expected).abs() < 4.0 * (expected * 0.98).sqrt(), "{count} of about {expected}");
        let mean = lengths.iter().sum::<u64>() as f64 / count / NANOS as f64;
        assert!((mean - 1.0).abs() < 4.0 / count.sqrt(), "{mean}");
    }
}
