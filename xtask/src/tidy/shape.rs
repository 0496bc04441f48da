//! Checks that a Rust file opens with `//!`. Lists long files and inline test modules, without
//! failing: splitting a mechanism to meet a limit needs invented names.

use crate::project::{Finding, TextFile};

const MANY_LINES: usize = 800;
const MANY_TEST_LINES: usize = 150;

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        if !file.text.starts_with("//!") {
            findings.push(Finding::new(&file.path, 1, "the first line must be `//!` and say what lives in this file"));
        }
    }
    findings
}

pub fn notes(files: &[TextFile]) -> Vec<Finding> {
    let mut notes = Vec::new();
    for file in rust(files) {
        let lines = file.text.lines().count();
        if lines > MANY_LINES {
            notes.push(Finding::new(&file.path, 0, format!("{lines} lines")));
        }
        let test_lines = file.text.lines().skip_while(|line| !line.starts_with("mod tests {")).count();
        if test_lines > MANY_TEST_LINES {
            notes.push(Finding::new(&file.path, 0, format!("{test_lines} lines of tests; move them to a tests.rs")));
        }
    }
    notes
}

fn rust(files: &[TextFile]) -> impl Iterator<Item = &TextFile> {
    files.iter().filter(|file| file.extension() == "rs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    #[test]
    fn a_file_without_a_header_is_refused() {
        let files = [fixture("crates/a/src/b.rs", "use x;\n"), fixture("crates/a/src/c.rs", "//! C.\nuse x;\n")];
        let findings = check(&files);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].path, "crates/a/src/b.rs");
    }

    #[test]
    fn long_files_and_long_inline_tests_are_listed() {
        assert_eq!(notes(&[fixture("crates/a/src/b.rs", &"//! x\n".repeat(MANY_LINES + 1))]).len(), 1);
        let tests = format!("//! x\nmod tests {{\n{}}}\n", "x\n".repeat(MANY_TEST_LINES));
        assert_eq!(notes(&[fixture("crates/a/src/b.rs", &tests)]).len(), 1);
        assert_eq!(notes(&[fixture("crates/a/src/b.rs", "//! x\n")]), []);
    }
}
