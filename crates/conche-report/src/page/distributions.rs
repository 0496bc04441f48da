//! Distributions of the first main sample, per cell.

use super::picked::Picked;
use super::telling::Telling;
use crate::chart::{Curve, Distribution};
use crate::html::Html;
use crate::study::Study;
use crate::titles;
use crate::values::{SchemeValue, scheme_names};

/// Limits the size of the page.
const MOST_CELLS: usize = 24;

pub(super) fn write(study: &Study, cells: &[SchemeValue<'_>], telling: &Telling<'_>, html: &mut Html) {
    let Some(column) = &study.samples.column else { return };
    let Some(definition) = titles::definition(study, "", column) else { return };
    let of = titles::of_sample(definition);
    let schemes = scheme_names(study);
    let mut found: Vec<(&SchemeValue<'_>, Distribution)> = Vec::new();
    for value in cells.iter().filter(|value| value.value.column == *column && value.is_alone()) {
        let (count, weighted) = study.samples.of(value.value);
        if weighted.is_empty() {
            continue;
        }
        let place = found.iter().position(|(of, _)| of.cell == value.cell).unwrap_or_else(|| {
            let title = if value.labels.is_empty() { of.clone() } else { format!("{of}: {}", value.place()) };
            let unit = value.value.unit;
            found.push((value, Distribution { title, of: of.clone(), unit, curves: Vec::new() }));
            found.len() - 1
        });
        let colour = schemes.iter().position(|known| known == value.scheme).unwrap_or_default();
        let curves = &mut found[place].1.curves;
        // Several items share a column's sample.
        if curves.iter().all(|curve| curve.scheme != value.scheme) {
            curves.push(Curve::new(value.scheme, colour, count, weighted));
            curves.sort_by_key(|curve| curve.colour);
        }
    }
    if found.is_empty() {
        return;
    }
    let picked = Picked::new(found, MOST_CELLS, |(of, _)| telling.rank(&of.cell));
    html.raw(
        "<h3>Distribution</h3>\n<p class=sub>Share of the values of all runs that are at most the value on the axis.",
    );
    picked.omitted(html);
    html.raw("</p>\n<div class=\"picked distributions\">");
    if picked.cells.len() > 1 {
        html.raw("<form class=pick>");
        picked.options(|(of, _)| of.place(), html);
        html.raw("</form>");
    }
    html.raw("\n");
    for (place, (_, distribution)) in picked.cells.iter().enumerate() {
        let hidden = if place == picked.first { "" } else { " hidden" };
        html.write(format_args!("<figure class=chart data-at=\"{place}\"{hidden}>"));
        distribution.html(html);
        html.raw("</figure>\n");
    }
    html.raw("</div>\n");
}
