//! Percentiles over clients × replications, with intervals over replications: of few by Student's t,
//! of more by a bootstrap.

use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

use super::Interval;
use super::interval::mean_interval;

/// From this number of replications on, the bootstrap has enough different resamples.
const ENOUGH: u32 = 10;

/// Values of all clients of all replications, sorted, each with its replication.
#[derive(Clone, Debug)]
pub struct Pooled {
    sorted: Vec<(u64, u32)>,
    runs: u32,
}

/// Returns the percentile `share` (0 to 1) of sorted values, interpolated linearly between the two
/// nearest (Hyndman and Fan's type 7, NumPy's default).
///
/// # Panics
/// If `sorted` is empty.
#[must_use]
pub fn percentile(sorted: &[u64], share: f64) -> f64 {
    let (below, fraction) = position(sorted.len(), share);
    let low = sorted[below];
    let high = sorted[(below + 1).min(sorted.len() - 1)];
    interpolate(low, high, fraction)
}

impl Pooled {
    /// Pools one list of values per replication. Empty ones do not count.
    ///
    /// # Panics
    /// If `runs` contains no value.
    #[must_use]
    pub fn new<'a>(runs: impl IntoIterator<Item = &'a [u64]>) -> Self {
        let mut sorted = Vec::new();
        let mut count = 0;
        // A resample of empty ones alone would have no percentile.
        for values in runs.into_iter().filter(|values| !values.is_empty()) {
            sorted.extend(values.iter().map(|value| (*value, count)));
            count += 1;
        }
        assert!(!sorted.is_empty(), "a percentile needs at least one value");
        sorted.sort_unstable();
        Self { sorted, runs: count }
    }

    /// Returns the percentiles `shares` (0 to 1 each).
    #[must_use]
    pub fn percentiles(&self, shares: &[f64]) -> Vec<f64> {
        self.resampled(&vec![1; self.runs as usize], shares)
    }

    /// Returns 95 % intervals of the percentiles `shares`, ascending. `None` with fewer than two
    /// replications.
    ///
    /// From ten replications on, `resamples` draws of replications with replacement. The minimum
    /// and maximum of a resample never lie outside the sample's, so their intervals are one-sided.
    ///
    /// Below ten, draws repeat the same few replications, and their intervals contain the
    /// percentile less often than in 95 % of cases. Then Student's t over the percentiles of each
    /// replication, around the pooled one.
    #[must_use]
    pub fn intervals(&self, shares: &[f64], resamples: u32, seed: u64) -> Option<Vec<Interval>> {
        if resamples == 0 {
            return None;
        }
        if self.runs < ENOUGH {
            let each: Vec<Vec<f64>> = (0..self.runs).map(|run| self.of_run(run, shares)).collect();
            let around = |(place, center): (usize, f64)| {
                let (_, interval) = mean_interval(&each.iter().map(|of_run| of_run[place]).collect::<Vec<_>>());
                let half = interval.map(|interval| (interval.high - interval.low) / 2.0)?;
                Some(Interval { low: center - half, high: center + half })
            };
            return self.percentiles(shares).into_iter().enumerate().map(around).collect();
        }
        Some(self.bootstrap(shares, resamples, seed))
    }

    fn of_run(&self, run: u32, shares: &[f64]) -> Vec<f64> {
        let own: Vec<u64> = self.sorted.iter().filter(|(_, of)| *of == run).map(|(value, _)| *value).collect();
        shares.iter().map(|share| percentile(&own, *share)).collect()
    }

    fn bootstrap(&self, shares: &[f64], resamples: u32, seed: u64) -> Vec<Interval> {
        let mut random = Pcg64Mcg::new(u128::from(seed) << 64 | 0xb007_57a9);
        let mut outcomes = vec![Vec::with_capacity(resamples as usize); shares.len()];
        let mut weights = vec![0; self.runs as usize];
        for _ in 0..resamples {
            weights.fill(0);
            for _ in 0..self.runs {
                weights[below(&mut random, self.runs)] += 1;
            }
            for (outcome, value) in outcomes.iter_mut().zip(self.resampled(&weights, shares)) {
                outcome.push(value);
            }
        }
        outcomes.into_iter().map(middle_95).collect()
    }

    /// `weights` are counts of replications; `shares` ascend.
    fn resampled(&self, weights: &[u32], shares: &[f64]) -> Vec<f64> {
        let total: usize = self.sorted.iter().map(|(_, run)| weights[*run as usize] as usize).sum();
        let mut walk = Walk { sorted: self.sorted.iter(), weights, reached: 0, value: 0 };
        let mut found = Vec::with_capacity(shares.len());
        for share in shares {
            let (below, fraction) = position(total, *share);
            let low = walk.to(below);
            // A clone looks ahead: the next percentile may lie between the same two values.
            let high = walk.clone().to((below + 1).min(total - 1));
            found.push(interpolate(low, high, fraction));
        }
        found
    }
}

#[derive(Clone)]
struct Walk<'a> {
    sorted: std::slice::Iter<'a, (u64, u32)>,
    weights: &'a [u32],
    reached: usize,
    value: u64,
}

impl Walk<'_> {
    fn to(&mut self, index: usize) -> u64 {
        while self.reached <= index
            && let Some((value, run)) = self.sorted.next()
        {
            self.value = *value;
            self.reached += self.weights[*run as usize] as usize;
        }
        self.value
    }
}

/// Returns the index of the order statistic at or below a percentile, and the fraction to the next.
fn position(count: usize, share: f64) -> (usize, f64) {
    let exact = (count - 1) as f64 * share.clamp(0.0, 1.0);
    // Not negative and below the count.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let below = exact as usize;
    (below, exact - below as f64)
}

fn interpolate(low: u64, high: u64, fraction: f64) -> f64 {
    low as f64 + fraction * (high - low) as f64
}

fn middle_95(mut values: Vec<f64>) -> Interval {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let (below, fraction) = position(values.len(), share);
        let high = values[(below + 1).min(values.len() - 1)];
        values[below] + fraction * (high - values[below])
    };
    Interval { low: at(0.025), high: at(0.975) }
}

/// By multiplication; the bias of 2⁻³² × count does not matter.
#[allow(clippy::cast_possible_truncation)]
fn below(random: &mut Pcg64Mcg, count: u32) -> usize {
    ((u64::from(random.next_u32()) * u64::from(count)) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn percentiles_interpolate_between_neighbours() {
        let sorted = [10, 20, 30, 40];
        assert!(close(percentile(&sorted, 0.0), 10.0));
        assert!(close(percentile(&sorted, 0.1), 13.0));
        assert!(close(percentile(&sorted, 0.5), 25.0));
        assert!(close(percentile(&sorted, 0.75), 32.5));
        assert!(close(percentile(&sorted, 1.0), 40.0));
    }

    #[test]
    fn pooling_sorts_over_all_replications() {
        let pooled = Pooled::new([[40, 10].as_slice(), &[30, 20]]);
        let found = pooled.percentiles(&[0.0, 0.1, 0.5, 0.75, 1.0]);
        for (found, expected) in found.iter().zip([10.0, 13.0, 25.0, 32.5, 40.0]) {
            assert!(close(*found, expected), "{found} is not {expected}");
        }
    }

    #[test]
    fn a_resample_equals_the_percentile_of_the_repeated_values() {
        let runs = [vec![5, 1, 9, 9], vec![2, 2, 7, 30], vec![4, 8, 8, 100]];
        let pooled = Pooled::new(runs.iter().map(Vec::as_slice));
        let shares = [0.0, 0.1, 0.25, 0.5, 0.5, 0.75, 0.9, 0.999, 1.0];
        for weights in [[1, 1, 1], [3, 0, 0], [0, 2, 1], [0, 0, 3], [2, 1, 0]] {
            let mut repeated: Vec<u64> = runs
                .iter()
                .zip(weights)
                .flat_map(|(run, weight)| run.iter().copied().cycle().take(run.len() * weight as usize))
                .collect();
            repeated.sort_unstable();
            for (found, share) in pooled.resampled(&weights, &shares).iter().zip(shares) {
                assert!(close(*found, percentile(&repeated, share)), "{weights:?} at {share}: {found}");
            }
        }
    }

    #[test]
    fn replications_that_agree_give_an_interval_of_one_point() {
        let pooled = Pooled::new([[1, 2, 3].as_slice(), &[1, 2, 3], &[1, 2, 3]]);
        let intervals = pooled.intervals(&[0.5], 200, 1).expect("three replications");
        assert_eq!(intervals, [Interval { low: 2.0, high: 2.0 }]);
    }

    #[test]
    fn the_bootstrap_scatters_as_replications_do() {
        let runs: Vec<Vec<u64>> = (0..20).map(|run| vec![1000 + 10 * run; 50]).collect();
        let pooled = Pooled::new(runs.iter().map(Vec::as_slice));
        let interval = pooled.intervals(&[0.5], 2000, 1).expect("twenty replications")[0];
        // The median of 20 equally spaced replications.
        assert!(interval.contains(1095.0), "{interval:?}");
        assert!(interval.high - interval.low > 30.0, "{interval:?}");
        assert_eq!(pooled.intervals(&[0.5], 2000, 1), pooled.intervals(&[0.5], 2000, 1));
        assert_ne!(pooled.intervals(&[0.5], 200, 1), pooled.intervals(&[0.5], 200, 2));
    }

    fn coverage(replications: u32, share: f64, intervals: impl Fn(&Pooled) -> Vec<Interval>) -> f64 {
        const TRIALS: u32 = 500;
        let mut random = Pcg64Mcg::new(7);
        let mut normal = || crate::normal_quantile((f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0);
        let truth = 1e6 + 1e5 * 2.0_f64.sqrt() * crate::normal_quantile(share);
        let mut contained = 0;
        for _ in 0..TRIALS {
            let mut run = || -> Vec<u64> {
                let effect = normal();
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far from 0
                (0..30).map(|_| (1e6 + 1e5 * (effect + normal())) as u64).collect()
            };
            let runs: Vec<Vec<u64>> = (0..replications).map(|_| run()).collect();
            let pooled = Pooled::new(runs.iter().map(Vec::as_slice));
            contained += u32::from(intervals(&pooled)[0].contains(truth));
        }
        f64::from(contained) / f64::from(TRIALS)
    }

    #[test]
    fn intervals_of_few_replications_contain_the_median_as_often_as_they_say() {
        for replications in [3, 5, 9] {
            let found = coverage(replications, 0.5, |pooled| pooled.intervals(&[0.5], 200, 1).expect("some"));
            assert!((0.92..=0.98).contains(&found), "{replications} replications: {found}");
        }
        let resampled = coverage(3, 0.5, |pooled| pooled.bootstrap(&[0.5], 200, 1));
        assert!(resampled < 0.88, "{resampled}");
    }

    #[test]
    fn a_replication_without_values_does_not_count() {
        let pooled = Pooled::new([[1, 3].as_slice(), &[], &[2, 4]]);
        assert!(pooled.intervals(&[0.5], 100, 1).is_some());
        assert_eq!(Pooled::new([[1, 2].as_slice(), &[]]).intervals(&[0.5], 100, 1), None);
        // Some of these resamples would draw empty ones only.
        let (some, none): (Vec<Vec<u64>>, _) = ((1..=10).map(|value| vec![value]).collect(), vec![[].as_slice(); 100]);
        let with_empty = Pooled::new(some.iter().map(Vec::as_slice).chain(none));
        let without = Pooled::new(some.iter().map(Vec::as_slice));
        assert_eq!(with_empty.intervals(&[0.5], 300_000, 1), without.intervals(&[0.5], 300_000, 1));
    }

    #[test]
    fn one_replication_has_no_interval() {
        assert_eq!(Pooled::new([[1, 2].as_slice()]).intervals(&[0.5], 100, 1), None);
    }
}
