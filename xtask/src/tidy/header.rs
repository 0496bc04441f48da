//! Checks that a Rust file opens with `//!`.

use crate::project::{Finding, TextFile};

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        if !file.text.starts_with("//!") {
            findings.push(Finding::new(&file.path, 1, "the first line must be `//!` and say what lives in this file"));
        }
    }
    findings
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
}
