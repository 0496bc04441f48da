//! Empirical distributions, one line per scheme.

use conche_lab::scenario::Unit;
use conche_lab::table::number;

use super::axes::{Axes, Axis, TICKS};
use super::{COLOURS, Csv, Scale, key, shape};
use crate::html::{Html, Px};
use crate::unit::{domain, symbol};

const HEIGHT: f64 = 270.0;
/// Larger factors have a logarithmic axis.
const LINEAR: f64 = 30.0;
/// More cannot be seen.
const POINTS: usize = 64;

pub(crate) struct Distribution {
    pub(crate) title: String,
    pub(crate) of: String,
    pub(crate) unit: Unit,
    pub(crate) curves: Vec<Curve>,
}

pub(crate) struct Curve {
    pub(crate) scheme: String,
    pub(crate) colour: usize,
    pub(crate) count: usize,
    /// Values with the share of the sample that is at most this.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Curve {
    pub(crate) fn new(scheme: &str, colour: usize, count: usize, mut weighted: Vec<(f64, f64)>) -> Self {
        weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let mut points: Vec<(f64, f64)> = Vec::new();
        let last = weighted.len().saturating_sub(1);
        for (place, (value, weight)) in weighted.iter().enumerate() {
            sum += weight;
            let step = points.last().map_or(1.0, |(_, share)| (sum / total - share) * POINTS as f64);
            match points.last_mut() {
                Some(point) if point.0.total_cmp(value).is_eq() => point.1 = sum / total,
                Some(_) if step < 1.0 && place < last => {}
                _ => points.push((*value, sum / total)),
            }
        }
        Self { scheme: scheme.to_owned(), colour, count, points }
    }

    /// Returns the lowest value with at least this share.
    fn at(&self, share: f64) -> Option<f64> {
        let found = self.points.iter().find(|(_, of)| *of >= share - 1e-9);
        found.or(self.points.last()).map(|(value, _)| *value)
    }
}

impl Distribution {
    pub(crate) fn html(&self, html: &mut Html) {
        html.raw("<figcaption>").text(&self.title).raw("</figcaption><ul class=legend>");
        for curve in &self.curves {
            html.raw("<li>").raw(&key(curve.colour, false)).text(&curve.scheme).raw("</li>");
        }
        html.raw("</ul><div class=plots><div>");
        self.drawing(html);
        html.raw("</div></div>");
        let mut csv = Csv::new(html);
        csv.text("scheme").text(&self.axis()).text("share").end();
        for curve in &self.curves {
            for (value, share) in &curve.points {
                csv.text(&curve.scheme).number(Some(*value)).number(Some((share * 1e4).round() / 1e4)).end();
            }
        }
        csv.finish();
    }

    fn axis(&self) -> String {
        let unit = symbol(self.unit);
        if unit.is_empty() { self.of.clone() } else { format!("{} ({unit})", self.of) }
    }

    fn drawing(&self, html: &mut Html) {
        let values = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|(value, _)| *value));
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let x = Scale::over(values(), least > 0.0 && most > LINEAR * least, false, TICKS);
        let (low, high) = domain(self.unit);
        let x = if least >= low && most <= high { x.within(low, high) } else { x };
        let title = self.axis();
        let x = Axis { scale: x, title: &title };
        let shares = Scale::over([0.0, 100.0].into_iter(), false, true, TICKS);
        let axes = Axes::new(HEIGHT, x, Axis { scale: shares, title: "share of values (%)" });
        axes.draw(&self.title, html);
        let Axes { x, y, .. } = &axes;
        for curve in &self.curves {
            html.write(format_args!("<g class=\"m s{}\"><title>", curve.colour % COLOURS));
            html.text(&self.tooltip(curve)).raw("</title><path class=line d=\"");
            for (place, (value, share)) in curve.points.iter().enumerate() {
                let (at, level) = (Px(x.at(*value)), Px(y.at(100.0 * share)));
                if place == 0 {
                    html.write(format_args!("M{at} {}", Px(axes.bottom())));
                }
                html.write(format_args!("H{at}V{level}"));
            }
            html.raw("\"/>");
            // Shapes at different heights do not hide each other.
            let share = 0.3 + 0.4 * (curve.colour % COLOURS) as f64 / (COLOURS - 1) as f64;
            if let Some(value) = curve.at(share) {
                html.raw(&shape(curve.colour, x.at(value), y.at(100.0 * share), 3.4));
            }
            html.raw("</g>");
        }
        html.raw("</svg>");
    }

    fn tooltip(&self, curve: &Curve) -> String {
        let at = |share| curve.at(share).map(|value| format!("{} {}", number(value, self.unit), symbol(self.unit)));
        let [median, tail] = [0.5, 0.9].map(|share| at(share).unwrap_or_default().trim_end().to_owned());
        format!("{}: half at most {median}, 90 % at most {tail}, {} values", curve.scheme, curve.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_to_all_values_by_their_weights() {
        let curve = Curve::new("a", 0, 4, vec![(3.0, 2.0), (1.0, 1.0), (1.0, 1.0)]);
        assert_eq!(curve.points, [(1.0, 0.5), (3.0, 1.0)]);
        assert_eq!((curve.at(0.5), curve.at(0.9)), (Some(1.0), Some(3.0)));
    }

    #[test]
    fn a_curve_of_many_values_has_few_points_and_keeps_its_ends() {
        let curve = Curve::new("a", 0, 10_000, (0..10_000).map(|of| (f64::from(of), 1.0)).collect());
        assert!(curve.points.len() <= POINTS + 2, "{}", curve.points.len());
        assert_eq!(curve.points.first().map(|of| of.0), Some(0.0));
        assert_eq!(curve.points.last(), Some(&(9999.0, 1.0)));
        assert!(curve.points.windows(2).all(|pair| pair[0].1 < pair[1].1));
    }
}
