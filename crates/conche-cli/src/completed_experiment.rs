//! [`CompletedExperiment`]: an experiment and its results.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use conche_lab::campaign::Completion;
use conche_lab::comparison::Cell;
use conche_lab::experiment::Experiment;
use conche_lab::papers::Summary;
use conche_lab::results::{MeasuredValue, write_json};

use crate::Global;
use crate::show;

/// A completed experiment.
pub struct CompletedExperiment {
    pub experiment: Experiment,
    pub values: Vec<MeasuredValue>,
    /// Values by which controllers are compared.
    pub cells: Vec<Cell>,
    pub completion: Completion,
    pub elapsed: Duration,
}

impl CompletedExperiment {
    pub fn name(&self) -> &str {
        self.experiment.name()
    }

    /// Describes experiment, replications and seed in one line.
    pub fn origin(&self) -> String {
        self.experiment.to_string().replace('\n', ": ")
    }

    /// Prints the results on standard output, as text or JSON.
    pub fn print(&self, global: &Global) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        let printed = match global.json {
            true => write_json(&self.values, &mut out),
            false => write!(out, "{}", show::colour_verdicts(&self.to_string())),
        };
        printed.and_then(|()| out.flush()).context("cannot write to standard output")
    }

    /// Summarises how well the paper was reproduced.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.experiment, &self.values)
    }

    /// Describes the cost of simulating in one line.
    pub fn stats(&self) -> String {
        let cost = self.completion.cost;
        let rate = cost.events_per_second().unwrap_or_default() / 1e6;
        format!(
            "{}: {} runs, {:.1} million events, {rate:.2} million a CPU second, {:.1} s in all",
            self.name(),
            cost.runs,
            cost.events as f64 / 1e6,
            self.elapsed.as_secs_f64()
        )
    }
}

/// Writes the results as text.
impl std::fmt::Display for CompletedExperiment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.experiment)?;
        self.experiment.tables(&self.values).iter().try_for_each(|table| write!(f, "\n{table}"))
    }
}
