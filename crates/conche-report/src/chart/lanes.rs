//! Timelines of exchanges, one lane each.

use conche_lab::scenario::Unit;
use conche_lab::table::number;
use conche_results::Timeline;

use super::scale::label;
use super::{COLOURS, Scale, shape};
use crate::html::{Html, Px};

const WIDTH: f64 = 640.0;
const LEFT: f64 = 8.0;
const TOP: f64 = 4.0;
/// Of a lane, with the name above its line; room for text of 20 units on narrow screens.
const HEIGHT: f64 = 58.0;
const AXIS: f64 = 48.0;
const TICKS: u32 = 6;

pub(crate) struct Lane<'a> {
    pub(crate) name: &'a str,
    pub(crate) colour: usize,
    pub(crate) of: &'a Timeline,
}

pub(crate) fn lanes(title: &str, lanes: &[Lane<'_>], html: &mut Html) {
    let bottom = TOP + HEIGHT * lanes.len() as f64;
    let longest = lanes.iter().map(|lane| lane.of.lasted_s);
    let scale = Scale::over(longest, false, true, TICKS).between(LEFT, WIDTH - 30.0);
    html.write(format_args!(
        "<svg class=\"lanes\" role=img viewBox=\"0 0 {WIDTH} {}\" aria-label=\"",
        Px(bottom + AXIS)
    ));
    html.text(title).raw("\">");
    for tick in scale.ticks(TICKS) {
        let (x, y) = (Px(scale.at(tick)), Px(bottom + 18.0));
        html.write(format_args!("<path class=grid d=\"M{x} {TOP}V{}\"/>", Px(bottom)));
        html.write(format_args!("<text x=\"{x}\" y=\"{y}\" text-anchor=middle>{}</text>", label(tick)));
    }
    let middle = Px(f64::midpoint(LEFT, WIDTH));
    html.write(format_args!(
        "<text class=axis x=\"{middle}\" y=\"{}\" text-anchor=middle>time since the first transmission (s)</text>",
        Px(bottom + AXIS - 5.0)
    ));
    for (place, of) in lanes.iter().enumerate() {
        lane(of, TOP + HEIGHT * place as f64 + 40.0, &scale, html);
    }
    html.raw("</svg>");
}

fn lane(lane: &Lane<'_>, y: f64, scale: &Scale, html: &mut Html) {
    let Timeline { copies, lasted_s, is_answered, .. } = lane.of;
    let colour = lane.colour % COLOURS;
    let times = if copies.len() == 1 { "1 transmission".to_owned() } else { format!("{} transmissions", copies.len()) };
    let ended = if *is_answered { "answered" } else { "given up" };
    html.write(format_args!("<text class=axis x=\"{LEFT}\" y=\"{}\">", Px(y - 18.0))).text(lane.name);
    html.raw("<tspan class=dim dx=\"12\">").text(&format!("{times}, {ended} after {}", seconds(*lasted_s)));
    html.raw("</tspan></text>");
    let (start, end) = (scale.at(0.0), scale.at(*lasted_s));
    html.write(format_args!("<g class=s{colour}><path class=span d=\"M{} {y}H{}\"/>", Px(start), Px(end), y = Px(y)));
    html.raw("</g>");
    for (place, (at, rto)) in copies.iter().enumerate() {
        let what = if place == 0 { "the request".to_owned() } else { format!("retransmission {place}") };
        // The exchange's end stops the timeout.
        let until = (at + rto).min(*lasted_s);
        let tooltip = format!("{}: {what} after {}, timeout {}", lane.name, seconds(*at), seconds(*rto));
        let (from, to) = (scale.at(*at), scale.at(until));
        html.write(format_args!("<g class=\"m s{colour}\"><title>")).text(&tooltip).raw("</title>");
        html.write(format_args!(
            "<rect class=rto x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\"/>",
            Px(from),
            Px(y - 6.0),
            Px((to - from).max(0.5))
        ));
        html.raw(&shape(lane.colour, from, y, 4.0)).raw("</g>");
    }
    html.write(format_args!("<g class=m><title>")).text(&format!(
        "{}: {ended} after {}",
        lane.name,
        seconds(*lasted_s)
    ));
    let (x, y) = (Px(end), Px(y));
    html.raw("</title>");
    let (class, path) =
        if *is_answered { ("answer", "m0 -11v22m-4 -5l4 5l4 -5") } else { ("lost", "m-5 -5l10 10m0 -10l-10 10") };
    html.write(format_args!("<path class={class} d=\"M{x} {y}{path}\"/></g>"));
}

fn seconds(value: f64) -> String {
    format!("{} s", number(value, Unit::Seconds))
}
