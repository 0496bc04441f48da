//! Heat maps over two axes, a panel per scheme.

use conche_lab::scenario::{Better, Unit};
use conche_lab::table::number;

use super::Csv;
use crate::html::{Html, Px};
use crate::unit::symbol;

/// Wide, so that names and values fit in any font.
const CHARACTER: f64 = 7.4;
const ROW: f64 = 24.0;
const TOP: f64 = 22.0;
const BELOW: f64 = 38.0;
/// Colours in the style sheet.
const STEPS: usize = 6;
/// Larger ratios have steps of equal factors.
const LINEAR: f64 = 10.0;

pub(crate) struct Heat {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    /// Worse values have a stronger colour; if unknown, higher ones.
    pub(crate) better: Option<Better>,
    /// Titles: horizontal, vertical.
    pub(crate) axes: [String; 2],
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<String>,
    pub(crate) panels: Vec<HeatPanel>,
}

pub(crate) struct HeatPanel {
    pub(crate) scheme: String,
    /// Values by row and column.
    pub(crate) values: Vec<Vec<Option<f64>>>,
}

impl Heat {
    pub(crate) fn html(&self, html: &mut Html) {
        let steps = Steps::over(self.panels.iter().flat_map(|panel| panel.values.iter().flatten().flatten().copied()));
        html.raw("<figure class=\"chart heatmap\"><figcaption>")
            .text(&self.title)
            .raw("</figcaption><ul class=legend>");
        for step in 0..steps.count() {
            let (low, high) = (number(steps.bound(step), self.unit), number(steps.bound(step + 1), self.unit));
            html.write(format_args!(
                "<li><svg class=key viewBox=\"0 0 12 12\"><path d=\"M0 0h12v12h-12z\" style=\"fill:var(--h{});stroke:var(--line)\"/></svg>",
                self.colour(step, &steps)
            ));
            let range = if steps.count() > 1 { format!("{low} – {high}") } else { low };
            html.text(format!("{range} {}", symbol(self.unit)).trim_end()).raw("</li>");
        }
        let worse = self.better.map(|of| if of == Better::Lower { "higher" } else { "lower" });
        if let Some(worse) = worse.filter(|_| steps.count() > 1) {
            html.write(format_args!("<li class=dim>stronger color: {worse}, worse</li>"));
        }
        html.raw("</ul><div class=panels>");
        for panel in &self.panels {
            html.raw("<div class=scroll><h5>").text(&panel.scheme).raw("</h5>");
            self.panel(panel, &steps, html);
            html.raw("</div>");
        }
        html.raw("</div>");
        self.csv(html);
        html.raw("</figure>\n");
    }

    /// Returns the number of a step's colour in the style sheet.
    fn colour(&self, step: usize, steps: &Steps) -> usize {
        if self.better == Some(Better::Higher) { steps.count() - step } else { step + 1 }
    }

    fn panel(&self, panel: &HeatPanel, steps: &Steps, html: &mut Html) {
        let width_of = |text: &str| CHARACTER * text.chars().count() as f64;
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), |value| number(value, self.unit));
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let all = || self.panels.iter().flat_map(|panel| panel.values.iter().flatten());
        let of_values = widest(&mut all().map(|value| width_of(&shown(*value))));
        let cell = widest(&mut self.columns.iter().map(|name| width_of(name))).max(of_values) + 12.0;
        let left = widest(&mut self.rows.iter().map(|name| width_of(name))) + 14.0;
        let right = left + cell * self.columns.len() as f64;
        let titles = width_of(&self.axes[1]).max(width_of(&self.axes[0]) + left) + 6.0;
        let (width, bottom) = (titles.max(right + 4.0), TOP + ROW * self.rows.len() as f64);
        html.write(format_args!(
            "<svg class=\"drawn cells\" role=img viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" aria-label=\"",
            w = Px(width),
            h = Px(bottom + BELOW)
        ));
        html.text(&format!("{}, {}", self.title, panel.scheme)).raw("\"><text class=axis x=\"2\" y=\"13\">");
        html.text(&self.axes[1]).raw("</text>");
        for (row, name) in self.rows.iter().enumerate() {
            let y = TOP + ROW * row as f64;
            html.write(format_args!(
                "<text x=\"{}\" y=\"{}\" text-anchor=end>",
                Px(left - 6.0),
                Px(y + ROW / 2.0 + 4.0)
            ));
            html.text(name).raw("</text>");
            for column in 0..self.columns.len() {
                let value = panel.values.get(row).and_then(|of| of.get(column)).copied().flatten();
                let x = left + cell * column as f64;
                html.raw("<g class=m><title>").text(&self.tooltip(panel, row, column, &shown(value))).raw("</title>");
                let (fill, ink) = match value.map(|value| self.colour(steps.of(value), steps)) {
                    None => ("paper".to_owned(), "soft"),
                    Some(STEPS) => (format!("h{STEPS}"), "h6-ink"),
                    Some(colour) => (format!("h{colour}"), "ink"),
                };
                html.write(format_args!(
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" style=\"fill:var(--{fill})\"/>\
                     <text x=\"{}\" y=\"{}\" text-anchor=middle style=\"fill:var(--{ink})\">",
                    Px(x + 1.0),
                    Px(y + 1.0),
                    Px(cell - 2.0),
                    Px(ROW - 2.0),
                    Px(x + cell / 2.0),
                    Px(y + ROW / 2.0 + 4.0),
                ));
                html.text(&shown(value)).raw("</text></g>");
            }
        }
        for (column, name) in self.columns.iter().enumerate() {
            let x = Px(left + cell * (column as f64 + 0.5));
            html.write(format_args!("<text x=\"{x}\" y=\"{}\" text-anchor=middle>", Px(bottom + 14.0)));
            html.text(name).raw("</text>");
        }
        html.write(format_args!("<text class=axis x=\"{}\" y=\"{}\">", Px(left), Px(bottom + 31.0)));
        html.text(&self.axes[0]).raw("</text></svg>");
    }

    fn tooltip(&self, panel: &HeatPanel, row: usize, column: usize, value: &str) -> String {
        let [x, y] = &self.axes;
        let unit = symbol(self.unit);
        let place = format!("{x} {}, {y} {}", self.columns[column], self.rows[row]);
        format!("{}, {place}: {value} {unit}", panel.scheme).trim_end().to_owned()
    }

    fn csv(&self, html: &mut Html) {
        let mut csv = Csv::new(html);
        csv.text("scheme").text(&self.axes[0]).text(&self.axes[1]).text(&self.title).end();
        for panel in &self.panels {
            for (row, of_row) in self.rows.iter().zip(&panel.values) {
                for (column, value) in self.columns.iter().zip(of_row) {
                    csv.text(&panel.scheme).text(column).text(row).number(*value).end();
                }
            }
        }
        csv.finish();
    }
}

struct Steps {
    low: f64,
    high: f64,
    log: bool,
}

impl Steps {
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        Self { low, high, log: low > 0.0 && high > LINEAR * low }
    }

    /// Equal values have one colour.
    fn count(&self) -> usize {
        if self.low < self.high { STEPS } else { 1 }
    }

    fn of(&self, value: f64) -> usize {
        (1..self.count()).filter(|step| value >= self.bound(*step)).count()
    }

    /// Returns a step's lower bound; after the last, the highest value.
    fn bound(&self, step: usize) -> f64 {
        let share = step as f64 / STEPS as f64;
        if self.log { self.low * (self.high / self.low).powf(share) } else { self.low + (self.high - self.low) * share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_equal_or_of_equal_factors() {
        let of = |values: &[f64]| {
            let steps = Steps::over(values.iter().copied());
            values.iter().map(|value| steps.of(*value)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[1.0, 4.0, 7.0]), [0, 3, 5]);
        assert_eq!(of(&[1.0, 101.0, 1e4]), [0, 3, 5]);
        assert_eq!(of(&[-1.0, 0.0, 99.0]), [0, 0, 5]);
        assert_eq!(of(&[7.0, 7.0]), [0, 0]);
    }
}
