//! Timelines of exchanges, per cell.

use conche_results::Which;

use super::picked::{Picked, by_cell};
use super::telling::Telling;
use crate::chart::{Csv, Lane, lanes};
use crate::html::Html;
use crate::study::Study;
use crate::values::scheme_names;

/// Limits the size of the page.
const MOST_CELLS: usize = 24;

pub(super) fn write(study: &Study, telling: &Telling<'_>, html: &mut Html) {
    let cells = by_cell(&study.timelines, |timeline| &timeline.cell);
    if cells.is_empty() {
        return;
    }
    let picked = Picked::new(cells, MOST_CELLS, |(name, _)| telling.rank_of_timelines(name));
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
    picked.omitted(html);
    html.raw("</p>\n<div class=\"picked exchanges\"><form class=pick>");
    picked.options(|(name, _)| if name.is_empty() { "all" } else { name }, html);
    html.raw("<label>exchange of each scheme <select>");
    for (place, which) in Which::ALL.iter().enumerate() {
        html.write(format_args!("<option value={place}>")).text(which.words());
    }
    html.raw("</select></label></form>\n");
    let schemes = scheme_names(study);
    for (cell, (name, of_cell)) in picked.cells.iter().enumerate() {
        for (place, which) in Which::ALL.iter().enumerate() {
            let hidden = if cell == picked.first && place == 0 { "" } else { " hidden" };
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
