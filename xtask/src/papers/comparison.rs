//! Writes the comparison of controllers from the results of `conche compare --full`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use conche_results::Manifest;
use conche_results::comparison::{Compared, Row, Standing, shown};

use crate::project::Project;
use tool_support::block::COMPARISON;

const PAGE: &str = "docs/comparison.md";

/// Reads the comparison of a directory, if any.
pub fn read(directory: &Path) -> Result<Option<Vec<Row>>> {
    let path = directory.join(Row::FILE);
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let row = |line| Row::from_json(line).map_err(anyhow::Error::msg).with_context(|| path.display().to_string());
    text.lines().map(row).collect::<Result<_>>().map(Some)
}

/// Writes the ranking into its page, and returns the number of controllers.
pub fn write(project: &Project, manifest: &Manifest, rows: &[Row]) -> Result<usize> {
    // Papers have no purpose.
    let standings: Vec<&Standing> =
        rows.iter().filter_map(standing).filter(|standing| standing.purpose.is_none()).collect();
    let page = COMPARISON.replaced(&project.read(PAGE)?, &ranking(manifest, &standings)).context(PAGE)?;
    fs::write(project.root.join(PAGE), page).context(PAGE)?;
    Ok(standings.len())
}

fn standing(row: &Row) -> Option<&Standing> {
    if let Compared::Controller(standing) = &row.of { Some(standing) } else { None }
}

/// Formats a line per controller in order, and the origin of the runs.
fn ranking(manifest: &Manifest, standings: &[&Standing]) -> String {
    let papers = standings.first().map_or(&[][..], |of| &of.scenarios[..]);
    let names: String = papers.iter().map(|of| format!(" {} ({} cells) |", of.scenario, of.of.cells)).collect();
    let mut table = format!(
        "\n| | controller | regret | mean | 95 % | behind |{names}\n|---|---|---|---|---|---|{}\n",
        "---|".repeat(papers.len())
    );
    for (place, of) in (1..).zip(standings) {
        let all = &of.all;
        let by_paper: String = of.scenarios.iter().map(|of| format!(" {} |", of.of.shown_in_short())).collect();
        let (regret, mean, interval) = (all.shown_regret(), shown(all.mean), all.shown_interval());
        let (name, behind) = (&of.controller, all.shown_share(all.behind));
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| {place} | `{name}` | {regret} | {mean} | {interval} | {behind} |{by_paper}");
    }
    let extent = |of: &conche_results::Scenario| {
        let seed = of.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
        format!("{} {}{seed}", of.name, of.extent)
    };
    let runs: Vec<String> = manifest.scenarios.iter().map(extent).collect();
    let gaps: String = standings.iter().filter(|of| of.all.missing > 0).map(|of| gap(of)).collect();
    let program = &manifest.program.version;
    let _ = writeln!(table, "\nBy paper: regret (mean). Runs: {}; conche {program}.{gaps}\n", runs.join("; "));
    table
}

fn gap(of: &Standing) -> String {
    format!(" `{}` has no value in {} of {} cells.", of.controller, of.all.missing, of.all.cells)
}

#[cfg(test)]
mod tests {
    use conche_results::comparison::{OfScenario, Tally};
    use conche_results::{Program, Scenario};

    use super::*;

    #[test]
    fn the_ranking_names_its_runs_and_missing_values() {
        let all = Tally {
            cells: 4,
            regret: Some(1.5),
            mean: Some(1.1),
            ci95: Some([1.05, 1.15]),
            behind: 1,
            ..Tally::default()
        };
        let gap = Tally { missing: 2, regret: Some(3.0), mean: None, ci95: None, ..all.clone() };
        let of = |controller: &str, all: &Tally| Standing {
            controller: controller.to_owned(),
            all: all.clone(),
            scenarios: vec![OfScenario { scenario: "p".to_owned(), of: all.clone() }],
            ..Standing::default()
        };
        let scenario = Scenario {
            name: "p".to_owned(),
            extent: "9 replications".to_owned(),
            seed: Some(7),
            ..Scenario::default()
        };
        let program = Program { version: "1.2.3".to_owned(), ..Program::default() };
        let manifest = Manifest { scenarios: vec![scenario], program, ..Manifest::default() };
        let written = ranking(&manifest, &[&of("a", &all), &of("b", &gap)]);
        for expected in [
            "| 1 | `a` | 1.50 | 1.10 | 1.05…1.15 | 25 % | 1.50 (1.10) |\n",
            "| 2 | `b` | fails in 2 cells | – |  | 25 % | fails in 2 cells |\n",
            "Runs: p 9 replications, seed 7; conche 1.2.3. `b` has no value in 2 of 4 cells.\n",
        ] {
            assert!(written.contains(expected), "{expected}: {written}");
        }
    }
}
