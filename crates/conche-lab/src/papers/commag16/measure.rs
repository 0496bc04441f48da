//! What is measured of runs, and which table or figure of the paper it belongs to.

use super::cell::{Cell, Continuous, Outcome};
use super::published;
use super::scenario::Scenario;
use crate::campaign::Cell as _;
use crate::results::{Figure, Row, Unit};

/// All items, in the order of the paper. Figures 3 and 4 have other networks as well.
const ITEMS: [&str; 5] = ["table1", "fig1", "fig2", "table2", "fig3"];

/// The place of an item in the paper; what is in none comes last.
pub(super) fn rank(item: &str) -> usize {
    ITEMS.iter().position(|name| *name == item).unwrap_or(ITEMS.len())
}

/// One value of each replication of a cell.
pub(super) struct Series {
    pub(super) row: String,
    pub(super) column: &'static str,
    unit: Unit,
    item: &'static str,
    pub(super) values: Vec<f64>,
}

impl Series {
    pub(super) fn figure(&self, paper: &str) -> Figure {
        let row = Row { paper, item: self.item, row: &self.row };
        row.mean(self.column, self.unit, &self.values, published::of(&self.row, self.column))
    }
}

/// What a continuous run gives.
type Measure = fn(&Continuous) -> f64;

const CONTINUOUS: [(&str, &str, Unit, Measure); 5] = [
    ("fig1", "throughput_per_s", Unit::PerSecond, |run| run.throughput),
    ("fig2", "retransmissions_percent", Unit::Percent, |run| 100.0 * run.retransmission_share),
    ("table2", "rtt_mean_s", Unit::Seconds, |run| run.round_trip_s),
    ("table2", "initial_rto_mean_s", Unit::Seconds, |run| run.initial_rto_s),
    ("grid", "jain_index", Unit::Ratio, |run| jain_index(&run.transactions)),
];

/// Everything that the runs of a cell give.
pub(super) fn series(cell: &Cell<'_>, outcomes: &[Outcome]) -> Vec<Series> {
    let new = |item, column, unit, values: Vec<f64>| Series { row: cell.name(), column, unit, item, values };
    let mut runs = Vec::new();
    let mut settled = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Continuous(run) => runs.push(run),
            Outcome::Burst(seconds) => settled.push(*seconds),
        }
    }
    let continuous = CONTINUOUS
        .iter()
        .map(|(item, column, unit, measure)| new(item, column, *unit, runs.iter().map(|run| measure(run)).collect()));
    let burst = std::iter::once(new("fig3", "settling_time_s", Unit::Seconds, settled));
    continuous.chain(burst).filter(|series| !series.values.is_empty()).collect()
}

/// Bytes of state for each peer: Table 1's column of numbers. The rest of that table is in words.
pub(super) fn features(scenario: &Scenario) -> Vec<Figure> {
    let bytes = scenario.schemes.iter().filter_map(|scheme| {
        let features = scheme.named()?.features;
        let row = Row { paper: &scenario.name, item: "table1", row: &scheme.name };
        let published = features.published_bytes.map(f64::from);
        Some(row.mean("peer_bytes", Unit::Bytes, &[features.peer_bytes as f64], published))
    });
    bytes.collect()
}

/// (Σx)²/(n·Σx²): 1 if all are equal, 1/n if one has everything (Jain, Chiu, Hawe 1984).
fn jain_index(transactions: &[u32]) -> f64 {
    let sum: f64 = transactions.iter().map(|x| f64::from(*x)).sum();
    let squares: f64 = transactions.iter().map(|x| f64::from(*x).powi(2)).sum();
    if squares > 0.0 { sum * sum / (transactions.len() as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_1_for_equals_and_1_over_n_for_one_of_n() {
        assert!((jain_index(&[7, 7, 7, 7]) - 1.0).abs() < 1e-12);
        assert!((jain_index(&[9, 0, 0, 0]) - 0.25).abs() < 1e-12);
        assert!((jain_index(&[1, 2, 3]) - 36.0 / 42.0).abs() < 1e-12);
    }
}
