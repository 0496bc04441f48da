//! A scenario and the changes to it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use conche_lab::campaign::PlannedRun;
use conche_lab::comparison::check_baseline;
use conche_lab::experiment::Experiment;
use conche_lab::networks::{NETWORKS, Network};
use conche_lab::papers::{PAPERS, Paper};
use conche_lab::scenario::{Cell, Controllers, Effort, FileError, ScenarioError as Problem};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::campaign::{Campaign, Comparison, Finished, Options};
use super::controller::OwnController;
use super::{ScenarioError, invalid, part};

/// ID, cell, replication, seed and work of a run.
type Run = (String, String, u32, u64, u64);

/// Text of a scenario, the files that it names with their texts, the changes in JSON, and the
/// controllers in Python.
type State = (String, Vec<(String, String)>, String, Vec<Py<OwnController>>);

/// Options of a comparison.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Compared {
    controllers: Vec<String>,
    baseline: Option<String>,
    quick: bool,
    replications: Option<u32>,
    seed: Option<u64>,
    set: Vec<(String, String)>,
    only: Vec<(String, Vec<String>)>,
}

/// A scenario with the options of `conche run`.
#[pyclass(frozen, module = "conche._conche")]
pub struct Scenario {
    source: Experiment,
    effort: Effort,
    adjusted: Experiment,
    /// All runs in the order of their IDs, for parts.
    by_id: OnceLock<Vec<PlannedRun>>,
    /// Its controllers in Python.
    own: Vec<Py<OwnController>>,
}

impl Scenario {
    fn new(source: Experiment) -> Self {
        Self { adjusted: source.clone(), source, effort: Effort::default(), own: Vec::new(), by_id: OnceLock::new() }
    }

    fn runs_by_id(&self) -> Vec<PlannedRun> {
        let mut runs = self.adjusted.plan();
        runs.sort_unstable_by_key(|run| run.id);
        runs
    }

    /// Applies all options to the source, in the order of the command.
    fn changed(&self, py: Python<'_>, change: impl FnOnce(&mut Effort)) -> PyResult<Self> {
        let mut effort = self.effort.clone();
        change(&mut effort);
        let own = self.own.iter().map(|own| own.clone_ref(py)).collect();
        Self::adjusted(self.source.clone(), effort, own)
    }

    fn adjusted(source: Experiment, effort: Effort, own: Vec<Py<OwnController>>) -> PyResult<Self> {
        let mut adjusted = source.clone();
        let checked = adjusted.adjust(&effort);
        let checked = checked.and_then(|()| Experiment::check_labels(std::slice::from_ref(&adjusted)));
        checked.map_err(|error| invalid(&error))?;
        Ok(Self { source, effort, adjusted, own, by_id: OnceLock::new() })
    }

    /// Returns its cells, in the order of `cells`.
    pub fn planned(&self) -> &[Cell] {
        self.adjusted.document().cells()
    }

    pub fn calls_python(&self) -> bool {
        !self.own.is_empty()
    }

    fn campaign(&self, directory: PathBuf, options: Options) -> PyResult<Campaign> {
        Campaign::new(&self.adjusted, &self.effort, self.calls_python(), directory, options)
    }

    /// Reads a scenario that can name these controllers.
    fn source(text: &str, files: &[(String, String)], own: &[Py<OwnController>]) -> PyResult<Experiment> {
        let named = own.iter().map(|own| own.get().named());
        let controllers = Controllers::with(named).map_err(|error| ScenarioError::new_err(error.to_string()))?;
        let file = |name: &str| {
            let of = files.iter().find(|(known, _)| known == name);
            of.map(|(_, text)| text.clone()).ok_or(FileError::NotFound)
        };
        Experiment::read(text, &file, &controllers).map_err(|error| invalid(&error))
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

    /// Text, the files that it names with their texts, the changes in JSON, and the controllers in
    /// Python, for `restore`.
    fn state(&self, py: Python<'_>) -> PyResult<State> {
        let effort = serde_json::to_string(&self.effort).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let origin = self.source.origin();
        Ok((origin.text, origin.files, effort, self.own.iter().map(|own| own.clone_ref(py)).collect()))
    }

    /// Rebuilds a scenario from its `state`.
    #[staticmethod]
    fn restore(text: &str, files: Vec<(String, String)>, effort: &str, own: Vec<Py<OwnController>>) -> PyResult<Self> {
        let effort = serde_json::from_str(effort).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Self::adjusted(Self::source(text, &files, &own)?, effort, own)
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

    fn set(&self, py: Python<'_>, path: String, value: String) -> PyResult<Self> {
        self.changed(py, |effort| effort.set.push((path, value)))
    }

    /// Adds labels to those selected of the axis.
    fn only(&self, py: Python<'_>, axis: String, labels: Vec<String>) -> PyResult<Self> {
        self.changed(py, |effort| match effort.only.iter_mut().find(|(known, _)| *known == axis) {
            Some((_, known)) => known.extend(labels),
            None => effort.only.push((axis, labels)),
        })
    }

    /// Selects controllers by name; `own` are those in Python.
    fn controllers(&self, names: Vec<String>, own: Vec<Py<OwnController>>) -> PyResult<Self> {
        let effort = Effort { controllers: names, ..self.effort.clone() };
        let origin = self.source.origin();
        Self::adjusted(Self::source(&origin.text, &origin.files, &own)?, effort, own)
    }

    fn quick(&self, py: Python<'_>) -> PyResult<Self> {
        self.changed(py, |effort| effort.quick = true)
    }

    fn replications(&self, py: Python<'_>, number: u32) -> PyResult<Self> {
        self.changed(py, |effort| effort.runs = Some(number))
    }

    fn seed(&self, py: Python<'_>, seed: u64) -> PyResult<Self> {
        self.changed(py, |effort| effort.seed = Some(seed))
    }

    /// Names of its cells, and their replications.
    fn cells(&self) -> Vec<(String, u32)> {
        let names = self.adjusted.planned_cells().into_iter().map(|(_, name)| name);
        let replications = self.planned().iter().map(|cell| cell.scenario.replications.get());
        names.zip(replications).collect()
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
        self.campaign(directory, options)?.run(py, progress.as_ref())
    }

    /// Compares controllers in the sources of scenarios, as `conche compare -o` does; `own` are the
    /// controllers in Python.
    #[staticmethod]
    fn compare(
        py: Python<'_>,
        scenarios: Vec<Py<Self>>,
        compared: Compared,
        own: Vec<Py<OwnController>>,
        directory: PathBuf,
        options: Options,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Finished> {
        let Compared { controllers, baseline, quick, replications, seed, set, only } = compared;
        if let Some(baseline) = &baseline {
            check_baseline(baseline, &controllers).map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
        let effort =
            Effort { controllers, quick, runs: replications, seed, set, only, compares: true, ..Effort::default() };
        let adjusted = scenarios.iter().map(|scenario| {
            let origin = scenario.get().source.origin();
            let mut experiment = Self::source(&origin.text, &origin.files, &own)?;
            let checked = experiment
                .adjust(&effort)
                .map_err(|error| ScenarioError::new_err(format!("{}: {error}", experiment.name())));
            checked.map(|()| experiment)
        });
        let experiments = adjusted.collect::<PyResult<Vec<_>>>()?;
        Experiment::check_labels(&experiments).map_err(|error| invalid(&error))?;
        let mut experiments = experiments.into_iter();
        let first = experiments.next().ok_or_else(|| PyValueError::new_err("name at least one scenario"))?;
        let campaign = Campaign::new(&first, &effort, !own.is_empty(), directory, options)?;
        campaign.comparing(Comparison { others: experiments.collect(), baseline }).run(py, progress.as_ref())
    }

    /// Runs the runs with these IDs into `directory`, a part of the results.
    fn run_part(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        options: Options,
        ids: Vec<String>,
    ) -> PyResult<part::PartDone> {
        let plan = py.detach(|| self.by_id.get_or_init(|| self.runs_by_id()));
        part::run_part(self.campaign(directory, options)?, py, &ids, plan)
    }

    /// Opens `directory` for the runs of parts.
    fn collected(&self, py: Python<'_>, directory: PathBuf, options: Options) -> PyResult<part::Collected> {
        part::Collected::open(self.campaign(directory, options)?, py)
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
