//! Runs and measures experiments, and lays out their tables.

mod cells;
mod claims;
mod published;
mod storage;
mod tables;
mod values;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use conche_netsim::wired::Topology;
use conche_results::{Axis, CellId, Kept, Origin, fingerprint};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::campaign::{self, Completion, ExperimentError, PlannedRun, Replication, RunOptions, RunnableCell, Watch};
use crate::comparison::CellComparison;
use crate::scenario::{Cell, Controllers, Document, Effort, Files, Scenario, ScenarioError, matches_any};
use crate::stats::Interval;
use crate::table::Table;
use crate::trial::{self, Observing, RecordOptions, Routes, Trace};
use crate::value::MeasuredValue;
use cells::{CellRuns, Samples};
pub use claims::{Compared, compared};
pub(crate) use published::CLOSENESS_HEADER;
pub use published::{Closeness, Provenance, WITHIN_PERCENT};
use published::{Published, closeness_table};
use values::{Cells, Series};

/// A scenario's experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    document: Document,
    published: Published,
    text: String,
    /// Files named by the source, with texts.
    files: Vec<(String, String)>,
    /// Fingerprint of the source and all changes to it.
    settings: String,
}

/// An experiment's results.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Measured values.
    pub values: Vec<MeasuredValue>,
    /// Values to compare controllers by.
    pub cells: Vec<CellComparison>,
    /// How the campaign ended.
    pub completion: Completion,
}

/// The samples of a run.
#[derive(Clone, Debug)]
pub struct RunSamples {
    /// Cell.
    pub cell: CellId,
    /// Replication, from 0.
    pub replication: u32,
    /// Samples, with the values computed from them.
    pub samples: Vec<Kept>,
}

impl Measured {
    /// A part of the runs has no values.
    #[must_use]
    pub fn of_part(completion: Completion) -> Self {
        Self { values: Vec::new(), cells: Vec::new(), completion }
    }
}

impl Experiment {
    /// Reads a scenario; `file` returns the files it names. The experiment keeps `controllers`,
    /// which the scenario and an [`Effort`] can name.
    ///
    /// # Errors
    /// The problem, its place, and the expected form.
    pub fn read(text: &str, file: Files<'_>, controllers: &Controllers) -> Result<Self, ScenarioError> {
        let files: RefCell<Vec<(String, String)>> = RefCell::default();
        let file = |name: &str| {
            let text = file(name)?;
            let mut files = files.borrow_mut();
            if !files.iter().any(|(known, _)| known == name) {
                files.push((name.to_owned(), text.clone()));
            }
            Ok(text)
        };
        let document = Document::read(text, &file, controllers)?;
        let published = match &document.scenario().published {
            None => Published::default(),
            Some(name) => {
                let wrong = |problem: &dyn fmt::Display| ScenarioError::new("published", format!("{name}: {problem}"));
                let text = file(name).map_err(|error| wrong(&error))?;
                Published::from_csv(&text).map_err(|error| wrong(&error))?
            }
        };
        let (text, files) = (text.to_owned(), files.into_inner());
        let named = files.iter().flat_map(|(name, text)| [name.as_str(), text]);
        let settings = fingerprint(&std::iter::once(text.as_str()).chain(named).collect::<Vec<_>>());
        Ok(Self { document, published, text, files, settings })
    }

    fn scenario(&self) -> &Scenario {
        self.document.scenario()
    }

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

    /// Returns the experiment with another value at a path such as `nodes.client.count`.
    ///
    /// # Errors
    /// If the path does not exist or the value is invalid.
    pub fn with(&self, path: &str, value: impl Into<toml::Value>) -> Result<Self, ScenarioError> {
        let value = value.into();
        let settings = fingerprint(&[self.settings.as_str(), path, &value.to_string()]);
        Ok(Self { document: self.document.with(path, value)?, settings, ..self.clone() })
    }

    /// The scenario's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Short name, in its values.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.scenario().name
    }

    /// Changes replications, schemes and cells.
    ///
    /// # Errors
    /// If a controller is unknown, a setting invalid, or no cell left.
    pub fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        self.document.adjust(effort)?;
        if effort.compares {
            // Published values belong to the paper's schemes.
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

    /// Checks that each label of [`Effort::only`] occurs in an experiment.
    ///
    /// # Errors
    /// The first missing label, and the existing ones.
    pub fn check_labels(all: &[Self]) -> Result<(), ScenarioError> {
        Document::check_labels(all.iter().map(|experiment| &experiment.document))
    }

    /// Describes the source and the extent of the runs.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let Scenario { name, title, seed, .. } = self.scenario();
        Origin {
            name: name.clone(),
            title: title.clone(),
            seed: *seed,
            text: self.text.clone(),
            files: self.files.clone(),
            settings: self.settings.clone(),
            axes: self.axes(),
            extent: self.extent(),
            runs: Some(self.document.cells().iter().map(|cell| u64::from(cell.scenario.replications.get())).sum()),
            endpoint: storage::endpoint(&self.scenario().endpoint),
        }
    }

    fn axes(&self) -> Vec<Axis> {
        self.document.axes().into_iter().map(|(name, labels)| storage::axis(name, &labels)).collect()
    }

    /// Checks all cells.
    ///
    /// The first problem, and its place in the text.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let mut checked: Vec<(&Arc<Scenario>, usize)> = Vec::new();
        let cells = self.document.cells().iter().filter(|cell| {
            let key = (&cell.scenario, cell.schemes.len());
            let is_new = !checked.iter().any(|known| Arc::ptr_eq(known.0, key.0) && known.1 == key.1);
            checked.extend(is_new.then_some(key));
            is_new
        });
        let cells: Vec<&Cell> = cells.collect();
        let routes = Routes::default();
        let problem = |cell: &Cell| {
            let seed = campaign::seed_of(cell.scenario.seed, 0);
            let replication = Replication { index: 0, count: cell.scenario.replications.get(), seed };
            match trial::check(cell, replication, &routes) {
                Err(error) if !error.is_random() => Some(cell.locate(error.into()).located(&self.text)),
                _ => None,
            }
        };
        cells.into_par_iter().find_map_first(problem).map_or(Ok(()), Err)
    }

    /// Runs the first replication of the first cell with an observer, and returns
    /// the run's name, as in `mine/2, replication 0, seed 7`; `None` without cells.
    ///
    /// [`Experiment::measure`] reports whether this run fails.
    pub fn trace(&self, trace: &mut dyn FnMut(&Topology) -> Trace) -> Option<String> {
        let cell = self.document.cells().first()?;
        let seed = campaign::seed_of(self.scenario().seed, 0);
        let replication = Replication { index: 0, count: cell.scenario.replications.get(), seed };
        let observing = Observing { trace: Some(trace), ..Observing::default() };
        // A failed run has a trace, too.
        let _ = trial::run_observed(cell, RecordOptions::default(), replication, &Routes::default(), observing);
        Some(format!("{}, replication 0, seed {seed}", cell.row(None, &cell.schemes.join("+"))))
    }

    fn cells(&self) -> Vec<CellRuns> {
        let routes = Arc::default();
        let cells = self.document.cells().iter().map(|cell| CellRuns::new(cell.clone(), Arc::clone(&routes)));
        cells.collect()
    }

    /// Returns all runs, by cell and replication.
    #[must_use]
    pub fn plan(&self) -> Vec<PlannedRun> {
        campaign::plan(&self.cells(), &self.origin())
    }

    /// Returns the estimated duration of all runs, in the unit of [`PlannedRun::work`].
    #[must_use]
    pub fn work(&self) -> u64 {
        self.cells().iter().map(|cell| cell.work() * u64::from(cell.replications())).sum()
    }

    /// Returns the cells of the plan, and their names, such as `cocoa/20`.
    #[must_use]
    pub fn planned_cells(&self) -> Vec<(CellId, String)> {
        self.cells().iter().map(|cell| (cell.id(), cell.name())).collect()
    }

    /// Runs a part of the plan, for its runs in the store.
    ///
    /// # Errors
    /// If it cannot run.
    pub fn run(
        &self,
        part: &[PlannedRun],
        options: RunOptions<'_>,
        watch: Watch<'_>,
    ) -> Result<Completion, ExperimentError> {
        let (_, completion) = campaign::run(&self.cells(), &self.origin(), part, options, watch)?;
        Ok(completion)
    }

    /// Runs the experiment; failed runs contribute no values.
    ///
    /// # Errors
    /// If it cannot run.
    pub fn measure(&self, options: RunOptions<'_>, watch: Watch<'_>) -> Result<Measured, ExperimentError> {
        self.measure_and_keep(options, watch, |_, _| {})
    }

    /// Runs the experiment, and returns its samples, too, which a directory of results would keep.
    ///
    /// # Errors
    /// If it cannot run.
    pub fn measure_with_samples(
        &self,
        options: RunOptions<'_>,
        watch: Watch<'_>,
    ) -> Result<(Measured, Vec<RunSamples>), ExperimentError> {
        let mut all = Vec::new();
        let measured = self.measure_and_keep(options, watch, |cell, outcomes| {
            for (replication, outcome) in (0..).zip(outcomes) {
                let samples = outcome.as_ref().map(|outcome| cell.keep(outcome));
                all.extend(samples.map(|samples| RunSamples { cell: cell.id(), replication, samples }));
            }
        })?;
        Ok((measured, all))
    }

    fn measure_and_keep(
        &self,
        options: RunOptions<'_>,
        watch: Watch<'_>,
        mut keep: impl FnMut(&CellRuns, &[Option<Samples>]),
    ) -> Result<Measured, ExperimentError> {
        let (scenario, cells, origin) = (self.scenario(), self.cells(), self.origin());
        let runs = campaign::plan(&cells, &origin);
        let (outcomes, completion) = campaign::run(&cells, &origin, &runs, options, watch)?;
        if let Some(store) = options.store {
            let mut rows = store.run_rows();
            let mut runs = cells.iter().zip(&outcomes);
            runs.try_for_each(|(cell, outcomes)| storage::add_values(&mut rows, cell, outcomes))?;
            store.add_runs(rows);
        }
        cells.iter().zip(&outcomes).for_each(|(cell, outcomes)| keep(cell, outcomes));
        let or_nothing = |(cell, runs): (&CellRuns, Vec<Option<_>>)| {
            runs.into_iter().map(|outcome| outcome.unwrap_or_else(|| cell.nothing())).collect::<Vec<_>>()
        };
        let outcomes: Vec<_> = cells.iter().zip(outcomes).map(or_nothing).collect();
        let axes = Axis::columns(self.axes());
        let all = Cells { runs: &cells, outcomes: &outcomes, axes: &axes };
        let of_cell = |place: usize| values::of_cell(all, place, &self.published);
        let measure = || (0..cells.len()).into_par_iter().map(of_cell).collect::<Vec<_>>();
        let measured = campaign::on_threads(options, cells.len(), measure)?;
        let series: Vec<Series> = measured.into_iter().flatten().collect();
        let claims = claims::judge_all(scenario, &series);
        // Schemes without a cell were deselected.
        let is_run = |name: &&str| self.document.cells().iter().any(|cell| cell.schemes.iter().any(|of| of == name));
        let schemes: Vec<&str> = scenario.schemes.iter().map(|of| of.name.as_str()).filter(is_run).collect();
        let compared = values::cell_comparisons(&series, &schemes, scenario.purpose);
        let mut values = tables::feature_values(scenario);
        values.extend(series.into_iter().map(|series| series.value));
        values.sort_by_key(|value| values::rank(scenario, value));
        values.extend(claims);
        Ok(Measured { values, cells: compared, completion })
    }

    /// Returns the title, extent and seed in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        self.to_string().replace('\n', ": ")
    }

    /// Lays out the values as text tables.
    #[must_use]
    pub fn tables(&self, values: &[MeasuredValue]) -> Vec<Table> {
        let features = tables::feature_table(self.scenario());
        let shown = features.into_iter().chain(tables::tables(self, values));
        shown.chain(closeness_table(self, values)).collect()
    }

    /// Maximum deviation from the published value, if a bar is set.
    #[must_use]
    pub fn tolerance(&self, value: &MeasuredValue) -> Option<f64> {
        let mut bars = self.scenario().bars.iter();
        match bars.find(|bar| concerns(&bar.items, &bar.rows, value))?.percent {
            Some(percent) => Some(value.published?.abs() * percent / 100.0),
            None => self.published.interval(&value.row, &value.column),
        }
    }

    /// The published value's 95 % interval, if stated.
    #[must_use]
    pub fn published_interval(&self, value: &MeasuredValue) -> Option<Interval> {
        let reach = self.published.interval(&value.row, &value.column)?;
        value.published.map(|center| Interval { low: center - reach, high: center + reach })
    }

    /// Scenario document.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Whether the network was fitted on the published value; `None` without a network.
    #[must_use]
    pub fn provenance(&self, value: &MeasuredValue) -> Option<Provenance> {
        let scenario = self.scenario();
        if scenario.features.as_ref().is_some_and(|features| features.item == value.item) {
            return None;
        }
        let is_fitted = scenario.fitted.iter().any(|fitted| concerns(&fitted.items, &fitted.rows, value));
        Some(if is_fitted { Provenance::Fitted } else { Provenance::Predicted })
    }

    /// Documented reason for a missed bar or unsupported claim.
    #[must_use]
    pub fn reason(&self, value: &MeasuredValue) -> Option<&str> {
        let mut reasons = self.scenario().reasons.iter();
        reasons.find(|reason| concerns(&reason.items, &reason.rows, value)).map(|reason| reason.text.as_str())
    }

    /// Whether a value is within its bar, if any.
    #[must_use]
    pub fn within(&self, value: &MeasuredValue) -> Option<bool> {
        Some((value.measured - value.published?).abs() <= self.tolerance(value)?)
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { title, seed, .. } = self.scenario();
        write!(f, "{title}\n{}, seed {seed}", self.extent())
    }
}

fn concerns(items: &[String], rows: &[String], value: &MeasuredValue) -> bool {
    (items.is_empty() || items.contains(&value.item)) && matches_any(rows, &value.row)
}
