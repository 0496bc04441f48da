//! What `conche reproduce` and `conche run` share: how often, with which random numbers, on how many cores, and where the
//! results go.

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use conche_lab::campaign::{Cost, ExperimentError, Progress, RunOptions};
use conche_lab::composed::Composed;
use conche_lab::controllers::known;
use conche_lab::experiment::Effort;
use conche_lab::papers::Summary;
use conche_lab::results::{Figure, write_json};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Global;
use crate::exit::{self, UsageError};
use crate::names;
use crate::show;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// A first impression: 3 replications of each run or fewer, and fewer or shorter runs; the intervals are wide.
    #[arg(long)]
    quick: bool,
    /// Replications of each run; by default as many as the scenario says, or as --quick does.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Where all random numbers come from; the same seed gives the same results.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Threads; by default one for each core. Results do not depend on it.
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Run these controllers instead of the scenario's schemes: names of those, and of `conche controllers`.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = names::Schemes,
        hide_possible_values = true
    )]
    controllers: Vec<String>,
    /// Change a value of the scenario, as in `nodes.client.count=20`; as often as wanted.
    #[arg(long, value_name = "PATH=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Only runs with these labels, as in `scheme=default,cocoa`; a `*` stands for anything; as often as wanted.
    #[arg(long, value_name = "AXIS=LABELS", value_parser = labels)]
    only: Vec<(String, Vec<String>)>,
    #[arg(skip)]
    also: Vec<String>,
    /// Say on standard error how many events were simulated, and how fast.
    #[arg(long)]
    stats: bool,
    /// Write the results into this directory, too: as JSON and as text.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl Options {
    /// Runs the experiment as these options change it, and prints what it gives.
    pub fn execute(&self, experiment: Composed, global: &Global) -> anyhow::Result<()> {
        let bar = progress_bar(global);
        let shown = bar.clone();
        exit::on_interrupt(global.json, move || shown.finish_and_clear());
        let done = self.measure(experiment, &bar)?;
        bar.finish_and_clear();
        self.save(&done)?;
        done.print(global)?;
        self.tell(std::slice::from_ref(&done), global);
        Ok(())
    }

    /// Runs the experiment as these options change it.
    pub fn measure(&self, mut experiment: Composed, bar: &ProgressBar) -> anyhow::Result<Done> {
        experiment.adjust(&self.effort()).map_err(|error| UsageError(error.to_string()))?;
        let began = Instant::now();
        let show = |progress: Progress| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        };
        let (figures, cost) = experiment.measure(RunOptions { jobs: self.jobs }, &show).map_err(usage)?;
        Ok(Done { experiment, figures, cost, elapsed: began.elapsed() })
    }

    /// Writes the results of an experiment where the options say.
    pub fn save(&self, done: &Done) -> anyhow::Result<()> {
        let Some(directory) = &self.output else { return Ok(()) };
        write_results(directory, done).with_context(|| format!("cannot write results into {}", directory.display()))
    }

    /// Says on standard error what it took.
    pub fn tell(&self, done: &[Done], global: &Global) {
        if self.stats {
            done.iter().for_each(|done| eprintln!("{}", done.stats()));
        }
        if !global.quiet && io::stderr().is_terminal() {
            let figures: usize = done.iter().map(|done| done.figures.len()).sum();
            let elapsed: Duration = done.iter().map(|done| done.elapsed).sum();
            eprintln!("{figures} figures in {:.1} s", elapsed.as_secs_f64());
        }
    }

    /// The same options, for a first impression unless the number of replications is given.
    pub fn quick(self) -> Self {
        Self { quick: self.quick || self.runs.is_none(), ..self }
    }

    /// The same options, and the program's own controllers beside a scenario's schemes.
    pub fn with_own(self) -> Self {
        Self { also: known().own().iter().map(|named| named.name.to_owned()).collect(), ..self }
    }

    fn effort(&self) -> Effort {
        Effort {
            quick: self.quick,
            runs: self.runs,
            seed: self.seed,
            controllers: self.controllers.clone(),
            also: self.also.clone(),
            set: self.set.clone(),
            only: self.only.clone(),
        }
    }
}

/// Reads `PATH=VALUE`.
fn setting(text: &str) -> Result<(String, String), String> {
    let (path, value) = parted(text, "links.up.wire.rate=30kbit/s")?;
    Ok((path.to_owned(), value.to_owned()))
}

/// Reads `AXIS=LABEL,LABEL`.
fn labels(text: &str) -> Result<(String, Vec<String>), String> {
    let (axis, labels) = parted(text, "scheme=default,cocoa")?;
    Ok((axis.to_owned(), labels.split(',').map(str::to_owned).collect()))
}

fn parted<'a>(text: &'a str, example: &str) -> Result<(&'a str, &'a str), String> {
    let parts = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    parts
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .ok_or_else(|| format!("it has to be a name, `=` and a value, as in `{example}`"))
}

/// An experiment that was run.
pub struct Done {
    experiment: Composed,
    pub figures: Vec<Figure>,
    cost: Cost,
    elapsed: Duration,
}

impl Done {
    /// Prints the results on standard output: for people, or as JSON.
    pub fn print(&self, global: &Global) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        let printed = match global.json {
            true => write_json(&self.figures, &mut out),
            false => write!(out, "{}", show::colour_verdicts(&self.to_string())),
        };
        printed.and_then(|()| out.flush()).context("cannot write to standard output")
    }

    /// How well it was reproduced.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.experiment, &self.figures)
    }

    /// What simulating has cost, in a line.
    fn stats(&self) -> String {
        let rate = self.cost.events_per_second().unwrap_or_default() / 1e6;
        format!(
            "{}: {} runs, {:.1} million events, {rate:.2} million a CPU second, {:.1} s in all",
            self.experiment.about().name,
            self.cost.runs,
            self.cost.events as f64 / 1e6,
            self.elapsed.as_secs_f64()
        )
    }
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
    let bar = ProgressBar::with_draw_target(None, draw_target(global));
    bar.set_style(style("{bar:40} {percent:>3} %  {elapsed} elapsed, {eta} left"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Where progress is shown.
pub fn draw_target(global: &Global) -> ProgressDrawTarget {
    if global.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

/// The look of a bar.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a fixed template")
}

/// The results for people.
impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.experiment.about())?;
        self.experiment.tables(&self.figures).iter().try_for_each(|table| write!(f, "\n{table}"))
    }
}

fn write_results(directory: &Path, done: &Done) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let file = |extension: &str| directory.join(done.experiment.about().name).with_extension(extension);
    let mut json = io::BufWriter::new(std::fs::File::create(file("ndjson"))?);
    write_json(&done.figures, &mut json)?;
    json.flush()?;
    let command: Vec<_> = std::env::args().collect();
    let origin = format!("conche {}: {}\n", env!("CARGO_PKG_VERSION"), command.join(" "));
    std::fs::write(file("txt"), format!("{origin}{done}"))
}
