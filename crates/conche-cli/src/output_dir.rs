//! `--output`: the directory of results.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use conche_lab::campaign::{Completion, Store};
use conche_lab::experiment::Experiment;
use conche_lab::results::{Begin, Build, Finished, Origin, Program, StoreError, write_json};

use crate::Global;
use crate::completed_experiment::CompletedExperiment;
use crate::error::UsageError;

#[derive(Debug, clap::Args)]
pub struct OutputDir {
    /// Write everything into this directory as well: manifest, figures, the values of all runs. What is interrupted goes on
    /// there when the same command is given again.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write every exchange of every run into DIR/exchanges.parquet. It may become large.
    #[arg(long, requires = "output")]
    exchanges: bool,
    /// Begin anew in a directory that holds other results already.
    #[arg(long, requires = "output")]
    overwrite: bool,
}

impl OutputDir {
    /// Opens the directory for these experiments, if `--output` is given.
    pub fn open(
        &self,
        experiments: &[Experiment],
        jobs: Option<NonZeroUsize>,
        global: &Global,
    ) -> anyhow::Result<Option<Store>> {
        let Some(directory) = &self.output else { return Ok(None) };
        let origins: Vec<Origin> = experiments.iter().map(|experiment| experiment.source()).collect();
        let threads = jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        let begin = Begin {
            directory,
            program: Program::running(BUILD),
            command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            threads,
            origins: &origins,
            with_exchanges: self.exchanges,
            overwrites: self.overwrite,
        };
        let (store, notes) = Store::open(begin).map_err(usage)?;
        if !global.quiet {
            notes.iter().for_each(|note| crate::show::note(format_args!("{note}")));
        }
        Ok(Some(store))
    }
}

/// Turns a mismatch with the directory into a usage error.
fn usage(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Io { .. } => error.into(),
        other => UsageError(other.to_string()).into(),
    }
}

/// Writes a comparison: its rows, and the ranking as text.
pub fn save_comparison(store: &Store, lines: &[u8], ranking: &str) -> anyhow::Result<()> {
    let text = format!("{}\n{ranking}", invocation());
    Ok(store.write_comparison(lines, &text)?)
}

fn invocation() -> String {
    format!("conche {}: {}", BUILD.version, std::env::args().collect::<Vec<_>>().join(" "))
}

/// Writes the results of an experiment, and reports how many runs came from the directory.
pub fn save(store: &Store, done: &CompletedExperiment, global: &Global) -> anyhow::Result<()> {
    let mut figures = Vec::new();
    write_json(&done.values, &mut figures)?;
    let Completion { runs, reused, failures, cost } = &done.completion;
    let text = format!("{}\n{done}", invocation());
    let name = done.name();
    let finished = Finished {
        figures: &figures,
        text: &text,
        runs: *runs,
        from_journal: *reused,
        failures,
        events: cost.events,
        cpu: cost.cpu,
        score: Some(done.summary().score()),
    };
    store.finish(name, &finished)?;
    if *reused > 0 && !global.quiet {
        crate::show::note(format_args!("{name}: {reused} of {runs} runs taken from {}", store.journal().display()));
    }
    Ok(())
}

const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: option_env!("CONCHE_COMMIT"),
    is_dirty: match option_env!("CONCHE_DIRTY") {
        Some(dirty) => Some(matches!(dirty.as_bytes(), b"true")),
        None => None,
    },
};
