//! Shapes, bars, boxes and whiskers.
//!
//! Each series has a shape beside its colour, so that a plot is readable without colours. Colours
//! are classes of the style sheet, which defines them for both themes.

use std::fmt::Write;

use super::{COLOURS, Mark, Scale};
use crate::html::{Html, Px};

/// Returns the closed shape of a colour, around a point.
pub(crate) fn shape(number: usize, x: f64, y: f64, r: f64) -> String {
    let mut path = String::new();
    let corners = |path: &mut String, corners: &[(f64, f64)]| {
        for (place, (dx, dy)) in corners.iter().enumerate() {
            let command = if place == 0 { 'M' } else { 'L' };
            // Writing to a String cannot fail.
            let _ = write!(path, "{command}{} {}", Px(x + dx * r), Px(y + dy * r));
        }
        path.push('Z');
    };
    match number % COLOURS {
        0 => {
            let (left, r) = (Px(x - r), Px(r));
            let _ = write!(path, "M{left} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z", Px(y), d = Px(2.0 * r.0));
        }
        1 => corners(&mut path, &[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]),
        2 => corners(&mut path, &[(0.0, -1.15), (1.1, 0.8), (-1.1, 0.8)]),
        3 => corners(&mut path, &[(0.0, -1.25), (1.1, 0.0), (0.0, 1.25), (-1.1, 0.0)]),
        4 => corners(&mut path, &[(0.0, 1.15), (1.1, -0.8), (-1.1, -0.8)]),
        5 => corners(
            &mut path,
            &[
                (-0.4, -1.1),
                (0.4, -1.1),
                (0.4, -0.4),
                (1.1, -0.4),
                (1.1, 0.4),
                (0.4, 0.4),
                (0.4, 1.1),
                (-0.4, 1.1),
                (-0.4, 0.4),
                (-1.1, 0.4),
                (-1.1, -0.4),
                (-0.4, -0.4),
            ],
        ),
        6 => corners(&mut path, &[(0.0, -1.1), (1.05, -0.35), (0.65, 0.9), (-0.65, 0.9), (-1.05, -0.35)]),
        _ => corners(&mut path, &[(-1.1, -0.9), (1.1, 0.9), (1.1, -0.9), (-1.1, 0.9)]),
    }
    format!("<path d=\"{path}\"/>")
}

/// The horizontal position of a series at a place, and its maximum width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) middle: f64,
    pub(super) width: f64,
}

/// Draws a bar from the ground, with its shape on top.
pub(super) fn bar(mark: &Mark, slot: Slot, y: &Scale, colour: usize, html: &mut Html) {
    let (top, ground) = (y.at(mark.value), y.ground());
    let (low, high) = (top.min(ground), top.max(ground));
    html.write(format_args!(
        "<rect class=bar x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
        Px(slot.middle - slot.width / 2.0),
        Px(low),
        Px(slot.width),
        Px((high - low).max(0.5))
    ));
    whisker(mark, slot, y, html);
    html.raw(&shape(colour, slot.middle, top, (slot.width / 4.0).clamp(1.6, 3.2)));
}

/// Draws a box between quartiles, its median, and whiskers.
pub(super) fn quartiles(mark: &Mark, values: [f64; 5], slot: Slot, y: &Scale, colour: usize, html: &mut Html) {
    let [lowest, low, median, high, highest] = values.map(|value| y.at(value));
    let (left, right) = (slot.middle - slot.width / 2.0, slot.middle + slot.width / 2.0);
    let (middle, cap) = (slot.middle, slot.width / 4.0);
    html.write(format_args!(
        "<path class=wk d=\"M{m} {lowest}V{low}M{m} {high}V{highest}M{a} {lowest}H{b}M{a} {highest}H{b}\"/>\
         <rect class=box x=\"{left}\" y=\"{high}\" width=\"{width}\" height=\"{height}\"/>\
         <path class=med d=\"M{left} {median}H{right}\"/>",
        m = Px(middle),
        a = Px(middle - cap),
        b = Px(middle + cap),
        lowest = Px(lowest),
        low = Px(low),
        median = Px(median),
        high = Px(high),
        highest = Px(highest),
        left = Px(left),
        right = Px(right),
        width = Px(slot.width),
        height = Px((low - high).max(0.5)),
    ));
    html.raw(&shape(colour, middle, y.at(mark.value), (slot.width / 4.0).clamp(1.6, 3.2)));
}

/// Draws a point with its interval, and an area for the pointer.
pub(super) fn point(mark: &Mark, slot: Slot, y: &Scale, colour: usize, html: &mut Html) {
    let place = y.at(mark.value);
    whisker(mark, slot, y, html);
    html.write(format_args!("<circle class=hit cx=\"{}\" cy=\"{}\" r=\"9\"/>", Px(slot.middle), Px(place)));
    html.raw(&shape(colour, slot.middle, place, 3.4));
}

/// Draws the 95 % interval of the measured value.
fn whisker(mark: &Mark, slot: Slot, y: &Scale, html: &mut Html) {
    if let Some(interval) = mark.interval {
        interval_around(slot.middle, interval, slot, y, html);
    }
}

fn interval_around(middle: f64, (low, high): (f64, f64), slot: Slot, y: &Scale, html: &mut Html) {
    if low >= high {
        return;
    }
    let cap = (slot.width / 4.0).clamp(1.5, 3.0);
    let (middle, left, right) = (Px(middle), Px(middle - cap), Px(middle + cap));
    html.write(format_args!("<path class=wk d=\"M{middle} {}V{}", Px(y.at(low)), Px(y.at(high))));
    // An end beyond the axis has no cap.
    for end in [low, high].into_iter().filter(|end| y.contains(*end)) {
        html.write(format_args!("M{left} {}H{right}", Px(y.at(end))));
    }
    html.raw("\"/>");
}

/// Draws the published value: the hollow shape of its series, beside the measured one if both have
/// intervals.
pub(super) fn published(mark: &Mark, slot: Slot, y: &Scale, colour: usize, html: &mut Html) {
    let Some(value) = mark.published else { return };
    html.raw("<g class=pub>");
    let mut middle = slot.middle;
    if let Some(interval) = mark.published_interval {
        middle += (slot.width / 4.0).clamp(3.0, 8.0);
        interval_around(middle, interval, slot, y, html);
    }
    html.raw(&shape(colour, middle, y.at(value), 4.2)).raw("</g>");
}
