//! Numeric axes of a drawing of fixed width.

use super::Scale;
use super::draw::CHARACTER;
use super::scale::label;
use crate::html::{Html, Px};

pub(super) const TICKS: u32 = 5;

const WIDTH: f64 = 420.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 26.0;
const BELOW: f64 = 38.0;

pub(super) struct Axes<'a> {
    pub(super) x: Scale,
    pub(super) y: Scale,
    x_title: &'a str,
    y_title: &'a str,
    height: f64,
}

pub(super) struct Axis<'a> {
    pub(super) scale: Scale,
    pub(super) title: &'a str,
}

impl<'a> Axes<'a> {
    pub(super) fn new(height: f64, x: Axis<'a>, y: Axis<'a>) -> Self {
        let (x_title, y_title) = (x.title, y.title);
        let (x, y) = (x.scale.between(LEFT + 4.0, RIGHT - 8.0), y.scale.between(height - BELOW, TOP));
        Self { x, y, x_title, y_title, height }
    }

    pub(super) fn bottom(&self) -> f64 {
        self.height - BELOW
    }

    /// Begins an SVG with the axes.
    pub(super) fn draw(&self, description: &str, html: &mut Html) {
        let height = self.height;
        html.write(format_args!("<svg class=\"drawn\" role=img viewBox=\"0 0 {WIDTH} {height}\" aria-label=\""));
        html.text(description).raw("\"><text class=axis x=\"2\" y=\"13\">").text(self.y_title).raw("</text>");
        for tick in self.y.ticks(TICKS) {
            let at = self.y.at(tick);
            html.write(format_args!(
                "<path class=grid d=\"M{LEFT} {}H{RIGHT}\"/><text x=\"{}\" y=\"{}\" text-anchor=end>{}</text>",
                Px(at),
                Px(LEFT - 5.0),
                Px(at + 4.0),
                label(tick)
            ));
        }
        let bottom = self.bottom();
        html.write(format_args!("<path class=base d=\"M{LEFT} {}H{RIGHT}\"/>", Px(bottom)));
        let mut free_from = f64::NEG_INFINITY;
        for tick in self.x.ticks(TICKS) {
            let (at, name) = (self.x.at(tick), label(tick));
            let half = CHARACTER * name.chars().count() as f64 / 2.0;
            if at - half < free_from || at + half > WIDTH {
                continue;
            }
            free_from = at + half + 4.0;
            html.write(format_args!(
                "<path class=tick d=\"M{0} {1}v4\"/><text x=\"{0}\" y=\"{2}\" text-anchor=middle>{name}</text>",
                Px(at),
                Px(bottom),
                Px(bottom + 15.0)
            ));
        }
        html.write(format_args!(
            "<text class=axis x=\"{}\" y=\"{}\" text-anchor=middle>",
            Px(f64::midpoint(LEFT, RIGHT)),
            Px(height - 5.0)
        ));
        html.text(self.x_title).raw("</text>");
    }
}
