//! The shape of a Rust file: it opens with `//!`, and it is short.
//!
//! Over [`MOST_LINES`] lines a file fails, over [`MANY_LINES`] it is listed. Files that hold only test code are exempt
//! from failing (tables of cases are long) and are listed over [`MOST_LINES`]. An inline test module of more than
//! [`MANY_TEST_LINES`] lines is listed: it belongs in a file of its own.

use crate::project::{Finding, TextFile};

/// No file of the product is longer.
const MOST_LINES: usize = 500;
/// Longer ones are listed.
const MANY_LINES: usize = 300;
/// Longer inline test modules are listed.
const MANY_TEST_LINES: usize = 150;

/// Files that do not open with `//!`, and files that are too long.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        if !file.text.starts_with("//!") {
            findings.push(Finding::new(&file.path, 1, "the first line must be `//!` and say what lives in this file"));
        }
        let lines = file.text.lines().count();
        if lines > MOST_LINES && !file.is_test_code() {
            findings.push(Finding::new(&file.path, 0, format!("{lines} lines; split it, the most is {MOST_LINES}")));
        }
    }
    findings
}

/// Files that are long, though not too long.
pub fn notes(files: &[TextFile]) -> Vec<Finding> {
    let mut notes = Vec::new();
    for file in rust(files) {
        let lines = file.text.lines().count();
        let many = if file.is_test_code() { MOST_LINES } else { MANY_LINES };
        if lines > many {
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
    fn a_file_of_501_lines_is_refused_unless_it_is_test_code() {
        let text = "//! x\n".repeat(MOST_LINES + 1);
        assert_eq!(check(&[fixture("crates/a/src/b.rs", &text)]).len(), 1);
        assert_eq!(check(&[fixture("crates/a/src/b/tests.rs", &text)]), []);
        assert_eq!(check(&[fixture("crates/a/src/b.rs", &"//! x\n".repeat(MOST_LINES))]), []);
    }

    #[test]
    fn long_files_and_long_inline_tests_are_listed() {
        assert_eq!(notes(&[fixture("crates/a/src/b.rs", &"//! x\n".repeat(MANY_LINES + 1))]).len(), 1);
        let tests = format!("//! x\nmod tests {{\n{}}}\n", "x\n".repeat(MANY_TEST_LINES));
        assert_eq!(notes(&[fixture("crates/a/src/b.rs", &tests)]).len(), 1);
        assert_eq!(notes(&[fixture("crates/a/src/b.rs", "//! x\n")]), []);
    }
}
