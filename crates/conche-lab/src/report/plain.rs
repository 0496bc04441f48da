//! The figures and the table of a scenario that is no paper's.

use super::{Align, Table, number};
use crate::campaign::{Cost, ExperimentError, RunOptions, Watch};
use crate::experiment::{About, Effort, Experiment};
use crate::metrics::Measurements;
use crate::results::Figure;
use crate::run;
use crate::scenario::{Scenario, ScenarioError};

/// Clients behind one bottleneck: every value of every cell, as item `grid`, and one table.
#[derive(Clone, Debug)]
pub struct Plain(pub Scenario);

impl Experiment for Plain {
    fn about(&self) -> About<'_> {
        self.0.about()
    }

    fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        self.0.adjust(effort)
    }

    fn measure(&self, options: RunOptions, watch: Watch<'_>) -> Result<(Vec<Figure>, Cost), ExperimentError> {
        let (measured, cost) = run::run(&self.0, options, watch)?;
        Ok((plain_figures(&self.0.name, &measured), cost))
    }

    fn tables(&self, figures: &[Figure]) -> Vec<Table> {
        plain_tables(figures)
    }
}

fn plain_figures(name: &str, measured: &[Measurements]) -> Vec<Figure> {
    measured.iter().flat_map(|cell| cell.figures(name, "grid")).collect()
}

/// The columns that the table shows, with their headings.
const SHOWN: &[(&str, &str)] = &[
    ("fct_p10_s", "p10 (s)"),
    ("fct_p25_s", "p25 (s)"),
    ("fct_median_s", "median (s)"),
    ("fct_p75_s", "p75 (s)"),
    ("fct_p90_s", "p90 (s)"),
    ("unnecessary_median", "unnecessary"),
    ("copies_per_run", "copies"),
    ("drops_per_run", "drops"),
];

/// Each cell a row.
fn plain_tables(figures: &[Figure]) -> Vec<Table> {
    let rows = figures.chunk_by(|a, b| a.row == b.row).map(|cell| {
        let shown = SHOWN.iter().map(|(column, _)| {
            let figure = cell.iter().find(|figure| figure.column == *column);
            figure.map(|figure| number(figure.measured, figure.unit)).unwrap_or_default()
        });
        cell.first().map(|figure| figure.row.clone()).into_iter().chain(shown).collect()
    });
    vec![Table {
        title: "Flow completion times and copies of each scheme/workload/clients/buffer".to_owned(),
        header: std::iter::once("cell").chain(SHOWN.iter().map(|(_, name)| *name)).map(String::from).collect(),
        align: Align::FirstLeft,
        rows: rows.collect(),
        notes: vec![
            "unnecessary: retransmissions of a client although an earlier copy got through, median".to_owned(),
            "copies, drops: of all clients of a replication, mean".to_owned(),
        ],
    }]
}
