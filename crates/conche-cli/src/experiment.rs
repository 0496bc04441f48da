//! Runs experiments, or a part of their runs, prints and stores the results: `conche reproduce`,
//! `run` and `compare`.

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use conche::cc::any::Controllers;
use conche_lab::campaign::{Completion, ExperimentError, Failure, MAX_JOBS, PlannedRun, Progress, RunOptions};
use conche_lab::directory::{Output, ResultDirectory};
use conche_lab::experiment::{Experiment, Measured};
use conche_lab::papers::Summary;
use conche_lab::results::{Build, Program, stored_runs};
use conche_lab::scenario::{Effort, ScenarioError};
use conche_lab::table::Table;
use conche_lab::value::write_json;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Global;
use crate::error::{ArgumentError, UsageError};
use crate::exit;
use crate::flags::parse_time;
use crate::names;
use crate::part::PartOptions;
use crate::run_trace::RunTrace;
use crate::show;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// Run at most 3 replications, and fewer or shorter runs.
    ///
    /// The confidence intervals are wide.
    #[arg(long)]
    quick: bool,
    /// Replications of each run.
    ///
    /// By default those of the scenario or of --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Seed of all random numbers.
    ///
    /// The same seed gives the same results.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Threads; by default one per core.
    ///
    /// Results do not depend on it.
    #[arg(long, short, value_name = "N", value_parser = threads)]
    jobs: Option<NonZeroUsize>,
    /// Run these controllers instead of the schemes.
    ///
    /// Names of `conche controllers`, with parameters as in `cocoa:weak_k=1`, or of schemes of the
    /// scenario.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = names::SCHEME,
        hide_possible_values = true
    )]
    controllers: Vec<String>,
    /// Change a value, as in nodes.client.count=20; repeatable.
    #[arg(long, value_name = "PATH=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Select runs, as in scheme=default,cocoa; repeatable.
    ///
    /// `*` matches any text. Labels of one axis are alternatives.
    #[arg(long, value_name = "AXIS=LABELS", value_parser = labels)]
    only: Vec<(String, Vec<String>)>,
    #[arg(skip)]
    also: Vec<String>,
    #[arg(skip)]
    compares: bool,
    #[command(flatten)]
    part: PartOptions,
    /// Print the number of simulated events and their rate.
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    output_dir: OutputDir,
}

impl Options {
    pub fn execute(&self, experiment: Experiment, trace: Option<&RunTrace>, global: &Global) -> anyhow::Result<()> {
        if let Some((trace, adjusted)) = trace.zip(self.adjusted(&experiment)) {
            trace.check(&adjusted)?;
        }
        let bar = progress_bar(global);
        let (experiments, results) = self.prepare([experiment], global)?;
        let shown = bar.clone();
        exit::on_interrupt(global.json, results.is_some(), move || shown.finish_and_clear());
        let mut all = Vec::new();
        for (experiment, part) in experiments {
            if let (Some(trace), Some(directory)) = (trace, &self.output_dir.output) {
                trace.write(&experiment, directory, global)?;
            }
            let done = self.measure(experiment, part.as_deref(), results.as_ref(), &bar)?;
            bar.finish_and_clear();
            results.as_ref().map_or(Ok(()), |results| done.save(results, global))?;
            if !self.part.is_some() {
                done.print(global)?;
            }
            all.push(done);
        }
        self.end(&all, results, global)
    }

    /// Runs experiments one after the other, each on all cores, and stores their results.
    pub fn execute_all(
        &self,
        experiments: impl IntoIterator<Item = Experiment>,
        global: &Global,
    ) -> anyhow::Result<(Vec<CompletedExperiment>, Option<ResultDirectory>)> {
        let (experiments, results) = self.prepare(experiments, global)?;
        let bar = ProgressBar::with_draw_target(None, draw_target(global));
        bar.set_style(style("{prefix} {bar:40} {percent:>3} %  {elapsed} elapsed, {eta} left {msg}"));
        bar.enable_steady_tick(Duration::from_millis(200));
        let shown = bar.clone();
        exit::on_interrupt(global.json, results.is_some(), move || shown.finish_and_clear());
        let (count, mut all) = (experiments.len(), Vec::new());
        for (number, (experiment, part)) in (1..).zip(experiments) {
            let name = experiment.name().to_owned();
            bar.reset();
            bar.set_message("");
            bar.set_prefix(format!("{number}/{count} {name:16}"));
            let done = self.measure(experiment, part.as_deref(), results.as_ref(), &bar).with_context(|| name)?;
            results.as_ref().map_or(Ok(()), |results| done.save(results, global))?;
            all.push(done);
        }
        bar.finish_and_clear();
        Ok((all, results))
    }

    /// Applies the options, and opens the directory of results.
    fn prepare(&self, experiments: impl IntoIterator<Item = Experiment>, global: &Global) -> anyhow::Result<Prepared> {
        let experiments = self.adjust(experiments)?;
        let plans: Vec<_> = experiments.iter().map(Experiment::plan).collect();
        let part = self.part.of(&plans)?;
        if part.is_some() && self.output_dir.output.is_none() {
            return Err(UsageError("part of the runs gives no results: keep them with --output DIR".to_owned()).into());
        }
        let results = self.output_dir.open(&experiments, self, global)?;
        let parts = part.map_or_else(|| vec![None; experiments.len()], |parts| parts.into_iter().map(Some).collect());
        Ok((experiments.into_iter().zip(parts).collect(), results))
    }

    /// Returns the runs that the options select and that the directory of results does not have.
    pub fn missing(&self, experiments: impl IntoIterator<Item = Experiment>) -> anyhow::Result<Vec<PlanOf>> {
        let experiments = self.adjust(experiments)?;
        let plans: Vec<_> = experiments.iter().map(Experiment::plan).collect();
        let total = plans.iter().flatten().map(|run| run.work).sum::<u64>().max(1);
        let mut selected = self.part.of(&plans)?.unwrap_or(plans);
        if let Some(directory) = &self.output_dir.output {
            let stored = stored_runs(directory).with_context(|| format!("cannot read {}", directory.display()))?;
            selected.iter_mut().for_each(|runs| runs.retain(|run| !stored.contains(&run.id)));
        }
        let of = |(experiment, runs)| PlanOf { experiment, runs, total };
        Ok(experiments.into_iter().zip(selected).map(of).collect())
    }

    /// Applies the options.
    pub fn adjust(&self, experiments: impl IntoIterator<Item = Experiment>) -> anyhow::Result<Vec<Experiment>> {
        let experiments: Vec<_> = experiments.into_iter().collect();
        let is_one_of_several = experiments.len() > 1;
        let adjusted = experiments.into_iter().map(|experiment| {
            let mut adjusted = experiment.clone();
            adjusted.adjust(&self.effort()).map_err(|error| {
                let UsageError(problem) = self.refused(&experiment, &error);
                UsageError(if is_one_of_several { format!("{}: {problem}", experiment.name()) } else { problem })
            })?;
            Ok(adjusted)
        });
        let experiments = adjusted.collect::<anyhow::Result<Vec<_>>>()?;
        Experiment::check_labels(&experiments).map_err(|error| UsageError(self.advised(&error)))?;
        Ok(experiments)
    }

    /// Checks the experiment of a paper or network.
    pub fn checked(&self, experiment: Experiment) -> anyhow::Result<Experiment> {
        self.check(&experiment).map_err(|error| UsageError(format!("{}: {error}", experiment.name())))?;
        Ok(experiment)
    }

    pub fn check(&self, experiment: &Experiment) -> Result<(), ScenarioError> {
        self.adjusted(experiment).map_or(Ok(()), |adjusted| adjusted.check())
    }

    /// Applies the options; `None` if one is wrong, which `prepare` reports with the option.
    fn adjusted(&self, experiment: &Experiment) -> Option<Experiment> {
        let mut adjusted = experiment.clone();
        adjusted.adjust(&self.effort()).is_ok().then_some(adjusted)
    }

    fn refused(&self, experiment: &Experiment, error: &ScenarioError) -> UsageError {
        let is_right = |number: &usize| {
            let effort = Effort { set: self.set[..*number].to_vec(), ..self.effort() };
            experiment.clone().adjust(&effort).is_ok()
        };
        let wrong = (0..self.set.len()).rev().find(is_right).and_then(|number| self.set.get(number));
        UsageError(wrong.map_or_else(|| self.advised(error), |(path, value)| format!("--set {path}={value}: {error}")))
    }

    /// Names the option for controllers that are no schemes, if --only selects one.
    fn advised(&self, error: &ScenarioError) -> String {
        let problem = error.to_string();
        match self.only.iter().find(|(axis, _)| axis == "scheme") {
            Some((_, labels)) if problem.starts_with("scheme: no run has ") => {
                format!("{problem}; for other controllers, write --controllers {}", labels.join(","))
            }
            _ => problem,
        }
    }

    fn measure(
        &self,
        experiment: Experiment,
        part: Option<&[PlannedRun]>,
        directory: Option<&ResultDirectory>,
        bar: &ProgressBar,
    ) -> anyhow::Result<CompletedExperiment> {
        let options =
            RunOptions { jobs: self.jobs, store: directory.map(ResultDirectory::store), ..RunOptions::default() };
        CompletedExperiment::measure(experiment, part, options, bar)
    }

    /// Closes the directory of results, reports the cost, and fails if a run has failed.
    pub fn end(
        &self,
        done: &[CompletedExperiment],
        results: Option<ResultDirectory>,
        global: &Global,
    ) -> anyhow::Result<()> {
        self.close(done, results, global)?.map_or(Ok(()), |failed| Err(failed.into()))
    }

    pub fn close(
        &self,
        done: &[CompletedExperiment],
        results: Option<ResultDirectory>,
        global: &Global,
    ) -> anyhow::Result<Option<FailedRuns>> {
        let is_kept = results.is_some();
        results.map_or(Ok(()), ResultDirectory::close)?;
        self.report_cost(done, global);
        if let Some(directory) = self.output_dir.output.as_ref().filter(|_| self.part.is_some() && !global.quiet) {
            let runs: u64 = done.iter().map(|done| done.measured.completion.runs).sum();
            let directory = directory.display();
            show::note(format_args!("{runs} runs are in {directory}; `conche merge` makes results of all parts"));
        }
        Ok(FailedRuns::of(done, is_kept))
    }

    fn report_cost(&self, done: &[CompletedExperiment], global: &Global) {
        if self.stats {
            done.iter().for_each(|done| show::note(format_args!("{}", done.stats())));
        }
        if !global.quiet && io::stderr().is_terminal() && !self.part.is_some() {
            let figures: usize = done.iter().map(|done| done.measured.values.len()).sum();
            let elapsed: Duration = done.iter().map(|done| done.elapsed).sum();
            show::note(format_args!("{figures} figures in {:.1} s", elapsed.as_secs_f64()));
        }
    }

    pub fn quick(self) -> Self {
        Self { quick: self.quick || self.runs.is_none(), ..self }
    }

    /// Adds the program's own controllers to a scenario's schemes.
    pub fn with_own(self, controllers: &Controllers) -> Self {
        Self { also: controllers.own().iter().map(|named| named.name().to_owned()).collect(), ..self }
    }

    pub fn comparing(mut self, controllers: &Controllers) -> Self {
        self.controllers = names::with_parameters(self.controllers);
        if self.controllers.is_empty() {
            self.controllers = controllers.iter().map(|named| named.name().to_owned()).collect();
        }
        Self { compares: true, ..self }
    }

    pub fn controllers(&self) -> &[String] {
        &self.controllers
    }

    /// Whether only a part of the runs is made.
    pub fn is_part(&self) -> bool {
        self.part.is_some()
    }

    pub fn effort(&self) -> Effort {
        Effort {
            quick: self.quick,
            runs: self.runs,
            seed: self.seed,
            controllers: names::with_parameters(self.controllers.clone()),
            also: self.also.clone(),
            set: self.set.clone(),
            compares: self.compares,
            only: merged(&self.only),
        }
    }
}

fn threads(text: &str) -> Result<NonZeroUsize, ArgumentError> {
    let threads = text.parse().ok();
    threads.filter(|threads: &NonZeroUsize| threads.get() <= MAX_JOBS).ok_or(ArgumentError::Threads)
}

pub fn setting(text: &str) -> Result<(String, String), ArgumentError> {
    let (path, value) = parted(text, "links.up.wire.rate=30kbit/s")?;
    Ok((path.to_owned(), value.to_owned()))
}

pub fn labels(text: &str) -> Result<(String, Vec<String>), ArgumentError> {
    let example = "scheme=default,cocoa";
    let (axis, labels) = parted(text, example)?;
    let labels = names::with_parameters(labels.split(',').map(|label| label.trim().to_owned()));
    match labels.iter().any(String::is_empty) {
        true => Err(ArgumentError::Label(example)),
        false => Ok((axis.to_owned(), labels)),
    }
}

/// Merges labels: `--only loss=0 --only loss=0.03` selects both.
pub fn merged(only: &[(String, Vec<String>)]) -> Vec<(String, Vec<String>)> {
    let mut merged: Vec<(String, Vec<String>)> = Vec::new();
    for (axis, labels) in only {
        match merged.iter_mut().find(|(known, _)| known == axis) {
            Some((_, known)) => known.extend(labels.iter().cloned()),
            None => merged.push((axis.clone(), labels.clone())),
        }
    }
    merged
}

fn parted<'a>(text: &'a str, example: &'static str) -> Result<(&'a str, &'a str), ArgumentError> {
    let parts = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    parts.filter(|(name, value)| !name.is_empty() && !value.is_empty()).ok_or(ArgumentError::Assignment(example))
}

const MOST_FAILURES: usize = 10;

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct FailedRuns {
    pub is_all: bool,
    message: String,
}

impl FailedRuns {
    pub fn of(done: &[CompletedExperiment], is_kept: bool) -> Option<Self> {
        let failures: Vec<&Failure> = done.iter().flat_map(|done| &done.measured.completion.failures).collect();
        if failures.is_empty() {
            return None;
        }
        let runs: u64 = done.iter().map(|done| done.measured.completion.runs).sum();
        let is_all = failures.len() as u64 == runs;
        let mut message = match is_all {
            true => format!("all {runs} runs failed"),
            false => format!("{} of {runs} runs failed; the results are of the others", failures.len()),
        };
        // One defect of a scenario often fails all of its runs.
        let mut reasons: Vec<(&Failure, u64)> = Vec::new();
        for failure in failures {
            let is_same = |known: &Failure| (&known.scenario, &known.problem) == (&failure.scenario, &failure.problem);
            match reasons.iter_mut().find(|(known, _)| is_same(known)) {
                Some((_, runs)) => *runs += 1,
                None => reasons.push((failure, 1)),
            }
        }
        for (failure, runs) in reasons.iter().take(MOST_FAILURES) {
            let runs = if *runs > 1 { format!(" (in {runs} runs)") } else { String::new() };
            message += &format!("\n  {}: {failure}{runs}", failure.scenario);
        }
        if reasons.len() > MOST_FAILURES {
            let rest: u64 = reasons.iter().skip(MOST_FAILURES).map(|(_, runs)| runs).sum();
            message += &format!("\n  and {rest} more{}", if is_kept { "; manifest.json lists them all" } else { "" });
        }
        Some(Self { is_all, message })
    }
}

/// Experiments, each with its part of the runs if it is not the whole, and the store.
type Prepared = (Vec<(Experiment, Option<Vec<PlannedRun>>)>, Option<ResultDirectory>);

/// Runs of an experiment, and the work of all experiments.
pub struct PlanOf {
    pub experiment: Experiment,
    pub runs: Vec<PlannedRun>,
    pub total: u64,
}

fn usage(error: ExperimentError) -> anyhow::Error {
    match error {
        ExperimentError::Scenario(error) => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}

pub fn progress_bar(global: &Global) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, draw_target(global));
    bar.set_style(style("{bar:40} {percent:>3} %  {elapsed} elapsed, {eta} left {msg}"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn draw_target(global: &Global) -> ProgressDrawTarget {
    if global.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a fixed template")
}

pub struct CompletedExperiment {
    pub experiment: Experiment,
    pub measured: Measured,
    pub elapsed: Duration,
}

impl CompletedExperiment {
    /// Makes the runs, or a part of them, which has no values.
    pub fn measure(
        experiment: Experiment,
        part: Option<&[PlannedRun]>,
        options: RunOptions<'_>,
        bar: &ProgressBar,
    ) -> anyhow::Result<Self> {
        let began = Instant::now();
        let show = |progress: Progress| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            if progress.reused > 0 {
                bar.set_message(format!("({} runs taken from the journal)", progress.reused));
            }
        };
        let measured = match part {
            None => experiment.measure(options, &show),
            Some(runs) => experiment.run(runs, options, &show).map(Measured::of_part),
        };
        Ok(Self { experiment, measured: measured.map_err(usage)?, elapsed: began.elapsed() })
    }

    fn save(&self, directory: &ResultDirectory, global: &Global) -> anyhow::Result<()> {
        directory.save(&self.experiment, &self.measured)?;
        let Completion { runs, reused, .. } = self.measured.completion;
        if reused > 0 && !global.quiet {
            let (name, journal) = (self.name(), directory.store().journal());
            show::note(format_args!("{name}: {reused} of {runs} runs taken from {}", journal.display()));
        }
        Ok(())
    }

    pub fn name(&self) -> &str {
        self.experiment.name()
    }

    pub fn print(&self, global: &Global) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        let printed = match global.json {
            true => write_json(&self.measured.values, &mut out),
            false => write!(out, "{}", show::colour_verdicts(&self.text(show::titled))),
        };
        printed.and_then(|()| out.flush()).context("cannot write to standard output")
    }

    fn text(&self, format: fn(&Table) -> String) -> String {
        let tables = self.experiment.tables(&self.measured.values);
        let tables: String = tables.iter().map(|table| format!("\n{}", format(table))).collect();
        format!("{}\n{tables}", self.experiment)
    }

    pub fn summary(&self) -> Summary {
        Summary::new(&self.experiment, &self.measured.values)
    }

    pub fn stats(&self) -> String {
        let cost = self.measured.completion.cost;
        let rate = cost.events_per_second().unwrap_or_default() / 1e6;
        format!(
            "{}: {} runs, {:.1} million events, {rate:.2} million a CPU second, {:.1} s in all",
            self.name(),
            cost.runs,
            cost.events as f64 / 1e6,
            self.elapsed.as_secs_f64()
        )
    }
}

#[derive(Debug, clap::Args)]
struct OutputDir {
    /// Also write the results into this directory.
    ///
    /// Manifest, values, tables and the values of all runs. After an interruption, the same command
    /// resumes.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Also write time series to DIR/series.parquet.
    ///
    /// Path state of clients, queues and drops of links, sampled in this interval of simulated time.
    /// A value is written if it has changed. Results do not depend on it.
    #[arg(
        long,
        value_name = "INTERVAL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1s",
        value_parser = parse_time,
        requires = "output"
    )]
    series: Option<Duration>,
    /// Also write every exchange to DIR/exchanges.parquet.
    ///
    /// The file may become large.
    #[arg(long, requires = "output")]
    exchanges: bool,
    /// Replace other results in the directory.
    #[arg(long, requires = "output")]
    overwrite: bool,
}

impl OutputDir {
    /// Opens the directory for these experiments, if `--output` is given.
    fn open(
        &self,
        experiments: &[Experiment],
        options: &Options,
        global: &Global,
    ) -> anyhow::Result<Option<ResultDirectory>> {
        let Some(directory) = &self.output else { return Ok(None) };
        let output = Output {
            directory,
            program: Program::running(BUILD),
            effort: &options.effort(),
            part: options.part.name(),
            plan: None,
            jobs: options.jobs,
            exchanges: self.exchanges,
            series: self.series,
            overwrites: self.overwrite,
        };
        // Whatever is wrong with the directory, another `--output` is right.
        let opened = ResultDirectory::open(output, experiments);
        let (directory, notes) = opened.map_err(|error| UsageError(format!("{:#}", anyhow::Error::from(error))))?;
        show::notes(&notes, global);
        Ok(Some(directory))
    }
}

pub const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: option_env!("CONCHE_COMMIT"),
    is_dirty: match option_env!("CONCHE_DIRTY") {
        Some(dirty) => Some(matches!(dirty.as_bytes(), b"true")),
        None => None,
    },
};
