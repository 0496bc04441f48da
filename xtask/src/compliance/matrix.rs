//! The matrix of requirements, tests and deferrals: every requirement has one or the other.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::citations::Citation;
use crate::project::Finding;

const REQUIREMENTS: &str = "docs/compliance/requirements.json";
const DEFERRED: &str = "docs/compliance/deferred.toml";

/// `requirements.json`.
#[derive(Debug, Deserialize)]
pub struct Requirements {
    items: Vec<Requirement>,
}

/// A requirement of an RFC.
#[derive(Debug, Deserialize)]
pub struct Requirement {
    /// ID, such as `Q08`.
    pub id: String,
    /// Section of RFC 7252; of another RFC with its number first, as in `7641-4.5`.
    pub section: String,
    /// MUST, SHOULD, a formula, …
    pub level: String,
    /// Text of the requirement.
    pub requirement: String,
}

impl Requirement {
    /// Returns RFC and section.
    pub fn source(&self) -> String {
        match self.section.split_once('-') {
            Some((rfc, section)) => format!("RFC {rfc} §{section}"),
            None => format!("RFC 7252 §{}", self.section),
        }
    }

    /// Whether it concerns messages, exchanges or their security, conche's core: RFC 7252 §3 to §5
    /// and §9.
    fn is_core(&self) -> bool {
        ["3", "4", "5", "9"].contains(&self.section.split('.').next().unwrap_or_default())
    }
}

/// `deferred.toml`: by ID, the reason for a missing test.
pub type Deferred = BTreeMap<String, Deferral>;

/// Why a requirement has no test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deferral {
    /// Postponed, or a deviation.
    pub kind: DeferralKind,
    /// Reason, in a sentence.
    pub reason: String,
}

/// The kind of a deferral.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DeferralKind {
    /// Not implemented yet.
    NotYet,
    /// Conche deviates on purpose.
    Deviation,
}

/// A requirement and its coverage.
#[derive(Debug)]
pub struct Row {
    /// Requirement.
    pub requirement: Requirement,
    /// Its tests, as `file::function`.
    pub tests: Vec<String>,
    /// Why it has none.
    pub deferral: Option<Deferral>,
}

impl Row {
    /// Returns the status in one or two words.
    pub fn status(&self) -> &'static str {
        match (&self.deferral, self.tests.is_empty()) {
            (_, false) => "tested",
            (Some(deferral), true) if deferral.kind == DeferralKind::Deviation => "deviation",
            (Some(_), true) => "not yet",
            (None, true) => "missing",
        }
    }
}

/// All requirements.
#[derive(Debug)]
pub struct Matrix {
    /// In the order of `requirements.json`.
    pub rows: Vec<Row>,
}

impl Matrix {
    /// Builds the matrix, and adds inconsistencies to `findings`.
    pub fn new(
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

    /// Counts the rows with this status.
    pub fn count(&self, status: &str) -> usize {
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

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn matrix(deferred: &str, cited: &[(&str, &str)]) -> (Matrix, Vec<String>) {
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

    pub const BOTH: &str =
        "Q02 = { kind = \"not-yet\", reason = \"r\" }\nQ03 = { kind = \"not-yet\", reason = \"r\" }\n";

    #[test]
    fn every_requirement_tested_or_deferred_is_fine() {
        let (matrix, findings) = matrix(BOTH, &[("Q01", "7252 §4.2")]);
        assert_eq!(findings, Vec::<String>::new());
        assert_eq!((matrix.count("tested"), matrix.count("not yet")), (1, 2));
        assert_eq!(matrix.rows[0].tests, ["t.rs::t"]);
    }

    #[test]
    fn a_requirement_of_which_nothing_is_said_is_refused() {
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
}
