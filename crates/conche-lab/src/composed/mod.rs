//! The experiment that a scenario composes: its cells run, measured and shown.
//!
//! | file | what it holds |
//! |---|---|
//! | `cells` | the runs of a cell, and what is measured of each |
//! | `figures` | what is made of the replications, under the tables and figures that values belong to |
//! | `features` | what distinguishes the schemes before any run |
//! | `claims` | what is said in words, put to the test |
//! | `tables` | tables of text |
//! | `published` | the values of a paper, from CSV |

mod cells;
mod claims;
mod features;
mod figures;
mod published;
mod tables;

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use crate::campaign::{self, Cost, ExperimentError, RunOptions, Watch};
use crate::experiment::{About, Bar, Effort, Experiment, replications};
use crate::report::Table;
use crate::results::Figure;
use crate::scenario::{Document, Files, Scenario, ScenarioError, matches_any};
use cells::CellRuns;
use claims::Series;
pub use claims::{Compared, compared};
use published::Published;

/// An experiment that a scenario composes.
#[derive(Clone, Debug)]
pub struct Composed {
    document: Document,
    published: Published,
}

impl Composed {
    /// Reads a scenario. `file` gives the texts of files that it names.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn read(text: &str, file: impl Fn(&str) -> Result<String, String>) -> Result<Self, ScenarioError> {
        Self::read_with(text, &file)
    }

    /// The same for any files, so that it is compiled once, not for each kind of them.
    pub(crate) fn read_with(text: &str, file: Files<'_>) -> Result<Self, ScenarioError> {
        let document = Document::read_with(text, file)?;
        let published = match &document.scenario().published {
            None => Published::default(),
            Some(name) => file(name)
                .and_then(|text| Published::from_csv(&text))
                .map_err(|problem| ScenarioError::new("published", format!("{name}: {problem}")))?,
        };
        Ok(Self { document, published })
    }

    /// How much is run, with the duration of runs if all are equally long.
    fn extent(&self) -> String {
        let number = replications(self.document.scenario().replications.get());
        let mut durations: Vec<_> = self.document.sections().iter().filter_map(|section| section.duration).collect();
        durations.dedup();
        match durations[..] {
            [duration] => format!("{number} of {duration}"),
            _ => number,
        }
    }

    /// What it was read from.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The same with another value at a path such as `nodes.client.count`.
    ///
    /// # Errors
    /// If the path leads nowhere, or the value makes no sense there.
    pub fn with(&self, path: &str, value: impl Into<toml::Value>) -> Result<Self, ScenarioError> {
        Ok(Self { document: self.document.with(path, value)?, published: self.published.clone() })
    }
}

impl Experiment for Composed {
    fn about(&self) -> About<'_> {
        let scenario = self.document.scenario();
        About { name: &scenario.name, title: &scenario.title, extent: self.extent(), seed: scenario.seed }
    }

    fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        self.document.adjust(effort)
    }

    fn measure(&self, options: RunOptions, watch: Watch<'_>) -> Result<(Vec<Figure>, Cost), ExperimentError> {
        let scenario = self.document.scenario();
        let cells: Vec<CellRuns> = self.document.cells()?.into_iter().map(CellRuns::new).collect();
        let (outcomes, cost) = campaign::run(&cells, scenario.seed, options, watch)?;
        let of_cell = |(cell, runs): (&CellRuns, &Vec<_>)| figures::of_cell(cell, runs, &self.published);
        let measure = || cells.par_iter().zip(outcomes.par_iter()).map(of_cell).collect::<Vec<_>>();
        let measured = campaign::threads(options)?.install(measure);
        let series: Vec<Series> = measured.into_iter().flatten().collect();
        let claims = claims::figures(scenario, &series);
        let mut figures = features::figures(scenario);
        figures.extend(series.into_iter().map(|series| series.figure));
        // Stable, so that the values of an item stay in the order of cells.
        figures.sort_by_key(|figure| figures::rank(scenario, &figure.item));
        figures.extend(claims);
        Ok((figures, cost))
    }

    fn tables(&self, figures: &[Figure]) -> Vec<Table> {
        let features = features::table(self.document.scenario());
        features.into_iter().chain(tables::tables(&self.document, figures)).collect()
    }

    fn bar(&self, figure: &Figure) -> Option<Bar> {
        let mut bars = self.document.scenario().bars.iter();
        let bar = bars.find(|bar| concerns(&bar.items, &bar.rows, figure))?;
        match bar.percent {
            Some(percent) => Some(Bar::Percent(percent)),
            None => self.published.interval(&figure.row, &figure.column).map(Bar::Within),
        }
    }

    fn document(&self) -> Option<&Document> {
        Some(&self.document)
    }

    fn reason(&self, figure: &Figure) -> Option<&str> {
        reason(self.document.scenario(), figure)
    }
}

/// Why a figure is beyond its bar, or a claim does not hold, where the scenario says it.
fn reason<'a>(scenario: &'a Scenario, figure: &Figure) -> Option<&'a str> {
    let reason = scenario.reasons.iter().find(|reason| concerns(&reason.items, &reason.rows, figure))?;
    Some(&reason.text)
}

/// Whether what is said of these items and rows is said of a figure.
fn concerns(items: &[String], rows: &[String], figure: &Figure) -> bool {
    (items.is_empty() || items.contains(&figure.item)) && matches_any(rows, &figure.row)
}

#[cfg(test)]
mod tests;
