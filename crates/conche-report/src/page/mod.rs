//! The page.

mod claims;
mod distributions;
mod exchanges;
mod heats;
mod overview;
mod pareto;
mod picked;
mod ranking;
mod series;
mod tables;
mod telling;
mod two_schemes;

use self::telling::Telling;
use conche_results::Manifest;

use crate::html::Html;
use crate::plots;
use crate::read::Results;
use crate::study::Study;
use crate::values::scheme_values;

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");
/// Without scripts nothing can be selected, so all plots are shown.
const WITHOUT_SCRIPT: &str =
    "<noscript><style>.picked .chart { display: block; } .pick { display: none; }</style></noscript>\n";

struct Section<'a> {
    study: &'a Study,
    manifest: &'a Manifest,
    id: String,
    /// Unique among several directories.
    name: String,
}

/// Renders results as one HTML file.
#[must_use]
pub fn page(results: &[Results]) -> String {
    let sections = sections(results);
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n");
    html.raw("<meta name=viewport content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=color-scheme content=\"light dark\">\n<title>");
    let names: Vec<&str> = sections.iter().map(|section| section.name.as_str()).collect();
    html.text(&names.join(", ")).raw(" – conche report</title>\n<style>").raw(STYLE).raw("</style>\n");
    html.raw(WITHOUT_SCRIPT).raw("</head>\n<body>\n");
    html.raw("<header class=top><a class=brand href=\"#overview\">conche <span>report</span></a><nav>");
    html.raw(if ranking::is_there(results) { "<a href=\"#comparison\">comparison</a>" } else { "" });
    for section in &sections {
        html.raw("<a href=\"#").raw(&section.id).raw("\">").text(&section.name).raw("</a>");
    }
    html.raw("<a href=\"#compare\">compare</a></nav>");
    html.raw("<button id=theme type=button title=\"light or dark\" aria-label=\"light or dark\">◐</button></header>\n<main>\n");
    overview::write(results, &sections, &mut html);
    ranking::write(results, &mut html);
    for section in &sections {
        experiment(section, &mut html);
    }
    two_schemes::write(&sections, &mut html);
    html.raw("</main>\n<div id=tip role=tooltip hidden></div>\n<script>")
        .raw(SCRIPT)
        .raw("</script>\n</body>\n</html>\n");
    html.finish()
}

fn sections(results: &[Results]) -> Vec<Section<'_>> {
    let all = || results.iter().flat_map(|of| of.studies.iter().map(move |study| (of, study)));
    let section = |(number, (of, study)): (usize, (&Results, &'_ Study))| {
        let is_twice = all().filter(|(_, other)| other.about.name == study.about.name).count() > 1;
        let name = match is_twice {
            true => format!("{} ({})", study.about.name, of.directory.display()),
            false => study.about.name.clone(),
        };
        (number, name)
    };
    let named = all().enumerate().map(section);
    named
        .zip(all())
        .map(|((number, name), (of, study))| Section { study, manifest: &of.manifest, id: format!("e{number}"), name })
        .collect()
}

fn experiment(section: &Section<'_>, html: &mut Html) {
    let Section { study, id, name, .. } = section;
    html.raw("<section id=").raw(id).raw("><h2>").text(title(study)).raw("</h2><p class=sub>").text(name);
    for detail in details(study) {
        html.raw(" · ").text(&detail);
    }
    html.raw("</p>\n");
    let cells = scheme_values(study);
    let telling = Telling::of(study, &cells);
    telling.write(study, html);
    let charts = plots::charts(study);
    if !charts.is_empty() {
        html.raw("<h3>Figures</h3>\n<div class=charts>\n");
        charts.iter().for_each(|chart| chart.html(html));
        html.raw("</div>\n");
    }
    heats::write(study, &cells, &telling, html);
    distributions::write(study, &cells, &telling, html);
    series::write(section, &telling, html);
    exchanges::write(study, &telling, html);
    claims::write(study, html);
    tables::write(study, html);
    html.raw("</section>\n");
}

/// Writes the command of the results, perhaps with a further option, as a shell reads it.
fn command(manifest: &Manifest, option: Option<&str>, html: &mut Html) {
    let words: &[String] = &manifest.command;
    let generic = ["conche", "run", "SCENARIO.toml", "-o", "DIR"].map(str::to_owned);
    let words = if words.is_empty() { &generic } else { words };
    html.raw("<code>");
    for (place, word) in words.iter().map(String::as_str).chain(option).enumerate() {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/@%".contains(c);
        html.raw(if place > 0 { " <span>" } else { "<span>" });
        if !word.is_empty() && word.chars().all(is_plain) {
            html.text(word);
        } else {
            html.text(&format!("'{}'", word.replace('\'', "'\\''")));
        }
        html.raw("</span>");
    }
    html.raw("</code>");
}

fn title(study: &Study) -> &str {
    if study.about.title.is_empty() { &study.about.name } else { &study.about.title }
}

fn details(study: &Study) -> Vec<String> {
    let extent = Some(study.about.extent.clone()).filter(|extent| !extent.is_empty());
    let runs = study.about.runs.map(|runs| format!("{runs} runs"));
    let seed = study.about.seed.map(|seed| format!("seed {seed}"));
    extent.into_iter().chain(runs).chain(seed).collect()
}
