//! Checks the tour of ARCHITECTURE.md, which follows a datagram file by file. Every file exists and
//! is visited once per direction; otherwise the tour or the code has lost its order.

use std::collections::BTreeSet;

use crate::project::{Finding, TextFile};

/// The document with the tour.
const DOCUMENT: &str = "ARCHITECTURE.md";
/// The section with the tour.
const SECTION: &str = "The way of a datagram";
/// Directory of file names that do not name a crate.
const SOURCES: &str = "crates/conche-proto/src/";

/// Finds files that do not exist, and files visited twice in one direction.
pub fn check(architecture: &str, files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut visited, mut stops) = (BTreeSet::new(), 0);
    for (number, line) in super::section(architecture, SECTION) {
        if line.starts_with('#') {
            visited.clear();
        }
        for name in super::layers::names(line).filter(|name| name.ends_with(".rs")) {
            let path = if name.starts_with("crates/") { name.to_owned() } else { format!("{SOURCES}{name}") };
            if !files.iter().any(|file| file.path == path) {
                findings.push(Finding::new(DOCUMENT, number, format!("the tour names {path}, which does not exist")));
            }
            if !visited.insert(name) {
                findings.push(Finding::new(DOCUMENT, number, format!("the tour visits {name} twice on one way")));
            }
            stops += 1;
        }
    }
    if stops == 0 {
        findings.push(Finding::new(DOCUMENT, 0, format!("the section \"{SECTION}\" names no file")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    fn found(text: &str) -> Vec<String> {
        let files = ["crates/conche-proto/src/a/b.rs", "crates/conche-proto/src/c.rs", "crates/conche/src/d.rs"];
        let files = files.map(|path| fixture(path, ""));
        check(&format!("# A\n\n## The way of a datagram\n\n{text}\n\n## After\n\n`e.rs`\n"), &files)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_tour_through_files_that_exist_is_good() {
        let tour =
            "### In\n\n1. `a/b.rs` makes `x` of `y`\n2. `c.rs`\n\n### Out\n\n1. `c.rs`, `crates/conche/src/d.rs`";
        assert_eq!(found(tour), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_is_not_there_is_refused() {
        assert_eq!(
            found("`c.rs` `a/c.rs`"),
            ["ARCHITECTURE.md:5: the tour names crates/conche-proto/src/a/c.rs, which does not exist"]
        );
    }

    #[test]
    fn a_file_that_one_way_visits_twice_is_refused() {
        assert_eq!(found("1. `c.rs`\n2. `c.rs`"), ["ARCHITECTURE.md:6: the tour visits c.rs twice on one way"]);
    }

    #[test]
    fn a_tour_that_names_no_file_is_refused() {
        assert_eq!(found("text").len(), 1);
    }
}
