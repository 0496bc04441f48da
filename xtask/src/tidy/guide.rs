//! Checks the guide, an mdBook: chapters include existing files, SUMMARY.md lists all of them (the
//! reverse is checked by [`super::docs`]), and their links work in the built book.

use std::collections::BTreeSet;

use regex_lite::Regex;

use super::docs;
use crate::project::{Finding, TextFile};

/// Files outside are not part of the book.
const CHAPTERS: &str = "docs/guide/src/";
const SUMMARY: &str = "docs/guide/src/SUMMARY.md";
/// Base URL of the project's other files for readers of the book.
const FILES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let chapters = files.iter().filter(|file| file.path.starts_with(CHAPTERS) && file.extension() == "md");
    let listed: BTreeSet<_> = files
        .iter()
        .filter(|file| file.path == SUMMARY)
        .flat_map(|summary| docs::links(&summary.text).map(|(_, target)| docs::resolve(summary.directory(), target)))
        .collect();
    for chapter in chapters {
        if chapter.path != SUMMARY && !listed.contains(&chapter.path) {
            findings.push(Finding::new(&chapter.path, 0, format!("is not in the book: link it in {SUMMARY}")));
        }
        check_includes(chapter, files, &mut findings);
        check_links(chapter, files, &mut findings);
    }
    findings
}

fn check_includes(chapter: &TextFile, files: &[TextFile], findings: &mut Vec<Finding>) {
    let include = Regex::new(r"\{\{#\w*include ([^}:]*)(?::([^}]*))?\}\}").expect("the pattern is a constant");
    for (number, line) in (1..).zip(chapter.text.lines()) {
        if line.contains("include ") && line.contains("{{#") && !include.is_match(line) {
            findings.push(Finding::new(&chapter.path, number, "is no include: write {{#include FILE:ANCHOR}}"));
        }
        for found in include.captures_iter(line) {
            let path = docs::resolve(chapter.directory(), found[1].trim());
            let Some(file) = files.iter().find(|file| file.path == path) else {
                findings.push(Finding::new(&chapter.path, number, format!("includes {path}, which does not exist")));
                continue;
            };
            if let Some(anchor) = found.get(2)
                && !has_anchor(&file.text, anchor.as_str())
            {
                let message =
                    format!("{path} has no lines `// ANCHOR: {0}` and `// ANCHOR_END: {0}` after it", anchor.as_str());
                findings.push(Finding::new(&chapter.path, number, message));
            }
        }
    }
}

/// Whether the anchor of this name has any contents.
fn has_anchor(text: &str, name: &str) -> bool {
    let marks = |line: &str, mark: &str| {
        line.split_once(mark).is_some_and(|(_, rest)| rest.split_whitespace().next() == Some(name))
    };
    let mut lines = text.lines().skip_while(|line| !marks(line, "ANCHOR:")).skip(1);
    lines.next().is_some_and(|first| !marks(first, "ANCHOR_END:")) && lines.any(|line| marks(line, "ANCHOR_END:"))
}

fn check_links(chapter: &TextFile, files: &[TextFile], findings: &mut Vec<Finding>) {
    for (number, target) in docs::links(&chapter.text) {
        let (path, _) = target.split_once('#').unwrap_or((target, ""));
        if let Some(path) = path.strip_prefix(FILES) {
            if !docs::exists(path, files) {
                findings.push(Finding::new(&chapter.path, number, format!("links to {path}, which does not exist")));
            }
        } else if !target.contains("://") && !path.is_empty() {
            let path = docs::resolve(chapter.directory(), path);
            if !path.starts_with(CHAPTERS) {
                let message = format!("the book has no {path}: link to {FILES}{path}");
                findings.push(Finding::new(&chapter.path, number, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    const EXAMPLE: &str = "//! E.\nfn main() {\n    // ANCHOR: one\n    one();\n    // ANCHOR_END: one\n    \
                           // ANCHOR: open\n}\n";

    /// Returns the findings for a book of one chapter with this text.
    fn found(chapter: &str) -> Vec<String> {
        let files = [
            fixture("crates/a/examples/e.rs", EXAMPLE),
            fixture("docs/guide/src/SUMMARY.md", "# Summary\n\n- [A](a.md)\n"),
            fixture("docs/guide/src/a.md", chapter),
        ];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_include_of_a_file_or_of_what_stands_between_two_anchors_is_good() {
        let chapter = "```rust\n{{#include ../../../crates/a/examples/e.rs:one}}\n```\n\n\
                       {{#include ../../../crates/a/examples/e.rs}}\n";
        assert_eq!(found(chapter), Vec::<String>::new());
    }

    #[test]
    fn an_include_of_a_file_that_is_not_there_is_refused() {
        assert_eq!(
            found("{{#include ../../../crates/a/examples/f.rs:one}}\n"),
            ["docs/guide/src/a.md:1: includes crates/a/examples/f.rs, which does not exist"]
        );
    }

    #[test]
    fn an_anchor_that_is_not_there_or_has_no_end_is_refused_and_so_are_lines_by_number() {
        for anchor in ["on", "two", "open", "3:5", ""] {
            let findings = found(&format!("\n{{{{#include ../../../crates/a/examples/e.rs:{anchor}}}}}\n"));
            assert_eq!(findings.len(), 1, "{anchor}");
            assert!(findings[0].starts_with("docs/guide/src/a.md:2: crates/a/examples/e.rs has no lines"), "{anchor}");
        }
    }

    #[test]
    fn an_include_that_mdbook_would_not_read_is_refused() {
        assert_eq!(found("{{#include ../../../crates/a/examples/e.rs:one}\n").len(), 1);
    }

    #[test]
    fn a_chapter_that_is_not_in_the_summary_is_refused() {
        let files = [
            fixture("docs/guide/src/SUMMARY.md", "# Summary\n\n```text\n[B](b.md)\n```\n"),
            fixture("docs/guide/src/b.md", "# B\n"),
        ];
        let findings: Vec<_> = check(&files).iter().map(ToString::to_string).collect();
        assert_eq!(findings, ["docs/guide/src/b.md: is not in the book: link it in docs/guide/src/SUMMARY.md"]);
    }

    #[test]
    fn links_out_of_the_book_go_by_the_address_of_the_repository_to_files_that_are_there() {
        let example = "crates/a/examples/e.rs";
        assert_eq!(found(&format!("[a](a.md) [b](#b) [e]({FILES}{example}) [f](https://example.com/f)\n")).len(), 0);
        assert_eq!(
            found(&format!("[e](../../../{example})\n")),
            [format!("docs/guide/src/a.md:1: the book has no {example}: link to {FILES}{example}")]
        );
        assert_eq!(
            found(&format!("[f]({FILES}crates/f.rs#top)\n")),
            ["docs/guide/src/a.md:1: links to crates/f.rs, which does not exist"]
        );
    }
}
