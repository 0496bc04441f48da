//! Parts of a plan: each is run into a directory of its own, and [`Collected`] makes results of all.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use conche_lab::campaign::{Completion, Failure, Part, PlannedRun, RunOptions};
use conche_lab::directory::ResultDirectory;
use conche_lab::experiment::Measured;
use conche_lab::results::{NoRunId, RunId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::campaign::{Campaign, Finished, Problem, in_background, unless_all_failed};

/// A failed run's ID and problem.
type FailedRun = (String, String);

/// Simulator's events, CPU time in seconds, and failed runs of a part.
pub type PartDone = (u64, f64, Vec<FailedRun>);

/// Runs the runs with these IDs; `plan` has all runs in the order of their IDs.
pub fn run_part(campaign: Campaign, py: Python<'_>, ids: &[String], plan: &[PlannedRun]) -> PyResult<PartDone> {
    let ids = ids.iter().map(|id| read(id)).collect::<PyResult<HashSet<RunId>>>()?;
    let found = ids.iter().filter_map(|id| plan.binary_search_by_key(id, |run| run.id).ok());
    let mut runs: Vec<PlannedRun> = found.map(|place| plan[place]).collect();
    runs.sort_by_key(|run| (run.cell, run.replication.index));
    let part = Part::Runs(ids);
    in_background(py, campaign.calls_python, None, move |shared| {
        part.of(std::slice::from_ref(&runs))?;
        let plan = runs.iter().map(|run| run.id).collect();
        let (directory, _) = campaign.open(Some(part.to_string()), Some(plan))?;
        let (jobs, store) = (campaign.jobs, Some(directory.store()));
        let options = RunOptions {
            jobs,
            store,
            cancel: Some(&shared.cancel),
            enter: shared.enter.as_ref(),
            ..RunOptions::default()
        };
        let completion = campaign.experiment.run(&runs, options, &|progress| shared.show(progress))?;
        let measured = Measured::of_part(completion);
        directory.save(&campaign.experiment, &measured)?;
        directory.close()?;
        let Completion { failures, cost, .. } = measured.completion;
        let failures = failures.into_iter().map(|failure| (failure.run.to_string(), failure.problem)).collect();
        Ok((cost.events, cost.cpu.as_secs_f64(), failures))
    })
}

fn read(id: &str) -> PyResult<RunId> {
    id.parse().map_err(|error: NoRunId| PyValueError::new_err(error.to_string()))
}

/// A directory of results that takes the runs of parts. It is locked until `finish`.
#[pyclass(frozen, module = "conche._conche")]
pub struct Collected {
    campaign: Arc<Campaign>,
    plan: Vec<PlannedRun>,
    directory: Mutex<Option<ResultDirectory>>,
}

impl Collected {
    pub fn open(campaign: Campaign, py: Python<'_>) -> PyResult<Self> {
        let open = || {
            campaign.experiment.check()?;
            let plan = campaign.experiment.plan();
            let (directory, _) = campaign.open(None, Some(plan.iter().map(|run| run.id).collect()))?;
            Ok::<_, Problem>((plan, directory))
        };
        let (plan, directory) = py.detach(open)?;
        Ok(Self { campaign: Arc::new(campaign), plan, directory: Mutex::new(Some(directory)) })
    }

    fn with<T>(&self, work: impl FnOnce(&ResultDirectory) -> Result<T, Problem>) -> PyResult<T> {
        let directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = directory.as_ref().ok_or_else(|| PyValueError::new_err("the results are finished"))?;
        Ok(work(directory)?)
    }
}

#[pymethods]
impl Collected {
    /// Places in the plan of the runs that are missing.
    fn missing(&self) -> PyResult<Vec<usize>> {
        self.with(|directory| {
            let missing = self.plan.iter().enumerate().filter(|(_, run)| !directory.store().has(run.id));
            Ok(missing.map(|(place, _)| place).collect())
        })
    }

    /// Adds the runs of a part.
    fn add(&self, py: Python<'_>, part: PathBuf) -> PyResult<()> {
        py.detach(|| self.with(|directory| Ok(directory.store().import(&part, &mut || {})?)))
    }

    /// Computes the values, and writes the results. Missing runs are failed ones.
    fn finish(&self, py: Python<'_>, failures: Vec<FailedRun>) -> PyResult<Finished> {
        let directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner).take();
        let directory = directory.ok_or_else(|| PyValueError::new_err("the results are finished"))?;
        let problems = failures.into_iter().map(|(id, problem)| Ok((read(&id)?, problem)));
        let problems = problems.collect::<PyResult<HashMap<RunId, String>>>()?;
        let campaign = Arc::clone(&self.campaign);
        let failures: Vec<Failure> =
            problems.into_iter().map(|(run, problem)| Failure { run, problem, ..Failure::default() }).collect();
        in_background(py, campaign.calls_python, None, move |shared| {
            let options = RunOptions {
                jobs: campaign.jobs,
                store: Some(directory.store()),
                only_stored: Some(&failures),
                cancel: Some(&shared.cancel),
                enter: shared.enter.as_ref(),
            };
            let measured = campaign.experiment.measure(options, &|progress| shared.show(progress))?;
            directory.save(&campaign.experiment, &measured)?;
            directory.close()?;
            let Completion { runs, reused, failures, .. } = &measured.completion;
            unless_all_failed(*runs, failures)?;
            Ok((*runs, *reused, Vec::new()))
        })
    }
}
