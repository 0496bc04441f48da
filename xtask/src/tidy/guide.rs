//! Checks the guide, an mdBook: SUMMARY.md lists all chapters (the reverse is checked by
//! [`super::docs`]), their links work in the built book, and they quote code instead of including
//! it.

use std::collections::BTreeSet;

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
        check_includes(chapter, &mut findings);
        check_links(chapter, files, &mut findings);
    }
    findings
}

/// A forge shows an include as it stands, without code.
fn check_includes(chapter: &TextFile, findings: &mut Vec<Finding>) {
    for (number, _) in (1..).zip(chapter.text.lines()).filter(|(_, line)| line.contains("{{#")) {
        let message = "includes a file: quote it after `<!-- ci: same as FILE:ANCHOR -->` instead";
        findings.push(Finding::new(&chapter.path, number, message));
    }
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

    /// Returns the findings for a book of one chapter with this text.
    fn found(chapter: &str) -> Vec<String> {
        let files = [
            fixture("crates/a/examples/e.rs", ""),
            fixture("docs/guide/src/SUMMARY.md", "# Summary\n\n- [A](a.md)\n"),
            fixture("docs/guide/src/a.md", chapter),
        ];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_include_is_refused() {
        assert_eq!(
            found("\n{{#include ../../../crates/a/examples/e.rs:one}}\n"),
            ["docs/guide/src/a.md:2: includes a file: quote it after `<!-- ci: same as FILE:ANCHOR -->` instead"]
        );
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
