//! The matrix as text for a terminal, as Markdown and as JSON.

use std::fmt::Write;

use anyhow::Result;
use serde_json::json;

use super::matrix::{Matrix, Row};
use crate::readme::TEST_COMMAND;

/// Renders a block per requirement, and a summary.
pub fn text(matrix: &Matrix) -> String {
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

/// Renders one table, and a summary.
pub fn markdown(matrix: &Matrix) -> String {
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

/// Renders an object with `schema` and `rows`.
pub fn json(matrix: &Matrix) -> Result<String> {
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
    use super::super::matrix::tests::{BOTH, matrix};
    use super::*;

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
