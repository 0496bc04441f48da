//! The overview: origin, reproduction of papers, schemes side by side.

use std::collections::HashMap;

use conche_lab::papers::Summary;
use conche_lab::value::MeasuredValue;
use conche_results::{Manifest, Score, State};

use super::{Section, title};
use crate::chart::{Scale, key};
use crate::html::{Html, Px};
use crate::read::Results;
use crate::study::Study;
use crate::titles;
use crate::values::{SchemeValue, columns, scheme_names, scheme_values};

const MOST_METRICS: usize = 6;

pub(super) fn write(results: &[Results], sections: &[Section<'_>], html: &mut Html) {
    html.raw("<section id=overview><h1>Results</h1>\n");
    for of in results {
        origin(&of.manifest, &of.directory.display().to_string(), results.len() > 1, html);
        state(of, html);
    }
    html.raw("<div class=scroll><table class=overview><thead><tr><th class=l>experiment<th class=l>extent<th>values");
    html.raw("<th class=l>values within the bar<th class=l>claims</thead><tbody>\n");
    for section in sections {
        line(section, html);
    }
    html.raw("</tbody></table></div>\n");
    let mut side = Html::default();
    for section in sections {
        side_by_side(section, &mut side);
    }
    let side = side.finish();
    if !side.is_empty() {
        html.raw("<h2>Schemes side by side</h2>\n<div class=sides>\n").raw(&side).raw("</div>\n");
    }
    html.raw("</section>\n");
}

fn origin(manifest: &Manifest, directory: &str, is_named: bool, html: &mut Html) {
    html.raw("<dl class=origin>");
    if !manifest.command.is_empty() {
        html.raw("<div><dt>command</dt><dd>");
        super::command(manifest, None, html);
        html.raw("</dd></div>");
    }
    let mut entry = |name: &str, value: &str| {
        html.raw("<div><dt>").text(name).raw("</dt><dd>").text(value).raw("</dd></div>");
    };
    if is_named {
        entry("directory", directory);
    }
    let time = |time: &Option<String>| time.as_deref().map(|time| time.replace('T', " ").replace('Z', " UTC"));
    entry("began", &time(&manifest.started).unwrap_or_else(|| "unknown".to_owned()));
    entry("ended", &time(&manifest.finished).unwrap_or_else(|| "not yet, or interrupted".to_owned()));
    let version = Some(&manifest.program.version).filter(|version| !version.is_empty());
    entry("program", &version.map_or("unknown version".to_owned(), |version| format!("conche {version}")));
    let commit = manifest.program.commit.as_deref().map_or("unknown", |commit| commit.get(..12).unwrap_or(commit));
    entry(
        "commit",
        &match manifest.program.dirty {
            Some(true) => format!("{commit}, and changes that no commit has"),
            _ => commit.to_owned(),
        },
    );
    if let Some(threads) = manifest.threads {
        entry("threads", &threads.to_string());
    }
    // The file may contain any numbers.
    let runs = manifest.scenarios.iter().try_fold(0_u64, |sum, of| Some(sum.saturating_add(of.runs?)));
    let seconds: Option<f64> = manifest.scenarios.iter().map(|of| of.cpu_s).sum();
    if let Some((runs, seconds)) = runs.zip(seconds) {
        let each = if runs == 0 { 0.0 } else { seconds / runs as f64 };
        entry("runs", &format!("{runs} run{}, {each:.2} s of CPU each", if runs == 1 { "" } else { "s" }));
    }
    html.raw("</dl>\n");
}

/// Writes which runs are missing, and the command that runs them.
fn state(results: &Results, html: &mut Html) {
    let manifest = &results.manifest;
    let resume = |html: &mut Html| {
        html.raw(" It runs only what is missing: ");
        super::command(manifest, None, html);
        html.raw("</p>\n");
    };
    match manifest.state {
        State::Complete => {}
        State::Partial => {
            let shard = manifest.shard.as_deref().unwrap_or_default();
            html.raw("<p class=warning>These are the runs of a part, ").text(shard);
            html.raw("; <code>conche merge</code> makes results of all parts.</p>\n");
        }
        State::Running => {
            html.raw("<p class=warning>The runs are not over, or were interrupted. ");
            for study in &results.studies {
                html.text(&missing(study)).raw(" ");
            }
            html.raw("A scenario has values when all its runs are over.");
            html.raw(" Unless the runs go on, the same command completes them.");
            resume(html);
        }
        State::Failed => {
            let failed = manifest.failures.len();
            let runs: Option<u64> = manifest.scenarios.iter().map(|of| of.runs).sum();
            let of = runs.map(|runs| format!(" of {runs}")).unwrap_or_default();
            let (are, have) = if failed == 1 { ("run", "has") } else { ("runs", "have") };
            html.raw("<p class=warning>").text(&format!("{failed}{of} {are} failed and {have} no values."));
            html.raw(" When the cause is removed, the same command completes the results.");
            resume(html);
        }
    }
    if !manifest.failures.is_empty() {
        html.raw("<ul class=warning>");
        for failure in &manifest.failures {
            let place = format!("{} {}, replication {}", failure.scenario, failure.cell, failure.replication);
            html.raw("<li>").text(&format!("{place}: {}", failure.problem));
        }
        html.raw("</ul>\n");
    }
}

fn missing(study: &Study) -> String {
    let (name, kept) = (&study.about.name, study.kept.len() as u64);
    match study.about.planned.map(|planned| (planned, planned.saturating_sub(kept))) {
        Some((_, 0)) => format!("{name} has all runs."),
        Some((1, _)) => format!("{name}: the only run is missing."),
        Some((planned, missing)) => format!("{name}: {missing} of {planned} runs are missing."),
        None if kept == 1 => format!("{name} has 1 run."),
        None => format!("{name} has {kept} runs."),
    }
}

fn line(section: &Section<'_>, html: &mut Html) {
    let study = section.study;
    let summary = study.experiment.as_ref().map(|experiment| Summary::new(experiment, &study.values));
    html.raw("<tr><td class=l><a href=\"#").raw(&section.id).raw("\">").text(title(study)).raw("</a><td class=l>");
    html.text(if study.about.extent.is_empty() { "unknown" } else { &study.about.extent });
    html.write(format_args!("<td>{}", study.values.len()));
    let score = summary.map(|of| of.score()).unwrap_or_default();
    html.raw("<td class=l>");
    match score.promised {
        0 => html.raw("<span class=dim>–</span>"),
        of => meter(&[("", score.within)], of, html).text(&format!("{} of {of}", score.within)),
    };
    html.raw("<td class=l>");
    let Score { hold, refuted, inconclusive, .. } = score;
    match hold + refuted + inconclusive {
        0 => html.raw("<span class=dim>–</span>"),
        of => meter(&[("yes", hold), ("open", inconclusive), ("no", refuted)], of, html)
            .text(&format!("{hold} hold, {refuted} refuted, {inconclusive} inconclusive")),
    };
    html.raw("\n");
}

fn meter<'a>(parts: &[(&str, usize)], of: usize, html: &'a mut Html) -> &'a mut Html {
    html.raw("<span class=meter>");
    for (class, part) in parts {
        let share = Px(100.0 * *part as f64 / of as f64);
        html.write(format_args!("<i class=\"{class}\" style=\"width:{share}%\"></i>"));
    }
    html.raw("</span>")
}

/// Writes, per scheme, the geometric mean over all cells of its values' ratio to the first one's.
fn side_by_side(section: &Section<'_>, html: &mut Html) {
    let study = section.study;
    let cells = scheme_values(study);
    let names = scheme_names(study);
    let known: Vec<(usize, &str)> = names
        .iter()
        .map(String::as_str)
        .enumerate()
        .filter(|(_, scheme)| cells.iter().any(|cell| cell.scheme == *scheme))
        .collect();
    let schemes: Vec<&str> = known.iter().map(|(_, scheme)| *scheme).collect();
    let mut metrics = columns(study, &cells);
    let by_place: HashMap<_, &MeasuredValue> = cells
        .iter()
        .map(|SchemeValue { scheme, cell, value, .. }| ((*scheme, cell.as_str(), value.column.as_str()), *value))
        .collect();
    let factor = |scheme: &str, metric: &str| mean_factor(&cells, &by_place, schemes.first()?, scheme, metric);
    metrics.retain(|metric| schemes.iter().skip(1).any(|scheme| factor(scheme, metric).is_some()));
    metrics.truncate(MOST_METRICS);
    let (Some(first), false) = (schemes.first(), metrics.is_empty()) else { return };
    html.raw("<div class=side><h3>").text(title(study)).raw("</h3><p class=sub>");
    html.text(&format!("Factor over {first}: the geometric mean over all cells that have both."));
    html.raw("</p><div class=scroll><table class=factors><thead><tr><th class=l>scheme");
    for metric in &metrics {
        html.raw("<th class=l>").text(&titles::of_column(study, metric));
    }
    html.raw("</thead><tbody>\n");
    for (number, scheme) in known {
        html.raw("<tr><td class=l>").raw(&key(number, false)).text(scheme);
        for metric in &metrics {
            html.raw("<td class=l>");
            match factor(scheme, metric) {
                Some(factor) => around_one(factor, html),
                None => {
                    html.raw("<span class=dim>–</span>");
                }
            }
        }
        html.raw("\n");
    }
    html.raw("</tbody></table></div></div>\n");
}

type Places<'a> = HashMap<(&'a str, &'a str, &'a str), &'a MeasuredValue>;

fn mean_factor(cells: &[SchemeValue<'_>], known: &Places<'_>, first: &str, scheme: &str, metric: &str) -> Option<f64> {
    let of_metric = cells.iter().filter(|cell| cell.scheme == scheme && cell.value.column == metric);
    let factors = of_metric.filter_map(|cell| {
        let other = known.get(&(first, cell.cell.as_str(), metric))?.measured;
        let factor = cell.value.measured / other;
        (factor.is_finite() && factor > 0.0).then(|| factor.ln())
    });
    let factors: Vec<f64> = factors.collect();
    (!factors.is_empty()).then(|| (factors.iter().sum::<f64>() / factors.len() as f64).exp())
}

/// Draws a bar beside 1, on a logarithmic axis.
fn around_one(factor: f64, html: &mut Html) {
    let scale = Scale::over([0.2, 5.0].into_iter(), true, false, 2).between(0.0, 60.0);
    let (one, end) = (scale.at(1.0), scale.at(factor));
    html.write(format_args!(
        "<svg class=factor viewBox=\"0 0 60 12\"><path class=track d=\"M0 6H60\"/><rect x=\"{}\" y=\"3\" width=\"{}\" height=\"6\"/><path class=base d=\"M{} 0V12\"/></svg>×{}",
        Px(one.min(end)),
        Px((end - one).abs().max(0.6)),
        Px(one),
        if factor < 10.0 { format!("{factor:.2}") } else { format!("{factor:.0}") }
    ));
}
