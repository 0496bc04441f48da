//! `cargo xtask compliance`: the tests that cover each requirement of RFC 7252 and its extensions.
//!
//! A test covers a requirement of `docs/compliance/requirements.json` by citing it in a comment on
//! or in the test function: `// RFC 7252 §4.2 (Q08)`. `docs/compliance/deferred.toml` lists
//! requirements without a test, with reasons. The matrix does not show whether the tests pass.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};
use regex_lite::Regex;
use serde::Deserialize;
use serde_json::json;

use crate::project::{self, Finding, Project, TextFile, files};
use crate::readme::TEST_COMMAND;
use crate::source;

const REQUIREMENTS: &str = "docs/compliance/requirements.json";
const DEFERRED: &str = "docs/compliance/deferred.toml";

#[derive(clap::Args, Default)]
pub struct Options {
    /// Print JSON: an object with "schema" and "rows".
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print a Markdown table.
    #[arg(long)]
    markdown: bool,
}

/// Fails if the matrix has inconsistencies.
pub fn run(project: &Project, options: &Options) -> Result<()> {
    let requirements = serde_json::from_str(&project.read("docs/compliance/requirements.json")?)
        .context("docs/compliance/requirements.json")?;
    let deferred =
        toml::from_str(&project.read("docs/compliance/deferred.toml")?).context("docs/compliance/deferred.toml")?;
    let (citations, mut findings) = citations(&files(project)?);
    let matrix = Matrix::new(requirements, deferred, citations, &mut findings);
    if options.json {
        println!("{}", json(&matrix)?);
    } else if options.markdown {
        print!("{}", markdown(&matrix));
    } else {
        print!("{}", text(&matrix));
    }
    project::report(&findings)
}

#[derive(Debug, PartialEq, Eq)]
struct Citation {
    id: String,
    /// As in `RFC 7252 §4.2`.
    source: String,
    path: String,
    line: usize,
    test: String,
}

fn citations(files: &[TextFile]) -> (Vec<Citation>, Vec<Finding>) {
    let (mut citations, mut findings) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.path.starts_with("crates/") && file.extension() == "rs") {
        citations_of_file(file, &mut citations, &mut findings);
    }
    (citations, findings)
}

fn citations_of_file(file: &TextFile, citations: &mut Vec<Citation>, findings: &mut Vec<Finding>) {
    let cited = Regex::new(r"(?:RFC (\d+) )?§(\d+(?:\.\d+)*) \((Q\d+(?:, Q\d+)*)\)").expect("a constant pattern");
    let id = Regex::new(r"\bQ\d{2,3}\b").expect("a constant pattern");
    let Some(tokens) = source::tokens(&file.text) else { return };
    let lines: Vec<_> = file.text.lines().collect();
    for function in source::test_functions(&tokens) {
        let first = first_line_with_comments(&lines, function.first_line);
        for number in first..=function.last_line {
            let Some(comment) = lines.get(number - 1).and_then(|line| comment(line)) else { continue };
            let before = citations.len();
            // Several sections of one RFC name it once.
            let mut rfc = "7252";
            for found in cited.captures_iter(comment) {
                rfc = found.get(1).map_or(rfc, |number| number.as_str());
                citations.extend(found[3].split(", ").map(|id| Citation {
                    id: id.to_owned(),
                    source: format!("RFC {rfc} §{}", &found[2]),
                    path: file.path.clone(),
                    line: number,
                    test: function.name.clone(),
                }));
            }
            if id.find_iter(comment).count() != citations.len() - before {
                let message = "names a requirement in a form that does not count; write `// RFC 7252 §4.2 (Q08, Q10)`";
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
}

/// Returns the first line of the comments directly above line `first`.
fn first_line_with_comments(lines: &[&str], first: usize) -> usize {
    let above = lines[..first - 1].iter().rev();
    first - above.take_while(|line| line.trim_start().starts_with("//")).count()
}

fn comment(line: &str) -> Option<&str> {
    line.find("//").map(|start| &line[start..])
}

#[derive(Debug, Deserialize)]
struct Requirements {
    items: Vec<Requirement>,
}

#[derive(Debug, Deserialize)]
struct Requirement {
    id: String,
    /// Section of RFC 7252; of another RFC with its number first, as in `7641-4.5`.
    section: String,
    /// MUST, SHOULD, a formula, …
    level: String,
    requirement: String,
}

impl Requirement {
    fn source(&self) -> String {
        match self.section.split_once('-') {
            Some((rfc, section)) => format!("RFC {rfc} §{section}"),
            None => format!("RFC 7252 §{}", self.section),
        }
    }

    /// Whether it concerns messages, exchanges or their security: RFC 7252 §3 to §5 and §9.
    fn is_core(&self) -> bool {
        ["3", "4", "5", "9"].contains(&self.section.split('.').next().unwrap_or_default())
    }
}

type Deferred = BTreeMap<String, Deferral>;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Deferral {
    kind: DeferralKind,
    reason: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum DeferralKind {
    NotYet,
    /// conche deviates on purpose.
    Deviation,
}

#[derive(Debug)]
struct Row {
    requirement: Requirement,
    /// As `file::function`.
    tests: Vec<String>,
    deferral: Option<Deferral>,
}

impl Row {
    fn status(&self) -> &'static str {
        match (&self.deferral, self.tests.is_empty()) {
            (_, false) => "tested",
            (Some(deferral), true) if deferral.kind == DeferralKind::Deviation => "deviation",
            (Some(_), true) => "not yet",
            (None, true) => "missing",
        }
    }
}

#[derive(Debug)]
struct Matrix {
    rows: Vec<Row>,
}

impl Matrix {
    /// Adds inconsistencies to `findings`.
    fn new(
        requirements: Requirements,
        mut deferred: Deferred,
        citations: Vec<Citation>,
        findings: &mut Vec<Finding>,
    ) -> Self {
        for citation in &citations {
            check_citation(&requirements, citation, findings);
        }
        let mut rows = Vec::new();
        for requirement in requirements.items {
            let covering = citations.iter().filter(|citation| citation.id == requirement.id);
            let mut tests: Vec<_> = covering.map(|citation| format!("{}::{}", citation.path, citation.test)).collect();
            tests.sort();
            tests.dedup();
            let deferral = deferred.remove(&requirement.id);
            let row = Row { requirement, tests, deferral };
            findings.extend(problem(&row));
            rows.push(row);
        }
        let missing: Vec<_> =
            rows.iter().filter(|row| row.status() == "missing").map(|row| &*row.requirement.id).collect();
        if !missing.is_empty() {
            let message = format!("no test names {}, and neither does this file", missing.join(", "));
            findings.push(Finding::new(DEFERRED, 0, message));
        }
        for id in deferred.keys() {
            findings.push(Finding::new(DEFERRED, 0, format!("{id} is no requirement of {REQUIREMENTS}")));
        }
        Self { rows }
    }

    fn count(&self, status: &str) -> usize {
        self.rows.iter().filter(|row| row.status() == status).count()
    }
}

fn check_citation(requirements: &Requirements, citation: &Citation, findings: &mut Vec<Finding>) {
    let message = match requirements.items.iter().find(|requirement| requirement.id == citation.id) {
        None => format!("{} is no requirement of {REQUIREMENTS}", citation.id),
        Some(requirement) if requirement.source() != citation.source => {
            format!("{} is of {}, not of {}", citation.id, requirement.source(), citation.source)
        }
        Some(_) => return,
    };
    findings.push(Finding::new(&citation.path, citation.line, message));
}

fn problem(row: &Row) -> Option<Finding> {
    let id = &row.requirement.id;
    let message = match (&row.deferral, row.tests.first()) {
        (Some(_), Some(test)) => format!("{id} is deferred but {test} tests it; remove the deferral"),
        (Some(deferral), None) if row.requirement.is_core() && deferral.kind != DeferralKind::Deviation => {
            format!("{id} is of {}; only a deliberate deviation may go without a test there", row.requirement.source())
        }
        (Some(deferral), None) if deferral.reason.trim().is_empty() => format!("{id} is deferred without a reason"),
        _ => return None,
    };
    Some(Finding::new(DEFERRED, 0, message))
}

fn text(matrix: &Matrix) -> String {
    let mut out = String::new();
    for row in &matrix.rows {
        let requirement = &row.requirement;
        let _ = writeln!(
            out,
            "{} {:<9} {:<18} {:<11} {}",
            requirement.id,
            row.status(),
            requirement.source(),
            requirement.level,
            requirement.requirement
        );
        for line in evidence(row) {
            let _ = writeln!(out, "    {line}");
        }
    }
    let _ = writeln!(out, "{}", summary(matrix));
    out
}

fn markdown(matrix: &Matrix) -> String {
    let mut out =
        String::from("| id | source | level | requirement | status | test, or reason |\n|---|---|---|---|---|---|\n");
    for row in &matrix.rows {
        let requirement = &row.requirement;
        let cells = [
            requirement.id.clone(),
            requirement.source(),
            requirement.level.clone(),
            requirement.requirement.clone(),
            row.status().to_owned(),
            evidence(row).join("<br>"),
        ];
        let _ = writeln!(out, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    let _ = writeln!(out, "\n{}", summary(matrix));
    out
}

fn json(matrix: &Matrix) -> Result<String> {
    let rows: Vec<_> = matrix
        .rows
        .iter()
        .map(|row| {
            json!({
                "id": row.requirement.id,
                "source": row.requirement.source(),
                "level": row.requirement.level,
                "requirement": row.requirement.requirement,
                "status": row.status(),
                "tests": row.tests,
                "reason": row.deferral.as_ref().map(|deferral| &deferral.reason),
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&json!({ "schema": 1, "rows": rows }))?)
}

fn evidence(row: &Row) -> Vec<String> {
    let reason = row.deferral.iter().map(|deferral| deferral.reason.clone());
    row.tests.iter().cloned().chain(reason).collect()
}

fn summary(matrix: &Matrix) -> String {
    format!(
        "{} requirements: {} tested, {} not yet, {} deliberate deviations, {} missing. Whether the tests pass, `{TEST_COMMAND}` says.",
        matrix.rows.len(),
        matrix.count("tested"),
        matrix.count("not yet"),
        matrix.count("deviation"),
        matrix.count("missing"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    fn of(text: &str) -> (Vec<String>, usize) {
        let (citations, findings) = citations(&[fixture("crates/a/src/b.rs", text)]);
        (citations.iter().map(|one| format!("{} {} {}", one.id, one.source, one.test)).collect(), findings.len())
    }

    #[test]
    fn comments_above_on_and_in_a_test_count() {
        let text =
            "/// T.\n// RFC 7252 §4.2 (Q08, Q10)\n#[test]\n// RFC 7252 §5.3.1 (Q66)\nfn a() {\n    // §4.4 (Q24)\n}\n";
        assert_eq!(
            of(text),
            (
                ["Q08 RFC 7252 §4.2 a", "Q10 RFC 7252 §4.2 a", "Q66 RFC 7252 §5.3.1 a", "Q24 RFC 7252 §4.4 a"]
                    .map(str::to_owned)
                    .to_vec(),
                0
            )
        );
    }

    #[test]
    fn the_rfc_is_the_last_one_that_the_comment_names() {
        let text = "// RFC 7641 §3.2 (Q81), §4.2 (Q83); RFC 7959 §2.4 (Q120)\n#[test]\nfn a() {}\n";
        assert_eq!(of(text).0, ["Q81 RFC 7641 §3.2 a", "Q83 RFC 7641 §4.2 a", "Q120 RFC 7959 §2.4 a"]);
    }

    #[test]
    fn comments_elsewhere_do_not_count() {
        assert_eq!(of("// RFC 7252 §4.2 (Q08)\nfn a() {}\n// §4.2 (Q10)\n\n#[test]\nfn b() {}\n"), (Vec::new(), 0));
    }

    #[test]
    fn tests_in_proptest_blocks_count() {
        let text = "proptest! {\n    // RFC 7252 §4.4 (Q24)\n    #[test]\n    fn a(x in 0..1u8) {}\n}\n";
        assert_eq!(of(text), (vec!["Q24 RFC 7252 §4.4 a".to_owned()], 0));
    }

    #[test]
    fn a_form_that_would_not_count_is_refused() {
        assert_eq!(of("// Q08\n#[test]\nfn a() {}\n"), (Vec::new(), 1));
        assert_eq!(of("// RFC 7252 §4.2 (Q08-Q10)\n#[test]\nfn a() {}\n"), (Vec::new(), 1));
    }

    fn matrix(deferred: &str, cited: &[(&str, &str)]) -> (Matrix, Vec<String>) {
        let requirements = serde_json::from_str(
            r#"{"source": "RFC 7252", "items": [
                {"id": "Q01", "section": "4.2", "level": "MUST", "requirement": "a|b", "test": ""},
                {"id": "Q02", "section": "8.1", "level": "MUST", "requirement": "c", "test": ""},
                {"id": "Q03", "section": "7641-4.5", "level": "SHOULD", "requirement": "d", "test": ""}]}"#,
        );
        let citation = |(id, source): &(&str, &str)| Citation {
            id: (*id).to_owned(),
            source: format!("RFC {source}"),
            path: "t.rs".to_owned(),
            line: 1,
            test: "t".to_owned(),
        };
        let mut findings = Vec::new();
        let matrix = Matrix::new(
            requirements.expect("parses"),
            toml::from_str(deferred).expect("parses"),
            cited.iter().map(citation).collect(),
            &mut findings,
        );
        (matrix, findings.into_iter().map(|finding| finding.message).collect())
    }

    const BOTH: &str = "Q02 = { kind = \"not-yet\", reason = \"r\" }\nQ03 = { kind = \"not-yet\", reason = \"r\" }\n";

    #[test]
    fn every_requirement_tested_or_deferred_is_fine() {
        let (matrix, findings) = matrix(BOTH, &[("Q01", "7252 §4.2")]);
        assert_eq!(findings, Vec::<String>::new());
        assert_eq!((matrix.count("tested"), matrix.count("not yet")), (1, 2));
        assert_eq!(matrix.rows[0].tests, ["t.rs::t"]);
    }

    #[test]
    fn a_requirement_without_a_test_or_a_reason_is_refused() {
        assert_eq!(matrix(BOTH, &[]).1.len(), 1);
    }

    #[test]
    fn a_core_requirement_cannot_wait_but_conche_may_deviate_from_it() {
        let deferred = |kind| format!("{BOTH}Q01 = {{ kind = \"{kind}\", reason = \"r\" }}\n");
        assert_eq!(matrix(&deferred("not-yet"), &[]).1.len(), 1);
        assert_eq!(matrix(&deferred("deviation"), &[]).1, Vec::<String>::new());
    }

    #[test]
    fn a_deferral_of_something_tested_or_unknown_is_refused() {
        assert_eq!(matrix(BOTH, &[("Q01", "7252 §4.2"), ("Q02", "7252 §8.1")]).1.len(), 1);
        assert_eq!(
            matrix(&format!("{BOTH}Q99 = {{ kind = \"not-yet\", reason = \"r\" }}\n"), &[("Q01", "7252 §4.2")]).1.len(),
            1
        );
    }

    #[test]
    fn a_deferral_needs_a_reason() {
        let deferred = BOTH.replacen("\"r\"", "\" \"", 1);
        assert_eq!(matrix(&deferred, &[("Q01", "7252 §4.2")]).1.len(), 1);
    }

    #[test]
    fn a_test_that_names_an_unknown_requirement_or_another_section_is_refused() {
        assert_eq!(matrix(BOTH, &[("Q01", "7252 §4.2"), ("Q98", "7252 §4.2")]).1.len(), 1);
        assert_eq!(matrix(BOTH, &[("Q01", "7252 §4.3")]).1.len(), 1);
        assert_eq!(matrix(BOTH, &[("Q01", "7641 §4.2")]).1.len(), 1);
    }

    #[test]
    fn every_form_names_requirement_status_and_test() {
        let (matrix, _) = matrix(BOTH, &[("Q01", "4.2")]);
        assert!(text(&matrix).starts_with("Q01 tested    RFC 7252 §4.2      MUST        a|b\n    t.rs::t\n"));
        assert!(text(&matrix).contains("3 requirements: 1 tested, 2 not yet, 0 deliberate deviations, 0 missing."));
        assert!(markdown(&matrix).contains("| Q01 | RFC 7252 §4.2 | MUST | a\\|b | tested | t.rs::t |\n"));
        let json: serde_json::Value = serde_json::from_str(&json(&matrix).expect("renders")).expect("parses");
        assert_eq!(json["rows"][2]["source"], "RFC 7641 §4.5");
        assert_eq!(json["rows"][0]["tests"][0], "t.rs::t");
        assert_eq!(json["rows"][1]["reason"], "r");
    }
}
