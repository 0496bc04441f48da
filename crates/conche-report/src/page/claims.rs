//! Claims, and the values of single runs.

use std::collections::HashMap;

use conche_lab::experiment::{Compared, compared};
use conche_lab::results::Verdict;
use conche_lab::scenario::Unit;
use conche_lab::scenario::{Claim, Compare};
use conche_lab::table::number;
use conche_lab::value::MeasuredValue;

use crate::chart::Scale;
use crate::html::{Html, Px};
use crate::study::Study;
use crate::unit::symbol;

const WIDTH: f64 = 170.0;
const HEIGHT: f64 = 22.0;

pub(super) fn write(study: &Study, html: &mut Html) {
    let of_claims = || study.values.iter().filter(|value| value.item == "claims");
    let verdicts: Vec<&MeasuredValue> = of_claims().filter(|value| value.unit == Unit::Verdict).collect();
    if verdicts.is_empty() {
        return;
    }
    let document = study.experiment.as_ref().map(conche_lab::experiment::Experiment::document);
    let compared = document.map(|document| compared(document.scenario(), &study.values)).unwrap_or_default();
    let key = |of: &Compared<'_>| (of.row.clone(), of.claim.outcome.clone());
    let compared: HashMap<_, Compared<'_>> = compared.into_iter().map(|of| (key(&of), of)).collect();
    let values: HashMap<_, &MeasuredValue> =
        study.values.iter().map(|value| ((value.row.as_str(), value.column.as_str()), value)).collect();
    let number = |of: Verdict| verdicts.iter().filter(|verdict| Verdict::of(verdict.measured) == of).count();
    let [holding, refuted, open] = [Verdict::Holds, Verdict::Refuted, Verdict::Inconclusive].map(number);
    let summary = format!("{holding} of {} hold, {refuted} do not, {open} are inconclusive", verdicts.len());
    html.raw("<h3>Claims</h3>\n<p class=sub>").text(&summary);
    html.raw(
        "</p>\n<div class=scroll><table class=claims><thead><tr><th class=l>claim<th class=l>compared<th>measured",
    );
    html.raw("<th class=l>runs<th class=l>verdict</thead><tbody>\n");
    for verdict in &verdicts {
        let column = verdict.column.trim_end_matches("_holds");
        let value = values.get(&(verdict.row.as_str(), column)).copied();
        let made_of = compared.get(&(verdict.row.clone(), column.to_owned()));
        line(study, &values, &ClaimRow { verdict, value, compared: made_of }, html);
    }
    html.raw("</tbody></table></div>\n");
}

struct ClaimRow<'a> {
    verdict: &'a MeasuredValue,
    value: Option<&'a MeasuredValue>,
    compared: Option<&'a Compared<'a>>,
}

fn line(
    study: &Study,
    values: &HashMap<(&str, &str), &MeasuredValue>,
    &ClaimRow { verdict, value, compared }: &ClaimRow<'_>,
    html: &mut Html,
) {
    let is = Verdict::of(verdict.measured);
    let column = verdict.column.trim_end_matches("_holds");
    html.raw("<tr><td class=l>").text(&words(&verdict.row)).raw("<td class=l>").text(&words(column)).raw("<td>");
    if let Some(value) = value {
        html.text(&format!("{} {}", number(value.measured, value.unit), symbol(value.unit)));
        if let Some(interval) = value.ci95 {
            let (low, high) = (number(interval.low, value.unit), number(interval.high, value.unit));
            html.raw("<br><i>").text(&format!("{low} … {high}")).raw("</i>");
        }
    }
    html.raw("<td class=l>");
    if let Some((value, of)) = value.zip(compared) {
        strip(value, of.claim, &by_run(study, values, of), html);
    }
    let (class, mark) = match is {
        Verdict::Holds => ("yes", "✓"),
        Verdict::Inconclusive => ("open", "?"),
        Verdict::Refuted => ("no", "✗"),
    };
    html.write(format_args!("<td class=l><b class={class}>{mark} {}</b>", is.words()));
    let experiment = study.experiment.as_ref();
    if let Some(reason) = experiment.filter(|_| is != Verdict::Holds).and_then(|of| of.reason(verdict)) {
        html.raw("<p class=note>").text(reason).raw("</p>");
    }
    html.raw("\n");
}

fn words(name: &str) -> String {
    name.replace('_', " ").replace('/', " · ")
}

/// Computes the comparison in each run with all values.
fn by_run(study: &Study, values: &HashMap<(&str, &str), &MeasuredValue>, of: &Compared<'_>) -> Vec<f64> {
    let runs = |row: &String| values.get(&(row.as_str(), of.claim.column.as_str())).map(|value| study.runs.of(value));
    let sides: Vec<_> = of.of.iter().filter_map(runs).collect();
    match (of.claim.compare, &sides[..]) {
        (Compare::Value, [one]) => one.iter().map(|(_, value)| *value).collect(),
        (Compare::Difference, [one, other]) => paired(one, other, |one, other| one - other),
        (Compare::Ratio | Compare::Apart, [one, other]) => paired(one, other, |one, other| one / other),
        _ => Vec::new(),
    }
}

fn paired(one: &[(u32, f64)], other: &[(u32, f64)], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let beside = |run: u32| other.iter().find(|(known, _)| *known == run).map(|(_, value)| *value);
    let both = one.iter().filter_map(|(run, value)| Some(of(*value, beside(*run)?)));
    both.filter(|value| value.is_finite()).collect()
}

fn strip(value: &MeasuredValue, claim: &Claim, runs: &[f64], html: &mut Html) {
    let (low, high) = match claim.range {
        Some((low, high)) => (Some(low), Some(high)),
        None => (claim.above, claim.below),
    };
    let low = if claim.compare == Compare::Apart { Some(1.0) } else { low };
    let bounds = || [low, high].into_iter().flatten().filter(|bound| bound.is_finite());
    let interval = value.ci95.map(|interval| [interval.low, interval.high]).into_iter().flatten();
    let seen = runs.iter().copied().chain(bounds()).chain([value.measured]).chain(interval);
    let scale = Scale::over(seen, false, false, 4).between(4.0, WIDTH - 4.0);
    let middle = Px(HEIGHT / 2.0);
    html.write(format_args!("<svg class=strip viewBox=\"0 0 {} {}\" role=img aria-label=\"", Px(WIDTH), Px(HEIGHT)));
    html.text(&format!("{} runs", runs.len())).raw("\">");
    let from = low.filter(|low| low.is_finite()).map_or(0.0, |low| scale.at(low));
    let to = high.filter(|high| high.is_finite()).map_or(WIDTH, |high| scale.at(high));
    html.write(format_args!(
        "<rect class=holds x=\"{}\" y=\"2\" width=\"{}\" height=\"{}\"/><path class=base d=\"M0 {middle}H{}\"/>",
        Px(from),
        Px((to - from).max(2.0)),
        Px(HEIGHT - 4.0),
        Px(WIDTH)
    ));
    for bound in bounds() {
        html.write(format_args!("<path class=bound d=\"M{} 1V{}\"/>", Px(scale.at(bound)), Px(HEIGHT - 1.0)));
    }
    for run in runs {
        html.write(format_args!("<circle class=run cx=\"{}\" cy=\"{middle}\" r=\"3\"/>", Px(scale.at(*run))));
    }
    if let Some(interval) = value.ci95 {
        let (low, high) = (Px(scale.at(interval.low)), Px(scale.at(interval.high)));
        html.write(format_args!("<path class=wk d=\"M{low} {middle}H{high}\"/>"));
    }
    html.write(format_args!(
        "<path class=meant d=\"M{} 4V{}\"/></svg>",
        Px(scale.at(value.measured)),
        Px(HEIGHT - 4.0)
    ));
}
