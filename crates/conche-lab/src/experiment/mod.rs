//! The experiment of a scenario: its cells run, measured and shown.
//!
//! | file | what it holds |
//! |---|---|
//! | `cells` | the runs of a cell, and what is measured of each |
//! | `across` | values that come from several cells |
//! | `kept` | what is left of runs on disk |
//! | `timelines` | some exchanges of a run, copy by copy |
//! | `figures` | what is made of the replications, under the tables and figures that values belong to |
//! | `features` | what distinguishes the schemes before any run |
//! | `claims` | what is said in words, put to the test |
//! | `contests` | which values controllers are compared by |
//! | `tables` | tables of text |
//! | `published` | the values of a paper, from CSV |

mod across;
mod cells;
mod claims;
mod contests;
mod features;
mod figures;
mod kept;
mod published;
mod tables;
mod timelines;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use conche_results::{Origin as Source, fingerprint};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::campaign::{self, Completion, ExperimentError, RunOptions, Watch};
use crate::comparison;
use crate::papers::{Origin, closeness_table};
use crate::report::Table;
use crate::results::Figure;
use crate::scenario::{Document, Effort, Files, Scenario, ScenarioError, matches_any};
use crate::stats::Interval;
use across::Cells;
use cells::CellRuns;
use claims::Series;
pub use claims::{Compared, compared};
use published::Published;

/// The experiment of a scenario.
#[derive(Clone, Debug)]
pub struct Experiment {
    document: Document,
    published: Published,
    /// The text that it was read from.
    text: String,
    /// The files that this names.
    files: Vec<(String, String)>,
    /// Stands for these, and for all that was changed of it.
    settings: String,
}

/// What an experiment gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The measured values.
    pub figures: Vec<Figure>,
    /// The values that controllers are compared by, cell by cell.
    pub cells: Vec<comparison::Cell>,
    /// How it ended.
    pub completion: Completion,
}

impl Experiment {
    /// Reads a scenario. `file` gives the texts of files that it names.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn read(text: &str, file: Files<'_>) -> Result<Self, ScenarioError> {
        let files: RefCell<Vec<(String, String)>> = RefCell::default();
        let file = |name: &str| {
            let text = file(name)?;
            let mut files = files.borrow_mut();
            if !files.iter().any(|(known, _)| known == name) {
                files.push((name.to_owned(), text.clone()));
            }
            Ok(text)
        };
        let document = Document::read(text, &file)?;
        let published = match &document.scenario().published {
            None => Published::default(),
            Some(name) => file(name)
                .and_then(|text| Published::from_csv(&text))
                .map_err(|problem| ScenarioError::new("published", format!("{name}: {problem}")))?,
        };
        let (text, files) = (text.to_owned(), files.into_inner());
        let named = files.iter().flat_map(|(name, text)| [name.as_str(), text]);
        let settings = fingerprint(&std::iter::once(text.as_str()).chain(named).collect::<Vec<_>>());
        Ok(Self { document, published, text, files, settings })
    }

    fn scenario(&self) -> &Scenario {
        self.document.scenario()
    }

    /// How much is run, with the duration of runs if all are equally long.
    fn extent(&self) -> String {
        let number = self.scenario().replications.get();
        let replications = format!("{number} replication{}", if number == 1 { "" } else { "s" });
        let mut durations: Vec<_> = self.document.sections().iter().filter_map(|section| section.duration).collect();
        durations.dedup();
        match durations[..] {
            [duration] => format!("{replications} of {duration}"),
            _ => replications,
        }
    }

    /// The same with another value at a path such as `nodes.client.count`.
    ///
    /// # Errors
    /// If the path leads nowhere, or the value makes no sense there.
    pub fn with(&self, path: &str, value: impl Into<toml::Value>) -> Result<Self, ScenarioError> {
        let value = value.into();
        let settings = fingerprint(&[self.settings.as_str(), path, &value.to_string()]);
        Ok(Self { document: self.document.with(path, value)?, settings, ..self.clone() })
    }

    /// Its short name, which its figures carry.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.scenario().name
    }

    /// Changes how much is run, and of which schemes.
    ///
    /// # Errors
    /// If a controller is unknown, if what is set makes no sense, or if there is no cell of those that are to be run.
    pub fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        self.document.adjust(effort)?;
        // Which cells, which schemes and how often, runs say themselves.
        if effort.compares {
            // Controllers are others than those of its schemes that have their names.
            self.published = Published::default();
            self.settings = fingerprint(&[self.settings.as_str(), "compares"]);
        }
        if effort.quick {
            self.settings = fingerprint(&[self.settings.as_str(), "quick"]);
        }
        for (path, value) in &effort.set {
            self.settings = fingerprint(&[self.settings.as_str(), path, value]);
        }
        Ok(())
    }

    /// Refuses a label that [`Effort::only`] asks all of these for, and that no run of any of them has.
    ///
    /// # Errors
    /// The first such label, and those that there are.
    pub fn check_labels(all: &[Self]) -> Result<(), ScenarioError> {
        Document::check_labels(all.iter().map(|experiment| &experiment.document))
    }

    /// Where its results come from, as much of it as will be run.
    #[must_use]
    pub fn source(&self) -> Source {
        let Scenario { name, title, seed, .. } = self.scenario();
        Source {
            name: name.clone(),
            title: title.clone(),
            seed: *seed,
            text: self.text.clone(),
            files: self.files.clone(),
            settings: self.settings.clone(),
            axes: self.document.axes(),
            extent: self.extent(),
        }
    }

    /// Runs it. The figures depend on the scenario alone, not on the options. They are of the runs that did not fail.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn measure(&self, options: RunOptions<'_>, watch: Watch<'_>) -> Result<Measured, ExperimentError> {
        let scenario = self.scenario();
        let routes = Arc::default();
        let cells = self.document.cells().iter().map(|cell| CellRuns::new(cell.clone(), Arc::clone(&routes)));
        let cells: Vec<CellRuns> = cells.collect();
        let (outcomes, completion) = campaign::run(&cells, &self.source(), options, watch)?;
        if let Some(store) = options.store {
            let mut rows = store.run_rows();
            let mut runs = cells.iter().zip(&outcomes);
            runs.try_for_each(|(cell, outcomes)| kept::add_values(&mut rows, cell, outcomes))?;
            store.add_runs(rows);
        }
        // A run that failed has no values.
        let or_nothing = |(cell, runs): (&CellRuns, Vec<Option<_>>)| {
            runs.into_iter().map(|outcome| outcome.unwrap_or_else(|| cell.nothing())).collect::<Vec<_>>()
        };
        let outcomes: Vec<_> = cells.iter().zip(outcomes).map(or_nothing).collect();
        let all = Cells { runs: &cells, outcomes: &outcomes };
        let of_cell = |place: usize| figures::of_cell(all, place, &self.published);
        let measure = || (0..cells.len()).into_par_iter().map(of_cell).collect::<Vec<_>>();
        let measured = campaign::threads(options)?.install(measure);
        let series: Vec<Series> = measured.into_iter().flatten().collect();
        let claims = claims::figures(scenario, &series);
        // Those that no cell is left of were not asked for.
        let is_run = |name: &&str| self.document.cells().iter().any(|cell| cell.schemes.iter().any(|of| of == name));
        let schemes: Vec<&str> = scenario.schemes.iter().map(|of| of.name.as_str()).filter(is_run).collect();
        let compared = contests::cells(&series, &schemes);
        let mut figures = features::figures(scenario);
        figures.extend(series.into_iter().map(|series| series.figure));
        // Stable, so that the values of an item stay in the order of cells.
        figures.sort_by_key(|figure| figures::rank(scenario, figure));
        figures.extend(claims);
        Ok(Measured { figures, cells: compared, completion })
    }

    /// Its figures as tables of text.
    #[must_use]
    pub fn tables(&self, figures: &[Figure]) -> Vec<Table> {
        let features = features::table(self.scenario());
        let shown = features.into_iter().chain(tables::tables(self, figures));
        shown.chain(closeness_table(self, figures)).collect()
    }

    /// By how much a figure may differ from what was published; `None` where nothing is promised.
    #[must_use]
    pub fn tolerance(&self, figure: &Figure) -> Option<f64> {
        let mut bars = self.scenario().bars.iter();
        match bars.find(|bar| concerns(&bar.items, &bar.rows, figure))?.percent {
            Some(percent) => Some(figure.published?.abs() * percent / 100.0),
            None => self.published.interval(&figure.row, &figure.column),
        }
    }

    /// The 95 % interval of a figure's published value, if that was published too.
    #[must_use]
    pub fn published_interval(&self, figure: &Figure) -> Option<Interval> {
        let reach = self.published.interval(&figure.row, &figure.column)?;
        figure.published.map(|value| Interval { low: value - reach, high: value + reach })
    }

    /// What it was read from.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Where a figure's published value stands to the network; `None` for what no network has made.
    #[must_use]
    pub fn origin(&self, figure: &Figure) -> Option<Origin> {
        let scenario = self.scenario();
        if scenario.features.as_ref().is_some_and(|features| features.item == figure.item) {
            return None;
        }
        let is_fitted = scenario.fitted.iter().any(|fitted| concerns(&fitted.items, &fitted.rows, figure));
        Some(if is_fitted { Origin::Fitted } else { Origin::Predicted })
    }

    /// Why a figure is beyond its bar, or a claim does not hold, where that is known.
    #[must_use]
    pub fn reason(&self, figure: &Figure) -> Option<&str> {
        let mut reasons = self.scenario().reasons.iter();
        reasons.find(|reason| concerns(&reason.items, &reason.rows, figure)).map(|reason| reason.text.as_str())
    }

    /// Whether a figure is as near to what was published as it must be; `None` where nothing is promised.
    #[must_use]
    pub fn within(&self, figure: &Figure) -> Option<bool> {
        Some((figure.measured - figure.published?).abs() <= self.tolerance(figure)?)
    }
}

/// The title, and in a second line how much of it will be run.
impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { title, seed, .. } = self.scenario();
        write!(f, "{title}\n{}, seed {seed}", self.extent())
    }
}

/// Whether what is said of these items and rows is said of a figure.
fn concerns(items: &[String], rows: &[String], figure: &Figure) -> bool {
    (items.is_empty() || items.contains(&figure.item)) && matches_any(rows, &figure.row)
}
