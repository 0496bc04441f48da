//! Service: how long a frame occupies a link, where that is not exactly its size over the link's rate.

use std::time::Duration;

use crate::rng::Stream;
use crate::units::nanos;

/// How the time that a link takes to serialise a frame deviates from the frame's size over the link's rate.
///
/// The mean is that quotient under each of them, so that the link's long-term rate stays what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Not at all.
    #[default]
    Exact,
    /// Each frame's time is multiplied by a Rayleigh-distributed factor of mean 1, √X/Γ(3/2) with X exponential of mean 1
    /// (standard deviation 0.523): a link whose rate changes from frame to frame, as under a radio that fades and repeats
    /// blocks.
    Rayleigh,
}

/// Pauses of a link: some frames take much longer than their size says, and what waits behind them waits as well, as where
/// a radio link is lost and set up again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Probability that a frame meets one. 0, the default: never.
    pub probability: f64,
    /// The mean of its length, which is exponentially distributed.
    pub mean: Duration,
}

/// Γ(3/2) = √π/2, the mean of √X for an exponential X of mean 1.
const MEAN_OF_ROOT: f64 = 0.886_226_925_452_758;

impl Service {
    /// The time of a frame whose size over the rate is `nanos`.
    pub(super) fn nanos(self, nanos: u64, stream: &mut Stream) -> u64 {
        match self {
            Self::Exact => nanos,
            Self::Rayleigh => {
                let factor = libm::sqrt(stream.exponential()) / MEAN_OF_ROOT;
                // Casts from floats saturate, and the product is not negative.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let drawn = (nanos as f64 * factor + 0.5) as u64;
                drawn
            }
        }
    }
}

impl Stalls {
    /// How many nanoseconds the next frame takes longer.
    pub(super) fn nanos(&self, stream: &mut Stream) -> u64 {
        if self.probability <= 0.0 || !stream.chance(self.probability) {
            return 0;
        }
        // As above: a saturating cast of something that is not negative.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let length = (nanos(self.mean) as f64 * stream.exponential()) as u64;
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    const FRAMES: u32 = 200_000;
    const NANOS: u64 = 50_000_000;

    /// In units of what is served exactly.
    fn drawn() -> Vec<f64> {
        let mut stream = Streams::new(5).stream(Entity::Run, Purpose::named("test"));
        (0..FRAMES).map(|_| Service::Rayleigh.nanos(NANOS, &mut stream) as f64 / NANOS as f64).collect()
    }

    #[test]
    fn the_factor_has_mean_1_and_the_variance_of_rayleighs_distribution() {
        let factors = drawn();
        let mean = factors.iter().sum::<f64>() / f64::from(FRAMES);
        let square = factors.iter().map(|factor| factor * factor).sum::<f64>() / f64::from(FRAMES);
        let error = 0.523 / f64::from(FRAMES).sqrt();
        assert!((mean - 1.0).abs() < 4.0 * error, "{mean}");
        // E[X]/Γ(3/2)² = 4/π; the square is exponential, so its deviation is its mean.
        let expected = 4.0 / std::f64::consts::PI;
        assert!((square - expected).abs() < 4.0 * expected / f64::from(FRAMES).sqrt(), "{square}");
    }

    /// P(factor > x) = exp(−πx²/4).
    #[test]
    fn frames_take_longer_than_x_times_the_mean_as_often_as_rayleigh_says() {
        let factors = drawn();
        for x in [0.2_f64, 1.0, 2.0, 3.0] {
            let expected = (-std::f64::consts::FRAC_PI_4 * x * x).exp();
            let share = factors.iter().filter(|factor| **factor > x).count() as f64 / f64::from(FRAMES);
            let error = (expected * (1.0 - expected) / f64::from(FRAMES)).sqrt();
            assert!((share - expected).abs() < 4.0 * error, "{x}: {share} instead of {expected}");
        }
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
