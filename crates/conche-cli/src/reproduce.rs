//! `conche reproduce [PAPER...]`: reproduces the tables and figures of papers.

use std::io::{self, Write};

use anyhow::Context;
use conche_lab::experiment::Experiment;
use conche_lab::papers::{PAPERS, Paper, Summary, misses, overview};

use crate::Global;
use crate::experiment::Options;
use crate::names;
use crate::show;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Papers.
    ///
    /// By default all, in a quick run unless --full or --runs is given.
    #[arg(value_name = "PAPER", value_parser = names::PAPER)]
    papers: Vec<&'static Paper>,
    /// Use the replications and durations of the papers.
    #[arg(long, conflicts_with_all = ["quick", "runs"])]
    full: bool,
    #[command(flatten)]
    options: Options,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let (options, papers) = args.selected(global);
    match papers[..] {
        [paper] => options.execute(options.checked(paper.experiment(&global.controllers))?, None, global),
        _ => all(&papers, &options, global),
    }
}

/// Returns the papers' experiments, and the options to run them with.
pub fn experiments(args: Args, global: &Global) -> anyhow::Result<(Options, Vec<Experiment>)> {
    let (options, papers) = args.selected(global);
    let experiments = papers
        .iter()
        .map(|paper| options.checked(paper.experiment(&global.controllers)))
        .collect::<anyhow::Result<_>>()?;
    Ok((options, experiments))
}

impl Args {
    fn selected(self, global: &Global) -> (Options, Vec<&'static Paper>) {
        let options = self.options.with_own(&global.controllers);
        match (self.papers.is_empty(), self.full) {
            (true, true) => (options, PAPERS.iter().collect()),
            (true, false) => (options.quick(), PAPERS.iter().collect()),
            (false, _) => (options, distinct(self.papers)),
        }
    }
}

/// Removes duplicates and keeps the order of first occurrence.
fn distinct(papers: Vec<&'static Paper>) -> Vec<&'static Paper> {
    let mut distinct: Vec<&Paper> = Vec::new();
    for paper in papers {
        if !distinct.iter().any(|known| known.name == paper.name) {
            distinct.push(paper);
        }
    }
    distinct
}

/// Reproduces papers one after the other, each on all cores, and prints a summary; the tables go to
/// `--output`.
fn all(papers: &[&Paper], options: &Options, global: &Global) -> anyhow::Result<()> {
    let experiments = papers
        .iter()
        .map(|paper| options.checked(paper.experiment(&global.controllers)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (done, store) = options.execute_all(experiments, global)?;
    if options.is_part() {
        return options.end(&done, store, global);
    }
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
            writeln!(out, "{}", show::colour_verdicts(&show::titled(&table)))?;
        }
    }
    write!(out, "{}", show::titled(&overview(summaries)))?;
    writeln!(
        out,
        "  `conche reproduce PAPER` prints the tables of a paper; `--full` runs all as often as the papers did"
    )?;
    out.flush()
}
