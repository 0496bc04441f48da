//! Variation of link rates between replications.

use conche_netsim::BitRate;
use conche_netsim::rng::{Entity, Purpose, Streams};

use crate::campaign::Replication;
use crate::scenario::{Draw, Spread};
use crate::stats::normal_quantile;

/// Draws around this mean, from a stream named after the link.
///
/// Whole bits hide machines' differences in the exponential.
pub(super) fn rate(spread: Spread, mean: BitRate, name: &str, replication: Replication) -> BitRate {
    let z = match spread.draw {
        Draw::Independent => Streams::new(replication.seed).stream(Entity::Run, Purpose::named(name)).normal(),
        Draw::Stratified => normal_quantile((f64::from(replication.index) + 0.5) / f64::from(replication.count)),
    };
    // exp(μ + σ²/2) is a lognormal distribution's mean.
    let drawn = mean.as_bits() as f64 * (spread.sigma * z - spread.sigma * spread.sigma / 2.0).exp();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and casts saturate
    let bits = drawn.round() as u64;
    BitRate::bit(bits.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(draw: Draw, count: u32) -> Vec<f64> {
        let of_run = |index| {
            let replication = Replication { index, count, seed: u64::from(index) };
            rate(Spread { sigma: 0.5, draw }, BitRate::kbit(15), "uplink", replication).as_bits() as f64
        };
        (0..count).map(of_run).collect()
    }

    #[test]
    fn rates_of_runs_are_lognormal_around_their_mean() {
        let rates = rates(Draw::Independent, 20_000);
        let mean = rates.iter().sum::<f64>() / 20_000.0;
        // Coefficient of variation √(exp(σ²) − 1) = 0.533.
        assert!((mean / 15_000.0 - 1.0).abs() < 4.0 * 0.533 / 20_000_f64.sqrt(), "{mean}");
        let logarithms: Vec<f64> = rates.iter().map(|rate| (rate / 15_000.0).ln() + 0.125).collect();
        let variance = logarithms.iter().map(|log| log * log).sum::<f64>() / 20_000.0;
        assert!((variance - 0.25).abs() < 4.0 * 0.25 * (2.0_f64 / 20_000.0).sqrt(), "{variance}");
    }

    #[test]
    fn stratified_rates_have_their_mean_with_few_runs_already() {
        let rates = rates(Draw::Stratified, 15);
        assert!(rates.is_sorted(), "each from the next part of the distribution");
        assert!((rates[7] - 15_000.0 * (-0.125_f64).exp()).abs() < 1.0, "the middle one is the median");
        let mean = rates.iter().sum::<f64>() / 15.0;
        assert!((mean / 15_000.0 - 1.0).abs() < 0.02, "{mean}");
    }
}
