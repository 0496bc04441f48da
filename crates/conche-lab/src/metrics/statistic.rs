//! Statistics over a cell's replications.
//!
//! Percentiles pool all replications' flows, and intervals resample replications. Other statistics
//! use one number per replication, with Student's t.

use conche_scenario::Statistic;

use super::Sample;
use crate::stats::{Interval, Pooled, mean_interval, percentile};

/// A statistic, with a 95 % interval from two replications on.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Label among several numbers, else empty.
    pub label: String,
    /// Value.
    pub value: f64,
    /// Confidence interval.
    pub ci95: Option<Interval>,
    /// Replications with a value.
    pub runs: u32,
    /// First replication with a value, from 0.
    pub first_run: usize,
    /// Value per replication, if each has one.
    pub per_replication: Vec<f64>,
}

/// Bootstrap resamples of the replications.
const RESAMPLES: u32 = 1000;

/// Computes a statistic of one sample per replication; empty for percentiles.
#[must_use]
pub fn of(statistic: Statistic, samples: &[&Sample]) -> Vec<Measured> {
    let mut labels: Vec<(&str, usize)> = Vec::new();
    for (run, sample) in samples.iter().enumerate() {
        for (label, _) in numbers(sample, statistic) {
            if !labels.iter().any(|(known, _)| *known == label) {
                labels.push((label, run));
            }
        }
    }
    let of_label = |(label, first_run): (&str, usize)| {
        let numbers = samples.iter().flat_map(|sample| numbers(sample, statistic)).filter(|(of, _)| *of == label);
        let numbers: Vec<f64> = numbers.map(|(_, number)| number).collect();
        Measured { first_run, ..of_numbers(statistic, label, &numbers, samples.len()) }
    };
    labels.into_iter().map(of_label).collect()
}

/// Computes a statistic within a run, by label.
#[must_use]
pub fn in_run(statistic: Statistic, sample: &Sample) -> Vec<(&str, f64)> {
    match (statistic, sample) {
        (Statistic::Percentile(percent), Sample::Each(values, base)) if !values.is_empty() => {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            vec![("", percentile(&sorted, percent / 100.0) / base)]
        }
        _ => numbers(sample, statistic),
    }
}

/// Computes a statistic within a run, if a number.
#[must_use]
pub fn number(statistic: Statistic, sample: &Sample) -> Option<f64> {
    numbers(sample, statistic).first().map(|(_, number)| *number)
}

pub(crate) fn of_numbers(statistic: Statistic, label: &str, numbers: &[f64], replications: usize) -> Measured {
    let count = numbers.len() as f64;
    let (mean, ci95) = mean_interval(numbers);
    let (value, factor) = match statistic {
        Statistic::Mean | Statistic::Median | Statistic::Deviation | Statistic::Percentile(_) => (mean, 1.0),
        Statistic::Sum => (numbers.iter().sum(), count),
        Statistic::SumOf(replications) => {
            let scale = f64::from(replications) / count;
            (numbers.iter().sum::<f64>() * scale, count * scale)
        }
    };
    let runs = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    let ci95 = ci95.map(|interval| interval.scaled(factor));
    let per_replication = if numbers.len() == replications { numbers } else { &[] };
    let per_replication = per_replication.iter().map(|number| number * factor).collect();
    Measured { label: label.to_owned(), value, ci95, runs, first_run: 0, per_replication }
}

/// Computes percentiles, 0 to 100, over all replications' flows or exchanges, with one bootstrap of
/// `seed`.
#[must_use]
pub fn percentiles(samples: &[&Sample], mut percents: Vec<f64>, seed: u64) -> Vec<(f64, Measured)> {
    let each = || {
        samples
            .iter()
            .filter_map(|sample| if let Sample::Each(values, base) = sample { Some((values, *base)) } else { None })
    };
    let runs: Vec<&[u64]> = each().map(|(values, _)| values.as_slice()).collect();
    let base = each().map(|(_, base)| base).next();
    let Some(base) = base.filter(|_| runs.iter().any(|values| !values.is_empty())) else { return Vec::new() };
    percents.sort_unstable_by(f64::total_cmp);
    let shares: Vec<f64> = percents.iter().map(|percent| percent / 100.0).collect();
    let pooled = Pooled::new(runs.iter().copied());
    let intervals = pooled.intervals(&shares, RESAMPLES, seed);
    let of_run = |run: &&[u64]| (!run.is_empty()).then(|| Pooled::new([*run]).percentiles(&shares));
    let per_replication = runs.iter().map(of_run).collect::<Option<Vec<_>>>().unwrap_or_default();
    let runs = u32::try_from(runs.len()).unwrap_or(u32::MAX);
    let measured = pooled.percentiles(&shares).into_iter().enumerate().map(|(place, value)| Measured {
        label: String::new(),
        value: value / base,
        ci95: intervals.as_ref().map(|intervals| intervals[place].scaled(1.0 / base)),
        runs,
        first_run: 0,
        per_replication: per_replication.iter().map(|of_run| of_run[place] / base).collect(),
    });
    percents.iter().copied().zip(measured).collect()
}

fn numbers(sample: &Sample, statistic: Statistic) -> Vec<(&str, f64)> {
    match sample {
        Sample::One(number) => vec![("", *number)],
        Sample::Ratio(above, below) => vec![("", above / below)],
        Sample::OfFlows(values) => mean(values.iter().copied().flatten()).map(|mean| ("", mean)).into_iter().collect(),
        Sample::Each(values, _) if values.is_empty() => Vec::new(),
        Sample::Each(values, per) if statistic == Statistic::Median => {
            let mut values = values.clone();
            let middle = values.len() / 2;
            let (_, median, _) = values.select_nth_unstable(middle);
            vec![("", *median as f64 / per)]
        }
        Sample::Each(values, per) => {
            let mean = values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64;
            if statistic != Statistic::Deviation {
                return vec![("", mean / per)];
            }
            let squares: f64 = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
            let deviation = (squares / (values.len() as f64 - 1.0)).sqrt() / per;
            if values.len() > 1 { vec![("", deviation)] } else { Vec::new() }
        }
        Sample::Labelled(numbers) => numbers.iter().map(|(label, number)| (label.as_str(), *number)).collect(),
        Sample::None => Vec::new(),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}
