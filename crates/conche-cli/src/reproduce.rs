//! `conche reproduce [PAPER]`: the tables and figures of a paper, or of all papers, regenerated.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use conche_lab::papers::{PAPERS, Paper, Summary, misses, overview};
use indicatif::{MultiProgress, ProgressBar};

use crate::Global;
use crate::exit;
use crate::experiment::{Done, Options, draw_target, style};
use crate::names;
use crate::show;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The paper; without it all papers, for a first impression unless --full or --runs is given.
    #[arg(value_parser = names::Papers)]
    paper: Option<&'static Paper>,
    /// All papers with their own replications and durations.
    #[arg(long, conflicts_with_all = ["quick", "runs"])]
    full: bool,
    #[command(flatten)]
    options: Options,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let options = args.options.with_own();
    let Some(paper) = args.paper else {
        let options = if args.full { options } else { options.quick() };
        return all(&options, global);
    };
    options.execute(paper.experiment(), global)
}

/// One paper after the other, each on all cores, and a summary. The tables go to where `--output` says.
fn all(options: &Options, global: &Global) -> anyhow::Result<()> {
    let bars = MultiProgress::with_draw_target(draw_target(global));
    let shown = bars.clone();
    exit::on_interrupt(global.json, move || {
        // What remains of the bars is untidy, but no reason to go on.
        let _ = shown.clear();
    });
    let bar = |paper: &Paper| {
        let bar = bars.add(ProgressBar::new(1).with_prefix(paper.name));
        bar.set_style(style("{prefix:9} {bar:40} {percent:>3} %  {elapsed} elapsed, {eta} left"));
        bar
    };
    let waiting: Vec<(&Paper, ProgressBar)> = PAPERS.iter().map(|paper| (paper, bar(paper))).collect();
    let mut done: Vec<Done> = Vec::new();
    for (paper, bar) in &waiting {
        bar.reset();
        bar.enable_steady_tick(Duration::from_millis(200));
        let one = options.measure(paper.experiment(), bar).with_context(|| paper.name)?;
        bar.finish();
        options.save(&one)?;
        done.push(one);
    }
    bars.clear().context("cannot write to standard error")?;
    let summaries: Vec<(&str, Summary)> =
        PAPERS.iter().zip(&done).map(|(paper, done)| (paper.name, done.summary())).collect();
    if global.json {
        done.iter().try_for_each(|done| done.print(global))?;
    } else {
        summarise(&summaries).context("cannot write to standard output")?;
    }
    options.tell(&done, global);
    Ok(())
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
