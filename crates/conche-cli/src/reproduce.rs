//! `conche reproduce [PAPER...]`: the tables and figures of a paper, of some, or of all papers, regenerated.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use conche_lab::papers::{PAPERS, Paper, Summary, misses, overview};
use indicatif::{MultiProgress, ProgressBar};

use crate::Global;
use crate::exit;
use crate::experiment::{Done, Options, draw_target, style};
use crate::names;
use crate::saving;
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
    let (experiments, store) = options.prepare(papers.iter().map(|paper| paper.experiment()), global)?;
    let bars = MultiProgress::with_draw_target(draw_target(global));
    let shown = bars.clone();
    exit::on_interrupt(global.json, store.is_some(), move || {
        // What remains of the bars is untidy, but no reason to go on.
        let _ = shown.clear();
    });
    let bar = |paper: &Paper| {
        let bar = bars.add(ProgressBar::new(1).with_prefix(paper.name));
        bar.set_style(style("{prefix:9} {bar:40} {percent:>3} %  {elapsed} elapsed, {eta} left {msg}"));
        bar
    };
    let waiting: Vec<(&Paper, ProgressBar)> = papers.iter().map(|paper| (*paper, bar(paper))).collect();
    let mut done: Vec<Done> = Vec::new();
    for ((paper, bar), experiment) in waiting.iter().zip(experiments) {
        bar.reset();
        bar.enable_steady_tick(Duration::from_millis(200));
        let one = options.measure(experiment, store.as_ref(), bar).with_context(|| paper.name)?;
        bar.finish();
        store.as_ref().map_or(Ok(()), |store| saving::save(store, &one, global))?;
        done.push(one);
    }
    bars.clear().context("cannot write to standard error")?;
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
