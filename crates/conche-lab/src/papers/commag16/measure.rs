//! What is measured of runs, and which table or figure of the paper it belongs to.

use super::cell::{Cell, Continuous, Outcome, Where};
use super::published;
use super::scenario::Scenario;
use crate::campaign::Cell as _;
use crate::results::{Figure, Row, Unit};
use crate::stats::jain_index;

/// All items, in the order of the paper.
const ITEMS: [&str; 6] = ["table1", "fig1", "fig2", "table2", "fig3", "fig4"];

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

/// Where each is shown for GPRS, and for FlockLab.
const CONTINUOUS: [(&str, &str, &str, Unit, Measure); 5] = [
    ("fig1", "grid", "throughput_per_s", Unit::PerSecond, |run| run.throughput),
    ("fig2", "fig2", "retransmissions_percent", Unit::Percent, |run| 100.0 * run.retransmission_share),
    ("table2", "grid", "rtt_mean_s", Unit::Seconds, |run| run.round_trip_s),
    ("table2", "grid", "initial_rto_mean_s", Unit::Seconds, |run| run.initial_rto_s),
    ("grid", "fig4", "jain_index", Unit::Ratio, |run| fairness(&run.transactions)),
];

/// Classes of ten transactions of a client in a run; whoever has more than 100 counts as having 100.
pub(super) const CLASSES: [&str; 11] = [
    "nodes_with_0_to_9_percent",
    "nodes_with_10_to_19_percent",
    "nodes_with_20_to_29_percent",
    "nodes_with_30_to_39_percent",
    "nodes_with_40_to_49_percent",
    "nodes_with_50_to_59_percent",
    "nodes_with_60_to_69_percent",
    "nodes_with_70_to_79_percent",
    "nodes_with_80_to_89_percent",
    "nodes_with_90_to_99_percent",
    "nodes_with_100_percent",
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
    let motes = matches!(cell.place, Where::FlockLab(_));
    let continuous = CONTINUOUS.iter().map(|(gprs, flocklab, column, unit, measure)| {
        let item = if motes { flocklab } else { gprs };
        new(item, column, *unit, runs.iter().map(|run| measure(run)).collect())
    });
    // Behind the modem all clients have more than 100.
    let classes = CLASSES.iter().enumerate().filter(|_| motes).map(|(class, column)| {
        let shares = runs.iter().map(|run| 100.0 * share_of_class(&run.transactions, class));
        new("fig4", column, Unit::Percent, shares.collect())
    });
    let burst = std::iter::once(new("fig3", "settling_time_s", Unit::Seconds, settled));
    continuous.chain(classes).chain(burst).filter(|series| !series.values.is_empty()).collect()
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

/// Which share of clients has so many tens of transactions.
fn share_of_class(transactions: &[u32], class: usize) -> f64 {
    let class_of = |x: u32| (x / 10).min(10) as usize;
    let inside = transactions.iter().filter(|x| class_of(**x) == class).count();
    inside as f64 / transactions.len().max(1) as f64
}

fn fairness(transactions: &[u32]) -> f64 {
    let shares: Vec<f64> = transactions.iter().map(|x| f64::from(*x)).collect();
    jain_index(&shares).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_is_in_one_class_and_above_100_in_the_last() {
        let transactions = [0, 9, 10, 99, 100, 250];
        let shares: Vec<f64> = (0..CLASSES.len()).map(|class| 6.0 * share_of_class(&transactions, class)).collect();
        let expected = [2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0];
        assert!(shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 1e-9), "{shares:?}");
    }
}
