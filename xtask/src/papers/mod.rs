//! `cargo xtask papers`: compares the values of the papers' scenarios with recorded ones, and
//! writes them into their pages. The same seed gives the same values, so a changed value shows a
//! change of the code.

mod comparison;
mod completeness;
pub mod overview;
mod pages;
mod recorded;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use conche_results::Manifest;

use crate::project::Project;
use completeness::Gaps;
use recorded::Recorded;
use tool_support::Command;

const DIRECTORY: &str = "scenarios/recorded";

const LISTED: usize = 40;

#[derive(clap::Args, Default)]
pub struct Options {
    /// Record the current values.
    #[arg(long)]
    record: bool,
    /// Write the claims of docs/papers and their overview from this directory of `conche
    /// reproduce --full -o DIR`; papers that it lacks stay unchanged. From a directory of `conche
    /// compare --full -o DIR`, write the ranking in docs/comparison.md.
    #[arg(long, value_name = "DIR", conflicts_with = "record")]
    pages: Option<PathBuf>,
}

fn write(project: &Project, directory: &Path) -> Result<()> {
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let path = directory.join(Manifest::FILE);
    let manifest = Manifest::from_json(&read(&path)?).with_context(|| path.display().to_string())?;
    let compared = comparison::read(directory)?;
    // A ranking states its gaps.
    let gaps = if compared.is_some() { Gaps::Stated } else { Gaps::Refused };
    completeness::check(&manifest, gaps, |paper| project.read(&format!("scenarios/{paper}.toml")))
        .with_context(|| path.display().to_string())?;
    // Controllers with the names of a paper's schemes differ from them.
    if let Some(rows) = compared {
        let number = comparison::write(project, &manifest, &rows)?;
        println!("{number} controllers on the board");
        return Ok(());
    }
    let page = overview::of(project, &manifest)?;
    let claims = pages::write(project, &read(&directory.join("figures.ndjson"))?)?;
    fs::write(project.root.join(overview::PAGE), page).context(overview::PAGE)?;
    for paper in &manifest.scenarios {
        let number = claims.iter().find(|(name, _)| *name == paper.name).map_or(0, |(_, number)| *number);
        println!("{:<9} its row in {}, {number} claims on its page", paper.name, overview::PAGE);
    }
    Ok(())
}

pub fn run(project: &Project, options: &Options) -> Result<()> {
    if let Some(directory) = &options.pages {
        return write(project, directory);
    }
    let json = Command::cargo("run --release --quiet -p conche-cli -- reproduce --json").output(project)?;
    let papers = recorded::of_output(&json)?;
    let mut moved = Vec::new();
    for (paper, now) in &papers {
        let path = format!("{DIRECTORY}/{paper}.csv");
        if options.record {
            fs::create_dir_all(project.root.join(DIRECTORY)).context(DIRECTORY)?;
            fs::write(project.root.join(&path), now.to_csv()).with_context(|| path.clone())?;
            println!("{path}: {} figures", now.len());
            continue;
        }
        let before = Recorded::from_csv(&project.read(&path)?).with_context(|| path.clone())?;
        println!("{paper:<9} {} figures", now.len());
        moved.extend(before.moved(now).into_iter().map(|change| format!("{paper} {change}")));
    }
    for change in moved.iter().take(LISTED) {
        println!("moved: {change}");
    }
    match moved.len() {
        0 => Ok(()),
        number => bail!("{number} figures are not as recorded; if that is meant, `cargo xtask papers --record`"),
    }
}
