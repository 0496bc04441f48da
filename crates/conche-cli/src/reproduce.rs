//! `conche reproduce [PAPER...]`: the tables and figures of a paper, of some, or of all papers, regenerated.

use std::io::{self, Write};

use anyhow::Context;
use conche_lab::papers::{PAPERS, Paper, Summary, misses, overview};

use crate::Global;
use crate::experiment::Options;
use crate::names;
use crate::show;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The papers; without any all of them, for a first impression unless --full or --runs is given.
    #[arg(value_name = "PAPER", value_parser = names::Papers)]
    papers: Vec<&'static Paper>,
    /// All papers with their own replications and durations.
    #[arg(long, conflicts_with_all = ["quick", "runs"])]
    full: bool,
    #[command(flatten)]
    options: Options,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let options = args.options.with_own();
    match args.papers[..] {
        [] if args.full => all(&PAPERS.iter().collect::<Vec<_>>(), &options, global),
        [] => all(&PAPERS.iter().collect::<Vec<_>>(), &options.quick(), global),
        [paper] => options.execute(paper.experiment(), global),
        _ => all(&distinct(args.papers), &options, global),
    }
}

/// Each paper once, in the order of their first names.
fn distinct(papers: Vec<&'static Paper>) -> Vec<&'static Paper> {
    let mut distinct: Vec<&Paper> = Vec::new();
    for paper in papers {
        if !distinct.iter().any(|known| known.name == paper.name) {
            distinct.push(paper);
        }
    }
    distinct
}

/// One paper after the other, each on all cores, and a summary. The tables go to where `--output` says.
fn all(papers: &[&Paper], options: &Options, global: &Global) -> anyhow::Result<()> {
    let (done, store) = options.execute_all(papers.iter().map(|paper| paper.experiment()), global)?;
    let summaries: Vec<(&str, Summary)> =
        papers.iter().zip(&done).map(|(paper, done)| (paper.name, done.summary())).collect();
    if global.json {
        done.iter().try_for_each(|done| done.print(global))?;
    } else {
        summarise(&summaries).context("cannot write to standard output")?;
    }
    options.end(&done, store, global)
}

fn summarise(summaries: &[(&str, Summary)]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (paper, summary) in summaries {
        let table = misses(paper, summary);
        if !table.rows.is_empty() {
            writeln!(out, "{}", show::colour_verdicts(&table.to_string()))?;
        }
    }
    write!(out, "{}", overview(summaries))?;
    writeln!(
        out,
        "  `conche reproduce PAPER` prints the tables of a paper; `--full` runs all as often as the papers did"
    )?;
    out.flush()
}
