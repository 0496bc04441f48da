//! What is measured of each cell: flow completion times, unnecessary retransmissions, copies per exchange, losses.

use crate::results::{Figure, Key, Unit};
use crate::run::CellResult;
use crate::simulate::Outcome;
use crate::stats::{Interval, Pooled, mean_interval};

/// How often the bootstrap resamples the replications.
const RESAMPLES: u32 = 1000;

/// The percentiles of flow completion times, with the columns that hold them.
pub const FCT: &[(&str, f64)] = &[
    ("fct_min_s", 0.0),
    ("fct_p10_s", 0.10),
    ("fct_p25_s", 0.25),
    ("fct_median_s", 0.50),
    ("fct_p75_s", 0.75),
    ("fct_p90_s", 0.90),
    ("fct_max_s", 1.0),
];

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Its name, such as `fct_median_s`.
    pub column: String,
    /// What it counts.
    pub unit: Unit,
    /// The value.
    pub value: f64,
    /// Its 95 % confidence interval, with two replications or more.
    pub ci95: Option<Interval>,
}

/// Everything that was measured of one scheme's clients in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// Which clients of which cell.
    pub key: Key,
    /// How many replications there were.
    pub runs: u32,
    /// How many exchanges each client completed.
    pub exchanges: u32,
    /// The values.
    pub values: Vec<Measurement>,
}

impl Measurements {
    /// Measures a cell. `seed` is of the bootstrap.
    ///
    /// Percentiles and medians are over clients × replications; their intervals resample replications. Counts of
    /// exchanges are summed over replications, all others are means per client or per replication, and their intervals
    /// are by Student's t over replications.
    #[must_use]
    pub fn of(cell: &CellResult, seed: u64) -> Self {
        let outcomes = cell.outcomes.as_slice();
        let mut values = completion_times(outcomes, seed);
        values.extend(unnecessary(outcomes, seed));
        values.extend(retransmissions(outcomes));
        let per_run = |of: fn(&Outcome) -> u64| outcomes.iter().map(|outcome| of(outcome) as f64).collect::<Vec<_>>();
        values.push(mean("copies_per_run", Unit::Copies, &per_run(|outcome| outcome.copies)));
        values.push(mean("drops_per_run", Unit::Copies, &per_run(|outcome| outcome.dropped)));
        values.push(sum("failed_exchanges", Unit::Exchanges, &per_run(|outcome| outcome.failed)));
        let runs = u32::try_from(outcomes.len()).expect("the number of replications has 32 bits");
        Self { key: cell.key.clone(), runs, exchanges: cell.exchanges, values }
    }

    /// The value of this column.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<&Measurement> {
        self.values.iter().find(|value| value.column == column)
    }

    /// All values as figures of an experiment, without published ones.
    pub fn figures(&self, paper: &str, item: &str) -> impl Iterator<Item = Figure> {
        let row = self.key.to_string();
        self.values.iter().map(move |value| Figure {
            paper: paper.to_owned(),
            item: item.to_owned(),
            row: row.clone(),
            column: value.column.clone(),
            unit: value.unit,
            published: None,
            measured: value.value,
            ci95: value.ci95,
            runs: self.runs,
        })
    }
}

fn completion_times(outcomes: &[Outcome], seed: u64) -> Vec<Measurement> {
    const NANOS_PER_SECOND: f64 = 1e9;
    let pooled = Pooled::new(outcomes.iter().map(|outcome| outcome.completion_nanos.as_slice()));
    let shares: Vec<f64> = FCT.iter().map(|(_, share)| *share).collect();
    let intervals = pooled.intervals(&shares, RESAMPLES, seed);
    let mut values: Vec<Measurement> = FCT
        .iter()
        .zip(pooled.percentiles(&shares))
        .enumerate()
        .map(|(index, ((column, _), nanos))| Measurement {
            column: (*column).to_owned(),
            unit: Unit::Seconds,
            value: nanos / NANOS_PER_SECOND,
            ci95: intervals.as_ref().map(|intervals| intervals[index].scaled(1.0 / NANOS_PER_SECOND)),
        })
        .collect();
    let means: Vec<f64> =
        outcomes.iter().map(|outcome| average(&outcome.completion_nanos) / NANOS_PER_SECOND).collect();
    values.push(mean("fct_mean_s", Unit::Seconds, &means));
    values
}

fn unnecessary(outcomes: &[Outcome], seed: u64) -> [Measurement; 2] {
    let pooled = Pooled::new(outcomes.iter().map(|outcome| outcome.unnecessary.as_slice()));
    let median = Measurement {
        column: "unnecessary_median".to_owned(),
        unit: Unit::Copies,
        value: pooled.percentiles(&[0.5])[0],
        ci95: pooled.intervals(&[0.5], RESAMPLES, seed).map(|intervals| intervals[0]),
    };
    let means: Vec<f64> = outcomes.iter().map(|outcome| average(&outcome.unnecessary)).collect();
    [median, mean("unnecessary_mean", Unit::Copies, &means)]
}

/// How many exchanges succeeded after k retransmissions, for every k up to MAX_RETRANSMIT.
fn retransmissions(outcomes: &[Outcome]) -> Vec<Measurement> {
    let possible = outcomes.first().map_or(0, |outcome| outcome.retransmissions.len());
    (0..possible)
        .map(|k| {
            let counts: Vec<f64> = outcomes.iter().map(|outcome| outcome.retransmissions[k] as f64).collect();
            sum(&format!("retransmissions_{k}"), Unit::Exchanges, &counts)
        })
        .collect()
}

fn mean(column: &str, unit: Unit, values: &[f64]) -> Measurement {
    let (value, ci95) = mean_interval(values);
    Measurement { column: column.to_owned(), unit, value, ci95 }
}

fn sum(column: &str, unit: Unit, values: &[f64]) -> Measurement {
    let count = values.len() as f64;
    let (_, ci95) = mean_interval(values);
    let value = values.iter().sum();
    Measurement { column: column.to_owned(), unit, value, ci95: ci95.map(|interval| interval.scaled(count)) }
}

fn average(values: &[u64]) -> f64 {
    values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> CellResult {
        let outcome = |completion_nanos: [u64; 2], unnecessary: [u64; 2], zero: u64| Outcome {
            completion_nanos: completion_nanos.into(),
            unnecessary: unnecessary.into(),
            retransmissions: vec![zero, 100 - zero],
            failed: 1,
            copies: 200 - zero,
            dropped: 3,
        };
        let key = Key {
            scheme: "default".to_owned(),
            mix: None,
            workload: "continuous".to_owned(),
            clients: 2,
            buffer: "inf".to_owned(),
        };
        let outcomes = vec![
            outcome([1_000_000_000, 2_000_000_000], [0, 4], 90),
            outcome([3_000_000_000, 5_000_000_000], [2, 8], 80),
        ];
        CellResult { key, exchanges: 50, outcomes }
    }

    #[test]
    fn percentiles_are_over_clients_of_all_replications() {
        let measured = Measurements::of(&cell(), 1);
        let value = |column: &str| measured.get(column).expect("a column of every cell").value;
        for (column, expected) in [
            ("fct_min_s", 1.0),
            ("fct_p10_s", 1.3),
            ("fct_median_s", 2.5),
            ("fct_p75_s", 3.5),
            ("fct_max_s", 5.0),
            ("fct_mean_s", 2.75),
            ("unnecessary_median", 3.0),
            ("unnecessary_mean", 3.5),
            ("retransmissions_0", 170.0),
            ("retransmissions_1", 30.0),
            ("copies_per_run", 115.0),
            ("drops_per_run", 3.0),
            ("failed_exchanges", 2.0),
        ] {
            assert!((value(column) - expected).abs() < 1e-9, "{column} is {}, not {expected}", value(column));
        }
    }

    #[test]
    fn intervals_of_counts_are_those_of_the_sum() {
        let measured = Measurements::of(&cell(), 1);
        let interval = measured.get("retransmissions_0").and_then(|value| value.ci95).expect("two replications");
        // 170 ± 2·t(1; .975)·s/√2 with s = 7.0711: 2·12.7062·5 = 127.06.
        assert!((interval.low - 42.938).abs() < 1e-2 && (interval.high - 297.062).abs() < 1e-2, "{interval:?}");
        assert!(measured.figures("p", "i").all(|figure| figure.runs == 2 && figure.row == "default/continuous/2/inf"));
    }
}
