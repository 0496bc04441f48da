//! `conche plan COMMAND`: lists the runs that a command would make.

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use conche_lab::results::{CellId, RunId};
use serde::Serialize;

use crate::Global;
use crate::experiment::PlanOf;
use crate::{compare, reproduce};

const EXAMPLES: &str = "\
Examples:
  conche plan run yard.toml                        an ID, scenario, cell, replication, seed and share of the work a line
  conche plan run yard.toml -o results             the runs that results does not have
  conche plan compare networks --full --shard 2/8  the runs of a part
  conche plan run yard.toml | split -n r/4 - ids.  four files for `conche run yard.toml --ids`";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Command and its options.
    #[command(subcommand)]
    command: Planned,
}

#[derive(Debug, clap::Subcommand)]
enum Planned {
    /// Runs of `conche run`.
    Run(crate::run::Args),
    /// Runs of `conche reproduce`.
    Reproduce(reproduce::Args),
    /// Runs of `conche compare`.
    Compare(compare::Args),
}

/// A run, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    id: RunId,
    scenario: &'a str,
    name: &'a str,
    cell: &'a CellId,
    replication: u32,
    seed: u64,
    /// Estimated share of the work of all runs.
    share: f64,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let (options, experiments) = match args.command {
        Planned::Run(args) => crate::run::experiments(args, global)?,
        Planned::Reproduce(args) => reproduce::experiments(args, global)?,
        Planned::Compare(args) => compare::experiments(args, global)?,
    };
    let plan = options.missing(experiments)?;
    print(&plan, global).context("cannot write to standard output")
}

fn print(plan: &[PlanOf], global: &Global) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for PlanOf { experiment, runs, total } in plan {
        let cells = experiment.planned_cells();
        let scenario = experiment.name();
        for run in runs {
            let Some((cell, name)) = cells.get(run.cell) else { continue };
            let share = run.work as f64 / *total as f64;
            let (id, replication, seed) = (run.id, run.replication.index, run.replication.seed);
            if global.json {
                let line = Line { schema: 1, id, scenario, name, cell, replication, seed, share };
                serde_json::to_writer(&mut out, &line)?;
                writeln!(out)?;
            } else {
                writeln!(out, "{id} {scenario} {name} {replication} {seed} {:.4} %", 100.0 * share)?;
            }
        }
    }
    out.flush()
}
