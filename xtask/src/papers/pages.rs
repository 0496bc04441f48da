//! Writes the claims on the papers' pages from results, into [a
//! block](tool_support::block::CLAIMS).

use std::fmt::Write;

use anyhow::{Context, Result};
use conche_results::Verdict;
use serde::Deserialize;

use crate::project::Project;
use tool_support::block::CLAIMS;

#[derive(Deserialize)]
struct MeasuredValue {
    #[serde(rename = "scenario")]
    paper: String,
    item: String,
    row: String,
    column: String,
    unit: String,
    measured: f64,
    ci95: Option<[f64; 2]>,
}

/// Writes the claims among these values into their papers' pages, and returns their number per
/// paper.
pub fn write(project: &Project, figures: &str) -> Result<Vec<(String, usize)>> {
    let read = |line| serde_json::from_str(line).with_context(|| format!("this is no figure: {line}"));
    let mut claims: Vec<MeasuredValue> = figures.lines().map(read).collect::<Result<_>>()?;
    claims.retain(|figure| figure.item == "claims");
    let mut written = Vec::new();
    for pair in claims.chunk_by(|one, other| one.paper == other.paper) {
        let path = format!("docs/papers/{}.md", pair[0].paper);
        let page = CLAIMS.replaced(&project.read(&path)?, &table(pair)).with_context(|| path.clone())?;
        std::fs::write(project.root.join(&path), page).with_context(|| path.clone())?;
        written.push((pair[0].paper.clone(), pair.len() / 2));
    }
    Ok(written)
}

pub const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Refuted => "**does not hold**",
        other => other.words(),
    }
}

/// Formats a line per claim: the compared value with its interval, and the verdict.
fn table(claims: &[MeasuredValue]) -> String {
    let mut table = "\n| claim | compared | measured | 95 % | |\n|---|---|---|---|---|\n".to_owned();
    for pair in claims.chunks_exact(2).filter(|pair| pair[1].unit == "verdict") {
        let verdict = mark(Verdict::of(pair[1].measured));
        let interval = pair[0].ci95.map(|[low, high]| format!("{low:.2} … {high:.2}")).unwrap_or_default();
        let (claim, compared) = (pair[0].row.replace('_', " "), pair[0].column.replace('_', " "));
        let _ = writeln!(table, "| {claim} | {compared} | {:.2} | {interval} | {verdict} |", pair[0].measured);
    }
    table + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(column: &str, unit: &str, measured: f64, ci95: Option<[f64; 2]>) -> MeasuredValue {
        let text = |text: &str| text.to_owned();
        MeasuredValue {
            paper: text("p"),
            item: text("claims"),
            row: text("a_above_b/1"),
            column: text(column),
            unit: text(unit),
            measured,
            ci95,
        }
    }

    #[test]
    fn a_claim_is_a_line_with_its_interval_and_verdict() {
        let claims = [figure("ratio", "ratio", 1.234, Some([0.9, 1.5])), figure("ratio_holds", "verdict", 0.5, None)];
        let expected = "\n| claim | compared | measured | 95 % | |\n|---|---|---|---|---|\n\
                        | a above b/1 | ratio | 1.23 | 0.90 … 1.50 | inconclusive |\n\n";
        assert_eq!(table(&claims), expected);
    }
}
