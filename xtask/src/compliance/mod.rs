//! `cargo xtask compliance`: the tests that cover each requirement of RFC 7252 and its extensions.
//!
//! The requirements are in `docs/compliance/requirements.json`. A test covers one by citing it in a
//! comment on or in the test function: `// RFC 7252 §4.2 (Q08)`. `docs/compliance/deferred.toml`
//! lists requirements without a test, with reasons. The matrix shows coverage only; `cargo test`
//! shows whether the tests pass, and `cargo xtask ci` runs it before it prints the matrix.
//!
//! | module | contents |
//! |---|---|
//! | [`citations`] | the requirements that tests cite |
//! | [`matrix`] | requirements, tests and deferrals, and their inconsistencies |
//! | [`render`] | the matrix as text, Markdown or JSON |

mod citations;
mod matrix;
mod render;

use anyhow::{Context, Result};

use crate::project::{self, Project, files};
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

/// Prints the matrix, and fails if it has inconsistencies.
pub fn run(project: &Project, options: &Options) -> Result<()> {
    let requirements = serde_json::from_str(&project.read("docs/compliance/requirements.json")?)
        .context("docs/compliance/requirements.json")?;
    let deferred =
        toml::from_str(&project.read("docs/compliance/deferred.toml")?).context("docs/compliance/deferred.toml")?;
    let (citations, mut findings) = citations::collect(&files(project)?);
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
