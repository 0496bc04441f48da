//! `conche merge -o DIR PART...`: makes results of the parts that other commands have run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use conche_lab::campaign::{Failure, RunOptions};
use conche_lab::experiment::Experiment;
use conche_lab::scenario::Effort;
use conche_report::{Manifest, read_experiments};
use indicatif::ProgressBar;

use crate::Global;
use crate::compare;
use crate::error::UsageError;
use crate::experiment::{CompletedExperiment, FailedRuns, Kept, draw_target, save, style};

const EXAMPLES: &str = "\
Examples:
  conche run yard.toml --shard 1/2 -o part1        on one machine
  conche run yard.toml --shard 2/2 -o part2        on another
  conche merge part1 part2 -o results              what `conche run yard.toml -o results` writes";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directories that --shard or --ids have written with the same options.
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,
    /// Write the results into this directory.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Show ratios to this controller instead of the best.
    ///
    /// For parts of `conche compare`.
    #[arg(long, value_name = "NAME", hide_possible_values = true)]
    baseline: Option<String>,
    /// Replace other results in the directory.
    #[arg(long)]
    overwrite: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let parts = args.parts.iter().map(|directory| Read::of(directory, global)).collect::<anyhow::Result<Vec<_>>>()?;
    let [first, others @ ..] = &parts[..] else { return Ok(()) };
    others.iter().try_for_each(|other| first.check_same(other))?;
    let effort = first.effort()?;
    let experiments = first.experiments(&effort)?;
    let plans: Vec<_> = experiments.iter().map(Experiment::plan).collect();
    let kept = Kept {
        directory: &args.output,
        effort: &effort,
        shard: None,
        threads: 1,
        exchanges: parts.iter().all(|part| part.manifest.exchanges),
        series: first.manifest.series.map(Duration::from_nanos),
        overwrite: args.overwrite,
    };
    let store = kept.open(&experiments, &plans, global)?;
    let bar = ProgressBar::with_draw_target(Some(parts.len() as u64), draw_target(global));
    bar.set_style(style("{bar:40} {pos} of {len} parts  {elapsed} elapsed"));
    for part in &parts {
        store.import(part.directory)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let failures: Vec<Failure> = parts.iter().flat_map(|part| part.manifest.failures.iter().cloned()).collect();
    let (mut runs, mut missing) = (0, Vec::new());
    for (experiment, plan) in experiments.iter().zip(&plans) {
        let cells = experiment.planned_cells();
        for run in plan {
            let name = || cells.get(run.cell).map(|(_, name)| name.as_str()).unwrap_or_default();
            let is_it =
                |of: &Failure| of.seed == run.replication.seed && of.cell == name() && of.scenario == experiment.name();
            let has_failed = || failures.iter().any(is_it);
            runs += 1;
            if !store.has(run.id) && !has_failed() {
                missing.push(format!("{}: {}, replication {}", experiment.name(), name(), run.replication.index));
            }
        }
    }
    if let Some(run) = missing.first() {
        let (missing, directory) = (missing.len(), args.output.display());
        let remedy = "merge the other parts into it, or make them with the command of the parts, without --shard";
        let problem =
            format!("{missing} of {runs} runs are in no part, such as {run}; {directory} has the others: {remedy}");
        return Err(UsageError(problem).into());
    }
    let options = RunOptions { store: Some(&store), only_stored: Some(&failures), ..RunOptions::default() };
    let mut all = Vec::new();
    for experiment in experiments {
        let done = CompletedExperiment::measure(experiment, None, options, &ProgressBar::hidden())?;
        save(&store, &done, &effort, global)?;
        all.push(done);
    }
    if effort.compares {
        compare::rank(&all, Some(&store), args.baseline.as_deref(), &effort, global)?;
    } else {
        all.iter().try_for_each(|done| done.print(global))?;
    }
    store.close()?;
    FailedRuns::of(&all, true).map_or(Ok(()), |failed| Err(failed.into()))
}

/// A directory with a part of the runs.
struct Read<'a> {
    directory: &'a Path,
    manifest: Manifest,
    experiments: Vec<Experiment>,
}

impl<'a> Read<'a> {
    fn of(directory: &'a Path, global: &Global) -> anyhow::Result<Self> {
        let (manifest, experiments) =
            read_experiments(directory, &global.controllers).map_err(|error| UsageError(error.to_string()))?;
        Ok(Self { directory, manifest, experiments })
    }

    fn effort(&self) -> anyhow::Result<Effort> {
        let effort = serde_json::from_value(self.manifest.effort.clone());
        effort.with_context(|| format!("{}: manifest.json does not state the options", self.directory.display()))
    }

    fn experiments(&self, effort: &Effort) -> anyhow::Result<Vec<Experiment>> {
        let adjusted = self.experiments.iter().map(|experiment| {
            let mut experiment = experiment.clone();
            experiment.adjust(effort).map_err(|error| UsageError(format!("{}: {error}", self.directory.display())))?;
            Ok(experiment)
        });
        adjusted.collect()
    }

    fn check_same(&self, other: &Self) -> anyhow::Result<()> {
        let names = |of: &Self| -> Vec<(String, String)> {
            of.manifest.scenarios.iter().map(|of| (of.name.clone(), of.settings.clone())).collect()
        };
        let (here, there) = (self.directory.display(), other.directory.display());
        let problem = if names(self) != names(other) {
            format!("{here} and {there} are not of the same scenarios")
        } else if self.manifest.effort != other.manifest.effort {
            format!("{here} and {there} were run with other options: `{}` and `{}`", self.effort()?, other.effort()?)
        } else if self.manifest.series != other.manifest.series {
            format!("{here} and {there} have time series with other intervals, or one has none")
        } else {
            return Ok(());
        };
        Err(UsageError(format!("{problem}; merge parts of one command")).into())
    }
}
