//! Checks documents: relative links resolve, no path of one machine, unfilled gap or blank at the
//! end of a line occurs, decisions are numbered, and the tests that SECURITY.md names exist.

use std::collections::BTreeSet;

use regex_lite::Regex;

use crate::project::{Finding, TextFile};

/// First directories of absolute paths that exist on some machine only.
const PLACES: &str = r"home|root|tmp|work|workspace|builds|Users";

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let machine_path = pattern(&format!(r#"(?:^|[\s"'`(=])/(?:{PLACES})/"#));
    for file in files {
        if file.extension() == "md" {
            check_links(file, files, &mut findings);
        }
        for (number, line) in file.text.lines().enumerate() {
            if file.extension() == "md" && line.starts_with("<!-- fill: ") {
                findings.push(Finding::new(&file.path, number + 1, "is still to be filled"));
            }
            if file.extension() == "md" && line.ends_with([' ', '\t']) {
                findings.push(Finding::new(&file.path, number + 1, "ends in blanks; remove them"));
            }
            if machine_path.is_match(line) {
                findings.push(Finding::new(&file.path, number + 1, "names a path that exists on one machine only"));
            }
        }
    }
    check_decisions(files, &mut findings);
    check_promises(files, &mut findings);
    findings
}

/// The document that names a test for each promise.
const PROMISES: &str = "SECURITY.md";
/// Its short forms of directories below `crates/`.
const SHORT_FORMS: [(&str, &str); 3] = [
    ("endpoint/", "conche-proto/tests/endpoint/"),
    ("sessions/", "conche-dtls/tests/sessions/"),
    ("library/", "conche/tests/library/"),
];

fn check_promises(files: &[TextFile], findings: &mut Vec<Finding>) {
    let Some(document) = files.iter().find(|file| file.path == PROMISES) else { return };
    for (number, line) in (1..).zip(document.text.lines()) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        if cells.next().is_none_or(|cell| cell.parse::<u32>().is_err()) {
            continue;
        }
        let tests = cells.nth(1).unwrap_or_default();
        let mut names = tests.split('`').skip(1).step_by(2).peekable();
        if names.peek().is_none() {
            findings.push(Finding::new(PROMISES, number, "names no test that holds the promise"));
        }
        for name in names {
            let short = SHORT_FORMS.into_iter().find_map(|(short, long)| Some((long, name.strip_prefix(short)?)));
            let path = short.map_or(format!("crates/{name}"), |(long, rest)| format!("crates/{long}{rest}"));
            if !files.iter().any(|file| file.path == path) {
                findings.push(Finding::new(PROMISES, number, format!("names {path}, which does not exist")));
            }
        }
    }
}

fn check_links(file: &TextFile, files: &[TextFile], findings: &mut Vec<Finding>) {
    for (number, target) in links(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        let path = if path.is_empty() { file.path.clone() } else { resolve(file.directory(), path) };
        if !exists(&path, files) {
            findings.push(Finding::new(&file.path, number, format!("links to {target}, which does not exist")));
        } else if let Some(anchor) = anchor
            && let Some(document) = files.iter().find(|other| other.path == path && other.extension() == "md")
            && !anchors(&document.text).contains(anchor)
        {
            findings.push(Finding::new(&file.path, number, format!("{path} has no heading #{anchor}")));
        }
    }
}

pub(super) fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let link = pattern(r#"\]\(([^()\s]+)(?:\s+"[^"]*")?\)"#);
    prose(text).flat_map(move |(number, line)| {
        let targets: Vec<_> = link.captures_iter(line).filter_map(|found| found.get(1)).collect();
        targets.into_iter().map(move |target| (number, target.as_str()))
    })
}

fn check_decisions(files: &[TextFile], findings: &mut Vec<Finding>) {
    let name = pattern(r"^(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md$");
    let decisions = files.iter().filter(|file| file.directory() == "docs/decisions");
    for (index, file) in decisions.enumerate() {
        let Some(number) = name.captures(file.name()).map(|found| found[1].to_owned()) else {
            findings.push(Finding::new(&file.path, 0, "name it NNNN-what-was-decided.md, in lower case"));
            continue;
        };
        let expected = format!("{:04}", index + 1);
        if number != expected {
            findings.push(Finding::new(&file.path, 0, format!("the next decision is number {expected}")));
        }
        if !file.text.starts_with(&format!("# {number}. ")) {
            findings.push(Finding::new(&file.path, 1, format!("must start with `# {number}. ` and its title")));
        }
        for heading in ["\n## Context\n", "\n## Decision\n", "\n## Consequences\n"] {
            if !file.text.contains(heading) {
                findings.push(Finding::new(&file.path, 0, format!("has no section `{}`", heading.trim())));
            }
        }
    }
}

pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

/// Returns the anchors that a forge generates for a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

pub(super) fn resolve(directory: &str, target: &str) -> String {
    let mut parts: Vec<_> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => parts.push(".."),
            ".." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

pub(super) fn exists(path: &str, files: &[TextFile]) -> bool {
    path.is_empty()
        || files
            .iter()
            .any(|file| file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant of this file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    #[test]
    fn a_line_of_a_document_does_not_end_in_blanks() {
        let found = |name: &str| check(&[fixture(name, "one \ntwo\nthree\t\n")]).len();
        assert_eq!([found("docs/a.md"), found("crates/a/src/lib.rs")], [2, 0]);
    }

    #[test]
    fn a_promise_names_tests_that_exist() {
        let promise = |tests: &str| {
            fixture(PROMISES, &format!("| | promise | held by |\n|---|---|---|\n| 1 | It holds. | {tests} |\n"))
        };
        let test = || fixture("crates/conche/tests/library/a.rs", "");
        let count = |tests: &str| {
            let mut findings = Vec::new();
            check_promises(&[promise(tests), test()], &mut findings);
            findings.len()
        };
        assert_eq!(
            [count("`library/a.rs`"), count(""), count("`library/b.rs`<br>`conche/tests/library/a.rs`")],
            [0, 1, 1]
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        let files = [
            fixture("README.md", "[a](docs/a.md) [b](docs/b.md) [c](https://x.y/z) [d](docs)\n```\n[e](e)\n```\n"),
            fixture(
                "docs/a.md",
                "# What it is\n[up](../README.md) [here](#what-it-is) [nowhere](#what) [out](../../x)",
            ),
        ];
        let findings: Vec<_> = check(&files).iter().map(ToString::to_string).collect();
        assert_eq!(
            findings,
            [
                "README.md:1: links to docs/b.md, which does not exist",
                "docs/a.md:2: docs/a.md has no heading #what",
                "docs/a.md:2: links to ../../x, which does not exist",
            ]
        );
    }

    #[test]
    fn paths_of_one_machine_are_refused() {
        for directory in PLACES.split('|') {
            let files = [fixture("a.md", &format!("see /{directory}/me/file\n"))];
            assert_eq!(check(&files).len(), 1, "{directory}");
        }
        assert_eq!(check(&[fixture("a.md", "GET /test and coap://host/root/x\n")]), []);
    }

    #[test]
    fn a_gap_left_to_fill_is_refused() {
        assert_eq!(check(&[fixture("a.md", "```\n<!-- fill: output -->\n```\n")]).len(), 1);
    }

    #[test]
    fn decisions_are_numbered_named_and_complete() {
        let complete = |n: &str| format!("# {n}. T\n\n## Context\n\n## Decision\n\n## Consequences\n");
        let good = [
            fixture("docs/decisions/0001-a-b.md", &complete("0001")),
            fixture("docs/decisions/0002-c.md", &complete("0002")),
        ];
        assert_eq!(check(&good), []);
        for (path, text) in [
            ("docs/decisions/0003-c.md", complete("0003")),
            ("docs/decisions/0002-C.md", complete("0002")),
            ("docs/decisions/notes.md", complete("0002")),
            ("docs/decisions/0002-c.md", complete("0001")),
            ("docs/decisions/0002-c.md", "# 0002. T\n\n## Context\n\n## Decision\n".to_owned()),
        ] {
            let files = [fixture("docs/decisions/0001-a-b.md", &complete("0001")), fixture(path, &text)];
            assert_eq!(check(&files).len(), 1, "{path}");
        }
    }
}
