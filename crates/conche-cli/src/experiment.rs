//! What `conche reproduce` and `conche run` share: how often, with which random numbers, on how many cores, and where the
//! results go.

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use conche_lab::campaign::{Cost, ExperimentError, Progress, RunOptions};
use conche_lab::experiment::{Effort, Experiment};
use conche_lab::report::Table;
use conche_lab::results::{Figure, write_json};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Global;
use crate::exit::UsageError;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// A first impression: 3 replications of each run or fewer, and fewer or shorter runs; the intervals are wide.
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
    /// Replications of each run; by default as many as the scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Where all random numbers come from; the same seed gives the same results.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Threads; by default one for each core. Results do not depend on it.
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Run these controllers instead of the scenario's schemes: names of those, and of `conche controllers`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Vec<String>,
    /// Say on standard error how many events were simulated, and how fast.
    #[arg(long)]
    stats: bool,
    /// Write the results into this directory, too: as JSON and as text.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl Options {
    /// Runs the experiment as these options change it, and prints what it gives.
    pub fn execute(&self, mut experiment: Box<dyn Experiment>, global: &Global) -> anyhow::Result<()> {
        experiment.adjust(&self.effort()).map_err(|error| UsageError(format!("--controllers: {error}")))?;
        let bar = progress_bar(global);
        let began = Instant::now();
        let show = |progress: Progress| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        };
        let (figures, cost) = experiment.measure(RunOptions { jobs: self.jobs }, &show).map_err(usage)?;
        bar.finish_and_clear();
        let text = Text { experiment: &*experiment, tables: experiment.tables(&figures) };
        if let Some(directory) = &self.output {
            write_results(directory, &figures, &text)
                .with_context(|| format!("cannot write results into {}", directory.display()))?;
        }
        let mut out = io::stdout().lock();
        let printed = if global.json { write_json(&figures, &mut out) } else { write!(out, "{text}") };
        printed.and_then(|()| out.flush()).context("cannot write to standard output")?;
        if self.stats {
            eprintln!("{}", stats(experiment.name(), cost, began.elapsed()));
        }
        if !global.quiet && io::stderr().is_terminal() {
            eprintln!("{} figures in {:.1} s", figures.len(), began.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn effort(&self) -> Effort {
        Effort { quick: self.quick, runs: self.runs, seed: self.seed, controllers: self.controllers.clone() }
    }
}

/// What simulating has cost, in a line.
fn stats(name: &str, cost: Cost, elapsed: Duration) -> String {
    let rate = cost.events_per_second().unwrap_or_default() / 1e6;
    format!(
        "{name}: {} runs, {:.1} million events, {rate:.2} million a second of one core, {:.1} s in all",
        cost.runs,
        cost.events as f64 / 1e6,
        elapsed.as_secs_f64()
    )
}

/// What is wrong with the scenario is for its author to mend; a run that fails is not.
fn usage(error: ExperimentError) -> anyhow::Error {
    match error {
        ExperimentError::Scenario(error) => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}

/// A bar on standard error, if that is a terminal.
fn progress_bar(global: &Global) -> ProgressBar {
    let target = if global.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed} elapsed, {eta} left");
    bar.set_style(style.expect("a fixed template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The results for people.
struct Text<'a> {
    experiment: &'a dyn Experiment,
    tables: Vec<Table>,
}

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}\n{}, seed {}", self.experiment.title(), self.experiment.extent(), self.experiment.seed())?;
        self.tables.iter().try_for_each(|table| write!(f, "\n{table}"))
    }
}

fn write_results(directory: &Path, figures: &[Figure], text: &Text<'_>) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let file = |extension: &str| directory.join(text.experiment.name()).with_extension(extension);
    let mut json = io::BufWriter::new(std::fs::File::create(file("ndjson"))?);
    write_json(figures, &mut json)?;
    json.flush()?;
    let command: Vec<_> = std::env::args().collect();
    let origin = format!("conche {}: {}\n", env!("CARGO_PKG_VERSION"), command.join(" "));
    std::fs::write(file("txt"), format!("{origin}{text}"))
}
