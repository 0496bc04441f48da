//! `cargo xtask compliance`: which test covers which requirement of RFC 7252 and its extensions.
//!
//! The requirements are `docs/compliance/requirements.json`. A test covers one by naming it in a comment on or in the
//! test function: `// RFC 7252 §4.2 (Q08)`. What has no test yet, and why, is `docs/compliance/deferred.toml`. The
//! matrix says which test covers a requirement; whether that test passes, `cargo test` says, which
//! `cargo xtask ci` runs before it prints the matrix.
//!
//! | module | what it holds |
//! |---|---|
//! | [`citations`] | the requirements that tests name |
//! | [`matrix`] | requirements, tests and deferrals together, and what is wrong with them |
//! | [`render`] | the matrix as text, Markdown or JSON |

mod citations;
mod matrix;
mod render;

use anyhow::{Context, Result};

use crate::project::{self, Project};
use matrix::Matrix;

/// How the matrix is printed.
#[derive(clap::Args, Default)]
pub struct Options {
    /// Print JSON: an object with "schema" and "rows".
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print a Markdown table.
    #[arg(long)]
    markdown: bool,
}

/// Prints the matrix and fails if it is wrong somewhere.
pub fn run(project: &Project, options: &Options) -> Result<()> {
    let requirements = serde_json::from_str(&project.read("docs/compliance/requirements.json")?)
        .context("docs/compliance/requirements.json")?;
    let deferred =
        toml::from_str(&project.read("docs/compliance/deferred.toml")?).context("docs/compliance/deferred.toml")?;
    let (citations, mut findings) = citations::collect(&project.files()?);
    let matrix = Matrix::new(requirements, deferred, citations, &mut findings);
    if options.json {
        println!("{}", render::json(&matrix)?);
    } else if options.markdown {
        print!("{}", render::markdown(&matrix));
    } else {
        print!("{}", render::text(&matrix));
    }
    project::report(&findings)
}
