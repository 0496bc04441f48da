//! Checks the files and functions that ARCHITECTURE.md names. `conche-proto/endpoint/mod.rs::poll`
//! is the function `poll` of `crates/conche-proto/src/endpoint/mod.rs`; a path from the root of the
//! repository is also accepted.

use crate::project::{Finding, TextFile};
use crate::source;

const DOCUMENT: &str = "ARCHITECTURE.md";

pub fn check(architecture: &str, files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut functions = 0;
    for (number, line) in super::docs::prose(architecture) {
        for name in super::layers::names(line) {
            let (path, function) = name.split_once("::").map_or((name, None), |(path, name)| (path, Some(name)));
            if !path.ends_with(".rs") {
                continue;
            }
            let Some(file) = find(path, files) else {
                findings.push(Finding::new(DOCUMENT, number, format!("names {path}, which does not exist")));
                continue;
            };
            let Some(function) = function else { continue };
            functions += 1;
            if !has_function(file, function) {
                let message = format!("names the function {function}, which is not in {}", file.path);
                findings.push(Finding::new(DOCUMENT, number, message));
            }
        }
    }
    if functions == 0 {
        findings.push(Finding::new(DOCUMENT, 0, "names no function"));
    }
    findings
}

fn find<'a>(path: &str, files: &'a [TextFile]) -> Option<&'a TextFile> {
    let source = path.split_once('/').map(|(package, rest)| format!("crates/{package}/src/{rest}"));
    files.iter().find(|file| file.path == path || Some(&file.path) == source.as_ref())
}

fn has_function(file: &TextFile, name: &str) -> bool {
    let tokens = source::tokens_outside_tests(&file.text).unwrap_or_default();
    tokens.windows(2).any(|pair| pair[0].text == "fn" && pair[1].text == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    fn found(text: &str) -> Vec<String> {
        let source = "//! fn absent\nimpl A {\n    async fn send(&self) {}\n}\n#[cfg(test)]\nmod tests {\n    fn tested() {}\n}\n";
        let files = [fixture("crates/conche/src/a/b.rs", source), fixture("xtask/src/c.rs", "fn run() {}\n")];
        check(text, &files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn steps_through_functions_that_exist_are_good() {
        assert_eq!(found("1. `conche/a/b.rs::send`, with `a.b` of `xtask/src/c.rs`\n"), Vec::<String>::new());
        assert_eq!(found("`xtask/src/c.rs::run`\n\n```rust\n// `d.rs`\n```\n"), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_is_not_there_is_refused() {
        assert_eq!(
            found("`conche/a/b.rs::send`\n`conche/a/c.rs::send`\n"),
            ["ARCHITECTURE.md:2: names conche/a/c.rs, which does not exist"]
        );
    }

    #[test]
    fn a_function_that_its_file_does_not_have_is_refused() {
        for missing in ["sends", "sen", "absent", "tested", "A"] {
            assert_eq!(
                found(&format!("`conche/a/b.rs::{missing}`\n")),
                [format!("ARCHITECTURE.md:1: names the function {missing}, which is not in crates/conche/src/a/b.rs")]
            );
        }
    }

    #[test]
    fn a_document_that_names_no_function_is_refused() {
        assert_eq!(found("text, `conche/a/b.rs`\n").len(), 1);
    }
}
