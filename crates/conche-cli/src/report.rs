//! `conche report DIR...`: results as one HTML file.

use std::path::PathBuf;

use anyhow::Context;
use conche_report::{ReadError, Results, page};

use crate::Global;
use crate::error::UsageError;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory written by `conche reproduce --output` or `conche run --output`.
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// File to write [default: report.html in the first directory].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<()> {
    let read = args.directories.iter().map(|directory| Results::read(directory)).collect::<Result<Vec<_>, _>>();
    let results = read.map_err(|error| match error {
        ReadError::NoResults { .. } => UsageError(error.to_string()).into(),
        error => anyhow::Error::from(error),
    })?;
    let file = match (&args.output, args.directories.first()) {
        (Some(file), _) => file.clone(),
        (None, first) => first.map(PathBuf::as_path).unwrap_or_else(|| ".".as_ref()).join("report.html"),
    };
    std::fs::write(&file, page(&results)).with_context(|| format!("cannot write {}", file.display()))?;
    if !global.quiet {
        crate::show::note(format_args!("{} is a page for your browser", file.display()));
    }
    Ok(())
}
