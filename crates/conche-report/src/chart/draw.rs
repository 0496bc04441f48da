//! Draws a panel as SVG: axes, grid and marks.

use conche_lab::scenario::Kind;

use super::marks::{self, Slot};
use super::scale::label;
use super::{COLOURS, Chart, Mark, Panel, Place, Scale};
use crate::html::{Html, Px};

/// In units of the drawing, which scales to the page.
const HEIGHT: f64 = 270.0;
const WIDTH: f64 = 420.0;
const WIDE: f64 = 640.0;
/// Approximate width of a character.
const CHARACTER: f64 = 6.3;
/// Longer names are cut.
const LONGEST_NAME: usize = 24;
const TICKS: u32 = 5;

struct Frame {
    width: f64,
    left: f64,
    right: f64,
    bottom: f64,
    y: Scale,
    /// Scale of a numeric axis.
    x: Option<Scale>,
    /// Whether the names of places are slanted.
    askew: bool,
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
    frame.vertical(chart, html);
    frame.horizontal(chart, html);
    if chart.kind == Kind::Line {
        frame.lines(chart, panel, html);
    }
    for mark in &panel.marks {
        let series = &chart.series[mark.series];
        let slot = frame.slot(chart, mark);
        html.write(format_args!("<g class=\"m s{}\"><title>", series.colour % COLOURS));
        html.text(&mark.tooltip).raw("</title>");
        match (chart.kind, mark.quartiles) {
            (Kind::Box, Some(values)) => marks::quartiles(mark, values, slot, &frame.y, series.colour, html),
            (Kind::Bars, _) => marks::bar(mark, slot, &frame.y, series.colour, html),
            _ => marks::point(mark, slot, &frame.y, series.colour, html),
        }
        marks::published(mark, slot, &frame.y, series.colour, html);
        html.raw("</g>");
    }
    html.raw("</svg>");
}

impl Frame {
    fn of(chart: &Chart) -> Self {
        let width = if chart.is_wide() { WIDE } else { WIDTH };
        let y = Scale::over(extremes(chart).into_iter(), chart.y.log, chart.kind == Kind::Bars, TICKS);
        let y = chart.y.to.map_or(y, |to| y.up_to(to));
        let widest = y.ticks(TICKS).into_iter().map(|tick| label(tick).chars().count()).max().unwrap_or(1);
        let left = (8.0 + CHARACTER * widest as f64).max(24.0);
        let right = width - 12.0;
        let longest = chart.places.iter().map(|place| shown(place).chars().count()).max().unwrap_or(0);
        let band = (right - left) / chart.places.len().max(1) as f64;
        let askew = !chart.is_numeric() && CHARACTER * longest as f64 > band - 4.0;
        let names = if askew { 10.0 + CHARACTER * 0.6 * longest as f64 } else { 16.0 };
        let bottom = HEIGHT - names - if chart.x.title.is_empty() { 4.0 } else { 20.0 };
        let numbers = || chart.places.iter().filter_map(|place| place.number);
        let x = chart.is_numeric().then(|| {
            let scale = Scale::over(numbers(), chart.x.log, false, TICKS);
            scale.between(left + 10.0, right - 10.0)
        });
        let top = 26.0;
        Self { width, left, right, bottom, y: y.between(bottom, top), x, askew }
    }

    /// Draws the vertical axis: title above, a line for each tick.
    fn vertical(&self, chart: &Chart, html: &mut Html) {
        html.write(format_args!("<text class=axis x=\"2\" y=\"13\">")).text(&chart.y.title).raw("</text>");
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

    /// Draws the horizontal axis: title, and names or numbers without overlaps.
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
                // The values themselves are the best ticks, unless there are many.
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
        if !chart.x.title.is_empty() {
            let x = Px((self.left + self.right) / 2.0);
            html.write(format_args!("<text class=axis x=\"{x}\" y=\"{}\" text-anchor=middle>", Px(HEIGHT - 5.0)));
            html.text(&chart.x.title).raw("</text>");
        }
    }

    /// The middle of a place on an axis of names.
    fn middle(&self, chart: &Chart, place: usize) -> f64 {
        self.left + self.band(chart) * (place as f64 + 0.5)
    }

    fn band(&self, chart: &Chart) -> f64 {
        (self.right - self.left) / chart.places.len().max(1) as f64
    }

    /// Returns the slot of a mark: series are side by side; on a numeric axis only far enough apart
    /// to separate whiskers.
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
                // Marks joined by lines are shifted only far enough to separate whiskers.
                let each = (self.band(chart) * 0.7 / count).min(if kind == Kind::Line { 1.6 } else { 14.0 });
                Slot { middle: self.middle(chart, mark.place) + beside * each, width: 8.0 }
            }
        }
    }

    /// Draws a line for each series, through its points in the order of places.
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

/// Returns the values that the vertical axis must include. Intervals extend it only by part of
/// their height: an interval of two runs may be many times larger than the values, and would
/// flatten them.
fn extremes(chart: &Chart) -> Vec<f64> {
    const ROOM: f64 = 0.6;
    let of_mark = |mark: &Mark| {
        let [low, .., high] = mark.quartiles.unwrap_or([mark.value; 5]);
        [low, high, mark.value, mark.published.unwrap_or(mark.value)]
    };
    let mut values: Vec<f64> = chart.marks().flat_map(of_mark).filter(|value| value.is_finite()).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(0.0, f64::min);
    let room = ROOM * (most - least);
    let measured = chart.marks().filter(|mark| mark.quartiles.is_none()).filter_map(|mark| mark.interval);
    for (low, high) in measured.chain(chart.marks().filter_map(|mark| mark.published_interval)) {
        values.push(high.min(most + if most > 0.0 { room } else { 0.0 }));
        values.push(if chart.y.log || least >= 0.0 { low.max(0.0) } else { low.max(least - room) });
    }
    if chart.y.log {
        let above = values.iter().copied().filter(|value| *value > 0.0);
        let least = chart.marks().map(|mark| mark.value).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        values = above.map(|value| value.max(least / 3.0)).collect();
    }
    values
}

/// Returns the label, cut if it is too long.
fn shown(place: &Place) -> String {
    if place.label.chars().count() <= LONGEST_NAME {
        return place.label.clone();
    }
    let cut: String = place.label.chars().take(LONGEST_NAME - 1).collect();
    format!("{cut}…")
}
