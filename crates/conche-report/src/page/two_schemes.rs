//! The values for comparing two schemes, as JSON for the page's script. Replications share random
//! numbers, so ratios are more precise than values.

use std::fmt::Write;

use super::Section;
use super::telling::Telling;
use crate::html::{Html, json_text};
use crate::unit::symbol;
use crate::values::{Contrast, SchemeValue, distinct, scheme_values};

/// Keeps the page fast.
const MOST_RUNS: usize = 30;

pub(super) fn write(sections: &[Section<'_>], html: &mut Html) {
    html.raw(
        "<section id=compare><h2>Two schemes compared</h2>\n<p class=sub>By how many times the values of the one ",
    );
    html.raw("exceed those of the other, cell by cell, with the 95 % interval of that ratio; the largest difference first.</p>\n");
    html.raw(
        "<noscript><p class=warning>The comparison needs scripts; all values are in the tables above.</p></noscript>",
    );
    html.raw("<form id=choose><label>experiment <select name=study></select></label><label>value <select name=metric>");
    html.raw(
        "</select></label><label>scheme <select name=one></select></label><label>compared with <select name=other>",
    );
    html.raw("</select></label></form>\n<div id=ratios></div>\n<script type=\"application/json\" id=values>[");
    let mut is_first = true;
    for section in sections {
        let cells = scheme_values(section.study);
        if distinct(cells.iter().map(|cell| cell.scheme)).len() < 2 {
            continue;
        }
        html.raw(if is_first { "" } else { "," });
        is_first = false;
        of_study(section, &cells, html);
    }
    html.raw("]</script>\n</section>\n");
}

/// Writes names, and lists of `[cell, value, low, high, runs…]` per metric and scheme.
fn of_study(section: &Section<'_>, cells: &[SchemeValue<'_>], html: &mut Html) {
    let schemes = distinct(cells.iter().map(|cell| cell.scheme));
    let names = distinct(cells.iter().map(|cell| cell.cell.as_str()));
    let metrics = distinct(cells.iter().map(|cell| cell.value.column.as_str()));
    let units = metrics.iter().map(|metric| {
        let unit = cells.iter().find(|cell| cell.value.column == *metric).map(|cell| symbol(cell.value.unit));
        unit.unwrap_or_default()
    });
    html.raw("{\"name\":").raw(&json_text(&section.name));
    let units: Vec<&str> = units.collect();
    for (key, list) in [("schemes", &schemes), ("cells", &names), ("metrics", &metrics), ("units", &units)] {
        let list: Vec<String> = list.iter().map(|text| json_text(text)).collect();
        html.raw(",\"").raw(key).raw("\":[").raw(&list.join(",")).raw("]");
    }
    let telling = Telling::of(section.study, cells);
    let place = |names: &[&str], name: &str| names.iter().position(|known| *known == name).unwrap_or_default();
    let chosen = match telling.first() {
        Some(Contrast { high, low, .. }) => {
            [place(&metrics, &high.value.column), place(&schemes, high.scheme), place(&schemes, low.scheme)]
        }
        None => [0, 1, 0],
    };
    html.write(format_args!(",\"chosen\":{chosen:?},\"values\":["));
    for (number, SchemeValue { scheme, cell, value, .. }) in cells.iter().enumerate() {
        let at = [place(&metrics, &value.column), place(&schemes, scheme), place(&names, cell)];
        html.raw(if number > 0 { ",[" } else { "[" });
        html.write(format_args!("{},{},{},{}", at[0], at[1], at[2], short(value.measured)));
        match value.ci95 {
            Some(interval) => html.write(format_args!(",{},{}", short(interval.low), short(interval.high))),
            None => html.raw(",null,null"),
        };
        let runs = section.study.runs.of(value);
        if (2..=MOST_RUNS).contains(&runs.len()) && runs.len() == value.runs as usize {
            let mut list = String::new();
            for (_, value) in runs {
                // Writing to a String cannot fail.
                let _ = write!(list, ",{}", short(*value));
            }
            html.raw(&list);
        }
        html.raw("]");
    }
    html.raw("]}");
}

/// Formats a number with five digits for JSON.
pub(super) fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    format!("{rounded}")
}
