//! A scenario and the changes to it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use conche_lab::campaign::PlannedRun;
use conche_lab::experiment::Experiment;
use conche_lab::networks::{NETWORKS, Network};
use conche_lab::papers::{PAPERS, Paper};
use conche_lab::scenario::{Controllers, Effort, FileError, ScenarioError as Problem};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::campaign::{Campaign, Finished, Options};
use super::{ScenarioError, invalid, part};

/// ID, cell, replication, seed and work of a run.
type Run = (String, String, u32, u64, u64);

/// Text of a scenario, the files that it names with their texts, and the changes in JSON.
type State = (String, Vec<(String, String)>, String);

/// A scenario with the options of `conche run`.
#[pyclass(frozen, module = "conche._conche")]
pub struct Scenario {
    source: Experiment,
    effort: Effort,
    adjusted: Experiment,
    /// All runs in the order of their IDs, for parts.
    by_id: OnceLock<Vec<PlannedRun>>,
}

impl Scenario {
    fn new(source: Experiment) -> Self {
        Self { adjusted: source.clone(), source, effort: Effort::default(), by_id: OnceLock::new() }
    }

    fn runs_by_id(&self) -> Vec<PlannedRun> {
        let mut runs = self.adjusted.plan();
        runs.sort_unstable_by_key(|run| run.id);
        runs
    }

    /// Applies all options to the source, in the order of the command.
    fn changed(&self, change: impl FnOnce(&mut Effort)) -> PyResult<Self> {
        let (mut effort, mut adjusted) = (self.effort.clone(), self.source.clone());
        change(&mut effort);
        let checked = adjusted.adjust(&effort);
        let checked = checked.and_then(|()| Experiment::check_labels(std::slice::from_ref(&adjusted)));
        checked.map_err(|error| invalid(&error))?;
        Ok(Self { source: self.source.clone(), effort, adjusted, by_id: OnceLock::new() })
    }
}

#[pymethods]
impl Scenario {
    /// Reads a text; the files that it names are beside `file`, or in the working directory.
    #[staticmethod]
    #[pyo3(signature = (text, file=None))]
    fn read(py: Python<'_>, text: &str, file: Option<PathBuf>) -> PyResult<Self> {
        let directory = file.as_deref().and_then(Path::parent).unwrap_or_else(|| Path::new(""));
        let beside = |name: &str| {
            let path = directory.join(name);
            std::fs::read_to_string(&path).map_err(|error| FileError::Unreadable { path, error })
        };
        let read = py.detach(|| Experiment::read(text, &beside, &Controllers::new()));
        let name = file.as_ref().map_or_else(|| "scenario".into(), |file| file.display().to_string());
        read.map(Self::new).map_err(|error| ScenarioError::new_err(diagnosis(&name, text, &error)))
    }

    /// Converts JSON to the TOML text of a scenario.
    #[staticmethod]
    fn toml(json: &str) -> PyResult<String> {
        let wrong = |error: &dyn std::fmt::Display| ScenarioError::new_err(format!("scenario: {error}"));
        let table: toml::Table = serde_json::from_str(json).map_err(|error| wrong(&error))?;
        toml::to_string(&table).map_err(|error| wrong(&error))
    }

    /// Returns the experiment of a paper or network.
    #[staticmethod]
    fn named(name: &str) -> Option<Self> {
        let paper = Paper::by_name(name).map(|paper| paper.experiment(&Controllers::new()));
        let network = || Network::by_name(name).map(|network| network.experiment(&Controllers::new()));
        paper.or_else(network).map(Self::new)
    }

    /// Names of the papers, and of the networks.
    #[staticmethod]
    fn names() -> (Vec<&'static str>, Vec<&'static str>) {
        (PAPERS.iter().map(|paper| paper.name).collect(), NETWORKS.iter().map(|network| network.name).collect())
    }

    /// Text, the files that it names with their texts, and the changes in JSON, for `restore`.
    fn state(&self) -> PyResult<State> {
        let effort = serde_json::to_string(&self.effort).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let origin = self.source.origin();
        Ok((origin.text, origin.files, effort))
    }

    /// Rebuilds a scenario from its `state`.
    #[staticmethod]
    fn restore(py: Python<'_>, text: &str, files: Vec<(String, String)>, effort: &str) -> PyResult<Self> {
        let effort = serde_json::from_str(effort).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let file = |name: &str| {
            let of = files.iter().find(|(known, _)| known == name);
            of.map(|(_, text)| text.clone()).ok_or(FileError::NotFound)
        };
        let read = py.detach(|| Experiment::read(text, &file, &Controllers::new()));
        Self::new(read.map_err(|error| invalid(&error))?).changed(|of| *of = effort)
    }

    #[getter]
    fn name(&self) -> &str {
        self.adjusted.name()
    }

    #[getter]
    fn title(&self) -> String {
        self.adjusted.origin().title
    }

    #[getter]
    fn text(&self) -> &str {
        self.adjusted.text()
    }

    /// The options of `conche run` with the same effect.
    #[getter]
    fn options(&self) -> String {
        self.effort.to_string()
    }

    fn set(&self, path: String, value: String) -> PyResult<Self> {
        self.changed(|effort| effort.set.push((path, value)))
    }

    /// Adds labels to those selected of the axis.
    fn only(&self, axis: String, labels: Vec<String>) -> PyResult<Self> {
        self.changed(|effort| match effort.only.iter_mut().find(|(known, _)| *known == axis) {
            Some((_, known)) => known.extend(labels),
            None => effort.only.push((axis, labels)),
        })
    }

    fn controllers(&self, names: Vec<String>) -> PyResult<Self> {
        self.changed(|effort| effort.controllers = names)
    }

    fn quick(&self) -> PyResult<Self> {
        self.changed(|effort| effort.quick = true)
    }

    fn replications(&self, number: u32) -> PyResult<Self> {
        if number == 0 {
            return Err(PyValueError::new_err("replications: at least 1"));
        }
        self.changed(|effort| effort.runs = Some(number))
    }

    fn seed(&self, seed: u64) -> PyResult<Self> {
        self.changed(|effort| effort.seed = Some(seed))
    }

    fn plan(&self) -> Vec<Run> {
        let cells = self.adjusted.planned_cells();
        let name = |cell: usize| cells.get(cell).map_or_else(String::new, |(_, name)| name.clone());
        let plan = self.adjusted.plan().into_iter();
        let run =
            plan.map(|run| (run.id.to_string(), name(run.cell), run.replication.index, run.replication.seed, run.work));
        run.collect()
    }

    /// Runs the experiment, and writes its results into `directory`.
    ///
    /// `progress` receives the work done and all work, on this thread.
    fn run(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        options: Options,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Finished> {
        Campaign::new(&self.adjusted, &self.effort, directory, options)?.run(py, progress.as_ref())
    }

    /// Runs the runs with these IDs into `directory`, a part of the results.
    fn run_part(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        options: Options,
        ids: Vec<String>,
    ) -> PyResult<part::PartDone> {
        let campaign = Campaign::new(&self.adjusted, &self.effort, directory, options)?;
        part::run_part(campaign, py, &ids, py.detach(|| self.by_id.get_or_init(|| self.runs_by_id())))
    }

    /// Opens `directory` for the runs of parts.
    fn collected(&self, py: Python<'_>, directory: PathBuf, options: Options) -> PyResult<part::Collected> {
        part::Collected::open(Campaign::new(&self.adjusted, &self.effort, directory, options)?, py)
    }
}

/// Names the line of the problem, and shows it.
fn diagnosis(name: &str, text: &str, error: &Problem) -> String {
    let line = error.span().and_then(|span| {
        let before = text.get(..span.start)?;
        let line = text.lines().nth(before.matches('\n').count())?;
        Some((before.matches('\n').count() + 1, line.trim_end()))
    });
    match line {
        Some((number, line)) => format!("{name}, line {number}: {error}\n  {line}"),
        None => format!("{name}: {error}"),
    }
}
