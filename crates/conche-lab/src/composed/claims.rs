//! What is said in words, put to the test with the measured values.

use std::collections::BTreeMap;

use crate::papers::{Claim as Judged, Values};
use crate::results::Figure;
use crate::scenario::{Claim, Compare, Scenario, filled};

/// The figures of all claims whose values were measured.
pub(super) fn figures(scenario: &Scenario, figures: &[Figure]) -> Vec<Figure> {
    let values = Values::new(figures);
    let judged = scenario.claims.iter().flat_map(|claim| judge(claim, &values));
    judged.flat_map(|judged| judged.figures(&scenario.name)).collect()
}

fn judge(claim: &Claim, values: &Values<'_>) -> Vec<Judged> {
    let one = |labels: BTreeMap<&str, &str>| {
        let fill = |template: &str| filled(template, |name| labels.get(name).map(|label| (*label).into()));
        let found: Option<Vec<&Figure>> = claim.of.iter().map(|of| values.get(&fill(of)?, &claim.column)).collect();
        let found = found?;
        let measured = match (claim.compare, &found[..]) {
            (Compare::Value, [one]) => one.measured,
            (Compare::Difference, [one, other]) => one.measured - other.measured,
            (Compare::Ratio, [one, other]) if other.measured > 0.0 => one.measured / other.measured,
            _ => return None,
        };
        let outcome = (measured, found[0].runs);
        let range = claim.range.0..=claim.range.1;
        Some(Judged::in_range(fill(&claim.row)?, &claim.outcome, claim.unit, outcome, &range))
    };
    combinations(&claim.each).into_iter().filter_map(one).collect()
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
