//! What is said in words, put to the test with the measured values.

use std::collections::BTreeMap;

use crate::results::{Figure, Row, Unit};
use crate::scenario::{Claim, Compare, Operand, Scenario, filled, matches_any};
use crate::stats::{Interval, mean_interval};

/// The item of claims: what was compared, and in the column that ends in `_holds` 1 or 0.
pub(super) const CLAIMS: &str = "claims";

/// A value, and what it was in each replication if it is a mean of such.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) figure: Figure,
    pub(super) of_runs: Vec<f64>,
}

/// The figures of all claims whose values were measured.
pub(super) fn figures(scenario: &Scenario, series: &[Series]) -> Vec<Figure> {
    let known = series.iter().map(|series| ((series.figure.row.as_str(), series.figure.column.as_str()), series));
    let known = Known(known.collect());
    let mut judged: Vec<(Vec<usize>, [Figure; 2])> = Vec::new();
    for claim in &scenario.claims {
        for labels in combinations(&claim.each) {
            let place = |name: &String| {
                let label = labels.get(name.as_str())?;
                let all = scenario.claims.iter().filter_map(|claim| claim.each.get(name)).flatten();
                all.enumerate().find(|(_, known)| known == label).map(|(place, _)| place)
            };
            let order = scenario.claim_order.iter().map(|name| place(name).unwrap_or(usize::MAX)).collect();
            judged.extend(judge(claim, &labels, &known, &scenario.name).map(|judged| (order, judged)));
        }
    }
    judged.sort_by(|(one, _), (other, _)| one.cmp(other));
    judged.into_iter().flat_map(|(_, judged)| judged).collect()
}

struct Known<'a>(BTreeMap<(&'a str, &'a str), &'a Series>);

impl<'a> Known<'a> {
    fn get(&self, row: &str, column: &str) -> Option<&'a Series> {
        self.0.get(&(row, column)).copied()
    }

    /// All that were measured in rows like these.
    fn all(&self, operands: &[Operand], column: &str, fill: impl Fn(&str) -> Option<String>) -> Vec<&'a Series> {
        let rows = operands.iter().filter_map(|operand| if let Operand::Row(row) = operand { fill(row) } else { None });
        let patterns: Vec<String> = rows.collect();
        let is_meant = |(row, of): &(&str, &str)| *of == column && matches_any(&patterns, row);
        self.0.iter().filter(|(name, _)| is_meant(name)).map(|(_, series)| *series).collect()
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

/// `None` where a value that it needs was not measured, or where it is not made.
fn judge(claim: &Claim, labels: &BTreeMap<&str, &str>, known: &Known<'_>, paper: &str) -> Option<[Figure; 2]> {
    let fill = |template: &str| filled(template, |name| labels.get(name).map(|label| (*label).into()));
    if let Some(given) = &claim.given {
        let value = known.get(&fill(&given.of)?, &given.column)?.figure.measured;
        let over = given.over.as_ref().map_or(Some(1.0), |over| fill(over)?.parse::<f64>().ok())?;
        (given.range.0..=given.range.1).contains(&(value / over)).then_some(())?;
    }
    let found = match claim.compare {
        Compare::Spread | Compare::LineFrom(_) => known.all(&claim.of, &claim.column, fill),
        _ => claim.of.iter().map(|of| known.find(of, &claim.column, fill)).collect::<Option<Vec<_>>>()?,
    };
    let figures: Vec<&Figure> = found.iter().map(|series| &series.figure).collect();
    let above = |interval: Option<Interval>, bound: f64| interval.is_some_and(|interval| interval.low > bound);
    let in_range = |measured: f64| (measured, claim.holds(measured));
    let (measured, holds) = match (claim.compare, &figures[..]) {
        (Compare::Value, [one]) => in_range(one.measured),
        (Compare::Difference, [one, other]) => in_range(one.measured - other.measured),
        (Compare::Ratio, [one, other]) if other.measured > 0.0 => in_range(one.measured / other.measured),
        (Compare::Apart, [one, other]) => {
            // Nothing is infinitely more than nothing; what matters is the verdict.
            let ratio = if other.measured == 0.0 { 0.0 } else { one.measured / other.measured };
            (ratio, other.ci95.is_some_and(|other| above(one.ci95, other.high)))
        }
        (Compare::Clear, [one]) => (one.measured, above(one.ci95, 0.0)),
        (Compare::Spread, [_, ..]) => {
            let all = || figures.iter().map(|figure| figure.measured);
            in_range(all().fold(f64::NEG_INFINITY, f64::max) - all().fold(f64::INFINITY, f64::min))
        }
        (Compare::LineFrom(from), [_, ..]) => in_range(share_on_a_line(&points(claim, &figures, from, fill))?),
        (Compare::Widths, [one, other]) => {
            let width = |interval: Interval| interval.high - interval.low;
            let (one, other) = (width(one.ci95?), width(other.ci95?));
            in_range(if other > 0.0 { one / other } else { 0.0 })
        }
        _ => return None,
    };
    let row = fill(&claim.row)?;
    let row = Row { paper, item: CLAIMS, row: &row };
    let runs = figures.iter().map(|figure| figure.runs).min().unwrap_or_default();
    let value = row.mean(&claim.outcome, claim.unit, &[measured], None);
    let verdict = row.mean(format!("{}_holds", claim.outcome), Unit::Verdict, &[f64::from(u8::from(holds))], Some(1.0));
    Some([Figure { runs, ci95: paired(claim.compare, &found), ..value }, Figure { runs, ..verdict }])
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

/// The figures of a claim with the numbers that they belong to, of those behind the point at which a line begins: how far
/// behind.
fn points<'a>(
    claim: &Claim,
    figures: &[&'a Figure],
    from: f64,
    fill: impl Fn(&str) -> Option<String>,
) -> Vec<(f64, &'a Figure)> {
    let patterns = claim.of.iter().filter_map(|of| if let Operand::Row(row) = of { fill(row) } else { None });
    let patterns: Vec<String> = patterns.collect();
    let number = |row: &str| {
        let read = |pattern: &String| {
            let (before, behind) = pattern.split_once('*')?;
            row.strip_prefix(before)?.strip_suffix(behind)?.parse::<f64>().ok()
        };
        patterns.iter().find_map(read)
    };
    let points = figures.iter().filter_map(|figure| Some((number(&figure.row)? - from, *figure)));
    points.filter(|(x, _)| *x > 0.0).collect()
}

/// How many intervals are crossed by the rising line through 0 that is nearest to their means by least squares, as a share;
/// 0 if that line does not rise. `None` without intervals.
fn share_on_a_line(points: &[(f64, &Figure)]) -> Option<f64> {
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(*x, y.measured)).sum::<f64>();
    let intervals: Vec<_> = points.iter().filter_map(|(x, y)| Some((*x, y.ci95?))).collect();
    let slope = sum(|x, y| x * y) / sum(|x, _| x * x);
    let crossed = intervals.iter().filter(|(x, interval)| slope > 0.0 && interval.contains(slope * x)).count();
    (!intervals.is_empty()).then(|| crossed as f64 / intervals.len() as f64)
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
