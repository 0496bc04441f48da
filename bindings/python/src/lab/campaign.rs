//! Runs an experiment on threads of its own, which enter the Python interpreter only for calls of
//! controllers in Python.

use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use conche_lab::campaign::{Aborted, Enter, ExperimentError, Failure, MAX_JOBS, Progress, RunOptions, UnknownRun};
use conche_lab::comparison;
use conche_lab::directory::{Output, ResultDirectory};
use conche_lab::experiment::Experiment;
use conche_lab::results::{Program, RunId, StoreError};
use conche_lab::scenario::{Effort, ScenarioError as InvalidScenario};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::controller;
use super::{RunFailure, ScenarioError};

/// Time between two looks at signals and progress.
const POLL: Duration = Duration::from_millis(100);

/// Maximum wait for runs that end.
const GRACE: Duration = Duration::from_millis(500);

/// Runs, those taken from the directory, and notes on the directory.
pub type Finished = (u64, u64, Vec<String>);

/// Options without effect on results; the time series' interval is in seconds.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    jobs: Option<usize>,
    exchanges: bool,
    series: Option<f64>,
    overwrite: bool,
}

/// An experiment to run, or the first of a comparison.
pub struct Campaign {
    pub(super) experiment: Experiment,
    comparison: Option<Comparison>,
    effort: Effort,
    /// Whether it has a controller in Python.
    pub(super) calls_python: bool,
    directory: PathBuf,
    pub(super) jobs: Option<NonZeroUsize>,
    exchanges: bool,
    series: Option<Duration>,
    overwrite: bool,
}

/// The further experiments of a comparison, and the baseline of ratios.
pub struct Comparison {
    pub others: Vec<Experiment>,
    pub baseline: Option<String>,
}

/// Shared with the background thread.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) cancel: Arc<AtomicBool>,
    pub(super) enter: Option<Enter>,
    done: AtomicU64,
    total: AtomicU64,
}

impl Shared {
    pub(super) fn show(&self, progress: Progress) {
        self.done.store(progress.done, Ordering::Relaxed);
        self.total.store(progress.total, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(super) enum Problem {
    Scenario(InvalidScenario),
    Experiment(ExperimentError),
    Store(StoreError),
    Part(UnknownRun),
    AllFailed(String),
}

impl From<InvalidScenario> for Problem {
    fn from(error: InvalidScenario) -> Self {
        Self::Scenario(error)
    }
}

impl From<ExperimentError> for Problem {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Scenario(error) => Self::Scenario(error),
            other => Self::Experiment(other),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<UnknownRun> for Problem {
    fn from(error: UnknownRun) -> Self {
        Self::Part(error)
    }
}

impl From<Problem> for PyErr {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Scenario(error) => ScenarioError::new_err(error.to_string()),
            Problem::Experiment(error) => PyRuntimeError::new_err(error.to_string()),
            Problem::Store(error @ (StoreError::Previous { .. } | StoreError::Import { .. })) => {
                PyValueError::new_err(error.to_string().replace("--overwrite", "overwrite=True"))
            }
            Problem::Part(error) => PyValueError::new_err(error.to_string()),
            Problem::Store(error) => PyOSError::new_err(with_source(&error)),
            Problem::AllFailed(text) => RunFailure::new_err(text),
        }
    }
}

fn with_source(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

impl Campaign {
    /// # Errors
    /// If a number is out of range.
    pub fn new(
        experiment: &Experiment,
        effort: &Effort,
        calls_python: bool,
        directory: PathBuf,
        options: Options,
    ) -> PyResult<Self> {
        let Options { jobs, exchanges, series, overwrite } = options;
        let threads = |jobs| {
            let threads = NonZeroUsize::new(jobs).filter(|_| jobs <= MAX_JOBS);
            threads.ok_or_else(|| PyValueError::new_err(format!("jobs: from 1 to {MAX_JOBS}")))
        };
        let interval = |seconds| {
            let interval = Duration::try_from_secs_f64(seconds).ok().filter(|interval| !interval.is_zero());
            interval.ok_or_else(|| PyValueError::new_err("series: an interval above 0, in seconds"))
        };
        Ok(Self {
            experiment: experiment.clone(),
            comparison: None,
            effort: effort.clone(),
            calls_python,
            directory,
            jobs: jobs.map(threads).transpose()?,
            exchanges,
            series: series.map(interval).transpose()?,
            overwrite,
        })
    }

    /// Compares the controllers of this experiment and others with the same options.
    pub fn comparing(self, comparison: Comparison) -> Self {
        Self { comparison: Some(comparison), ..self }
    }

    fn experiments(&self) -> Vec<Experiment> {
        let others = self.comparison.iter().flat_map(|comparison| &comparison.others);
        std::iter::once(&self.experiment).chain(others).cloned().collect()
    }

    /// Runs it, and writes its results.
    pub fn run(self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Finished> {
        in_background(py, self.calls_python, progress, move |shared| self.measure(shared))
    }

    /// Does the same as `conche run -o`, or as `conche compare -o`.
    fn measure(&self, shared: &Shared) -> Result<Finished, Problem> {
        let experiments = self.experiments();
        experiments.iter().try_for_each(Experiment::check)?;
        let (directory, notes) = self.open(None, None)?;
        let store = Some(directory.store());
        let options = RunOptions {
            jobs: self.jobs,
            store,
            cancel: Some(&shared.cancel),
            enter: shared.enter.as_ref(),
            ..RunOptions::default()
        };
        let total = experiments.iter().map(Experiment::work).sum();
        let (mut before, mut runs, mut reused, mut failures, mut cells) = (0, 0, 0, Vec::new(), Vec::new());
        for experiment in &experiments {
            let show = |progress: Progress| shared.show(Progress { done: before + progress.done, total, ..progress });
            let measured = experiment.measure(options, &show)?;
            directory.save(experiment, &measured)?;
            before += experiment.work();
            cells.extend(measured.cells);
            runs += measured.completion.runs;
            reused += measured.completion.reused;
            failures.extend(measured.completion.failures);
        }
        if let Some(comparison) = &self.comparison {
            let rows = comparison::rows(&cells, comparison.baseline.as_deref());
            directory.save_comparison(&experiments, &rows)?;
        }
        directory.close()?;
        unless_all_failed(runs, &failures)?;
        Ok((runs, reused, notes))
    }

    /// Opens the directory of its results, or of a part's.
    pub(super) fn open(
        &self,
        part: Option<String>,
        plan: Option<Vec<RunId>>,
    ) -> Result<(ResultDirectory, Vec<String>), StoreError> {
        // The executable is Python's.
        let program =
            Program { version: env!("CARGO_PKG_VERSION").to_owned(), commit: None, dirty: None, sha256: None };
        let output = Output {
            directory: &self.directory,
            program,
            effort: &self.effort,
            part,
            plan,
            jobs: self.jobs,
            exchanges: self.exchanges,
            series: self.series,
            overwrites: self.overwrite,
        };
        ResultDirectory::open(output, &self.experiments())
    }
}

pub(super) fn unless_all_failed(runs: u64, failures: &[Failure]) -> Result<(), Problem> {
    match failures.first().filter(|_| failures.len() as u64 == runs) {
        Some(first) => Err(Problem::AllFailed(format!("all {runs} runs failed; the first: {first}"))),
        None => Ok(()),
    }
}

/// A controller can fail before the first run, where the scenario is checked.
fn aborted<T>(panic: Box<dyn Any + Send>) -> Result<T, Problem> {
    let Aborted(problem) = *panic.downcast().unwrap_or_else(|panic| resume_unwind(panic));
    Err(Problem::AllFailed(problem))
}

/// Works on a thread of its own, and waits. A signal ends the wait: runs in progress end in the
/// background.
pub(super) fn in_background<T: Send + 'static>(
    py: Python<'_>,
    calls_python: bool,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Shared) -> Result<T, Problem> + Send + 'static,
) -> PyResult<T> {
    let cancel = Arc::new(AtomicBool::new(false));
    let enter = calls_python.then(|| controller::enter(Arc::clone(&cancel)));
    let shared = Arc::new(Shared { cancel, enter, ..Shared::default() });
    let (sender, receiver) = mpsc::channel();
    let of_thread = Arc::clone(&shared);
    let start = thread::Builder::new().name("conche-lab".to_owned());
    start.spawn(move || {
        let work = || catch_unwind(AssertUnwindSafe(|| work(&of_thread))).unwrap_or_else(aborted);
        let cancel = Arc::clone(&of_thread.cancel);
        let result = if calls_python { controller::attached(cancel, work) } else { work() };
        // The receiver is gone after a signal.
        let _ = sender.send(result);
    })?;
    let show = || {
        let (done, total) = (shared.done.load(Ordering::Relaxed), shared.total.load(Ordering::Relaxed));
        match progress {
            Some(progress) if total > 0 => progress.call1((done, total)).map(drop),
            _ => Ok(()),
        }
    };
    let receiver = Mutex::new(receiver);
    let wait = |time| match receiver.lock() {
        Ok(receiver) => receiver.recv_timeout(time),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    };
    loop {
        match py.detach(|| wait(POLL)) {
            Ok(finished) => {
                let finished = finished?;
                show()?;
                return Ok(finished);
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the experiment's thread has panicked"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = py.check_signals().and_then(|()| show()) {
                    shared.cancel.store(true, Ordering::Relaxed);
                    if calls_python {
                        controller::interrupt(py, &shared.cancel)?;
                        py.detach(|| drop(wait(GRACE)));
                    }
                    return Err(error);
                }
            }
        }
    }
}
