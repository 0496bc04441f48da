//! `conche report DIR...`: results as one HTML file.

use std::path::PathBuf;

use anyhow::{Context, bail};
use conche_lab::directory::command_line;
use conche_report::{ReadError, Results, Selection, figure, page};

use crate::Global;
use crate::error::UsageError;
use crate::experiment::{labels, merged};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of results.
    ///
    /// Written by `conche reproduce -o`, `run -o` or `compare -o`.
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// File to write; by default report.html in the first DIR.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write one figure as SVG instead.
    ///
    /// This value over a numeric axis, such as `fct_median_s`.
    #[arg(long, value_name = "VALUE", requires = "output")]
    figure: Option<String>,
    /// Select values, as in scheme=default,cocoa; repeatable.
    #[arg(long, value_name = "AXIS=LABELS", value_parser = labels, requires = "figure")]
    only: Vec<(String, Vec<String>)>,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<()> {
    let read = args
        .directories
        .iter()
        .map(|directory| Results::read(directory, &global.controllers))
        .collect::<Result<Vec<_>, _>>();
    let results = read.map_err(|error| match error {
        ReadError::NoResults { .. } => UsageError(error.to_string()).into(),
        error => anyhow::Error::from(error),
    })?;
    if let Some(problem) = results.iter().find_map(only_failures) {
        bail!("{problem}");
    }
    let file = match (&args.output, args.directories.first()) {
        (Some(file), _) => file.clone(),
        (None, first) => first.map(PathBuf::as_path).unwrap_or_else(|| ".".as_ref()).join("report.html"),
    };
    let text = match &args.figure {
        Some(column) => {
            let mut command = command_line();
            command.splice(..1, ["conche".to_owned()]);
            let selection = Selection { column, only: &merged(&args.only), command: &command.join(" ") };
            figure(&results, &selection).map_err(|error| UsageError(error.to_string()))?
        }
        None => page(&results),
    };
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    if !global.quiet {
        let is = if args.figure.is_some() { "is an SVG image" } else { "is a page for your browser" };
        crate::show::note(format_args!("{} {is}", file.display()));
    }
    Ok(())
}

/// Describes a directory whose runs all failed.
fn only_failures(results: &Results) -> Option<String> {
    let Results { directory, manifest, .. } = results;
    let runs: u64 = manifest.scenarios.iter().filter_map(|scenario| scenario.runs).sum();
    let first = manifest.failures.first().filter(|_| manifest.failures.len() as u64 == runs)?;
    let directory = directory.display();
    Some(format!("{directory}: all {runs} runs failed, so there is nothing to report; the first failed with: {first}"))
}
