//! Text files of the checkout, and findings of checks.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

pub use tool_support::Project;

use crate::source;

const GENERATED: [&str; 6] = ["target", ".git", "results", "artifacts", "coverage", "node_modules"];

pub fn files(project: &Project) -> Result<Vec<TextFile>> {
    let mut files = Vec::new();
    collect(&project.root, &project.root, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    mark_test_modules(&mut files);
    Ok(files)
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<TextFile>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        if GENERATED.iter().any(|generated| name == *generated) {
            // In an additional git work tree, `.git` is a file.
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else if let Some(text) = text(&path) {
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.push(TextFile { path, text, in_test_module: false });
        }
    }
    Ok(())
}

/// Returns the text of a file; that of a picture is empty, so that links to it lead to a file. Other
/// files that are not UTF-8 are skipped.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok();
    text.or_else(|| path.extension().is_some_and(|extension| extension == "png").then(String::new))
}

#[derive(Debug)]
pub struct TextFile {
    pub path: String,
    pub text: String,
    /// Whether its parent declares it as `#[cfg(test)] mod …;`.
    in_test_module: bool,
}

fn mark_test_modules(files: &mut [TextFile]) {
    let mut modules = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "rs" && file.text.contains("#[cfg(test)]")) {
        let children = match file.name() {
            "lib.rs" | "main.rs" | "mod.rs" => file.directory().to_owned(),
            _ => file.path.trim_end_matches(".rs").to_owned(),
        };
        let tokens = source::tokens(&file.text).unwrap_or_default();
        modules.extend(source::test_modules(&tokens).iter().map(|name| format!("{children}/{name}")));
    }
    for file in files {
        let module = |module: &String| {
            let rest = file.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        file.in_test_module = modules.iter().any(module);
    }
}

impl TextFile {
    pub fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub fn directory(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(directory, _)| directory)
    }

    /// Whether it contains only tests, benches, examples or fuzz targets.
    pub fn is_test_code(&self) -> bool {
        let mut parts = self.path.split('/');
        self.in_test_module
            || self.name() == "tests.rs"
            || parts.any(|part| matches!(part, "tests" | "benches" | "examples" | "fuzz"))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: String,
    /// From 1; 0 for the whole file.
    pub line: usize,
    pub message: String,
}

impl Finding {
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

pub fn report(findings: &[Finding]) -> Result<()> {
    for finding in findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("the finding above"),
        count => bail!("the {count} findings above"),
    }
}

#[cfg(test)]
pub fn fixture(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_owned(), text: text.to_owned(), in_test_module: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_are_compiled_for_tests_only_are_test_code() {
        let parent = "//! A.\n#[cfg(test)]\nmod support;\nmod product;\n";
        let mut files = [
            fixture("crates/a/src/lib.rs", parent),
            fixture("crates/a/src/support.rs", ""),
            fixture("crates/a/src/support/more.rs", ""),
            fixture("crates/a/src/supporting.rs", ""),
            fixture("crates/a/src/product.rs", parent),
            fixture("crates/a/src/product/support.rs", ""),
        ];
        mark_test_modules(&mut files);
        let marked: Vec<_> = files.iter().filter(|file| file.is_test_code()).map(|file| file.path.as_str()).collect();
        assert_eq!(
            marked,
            ["crates/a/src/support.rs", "crates/a/src/support/more.rs", "crates/a/src/product/support.rs"]
        );
    }
}
