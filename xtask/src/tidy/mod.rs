//! `cargo xtask tidy`: what a compiler does not check. Each check is a function from files to findings, with a test
//! that shows it a file it must refuse.
//!
//! | module | what it refuses |
//! |---|---|
//! | [`shape`] | a Rust file without `//!` |
//! | [`invariants`] | floating point, `std`, clocks and random sources where they must not be |
//! | [`hash_order`] | iteration over a hash map where its order could be seen |
//! | [`layers`] | a crate that looks where ARCHITECTURE.md does not let it |
//! | [`modules`] | a module of conche-proto that does |
//! | [`tour`] | a tour through files that are not there |
//! | [`licences`] | a dependency whose licence the project cannot ship |
//! | [`docs`] | links that lead nowhere, paths of one machine, misnamed decisions |
//! | [`guide`] | chapters of the guide that nobody finds, and that include or link to what is not there |
//! | [`papers::overview`] | an overview of the papers that does not say what their pages do |
//! | [`data`] | data for tests whose origin is not stated |

mod data;
mod docs;
mod guide;
mod hash_order;
mod invariants;
mod layers;
mod licences;
mod modules;
mod shape;
mod tour;

use anyhow::Result;

use crate::papers;
use crate::project::{self, Project};

/// Runs every check, prints all findings, and fails if there are any.
pub fn run(project: &Project) -> Result<()> {
    let files = project.files()?;
    for note in shape::notes(&files) {
        println!("note: {note}");
    }
    let mut findings = Vec::new();
    findings.extend(shape::check(&files));
    findings.extend(invariants::check(&files));
    findings.extend(hash_order::check(&files));
    findings.extend(docs::check(&files));
    findings.extend(guide::check(&files));
    findings.extend(data::check(&files));
    let architecture = project.read("ARCHITECTURE.md")?;
    findings.extend(layers::check(&architecture, &layers::packages(project)?));
    findings.extend(modules::check(&architecture, &files));
    findings.extend(tour::check(&architecture, &files));
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.clone());
    findings.extend(papers::overview::check(&project.read("README.md")?, text));
    findings.extend(licences::check(&licences::dependencies(project)?));
    project::report(&findings)
}

/// The lines of a document's section `## heading`, numbered from 1.
fn section<'a>(document: &'a str, heading: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let lines = (1..).zip(document.lines());
    let from_heading = lines.skip_while(move |(_, line)| line.strip_prefix("## ") != Some(heading)).skip(1);
    from_heading.take_while(|(_, line)| !line.starts_with("## "))
}
