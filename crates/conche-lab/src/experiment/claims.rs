//! Judges a paper's claims by the measured values.

use std::collections::BTreeMap;

use conche_results::Verdict;

use super::values::Series;
use crate::scenario::{Claim, Compare, Operand, Scenario, Unit, filled, matches_any};
use crate::stats::{Interval, estimate, spread_ratio};
use crate::value::{MeasuredValue, Position};

/// Item of claims; the verdict's column ends in `_holds`.
pub(super) const CLAIMS: &str = "claims";

/// A claim and the rows that it compares.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    /// Row of its values.
    pub row: String,
    /// Claim.
    pub claim: &'a Claim,
    /// Compared rows, in the claim's column.
    pub of: Vec<String>,
}

/// Lists the claims that these values allow.
#[must_use]
pub fn compared<'a>(scenario: &'a Scenario, values: &[MeasuredValue]) -> Vec<Compared<'a>> {
    let series =
        values.iter().map(|value| Series { value: value.clone(), per_replication: Vec::new(), compared: None });
    let series: Vec<Series> = series.collect();
    let known = SeriesByName::new(&series);
    let of_claim = |claim: &'a Claim| {
        let known = &known;
        let compared = move |labels: Labels<'_>| {
            let (row, found) = operands(claim, &labels, known)?;
            Some(Compared { row, claim, of: found.iter().map(|series| series.value.row.clone()).collect() })
        };
        combinations(&claim.each).into_iter().filter_map(compared).collect::<Vec<_>>()
    };
    scenario.claims.iter().flat_map(of_claim).collect()
}

pub(super) fn judge_all(scenario: &Scenario, series: &[Series]) -> Vec<MeasuredValue> {
    let known = SeriesByName::new(series);
    let mut judged: Vec<(Vec<usize>, [MeasuredValue; 2])> = Vec::new();
    for claim in &scenario.claims {
        for labels in combinations(&claim.each) {
            let place = |name: &String| {
                let label = label(&labels, name)?;
                let all = scenario.claims.iter().filter_map(|claim| claim.each.get(name)).flatten();
                all.enumerate().find(|(_, known)| *known == label).map(|(place, _)| place)
            };
            let order = scenario.claim_order.iter().map(|name| place(name).unwrap_or(usize::MAX)).collect();
            judged.extend(judge(claim, &labels, &known, &scenario.name).map(|judged| (order, judged)));
        }
    }
    judged.sort_by(|(one, _), (other, _)| one.cmp(other));
    judged.into_iter().flat_map(|(_, judged)| judged).collect()
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

fn label<'a>(labels: &Labels<'a>, name: &str) -> Option<&'a str> {
    labels.iter().find(|(of, _)| *of == name).map(|(_, label)| *label)
}

struct SeriesByName<'a>(BTreeMap<(&'a str, &'a str), &'a Series>);

impl<'a> SeriesByName<'a> {
    fn new(series: &'a [Series]) -> Self {
        let key = |series: &'a Series| (series.value.row.as_str(), series.value.column.as_str());
        Self(series.iter().map(|series| (key(series), series)).collect())
    }

    fn get(&self, row: &str, column: &str) -> Option<&'a Series> {
        self.0.get(&(row, column)).copied()
    }

    fn all(&self, operands: &[Operand], column: &str, fill: impl Fn(&str) -> Option<String>) -> Vec<&'a Series> {
        let rows = operands.iter().filter_map(|operand| if let Operand::Row(row) = operand { fill(row) } else { None });
        let patterns: Vec<String> = rows.collect();
        let is_meant = |(row, of): &(&str, &str)| *of == column && matches_any(&patterns, row);
        self.0.iter().filter(|(name, _)| is_meant(name)).map(|(_, series)| *series).collect()
    }

    fn find(&self, operand: &Operand, column: &str, fill: impl Fn(&str) -> Option<String>) -> Option<&'a Series> {
        let row = |template: &String| self.get(&fill(template)?, column);
        let by_value = |one: &&Series, other: &&Series| one.value.measured.total_cmp(&other.value.measured);
        let all = |templates: &[String]| templates.iter().map(row).collect::<Option<Vec<_>>>();
        match operand {
            Operand::Row(template) => row(template),
            Operand::Least { least } => all(least)?.into_iter().min_by(by_value),
            Operand::Most { most } => all(most)?.into_iter().max_by(by_value),
        }
    }
}

fn operands<'a>(claim: &Claim, labels: &Labels<'_>, known: &SeriesByName<'a>) -> Option<(String, Vec<&'a Series>)> {
    let fill = |template: &str| fill(template, labels);
    let found = match claim.compare {
        Compare::Spread | Compare::LineFrom(_) => known.all(&claim.of, &claim.column, fill),
        _ => claim.of.iter().map(|of| known.find(of, &claim.column, fill)).collect::<Option<Vec<_>>>()?,
    };
    Some((fill(&claim.row)?, found))
}

fn fill(template: &str, labels: &Labels<'_>) -> Option<String> {
    filled(template, |name| label(labels, name).map(Into::into))
}

/// Judges a claim; `None` if a required value is missing or the comparison is undefined.
fn judge(claim: &Claim, labels: &Labels<'_>, known: &SeriesByName<'_>, scenario: &str) -> Option<[MeasuredValue; 2]> {
    let (row, found) = operands(claim, labels, known)?;
    let outcome = outcome(claim, &found, |template| fill(template, labels))?;
    let value = MeasuredValue {
        scenario: scenario.to_owned(),
        item: CLAIMS.to_owned(),
        row,
        column: claim.outcome.clone(),
        unit: claim.unit,
        published: None,
        measured: outcome.shown,
        ci95: outcome.interval,
        runs: found.iter().map(|series| series.value.runs).min().unwrap_or_default(),
        position: Position::default(),
    };
    let verdict = MeasuredValue {
        column: format!("{}_holds", claim.outcome),
        unit: Unit::Verdict,
        published: Some(Verdict::Holds.number()),
        measured: verdict(claim, outcome.decides).number(),
        ci95: None,
        ..value.clone()
    };
    Some([value, verdict])
}

fn verdict(claim: &Claim, interval: Option<Interval>) -> Verdict {
    let Some(Interval { low, high }) = interval else { return Verdict::Inconclusive };
    let above = if claim.compare == Compare::Apart { Some(0.0) } else { claim.above };
    let (least, most) = claim.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let is_within = least <= low && high <= most;
    let is_beyond = high < least || most < low;
    if is_within && above.is_none_or(|bound| bound < low) && claim.below.is_none_or(|bound| high < bound) {
        Verdict::Holds
    } else if is_beyond || above.is_some_and(|bound| high <= bound) || claim.below.is_some_and(|bound| bound <= low) {
        Verdict::Refuted
    } else {
        Verdict::Inconclusive
    }
}

struct Outcome {
    shown: f64,
    interval: Option<Interval>,
    decides: Option<Interval>,
}

fn outcome(claim: &Claim, found: &[&Series], fill: impl Fn(&str) -> Option<String>) -> Option<Outcome> {
    let numbers =
        if let Compare::LineFrom(from) = claim.compare { numbers(claim, found, from, fill) } else { Vec::new() };
    // Points before the line's zero are excluded.
    let is_compared = |place: &usize| numbers.get(*place).is_none_or(|number| *number > 0.0);
    let places: Vec<usize> = (0..found.len()).filter(is_compared).collect();
    let numbers: Vec<f64> = numbers.into_iter().filter(|number| *number > 0.0).collect();
    let means: Vec<f64> = places.iter().map(|place| found[*place].value.measured).collect();
    let per_replication: Vec<&[f64]> = places.iter().map(|place| found[*place].per_replication.as_slice()).collect();
    let by = |function: &dyn Fn(&[f64]) -> Option<f64>| {
        let (shown, interval) = estimate(&means, &per_replication, function)?;
        Some(Outcome { shown, interval, decides: interval })
    };
    let difference = |means: &[f64]| Some(means[0] - means[1]);
    let ratio = |means: &[f64]| (means[1] > 0.0).then(|| means[0] / means[1]);
    match (claim.compare, found) {
        (Compare::Value, [one]) => {
            let MeasuredValue { measured, ci95, .. } = one.value;
            Some(Outcome { shown: measured, interval: ci95, decides: ci95 })
        }
        (Compare::Difference, [_, _]) => by(&difference),
        (Compare::Ratio, [_, _]) => by(&ratio),
        (Compare::Apart, [_, _]) => {
            let (shown, interval) = by(&ratio).map_or((0.0, None), |ratio| (ratio.shown, ratio.interval));
            Some(Outcome { shown, interval, ..by(&difference)? })
        }
        (Compare::Widths, [one, other]) => {
            let (shown, interval) = spread_ratio(&one.per_replication, &other.per_replication)?;
            Some(Outcome { shown, interval: Some(interval), decides: Some(interval) })
        }
        (Compare::Spread, [_, _, ..]) => by(&|means| {
            let least = means.iter().copied().fold(f64::INFINITY, f64::min);
            Some(means.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least)
        }),
        (Compare::LineFrom(_), [_, ..]) => by(&|means| explained(&numbers, means)),
        _ => None,
    }
}

/// Returns rows' distances from the line's start; 0 without a number.
fn numbers(claim: &Claim, found: &[&Series], from: f64, fill: impl Fn(&str) -> Option<String>) -> Vec<f64> {
    let patterns = claim.of.iter().filter_map(|of| if let Operand::Row(row) = of { fill(row) } else { None });
    let patterns: Vec<String> = patterns.collect();
    let number = |row: &str| {
        let read = |pattern: &String| {
            let (before, behind) = pattern.split_once('*')?;
            row.strip_prefix(before)?.strip_suffix(behind)?.parse::<f64>().ok()
        };
        patterns.iter().find_map(read).map_or(0.0, |number| number - from)
    };
    found.iter().map(|series| number(&series.value.row)).collect()
}

/// Returns the share of `y`'s variance explained by the least-squares line through 0; `None`
/// without two points or variance.
fn explained(x: &[f64], y: &[f64]) -> Option<f64> {
    let sum = |of: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(x, y)| of(*x, *y)).sum::<f64>();
    let slope = sum(&|x, y| x * y) / sum(&|x, _| x * x);
    let mean = sum(&|_, y| y) / y.len() as f64;
    let (variation, rest) = (sum(&|_, y| (y - mean).powi(2)), sum(&|x, y| (y - slope * x).powi(2)));
    (y.len() > 1 && variation > 0.0).then(|| if slope > 0.0 { (1.0 - rest / variation).max(0.0) } else { 0.0 })
}

/// The last name varies fastest.
fn combinations(each: &BTreeMap<String, Vec<String>>) -> Vec<Labels<'_>> {
    let mut combinations: Vec<Labels<'_>> = vec![Vec::new()];
    for (name, labels) in each {
        let mut longer = Vec::new();
        for (combination, label) in combinations.iter().flat_map(|begun| labels.iter().map(move |label| (begun, label)))
        {
            let mut combination = combination.clone();
            combination.push((name, label));
            longer.push(combination);
        }
        combinations = longer;
    }
    combinations
}

#[cfg(test)]
mod tests;
