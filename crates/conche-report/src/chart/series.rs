//! Time series: a small panel per quantity, over the same times.

use super::axes::{Axes, Axis, TICKS};
use super::scale::label;
use super::{COLOURS, Csv, Scale, key, shape};
use crate::html::{Html, Px};

const HEIGHT: f64 = 210.0;

pub(crate) struct TimeSeries {
    pub(crate) title: String,
    /// Names with their colours.
    pub(crate) legend: Vec<(String, usize)>,
    /// Rising, from 0.
    pub(crate) times_s: Vec<f64>,
    pub(crate) panels: Vec<SeriesPanel>,
    pub(crate) notes: Vec<String>,
}

pub(crate) struct SeriesPanel {
    /// Clients or link.
    pub(crate) title: String,
    /// Quantity with its unit.
    pub(crate) axis: String,
    pub(crate) lines: Vec<SeriesLine>,
}

pub(crate) struct SeriesLine {
    pub(crate) name: String,
    pub(crate) colour: usize,
    /// By time; each lasts until the next time.
    pub(crate) values: Vec<Option<f64>>,
}

impl TimeSeries {
    pub(crate) fn html(&self, html: &mut Html) {
        html.raw("<figcaption>").text(&self.title).raw("</figcaption><ul class=legend>");
        for (name, colour) in &self.legend {
            html.raw("<li>").raw(&key(*colour, false)).text(name).raw("</li>");
        }
        html.raw("</ul><div class=plots>");
        for panel in &self.panels {
            html.raw("<div><h5>").text(&panel.title).raw("</h5>");
            self.panel(panel, html);
            html.raw("</div>");
        }
        html.raw("</div>");
        for note in &self.notes {
            html.raw("<p class=note>").text(note).raw("</p>");
        }
        self.csv(html);
    }

    fn panel(&self, panel: &SeriesPanel, html: &mut Html) {
        let values = panel.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
        let y = Axis { scale: Scale::over(values, false, true, TICKS), title: &panel.axis };
        let x = Axis { scale: Scale::over(self.times_s.iter().copied(), false, true, TICKS), title: "time (s)" };
        let axes = Axes::new(HEIGHT, x, y);
        axes.draw(&format!("{}: {}, {}", self.title, panel.axis, panel.title), html);
        for line in &panel.lines {
            self.line(line, &axes, html);
        }
        html.raw("</svg>");
    }

    fn line(&self, line: &SeriesLine, Axes { x, y, .. }: &Axes<'_>, html: &mut Html) {
        let points: Vec<(f64, f64)> =
            self.times_s.iter().zip(&line.values).filter_map(|(time, value)| Some((*time, (*value)?))).collect();
        let Some(((_, first), (end, last))) = points.first().zip(points.last()) else { return };
        let most = points.iter().fold(*first, |most, (_, value)| most.max(*value));
        let [most, last, end] = [most, *last, *end].map(label);
        html.write(format_args!("<g class=\"m s{}\"><title>", line.colour % COLOURS));
        html.text(&format!("{}: at most {most}, {last} at {end} s", line.name)).raw("</title><path class=line d=\"");
        let mut before = None;
        for (time, value) in self.times_s.iter().zip(&line.values) {
            let at = x.at(*time);
            let level = value.map(|value| Px(y.at(value)).to_string());
            match (&before, &level) {
                (None, Some(level)) => html.write(format_args!("M{} {level}", Px(at))),
                (Some(known), Some(level)) if known != level => html.write(format_args!("H{}V{level}", Px(at))),
                (Some(_), None) => html.write(format_args!("H{}", Px(at))),
                _ => html,
            };
            before = level;
        }
        if let Some((time, _)) = points.last() {
            html.write(format_args!("H{}", Px(x.at(*time))));
        }
        html.raw("\"/>");
        // Shapes at different times do not hide each other.
        let share = 0.15 + 0.7 * (line.colour % COLOURS) as f64 / (COLOURS - 1) as f64;
        let place = crate::series::whole(share * points.len() as f64);
        if let Some((time, value)) = points.get(place) {
            html.raw(&shape(line.colour, x.at(*time), y.at(*value), 3.4));
        }
        html.raw("</g>");
    }

    /// A row per time, and a column per line.
    fn csv(&self, html: &mut Html) {
        let mut csv = Csv::new(html);
        csv.text("time (s)");
        let lines = || self.panels.iter().flat_map(|panel| panel.lines.iter().map(move |line| (panel, line)));
        for (panel, line) in lines() {
            csv.text(&format!("{}, {}, {}", panel.axis, panel.title, line.name));
        }
        csv.end();
        let rounded = |value: f64| (value * 1e4).round() / 1e4;
        for (place, time) in self.times_s.iter().enumerate() {
            csv.number(Some(rounded(*time)));
            for (_, line) in lines() {
                csv.number(line.values.get(place).copied().flatten().map(rounded));
            }
            csv.end();
        }
        csv.finish();
    }
}
