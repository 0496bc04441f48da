//! `conche merge -o DIR PART...`: makes results of the parts that other commands have run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use conche_lab::campaign::Progress;
use conche_lab::merge::{MergeError, Merged, Parts, StoredPart};
use conche_lab::results::Program;
use conche_report::read_experiments;

use crate::Global;
use crate::compare;
use crate::error::UsageError;
use crate::experiment::{BUILD, CompletedExperiment, FailedRuns, progress_bar};
use crate::show;

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
    let read = args.parts.into_iter().map(|directory| {
        let read = read_experiments(&directory, &global.controllers);
        let (manifest, experiments) = read.map_err(|error| UsageError(error.to_string()))?;
        Ok(StoredPart { directory, manifest, experiments })
    });
    let parts = Parts::new(&read.collect::<anyhow::Result<Vec<_>>>()?).map_err(usage)?;
    let began = Instant::now();
    let bar = progress_bar(global);
    let show = |Progress { done, total, .. }| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let merged = parts.merge(&args.output, Program::running(BUILD), args.overwrite, &show);
    bar.finish_and_clear();
    let Merged { directory, notes, results } = merged.map_err(usage)?;
    show::notes(&notes, global);
    let elapsed: Duration = began.elapsed();
    let of = |(experiment, measured)| CompletedExperiment { experiment, measured, elapsed };
    let all: Vec<_> = results.into_iter().map(of).collect();
    if parts.effort().compares {
        compare::rank(&all, Some(&directory), args.baseline.as_deref(), &parts.effort().controllers, global)?;
    } else {
        all.iter().try_for_each(|done| done.print(global))?;
    }
    directory.close()?;
    FailedRuns::of(&all, true).map_or(Ok(()), |failed| Err(failed.into()))
}

/// Other directories mend all but the computation.
fn usage(error: MergeError) -> anyhow::Error {
    match error {
        MergeError::Experiment(error) => error.into(),
        other => UsageError(format!("{:#}", anyhow::Error::from(other))).into(),
    }
}
