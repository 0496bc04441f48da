//! What is said in words, put to the test with the measured values.

use std::collections::{BTreeMap, HashMap};

use crate::papers::Claim as Judged;
use crate::results::Figure;
use crate::scenario::{Claim, Compare, Operand, Scenario, filled};
use crate::stats::{Interval, mean_interval};

/// A value, and what it was in each replication if it is a mean of such.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) figure: Figure,
    pub(super) of_runs: Vec<f64>,
}

/// A claim that is made, and what it compares.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    /// The row of its figures.
    pub row: String,
    /// What is said.
    pub claim: &'a Claim,
    /// The rows of the values that it is said of; their column is the claim's.
    pub of: Vec<String>,
}

/// All claims that are made of these figures.
#[must_use]
pub fn compared<'a>(scenario: &'a Scenario, figures: &[Figure]) -> Vec<Compared<'a>> {
    let series = figures.iter().map(|figure| Series { figure: figure.clone(), of_runs: Vec::new() });
    let series: Vec<Series> = series.collect();
    let known = Known::new(&series);
    let of_claim = |claim: &'a Claim| {
        let known = &known;
        let compared = move |labels: BTreeMap<&str, &str>| {
            let (row, found) = operands(claim, &labels, known)?;
            Some(Compared { row, claim, of: found.iter().map(|series| series.figure.row.clone()).collect() })
        };
        combinations(&claim.each).into_iter().filter_map(compared).collect::<Vec<_>>()
    };
    scenario.claims.iter().flat_map(of_claim).collect()
}

/// The figures of all claims whose values were measured.
pub(super) fn figures(scenario: &Scenario, series: &[Series]) -> Vec<Figure> {
    let known = Known::new(series);
    let mut judged: Vec<(Vec<usize>, [Figure; 2])> = Vec::new();
    for claim in &scenario.claims {
        for labels in combinations(&claim.each) {
            let place = |name: &String| {
                let label = labels.get(name.as_str()).copied();
                claim.each.get(name).and_then(|all| all.iter().position(|known| Some(known.as_str()) == label))
            };
            let order = scenario.claim_order.iter().map(|name| place(name).unwrap_or(usize::MAX)).collect();
            judged.extend(judge(claim, &labels, &known, &scenario.name).map(|judged| (order, judged)));
        }
    }
    judged.sort_by(|(one, _), (other, _)| one.cmp(other));
    judged.into_iter().flat_map(|(_, judged)| judged).collect()
}

struct Known<'a>(HashMap<(&'a str, &'a str), &'a Series>);

impl<'a> Known<'a> {
    fn new(series: &'a [Series]) -> Self {
        let key = |series: &'a Series| (series.figure.row.as_str(), series.figure.column.as_str());
        Self(series.iter().map(|series| (key(series), series)).collect())
    }

    fn get(&self, row: &str, column: &str) -> Option<&'a Series> {
        self.0.get(&(row, column)).copied()
    }

    /// The row that an operand stands for; `None` if one of its rows was not measured.
    fn find(&self, operand: &Operand, column: &str, fill: impl Fn(&str) -> Option<String>) -> Option<&'a Series> {
        let row = |template: &String| self.get(&fill(template)?, column);
        let by_value = |one: &&Series, other: &&Series| one.figure.measured.total_cmp(&other.figure.measured);
        let all = |templates: &[String]| templates.iter().map(row).collect::<Option<Vec<_>>>();
        match operand {
            Operand::Row(template) => row(template),
            Operand::Least { least } => all(least)?.into_iter().min_by(by_value),
            Operand::Most { most } => all(most)?.into_iter().max_by(by_value),
        }
    }
}

/// The row of a claim with these labels, and the values that it compares; `None` where one that it needs was not measured, or
/// where it is not made.
fn operands<'a>(claim: &Claim, labels: &BTreeMap<&str, &str>, known: &Known<'a>) -> Option<(String, Vec<&'a Series>)> {
    let fill = |template: &str| filled(template, |name| labels.get(name).map(|label| (*label).into()));
    if let Some(given) = &claim.given {
        let value = known.get(&fill(&given.of)?, &given.column)?.figure.measured;
        let over = given.over.as_ref().map_or(Some(1.0), |over| fill(over)?.parse::<f64>().ok())?;
        (given.range.0..=given.range.1).contains(&(value / over)).then_some(())?;
    }
    let found: Option<Vec<&Series>> = claim.of.iter().map(|of| known.find(of, &claim.column, fill)).collect();
    Some((fill(&claim.row)?, found?))
}

/// `None` where it is not made, or does not come out as a number.
fn judge(claim: &Claim, labels: &BTreeMap<&str, &str>, known: &Known<'_>, paper: &str) -> Option<[Figure; 2]> {
    let (row, found) = operands(claim, labels, known)?;
    let figures: Vec<&Figure> = found.iter().map(|series| &series.figure).collect();
    let measured = match (claim.compare, &figures[..]) {
        (Compare::Value, [one]) => one.measured,
        (Compare::Difference, [one, other]) => one.measured - other.measured,
        (Compare::Ratio, [one, other]) if other.measured > 0.0 => one.measured / other.measured,
        (Compare::Apart, [one, other]) => {
            let apart = Judged::clearly_above(row, one, other);
            return Some(Judged { column: claim.outcome.clone(), unit: claim.unit, ..apart }.figures(paper));
        }
        (Compare::Widths, [one, other]) => {
            let width = |interval: Interval| interval.high - interval.low;
            let (one, other) = (width(one.ci95?), width(other.ci95?));
            if other > 0.0 { one / other } else { 0.0 }
        }
        _ => return None,
    };
    let judged = Judged {
        row,
        column: claim.outcome.clone(),
        unit: claim.unit,
        measured,
        runs: figures.iter().map(|figure| figure.runs).min().unwrap_or_default(),
        holds: claim.holds(measured),
    };
    let [value, verdict] = judged.figures(paper);
    Some([Figure { ci95: paired(claim.compare, &found), ..value }, verdict])
}

/// The interval of a difference of means, run by run: the runs of two schemes under one replication share their random
/// numbers.
fn paired(compare: Compare, found: &[&Series]) -> Option<Interval> {
    match (compare, found) {
        (Compare::Difference, [one, other]) if !one.of_runs.is_empty() && one.of_runs.len() == other.of_runs.len() => {
            let differences: Vec<f64> =
                one.of_runs.iter().zip(&other.of_runs).map(|(one, other)| one - other).collect();
            mean_interval(&differences).1
        }
        _ => None,
    }
}

/// All combinations of labels, the last name's changing fastest.
fn combinations(each: &BTreeMap<String, Vec<String>>) -> Vec<BTreeMap<&str, &str>> {
    let mut combinations: Vec<BTreeMap<&str, &str>> = vec![BTreeMap::new()];
    for (name, labels) in each {
        let mut longer = Vec::new();
        for (combination, label) in combinations.iter().flat_map(|begun| labels.iter().map(move |label| (begun, label)))
        {
            let mut combination = combination.clone();
            combination.insert(name, label);
            longer.push(combination);
        }
        combinations = longer;
    }
    combinations
}

#[cfg(test)]
mod tests;
