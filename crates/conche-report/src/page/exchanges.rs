//! Timelines of exchanges: a drawing per cell, selected by the reader.

use conche_results::{CellId, Which};

use crate::chart::{Lane, lanes};
use crate::html::Html;
use crate::plots::scheme_names;
use crate::read::{CellTimeline, Study, label};

/// Maximum cells, to limit the size of the page.
const MOST_CELLS: usize = 24;

/// Writes the timelines of an experiment, if any were kept.
pub(super) fn write(study: &Study, html: &mut Html) {
    let mut cells: Vec<(String, Vec<&CellTimeline>)> = Vec::new();
    for timeline in &study.timelines {
        let name = label(&timeline.cell);
        match cells.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of_cell)) => of_cell.push(timeline),
            None => cells.push((name, vec![timeline])),
        }
    }
    if cells.is_empty() {
        return;
    }
    // The journal is in the order in which runs end.
    cells.sort_by_key(|(_, of_cell)| order(of_cell));
    let more = cells.len().saturating_sub(MOST_CELLS);
    cells.truncate(MOST_CELLS);
    html.raw("<h3>One exchange in time</h3>\n<p class=sub>A mark is a copy of the request, the bar behind it the timeout that ");
    html.raw("ran from there on; an arrow is the answer, a cross is giving up.");
    if more > 0 {
        html.write(format_args!(" {more} further cells are not drawn."));
    }
    html.raw("</p>\n<div class=exchanges><form class=pick><label>run <select>");
    for (place, (name, _)) in cells.iter().enumerate() {
        html.write(format_args!("<option value={place}>")).text(if name.is_empty() { "all" } else { name });
    }
    html.raw("</select></label><label>of each scheme <select>");
    for (place, which) in Which::ALL.iter().enumerate() {
        html.write(format_args!("<option value={place}>")).text(which.words());
    }
    html.raw("</select></label></form>\n");
    let schemes = scheme_names(study);
    for (cell, (name, of_cell)) in cells.iter().enumerate() {
        for (place, which) in Which::ALL.iter().enumerate() {
            let hidden = if cell + place == 0 { "" } else { " hidden" };
            html.write(format_args!("<figure class=chart data-at=\"{cell}/{place}\"{hidden}><figcaption>"));
            let what = match which {
                Which::MostCopies => "the exchange with most retransmissions".to_owned(),
                of => format!("{} exchange", of.words()),
            };
            html.text(&if name.is_empty() { what } else { format!("{name}: {what}") });
            html.raw("</figcaption>");
            let known = |scheme: &str| schemes.iter().position(|known| *known == scheme).unwrap_or_default();
            let of_which = of_cell.iter().map(|timeline| &timeline.of).filter(|of| of.which == *which);
            let mut all: Vec<Lane<'_>> =
                of_which.map(|of| Lane { name: &of.scheme, colour: known(&of.scheme), of }).collect();
            all.sort_by_key(|lane| lane.colour);
            html.raw("<div class=scroll>");
            lanes(name, &all, html);
            html.raw("</div></figure>\n");
        }
    }
    html.raw("</div>\n");
}

/// Orders cells by part and labels; numeric labels by number.
fn order(of_cell: &[&CellTimeline]) -> impl Ord + use<> {
    let point = |point: &String| (point.parse().unwrap_or(u64::MAX), point.clone());
    of_cell.first().map(|CellTimeline { cell: CellId { part, axes, mix, .. }, .. }| {
        (part.clone(), axes.values().map(point).collect::<Vec<_>>(), mix.clone())
    })
}
