//! The overview of the papers, docs/papers/README.md: its text stays, its numbers come from results.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use conche_results::{Manifest, Near, Score, Verdict};

use super::pages::mark;
use crate::project::{Finding, Project};
use tool_support::block::{CLAIMS, OVERVIEW};

pub const PAGE: &str = "docs/papers/README.md";

/// The header. The first two columns of each row are the page's own text.
const HEAD: &str = "
| paper | network | within their bar | fitted on: within 15 %, mean | predicted: within 15 %, mean | claims that hold | refuted | inconclusive |
|---|---|---|---|---|---|---|---|
";

/// Returns the page with the rows of these results' papers replaced.
pub fn of(project: &Project, manifest: &Manifest) -> Result<String> {
    replaced(&project.read(PAGE)?, manifest).context(PAGE)
}

fn replaced(page: &str, manifest: &Manifest) -> Result<String> {
    let mut table = HEAD.to_owned();
    let known = OVERVIEW.of(page)?;
    if let Some(of) = manifest.scenarios.iter().find(|of| rows(known).all(|row| row.paper != of.name)) {
        bail!("{} has no row in the overview", of.name);
    }
    for row in rows(known) {
        let score = manifest.scenarios.iter().find(|of| of.name == row.paper).and_then(|of| of.score);
        let numbers =
            score.map_or_else(|| row.numbers.iter().map(|cell| (*cell).to_owned()).collect(), |of| cells(&of));
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| {} | {} | {} |", row.name, row.network, numbers.join(" | "));
    }
    OVERVIEW.replaced(page, &(table + "\n"))
}

fn cells(score: &Score) -> Vec<String> {
    let of = |part: usize, all: usize| if all == 0 { "–".to_owned() } else { format!("{part} of {all}") };
    let near = |near: &Near| match near.mean_log_ratio {
        Some(mean) => format!("{}, {mean:.2}", of(near.within, near.values)),
        None => of(near.within, near.values),
    };
    let claims = [score.hold, score.refuted, score.inconclusive].map(|number| number.to_string());
    [vec![of(score.within, score.promised), near(&score.fitted), near(&score.predicted)], claims.into()].concat()
}

struct Row<'a> {
    /// Short name, from its link.
    paper: &'a str,
    name: &'a str,
    network: &'a str,
    numbers: Vec<&'a str>,
}

fn rows(table: &str) -> impl Iterator<Item = Row<'_>> {
    table.lines().filter_map(|line| {
        let mut cells = line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
        let name = cells.next()?;
        let paper = name.split_once("](")?.1.strip_suffix(".md)")?;
        Some(Row { paper, name, network: cells.next()?, numbers: cells.collect() })
    })
}

/// Finds counts of claims that differ from the pages, and missing blocks.
pub fn check(overview: &str, page: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let table = match OVERVIEW.of(overview) {
        Ok(table) => table,
        Err(problem) => return vec![Finding::new(PAGE, 0, problem.to_string())],
    };
    let problem_of = |row: Row<'_>| {
        let path = format!("docs/papers/{}.md", row.paper);
        let Some(page) = page(&path) else { return Some(Finding::new(PAGE, 0, format!("there is no {path}"))) };
        let claims = match CLAIMS.of(&page) {
            Ok(claims) => claims,
            Err(problem) => return Some(Finding::new(&path, 0, problem.to_string())),
        };
        let lines = || claims.lines().filter(|line| line.starts_with('|')).skip(2);
        let with = |verdict| lines().filter(|line| line.ends_with(&format!("| {} |", mark(verdict)))).count();
        let counts = [Verdict::Holds, Verdict::Refuted, Verdict::Inconclusive].map(with);
        if counts.iter().sum::<usize>() != lines().count() {
            return Some(Finding::new(&path, 0, "a claim has no verdict".to_owned()));
        }
        let counts = counts.map(|count| count.to_string());
        let message = || format!("{}: its page has claims {}", row.paper, counts.join(", "));
        (row.numbers.len() != 6 || row.numbers[3..] != counts).then(|| Finding::new(PAGE, 0, message()))
    };
    let found: Vec<Finding> = rows(table).filter_map(problem_of).collect();
    let is_empty = rows(table).next().is_none();
    found.into_iter().chain(is_empty.then(|| Finding::new(PAGE, 0, "the overview has no paper".to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use conche_results::Scenario;

    use super::*;

    fn overview(row: &str) -> String {
        OVERVIEW
            .replaced("<!-- papers, written by `cargo xtask papers --pages DIR` -->\n<!-- end of papers -->", row)
            .expect("a block")
    }

    const ROW: &str = "| [P'12](p.md) | a mesh | – | – | – | 1 | 0 | 2 |\n";

    #[test]
    fn numbers_are_those_of_the_results_and_words_stay() {
        let fitted = Near { values: 4, within: 3, mean_log_ratio: Some(0.214) };
        let score = Score { promised: 2, within: 1, fitted, hold: 7, refuted: 8, ..Score::default() };
        let scenario = Scenario { name: "p".to_owned(), score: Some(score), ..Scenario::default() };
        let manifest = Manifest { scenarios: vec![scenario], ..Manifest::default() };
        let written = replaced(&overview(ROW), &manifest).expect("a block");
        assert!(written.contains("| [P'12](p.md) | a mesh | 1 of 2 | 3 of 4, 0.21 | – | 7 | 8 | 0 |\n"));
        assert_eq!(replaced(&written, &manifest).expect("a block"), written);
        let others = replaced(&written, &Manifest::default()).expect("a block");
        assert_eq!(others, written, "of other papers nothing is known");
        let error = replaced(&overview(""), &manifest).expect_err("no row").to_string();
        assert!(error.contains("p has no row"), "{error}");
    }

    #[test]
    fn counts_that_are_not_those_of_the_page_are_found() {
        let page = |verdicts: &[&str]| {
            let lines: String = verdicts.iter().map(|verdict| format!("| a | b | 1 | | {verdict} |\n")).collect();
            let table = format!("| claim | | | | |\n|---|---|---|---|---|\n{lines}");
            CLAIMS
                .replaced(
                    "<!-- claims, written by `cargo xtask papers --pages DIR` -->\n<!-- end of claims -->",
                    &table,
                )
                .ok()
        };
        let found = |text: &str, page: Option<String>| -> Vec<String> {
            check(text, |_| page.clone()).iter().map(ToString::to_string).collect()
        };
        let right = page(&["holds", "inconclusive", "inconclusive"]);
        assert_eq!(found(&overview(ROW), right.clone()), Vec::<String>::new());
        let wrong = page(&["holds", "**does not hold**", "inconclusive"]);
        for (text, page, expected) in [
            (overview(ROW), wrong, "p: its page has claims 1, 1, 1"),
            (overview(ROW), page_without_verdict(&page), "a claim has no verdict"),
            (overview(ROW), Some("nothing".to_owned()), "is missing"),
            (overview(ROW), None, "there is no docs/papers/p.md"),
            (overview(""), right.clone(), "the overview has no paper"),
            ("nothing".to_owned(), right, "is missing"),
        ] {
            let found = found(&text, page);
            assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
        }
    }

    fn page_without_verdict(page: &impl Fn(&[&str]) -> Option<String>) -> Option<String> {
        page(&["holds", "inconclusive", "perhaps"])
    }
}
