//! What is said in words, put to the test with the measured values.

use std::collections::BTreeMap;

use crate::papers::{Claim as Judged, Values};
use crate::results::Figure;
use crate::scenario::{Claim, Compare, Scenario, filled};
use crate::stats::Interval;

/// The figures of all claims whose values were measured.
pub(super) fn figures(scenario: &Scenario, figures: &[Figure]) -> Vec<Figure> {
    let values = Values::new(figures);
    let mut judged: Vec<(Vec<usize>, Judged)> = Vec::new();
    for claim in &scenario.claims {
        for labels in combinations(&claim.each) {
            let place = |name: &String| {
                let label = labels.get(name.as_str()).copied();
                claim.each.get(name).and_then(|all| all.iter().position(|known| Some(known.as_str()) == label))
            };
            let order = scenario.claim_order.iter().map(|name| place(name).unwrap_or(usize::MAX)).collect();
            judged.extend(judge(claim, &labels, &values).map(|judged| (order, judged)));
        }
    }
    judged.sort_by(|(one, _), (other, _)| one.cmp(other));
    judged.into_iter().flat_map(|(_, judged)| judged.figures(&scenario.name)).collect()
}

/// `None` where a value that it needs was not measured, or where it is not made.
fn judge(claim: &Claim, labels: &BTreeMap<&str, &str>, values: &Values<'_>) -> Option<Judged> {
    let fill = |template: &str| filled(template, |name| labels.get(name).map(|label| (*label).into()));
    if let Some(given) = &claim.given {
        let value = values.get(&fill(&given.of)?, &given.column)?.measured;
        let over = given.over.as_ref().map_or(Some(1.0), |over| fill(over)?.parse::<f64>().ok())?;
        (given.range.0..=given.range.1).contains(&(value / over)).then_some(())?;
    }
    let found: Option<Vec<&Figure>> = claim.of.iter().map(|of| values.get(&fill(of)?, &claim.column)).collect();
    let found = found?;
    let row = fill(&claim.row)?;
    let measured = match (claim.compare, &found[..]) {
        (Compare::Value, [one]) => one.measured,
        (Compare::Difference, [one, other]) => one.measured - other.measured,
        (Compare::Ratio, [one, other]) if other.measured > 0.0 => one.measured / other.measured,
        (Compare::Apart, [one, other]) => {
            let apart = Judged::clearly_above(row, one, other);
            return Some(Judged { column: claim.outcome.clone(), unit: claim.unit, ..apart });
        }
        (Compare::Widths, [one, other]) => {
            let width = |interval: Interval| interval.high - interval.low;
            let (one, other) = (width(one.ci95?), width(other.ci95?));
            if other > 0.0 { one / other } else { 0.0 }
        }
        _ => return None,
    };
    let (low, high) = claim.range?;
    Some(Judged::in_range(row, &claim.outcome, claim.unit, (measured, found[0].runs), &(low..=high)))
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
