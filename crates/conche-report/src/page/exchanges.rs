//! Timelines of exchanges, per cell.

use conche_results::{CellId, Which};

use super::telling::Telling;
use crate::chart::{Csv, Lane, lanes};
use crate::html::Html;
use crate::study::{CellTimeline, Study, label};
use crate::values::scheme_names;

/// Limits the size of the page.
const MOST_CELLS: usize = 24;

pub(super) fn write(study: &Study, telling: &Telling<'_>, html: &mut Html) {
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
    cells.sort_by_cached_key(|(_, of_cell)| of_cell.first().map(|timeline| order(&timeline.cell)));
    let more = cells.len().saturating_sub(MOST_CELLS);
    if more > 0 {
        let mut ranks: Vec<usize> = cells.iter().map(|(name, _)| telling.rank_of_timelines(name)).collect();
        ranks.sort_unstable();
        let last = ranks[MOST_CELLS - 1];
        cells.retain(|(name, _)| telling.rank_of_timelines(name) <= last);
        cells.truncate(MOST_CELLS);
    }
    let first = cells.iter().enumerate().min_by_key(|(place, (name, _))| (telling.rank_of_timelines(name), *place));
    let first = first.map_or(0, |(place, _)| place);
    html.raw(
        "<h3>One exchange in time</h3>\n<p class=sub>A mark is a transmission of the request, the bar behind it its ",
    );
    html.raw(
        "timeout. An arrow is the response, a cross the end without one. An exchange is given up at the timeout after ",
    );
    html.raw(
        "MAX_RETRANSMIT retransmissions, or at a timeout more than MAX_TRANSMIT_SPAN after the first transmission ",
    );
    html.raw("(45 s with the values of RFC 7252 §4.8.2).");
    if more > 0 {
        html.write(format_args!(" {more} further cells are not drawn."));
    }
    html.raw("</p>\n<div class=\"picked exchanges\"><form class=pick><label>cell <select>");
    for (place, (name, _)) in cells.iter().enumerate() {
        let selected = if place == first { " selected" } else { "" };
        html.write(format_args!("<option value={place}{selected}>")).text(if name.is_empty() { "all" } else { name });
    }
    html.raw("</select></label><label>exchange of each scheme <select>");
    for (place, which) in Which::ALL.iter().enumerate() {
        html.write(format_args!("<option value={place}>")).text(which.words());
    }
    html.raw("</select></label></form>\n");
    let schemes = scheme_names(study);
    for (cell, (name, of_cell)) in cells.iter().enumerate() {
        for (place, which) in Which::ALL.iter().enumerate() {
            let hidden = if cell == first && place == 0 { "" } else { " hidden" };
            html.write(format_args!("<figure class=chart data-at=\"{cell}/{place}\"{hidden}><figcaption>"));
            let what = match which {
                Which::MostCopies => "the exchange with most retransmissions".to_owned(),
                of => format!("{} exchange", of.words()),
            };
            html.text(&if name.is_empty() { what } else { format!("{name}: {what}") });
            html.raw("</figcaption>");
            let known = |scheme: &str| schemes.iter().position(|known| known == scheme).unwrap_or_default();
            let of_which = of_cell.iter().map(|timeline| &timeline.of).filter(|of| of.which == *which);
            let mut all: Vec<Lane<'_>> =
                of_which.map(|of| Lane { name: &of.scheme, colour: known(&of.scheme), of }).collect();
            all.sort_by_key(|lane| lane.colour);
            lanes(name, &all, html);
            csv(&all, html);
            html.raw("</figure>\n");
        }
    }
    html.raw("</div>\n");
}

fn csv(lanes: &[Lane<'_>], html: &mut Html) {
    let mut csv = Csv::new(html);
    csv.columns("scheme,transmission,sent_s,timeout_s,lasted_s,answered").end();
    for Lane { name, of, .. } in lanes {
        for (number, (sent, timeout)) in (1_u32..).zip(&of.copies) {
            csv.text(name).number(Some(f64::from(number))).number(Some(*sent)).number(Some(*timeout));
            csv.number(Some(of.lasted_s)).columns(if of.is_answered { "yes" } else { "no" }).end();
        }
    }
    csv.finish();
}

/// Returns a key that sorts cells, numbers by their value.
pub(super) fn order(CellId { part, axes, mix, .. }: &CellId) -> impl Ord + use<> {
    let point = |point: &String| (point.parse().unwrap_or(u64::MAX), point.clone());
    (part.clone(), axes.values().map(point).collect::<Vec<_>>(), mix.clone())
}
