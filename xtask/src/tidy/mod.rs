//! `cargo xtask tidy`: checks beyond the compiler. Each is a function from files to findings.
//!
//! | module | rejects |
//! |---|---|
//! | [`header`] | a Rust file without `//!` |
//! | [`invariants`] | floating point, `std`, clocks and random sources where forbidden |
//! | [`hash_order`] | iteration over a hash map with observable order |
//! | [`layers`] | a dependency between crates that ARCHITECTURE.md does not allow |
//! | [`modules`] | a dependency between modules that docs/modules.md does not allow |
//! | [`tour`] | a file or function in ARCHITECTURE.md that does not exist |
//! | [`licences`] | a dependency with an incompatible licence |
//! | [`docs`] | broken links, paths of one machine, misnamed decisions |
//! | [`guide`] | unlisted chapters of the guide, and their broken links |
//! | [`quotes`] | quoted code that differs from its source |
//! | [`language`] | indirect phrases, and terms that were replaced |
//! | [`papers::overview`] | an overview of the papers that differs from their pages |
//! | [`data`] | test data without a stated origin |

mod data;
mod docs;
mod guide;
mod hash_order;
mod header;
mod invariants;
mod language;
mod layers;
mod licences;
mod modules;
pub mod quotes;
mod tour;

use anyhow::Result;

use crate::papers;
use crate::project::{self, Project, files};

#[derive(clap::Args, Default)]
pub struct Options {
    /// Rewrite quoted code from its sources first.
    #[arg(long)]
    fix: bool,
}

pub fn run(project: &Project, options: &Options) -> Result<()> {
    let mut files = files(project)?;
    if options.fix {
        for path in quotes::fix(project, &files)? {
            println!("rewrote the quotes of {path}");
        }
        files = project::files(project)?;
    }
    let mut findings = header::check(&files);
    findings.extend(invariants::check(&files));
    findings.extend(hash_order::check(&files));
    findings.extend(docs::check(&files));
    findings.extend(guide::check(&files));
    findings.extend(quotes::check(&files));
    findings.extend(data::check(&files));
    findings.extend(language::check(&files));
    let architecture = project.read("ARCHITECTURE.md")?;
    findings.extend(layers::check(&architecture, &layers::packages(project)?));
    findings.extend(modules::check(&project.read(modules::DOCUMENT)?, &files));
    findings.extend(tour::check(&architecture, &files));
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.clone());
    findings.extend(papers::overview::check(&project.read(papers::overview::PAGE)?, text));
    findings.extend(licences::check(&licences::dependencies(project)?));
    project::report(&findings)
}

/// Lines are numbered from 1.
fn section<'a>(document: &'a str, heading: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let lines = (1..).zip(document.lines());
    let from_heading = lines.skip_while(move |(_, line)| line.strip_prefix("## ") != Some(heading)).skip(1);
    from_heading.take_while(|(_, line)| !line.starts_with("## "))
}
