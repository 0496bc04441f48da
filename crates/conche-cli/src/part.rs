//! The part of the runs that a command makes: `--shard` and `--ids`.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use conche_lab::campaign::{Part, PlannedRun};
use conche_lab::results::RunId;
use serde::Deserialize;

use crate::error::UsageError;

#[derive(Debug, clap::Args)]
pub struct PartOptions {
    /// Make only this part of the runs, for `conche merge`.
    ///
    /// Its number and the number of parts, which take about the same time.
    #[arg(long, value_name = "I/N", conflicts_with = "ids")]
    shard: Option<Part>,
    /// Make only these runs, for `conche merge`.
    ///
    /// A file with IDs or lines of `conche plan`; - is standard input.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
}

impl PartOptions {
    pub fn is_some(&self) -> bool {
        self.shard.is_some() || self.ids.is_some()
    }

    /// Returns the name in the manifest.
    pub fn name(&self) -> Option<String> {
        let ids = self.ids.as_ref().map(|file| format!("--ids {}", file.display()));
        self.shard.as_ref().map(Part::to_string).or(ids)
    }

    /// Selects the part of each experiment's runs; `None` if all are made.
    pub fn of(&self, plans: &[Vec<PlannedRun>]) -> anyhow::Result<Option<Vec<Vec<PlannedRun>>>> {
        let part = match (&self.shard, &self.ids) {
            (Some(shard), _) => shard.clone(),
            (None, Some(file)) => Part::Runs(read(file)?),
            (None, None) => return Ok(None),
        };
        let hint = "use the other options of `conche plan` here, too";
        part.of(plans).map(Some).map_err(|error| UsageError(format!("{error}; {hint}")).into())
    }
}

fn read(file: &Path) -> anyhow::Result<HashSet<RunId>> {
    let text = match file.to_str() {
        Some("-") => io::read_to_string(io::stdin()).context("cannot read standard input")?,
        _ => std::fs::read_to_string(file)
            .map_err(|error| UsageError(format!("cannot read {}: {error}", file.display())))?,
    };
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let id = |(number, line): (usize, &str)| {
        id(line).map_err(|problem| UsageError(format!("{}, line {}: {problem}", file.display(), number + 1)).into())
    };
    lines.map(id).collect()
}

/// Reads an ID, at the start of a line of `conche plan` or in its JSON.
fn id(line: &str) -> Result<RunId, String> {
    #[derive(Deserialize)]
    struct Planned {
        id: RunId,
    }
    if line.starts_with('{') {
        return serde_json::from_str(line).map(|Planned { id }| id).map_err(|error| error.to_string());
    }
    line.split_whitespace().next().unwrap_or_default().parse().map_err(|error| format!("{error}"))
}
