//! Checks code that README.md and the guide quote: a fenced block after `<!-- ci: same as FILE -->`
//! equals that file without its `//!` header, and one after `<!-- ci: same as FILE:ANCHOR -->`
//! equals the lines between the comments `ANCHOR: name` and `ANCHOR_END: name`, without indentation.

use std::fs;

use anyhow::{Context, Result};

use crate::fenced::blocks;
use crate::project::{Finding, Project, TextFile};

/// The book has no horizontal room for longer lines.
const WIDEST: usize = 100;
const README: &str = "README.md";
const CHAPTERS: &str = "docs/guide/src/";

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for document in files.iter().filter(|file| is_quoting(file)) {
        for block in blocks(&document.text) {
            let mut find = |line: usize, message: String| findings.push(Finding::new(&document.path, line, message));
            if let Some(source) = source(block.before) {
                match excerpt(source, files) {
                    Err(message) => find(block.line - 1, message),
                    Ok(code) => {
                        if let Some(offset) = difference(&block.body, &code) {
                            let message = format!("differs from {source}: run `cargo xtask tidy --fix`");
                            find(block.line + 1 + offset, message);
                        }
                    }
                }
            }
            for (line, code) in (block.line + 1..).zip(&block.body) {
                if document.path != README && code.chars().count() > WIDEST {
                    find(line, format!("has more than {WIDEST} columns of code"));
                }
            }
        }
    }
    findings
}

/// Rewrites blocks from their sources, and returns the changed documents.
pub fn fix(project: &Project, files: &[TextFile]) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    for document in files.iter().filter(|file| is_quoting(file)) {
        let text = fixed(document, files);
        if text != document.text {
            fs::write(project.root.join(&document.path), text)
                .with_context(|| format!("cannot write {}", document.path))?;
            changed.push(document.path.clone());
        }
    }
    Ok(changed)
}

fn fixed(document: &TextFile, files: &[TextFile]) -> String {
    let mut lines: Vec<_> = document.text.lines().collect();
    let blocks: Vec<_> = blocks(&document.text).collect();
    for block in blocks.iter().rev() {
        if let Some(Ok(code)) = source(block.before).map(|source| excerpt(source, files)) {
            lines.splice(block.line..block.line + block.body.len(), code);
        }
    }
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

pub fn is_quoting(file: &TextFile) -> bool {
    file.path == README || file.path.starts_with(CHAPTERS) && file.extension() == "md"
}

/// Returns the source that a comment names.
pub fn source(comment: &str) -> Option<&str> {
    comment.strip_prefix("<!-- ci: same as ")?.strip_suffix(" -->")
}

fn excerpt<'a>(source: &str, files: &'a [TextFile]) -> Result<Vec<&'a str>, String> {
    let (path, anchor) = source.split_once(':').map_or((source, None), |(path, anchor)| (path, Some(anchor)));
    let file = files.iter().find(|file| file.path == path);
    let text = &file.ok_or_else(|| format!("quotes {path}, which does not exist"))?.text;
    let lines = match anchor {
        None => text.lines().skip_while(|line| line.starts_with("//!")).collect(),
        Some(name) => between(text, name).ok_or_else(|| {
            format!("{path} has no lines `ANCHOR: {name}` and, after some code, `ANCHOR_END: {name}`")
        })?,
    };
    let code = lines.into_iter().filter(|line| mark(line, "ANCHOR:").or(mark(line, "ANCHOR_END:")).is_none());
    Ok(dedented(code.collect()))
}

fn between<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let mut lines = text.lines().skip_while(|line| mark(line, "ANCHOR:") != Some(name)).skip(1).peekable();
    let mut between = Vec::new();
    loop {
        let line = lines.next()?;
        if mark(line, "ANCHOR_END:") == Some(name) {
            return (!between.is_empty()).then_some(between);
        }
        between.push(line);
    }
}

fn mark<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.split_once(mark)?.1.split_whitespace().next()
}

fn dedented(lines: Vec<&str>) -> Vec<&str> {
    let filled = |line: &&str| !line.trim().is_empty();
    let (Some(first), Some(last)) = (lines.iter().position(filled), lines.iter().rposition(filled)) else {
        return Vec::new();
    };
    let lines = &lines[first..=last];
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let common = lines.iter().copied().filter(filled).map(indentation).min().unwrap_or(0);
    lines.iter().map(|line| line.get(common..).unwrap_or_default()).collect()
}

fn difference(code: &[&str], source: &[&str]) -> Option<usize> {
    let same = code.iter().zip(source).take_while(|(a, b)| a == b).count();
    (same < code.len().max(source.len())).then_some(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    const EXAMPLE: &str = "//! E.\n\nfn main() {\n    // ANCHOR: one\n    if one() {\n        two();\n\n    }\n    \
                           // ANCHOR_END: one\n    // ANCHOR: open\n}\n";
    const QUOTE: &str = "<!-- ci: same as crates/a/examples/e.rs:one -->\n```rust\nif one() {\n    two();\n\n}\n```\n";
    const WHOLE: &str = "<!-- ci: same as crates/a/examples/e.rs -->\n```rust\nfn main() {\n    if one() {\n        \
                         two();\n\n    }\n}\n```\n";

    fn files(chapter: &str) -> [TextFile; 2] {
        [fixture("crates/a/examples/e.rs", EXAMPLE), fixture("docs/guide/src/a.md", chapter)]
    }

    fn found(chapter: &str) -> Vec<String> {
        check(&files(chapter)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_quote_equals_its_source_without_indentation_and_anchors() {
        assert_eq!(found(&format!("{QUOTE}\n{WHOLE}")), Vec::<String>::new());
    }

    #[test]
    fn a_differing_quote_is_found_at_its_first_differing_line() {
        let message = "differs from crates/a/examples/e.rs:one: run `cargo xtask tidy --fix`";
        assert_eq!(found(&QUOTE.replace("two", "three")), [format!("docs/guide/src/a.md:4: {message}")]);
        assert_eq!(found(&QUOTE.replace("\n}\n", "\n}\nmore();\n")), [format!("docs/guide/src/a.md:7: {message}")]);
        assert_eq!(found(&QUOTE.replace("\n\n}", "")), [format!("docs/guide/src/a.md:5: {message}")]);
    }

    #[test]
    fn a_source_that_does_not_exist_is_refused() {
        assert_eq!(
            found(&QUOTE.replace("e.rs", "f.rs")),
            ["docs/guide/src/a.md:1: quotes crates/a/examples/f.rs, which does not exist"]
        );
        for anchor in ["on", "open", "3:5", ""] {
            let findings = found(&QUOTE.replace(":one", &format!(":{anchor}")));
            assert_eq!(findings.len(), 1, "{anchor}");
            assert!(findings[0].starts_with("docs/guide/src/a.md:1: crates/a/examples/e.rs has no lines"), "{anchor}");
        }
    }

    #[test]
    fn fixing_rewrites_quotes_only() {
        let chapter = format!("# A\n\n{QUOTE}\ntext\n\n{WHOLE}\n```text\none\n```\n");
        let stale = chapter.replace("two();\n", "old();\nolder();\n").replace("fn main() {\n", "");
        let files = files(&stale);
        assert_eq!(fixed(&files[1], &files), chapter);
    }

    #[test]
    fn a_quote_without_a_source_is_not_fixed() {
        let chapter = QUOTE.replace(":one", ":none");
        let files = files(&chapter);
        assert_eq!(fixed(&files[1], &files), chapter);
    }

    #[test]
    fn code_wider_than_the_book_is_refused_in_chapters() {
        let block = format!("```text\n{}\n```\n", "x".repeat(WIDEST + 1));
        assert_eq!(found(&block), ["docs/guide/src/a.md:2: has more than 100 columns of code"]);
        assert_eq!(check(&[fixture(README, &block)]), []);
    }
}
