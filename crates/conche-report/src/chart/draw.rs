//! Draws a panel as SVG: axes, grid and marks.
//!
//! Each series has a shape beside its colour, a class that the style sheet defines for both themes.

use std::fmt::Write;

use conche_lab::scenario::Kind;

use super::scale::label;
use super::{COLOURS, Chart, Mark, Panel, Place, Scale};
use crate::html::{Html, Px};

/// In units of the drawing.
const HEIGHT: f64 = 270.0;
const WIDTH: f64 = 420.0;
const WIDE: f64 = 640.0;
/// Approximate.
pub(super) const CHARACTER: f64 = 6.3;
/// Longer names are cut.
const LONGEST_NAME: usize = 24;
const TICKS: u32 = 5;
/// Height of a line of an axis title.
const TITLE: f64 = 14.0;
/// Angle of slanted names.
const SLANT: f64 = 35.0 * std::f64::consts::PI / 180.0;

struct Frame {
    width: f64,
    left: f64,
    right: f64,
    bottom: f64,
    y: Scale,
    /// Scale of a numeric axis.
    x: Option<Scale>,
    askew: bool,
    /// Lines of the axis titles.
    x_title: Vec<String>,
    y_title: Vec<String>,
}

pub(super) fn panel(chart: &Chart, panel: &Panel, html: &mut Html) {
    let frame = Frame::of(chart);
    let name = if panel.title.is_empty() { String::new() } else { format!(", {}", panel.title) };
    let wide = if frame.width > WIDTH { " wide" } else { "" };
    html.write(format_args!(
        "<svg class=\"drawn{wide}\" role=img viewBox=\"0 0 {} {}\" aria-label=\"",
        Px(frame.width),
        Px(HEIGHT)
    ));
    html.text(&chart.title).text(&name).raw("\">");
    frame.vertical(html);
    frame.horizontal(chart, html);
    if chart.kind == Kind::Line {
        frame.lines(chart, panel, html);
    }
    for mark in &panel.marks {
        let series = &chart.series[mark.series];
        let slot = frame.slot(chart, mark);
        html.write(format_args!("<g class=\"m s{}\"><title>", series.colour % COLOURS));
        html.text(&mark.tooltip).raw("</title>");
        match chart.kind {
            Kind::Box if mark.quartiles.is_some() => draw_quartiles(mark, slot, &frame.y, series.colour, html),
            Kind::Bars => draw_bar(mark, slot, &frame.y, series.colour, html),
            _ => draw_point(mark, slot, &frame.y, series.colour, html),
        }
        draw_published(mark, slot, &frame.y, series.colour, html);
        html.raw("</g>");
    }
    html.raw("</svg>");
}

impl Frame {
    fn of(chart: &Chart) -> Self {
        let width = if chart.is_wide() { WIDE } else { WIDTH };
        let extremes = extremes(chart);
        let highest = extremes.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let y = Scale::over(extremes.into_iter(), chart.y.log, chart.kind == Kind::Bars, TICKS);
        let y = chart.y.domain.filter(|_| !chart.y.log).map_or(y, |(low, high)| y.within(low, high));
        let y = chart.y.to.filter(|to| *to >= highest).map_or(y, |to| y.up_to(to));
        let widest = y.ticks(TICKS).into_iter().map(|tick| label(tick).chars().count()).max().unwrap_or(1);
        let left = (8.0 + CHARACTER * widest as f64).max(24.0);
        let right = width - 12.0;
        let lengths = || chart.places.iter().map(|place| CHARACTER * shown(place).chars().count() as f64);
        let longest = lengths().fold(0.0, f64::max);
        let count = chart.places.len().max(1) as f64;
        let askew = !chart.is_numeric() && longest > (right - left) / count - 4.0;
        // Slanted names end below their place and begin to the left of it, within the drawing.
        let needed = |(place, length): (usize, f64)| {
            let share = (place as f64 + 0.5) / count;
            (2.0 + SLANT.cos() * length - share * right) / (1.0 - share)
        };
        let left = if askew { lengths().enumerate().map(needed).fold(left, f64::max).min(width * 0.4) } else { left };
        let names = if askew { 14.0 + SLANT.sin() * longest } else { 16.0 };
        let [x_title, y_title] = [(&chart.x, right - left), (&chart.y, width - 4.0)]
            .map(|(axis, room)| wrapped(&axis.title, room / CHARACTER));
        let bottom = HEIGHT - names - 4.0 - TITLE * x_title.len() as f64;
        let numbers = || chart.places.iter().filter_map(|place| place.number);
        let x = chart.is_numeric().then(|| {
            let scale = Scale::over(numbers(), chart.x.log, false, TICKS);
            scale.between(left + 10.0, right - 10.0)
        });
        let top = 12.0 + TITLE * y_title.len() as f64;
        Self { width, left, right, bottom, y: y.between(bottom, top), x, askew, x_title, y_title }
    }

    fn vertical(&self, html: &mut Html) {
        for (line, title) in self.y_title.iter().enumerate() {
            html.write(format_args!("<text class=axis x=\"2\" y=\"{}\">", Px(13.0 + TITLE * line as f64)));
            html.text(title).raw("</text>");
        }
        for tick in self.y.ticks(TICKS) {
            let y = self.y.at(tick);
            html.write(format_args!(
                "<path class=grid d=\"M{} {y}H{}\"/><text x=\"{}\" y=\"{}\" text-anchor=end>{}</text>",
                Px(self.left),
                Px(self.right),
                Px(self.left - 5.0),
                Px(y + 4.0),
                label(tick),
                y = Px(y),
            ));
        }
        let ground = self.y.ground();
        html.write(format_args!("<path class=base d=\"M{} {}H{}\"/>", Px(self.left), Px(ground), Px(self.right)));
    }

    /// Names or numbers do not overlap.
    fn horizontal(&self, chart: &Chart, html: &mut Html) {
        let y = self.bottom + 15.0;
        let mut free_from = f64::NEG_INFINITY;
        let mut named = |x: f64, name: &str, html: &mut Html| {
            let half = CHARACTER * name.chars().count() as f64 / 2.0;
            if x - half < free_from {
                return;
            }
            free_from = x + half + 4.0;
            html.write(format_args!("<path class=tick d=\"M{x} {}v4\"/>", Px(self.bottom), x = Px(x)));
            html.write(format_args!("<text x=\"{}\" y=\"{}\" text-anchor=middle>", Px(x), Px(y)))
                .text(name)
                .raw("</text>");
        };
        match self.x {
            Some(scale) => {
                // A few values are ticks.
                let values: Vec<f64> = chart.places.iter().filter_map(|place| place.number).collect();
                let ticks = if values.len() <= 10 { values } else { scale.ticks(TICKS) };
                ticks.into_iter().for_each(|tick| named(scale.at(tick), &label(tick), html));
            }
            None if self.askew => {
                for (place, at) in chart.places.iter().enumerate() {
                    let x = Px(self.middle(chart, place));
                    let y = Px(self.bottom + 11.0);
                    html.write(format_args!(
                        "<text x=\"{x}\" y=\"{y}\" text-anchor=end transform=\"rotate(-35 {x} {y})\">"
                    ));
                    html.text(&shown(at)).raw("</text>");
                }
            }
            None => {
                for (place, at) in chart.places.iter().enumerate() {
                    named(self.middle(chart, place), &shown(at), html);
                }
            }
        }
        for (line, title) in self.x_title.iter().rev().enumerate() {
            let (x, y) = (Px(f64::midpoint(self.left, self.right)), Px(HEIGHT - 5.0 - TITLE * line as f64));
            html.write(format_args!("<text class=axis x=\"{x}\" y=\"{y}\" text-anchor=middle>"));
            html.text(title).raw("</text>");
        }
    }

    fn middle(&self, chart: &Chart, place: usize) -> f64 {
        self.left + self.band(chart) * (place as f64 + 0.5)
    }

    fn band(&self, chart: &Chart) -> f64 {
        (self.right - self.left) / chart.places.len().max(1) as f64
    }

    /// Returns a mark's slot. Series are side by side, on a numeric axis just far enough apart to
    /// separate whiskers.
    fn slot(&self, chart: &Chart, mark: &Mark) -> Slot {
        let count = if chart.is_dodged() { chart.series.len().max(1) as f64 } else { 1.0 };
        let beside = if chart.is_dodged() { mark.series as f64 - (count - 1.0) / 2.0 } else { 0.0 };
        match (&self.x, chart.kind) {
            (Some(scale), _) => {
                let number = chart.places[mark.place].number.unwrap_or_default();
                let room = (self.right - self.left) / chart.places.len().max(1) as f64;
                Slot { middle: scale.at(number) + beside * (room / (2.0 * count)).min(1.6), width: 8.0 }
            }
            (None, Kind::Bars | Kind::Box) => {
                let each = self.band(chart) * 0.84 / count;
                let width = (each * 0.88).min(46.0);
                Slot { middle: self.middle(chart, mark.place) + beside * each.min(52.0), width }
            }
            (None, kind) => {
                // Just enough to separate whiskers.
                let each = (self.band(chart) * 0.7 / count).min(if kind == Kind::Line { 1.6 } else { 14.0 });
                Slot { middle: self.middle(chart, mark.place) + beside * each, width: 8.0 }
            }
        }
    }

    fn lines(&self, chart: &Chart, panel: &Panel, html: &mut Html) {
        for (number, series) in chart.series.iter().enumerate() {
            let mut marks: Vec<&Mark> = panel.marks.iter().filter(|mark| mark.series == number).collect();
            marks.sort_by_key(|mark| mark.place);
            html.write(format_args!("<path class=\"line s{}\" d=\"", series.colour % COLOURS));
            for (place, mark) in marks.into_iter().enumerate() {
                let command = if place == 0 { 'M' } else { 'L' };
                html.write(format_args!(
                    "{command}{} {}",
                    Px(self.slot(chart, mark).middle),
                    Px(self.y.at(mark.value))
                ));
            }
            html.raw("\"/>");
        }
    }
}

fn extremes(chart: &Chart) -> Vec<f64> {
    let of_mark = |mark: &Mark| {
        let [low, .., high] = mark.quartiles.unwrap_or([mark.value; 5]);
        [low, high, mark.value, mark.published.unwrap_or(mark.value)]
    };
    let values = chart.marks().flat_map(of_mark).filter(|value| value.is_finite()).collect();
    let measured = chart.marks().filter(|mark| mark.quartiles.is_none()).filter_map(|mark| mark.interval);
    extent(values, measured.chain(chart.marks().filter_map(|mark| mark.published_interval)))
}

/// Returns values of an axis with both ends of their intervals.
pub(crate) fn extent(mut values: Vec<f64>, intervals: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    values.extend(intervals.flat_map(|(low, high)| [low, high]).filter(|end| end.is_finite()));
    values
}

/// Breaks a text into lines of at most this many characters, between words.
fn wrapped(text: &str, most: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if (line.chars().count() + 1 + word.chars().count()) as f64 <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Cut if it is too long.
fn shown(place: &Place) -> String {
    if place.label.chars().count() <= LONGEST_NAME {
        return place.label.clone();
    }
    let cut: String = place.label.chars().take(LONGEST_NAME - 1).collect();
    format!("{cut}…")
}

pub(crate) fn shape(number: usize, x: f64, y: f64, r: f64) -> String {
    let mut path = String::new();
    let corners = |path: &mut String, corners: &[(f64, f64)]| {
        for (place, (dx, dy)) in corners.iter().enumerate() {
            let command = if place == 0 { 'M' } else { 'L' };
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

#[derive(Clone, Copy, Debug)]
struct Slot {
    middle: f64,
    width: f64,
}

fn draw_bar(mark: &Mark, slot: Slot, y: &Scale, colour: usize, html: &mut Html) {
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

fn draw_quartiles(mark: &Mark, slot: Slot, y: &Scale, colour: usize, html: &mut Html) {
    let Some(values) = mark.quartiles else { return };
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

/// Draws a point; an area around it shows the tooltip.
fn draw_point(mark: &Mark, slot: Slot, y: &Scale, colour: usize, html: &mut Html) {
    let place = y.at(mark.value);
    whisker(mark, slot, y, html);
    html.write(format_args!("<circle class=hit cx=\"{}\" cy=\"{}\" r=\"9\"/>", Px(slot.middle), Px(place)));
    html.raw(&shape(colour, slot.middle, place, 3.4));
}

fn whisker(mark: &Mark, slot: Slot, y: &Scale, html: &mut Html) {
    if let Some((low, high)) = mark.interval {
        draw_interval(low, high, slot, y, html);
    }
}

fn draw_interval(low: f64, high: f64, slot: Slot, y: &Scale, html: &mut Html) {
    if low >= high {
        return;
    }
    let cap = (slot.width / 4.0).clamp(1.5, 3.0);
    let (middle, left, right) = (Px(slot.middle), Px(slot.middle - cap), Px(slot.middle + cap));
    html.write(format_args!("<path class=wk d=\"M{middle} {}V{}", Px(y.at(low)), Px(y.at(high))));
    // An end that a logarithmic axis does not have has no cap.
    for end in [low, high].into_iter().filter(|end| y.contains(*end)) {
        html.write(format_args!("M{left} {}H{right}", Px(y.at(end))));
    }
    html.raw("\"/>");
}

/// Draws a hollow shape, beside the measured value if both have intervals.
fn draw_published(mark: &Mark, slot: Slot, y: &Scale, colour: usize, html: &mut Html) {
    let Some(value) = mark.published else { return };
    html.raw("<g class=pub>");
    let mut middle = slot.middle;
    if let Some((low, high)) = mark.published_interval {
        middle += (slot.width / 4.0).clamp(3.0, 8.0);
        draw_interval(low, high, Slot { middle, ..slot }, y, html);
    }
    html.raw(&shape(colour, middle, y.at(value), 4.2)).raw("</g>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_includes_whole_intervals() {
        let values = extent(vec![1.0, 2.0], [(-40.0, 60.0), (f64::NAN, f64::INFINITY)].into_iter());
        let scale = Scale::over(values.into_iter(), false, true, TICKS);
        assert!(scale.contains(-40.0) && scale.contains(60.0));
    }

    #[test]
    fn long_titles_have_several_lines() {
        assert_eq!(wrapped("time until all is done", 10.0), ["time until", "all is", "done"]);
        assert_eq!(wrapped("", 10.0), [""; 0]);
    }
}
