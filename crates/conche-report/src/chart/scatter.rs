//! Points over two logarithmic axes on which less is better, and their Pareto front.

use super::axes::{Axes, Axis, TICKS};
use super::draw::CHARACTER;
use super::{COLOURS, Csv, Scale, key, shape};
use crate::html::{Html, Px};

const HEIGHT: f64 = 290.0;
const RADIUS: f64 = 3.6;
/// Factor over nine tenths of the values, from which a value is at the end of the axis.
const FAR: f64 = 1.5;
/// Height of a line of text.
const LINE: f64 = 12.0;

/// Colours, and thereby shapes.
const ON_THE_FRONT: usize = 0;
const BEHIND: usize = 6;
const REFERENCE: usize = 1;

pub(crate) struct Scatter {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    /// Name of a point in a colour of its own, if it is there.
    pub(crate) reference: String,
    pub(crate) panels: Vec<ScatterPanel>,
}

pub(crate) struct ScatterPanel {
    pub(crate) title: String,
    pub(crate) points: Vec<ScatterPoint>,
    pub(crate) notes: Vec<String>,
}

pub(crate) struct ScatterPoint {
    pub(crate) name: String,
    /// Above 0, with the interval, if any.
    pub(crate) x: (f64, Option<[f64; 2]>),
    pub(crate) y: (f64, Option<[f64; 2]>),
    pub(crate) tooltip: String,
}

impl ScatterPanel {
    fn scales(&self) -> [Scale; 2] {
        [scale(self.points.iter().map(|point| point.x.0)), scale(self.points.iter().map(|point| point.y.0))]
    }

    fn shows(&self, point: &ScatterPoint) -> bool {
        let [x, y] = self.scales();
        x.contains(point.x.0) && y.contains(point.y.0)
    }

    /// Returns the points than which no other is less on one axis and not more on the other, by
    /// their horizontal place.
    fn front(&self) -> Vec<&ScatterPoint> {
        let is_better = |one: &ScatterPoint, other: &ScatterPoint| {
            let (x, y) = (one.x.0.total_cmp(&other.x.0), one.y.0.total_cmp(&other.y.0));
            x.is_le() && y.is_le() && (x.is_lt() || y.is_lt())
        };
        let is_on_it = |of: &&ScatterPoint| !self.points.iter().any(|other| is_better(other, of));
        let mut front: Vec<&ScatterPoint> = self.points.iter().filter(is_on_it).collect();
        front.sort_by(|one, other| one.x.0.total_cmp(&other.x.0));
        front
    }
}

impl Scatter {
    pub(crate) fn html(&self, html: &mut Html) {
        let class = if self.panels.len() == 2 { "chart two" } else { "chart" };
        html.raw("<figure class=\"").raw(class).raw("\"><figcaption>").text(&self.title).raw("</figcaption>");
        html.raw("<ul class=legend><li>").raw(&key(ON_THE_FRONT, false)).raw("no other is better in both</li>");
        if self.panels.iter().any(|panel| panel.points.iter().any(|point| point.name == self.reference)) {
            html.raw("<li>").raw(&key(REFERENCE, false)).text(&self.reference).raw("</li>");
        }
        html.raw("<li>").raw(&key(BEHIND, false)).raw("others</li></ul><div class=plots>");
        for panel in &self.panels {
            html.raw("<div>");
            if !panel.title.is_empty() {
                html.raw("<h5>").text(&panel.title).raw("</h5>");
            }
            self.panel(panel, html);
            let names: Vec<&str> = panel.front().iter().map(|point| point.name.as_str()).collect();
            html.raw("<p class=note>No other is better in both than ").text(&names.join(", ")).raw(".</p>");
            let far: Vec<&str> =
                panel.points.iter().filter(|point| !panel.shows(point)).map(|point| point.tooltip.as_str()).collect();
            if !far.is_empty() {
                html.raw("<p class=note>Beyond the end of an axis: ").text(&far.join("; ")).raw(".</p>");
            }
            for note in &panel.notes {
                html.raw("<p class=note>").text(note).raw("</p>");
            }
            html.raw("</div>");
        }
        html.raw("</div>");
        self.csv(html);
        html.raw("</figure>\n");
    }

    fn panel(&self, panel: &ScatterPanel, html: &mut Html) {
        let [x, y] = panel.scales();
        let axes = Axes::new(HEIGHT, Axis { scale: x, title: &self.x }, Axis { scale: y, title: &self.y });
        axes.draw(&format!("{}: {}", self.title, panel.title), html);
        let (x, y) = (axes.x, axes.y);
        let front = panel.front();
        if let Some(first) = front.first() {
            html.write(format_args!("<g class=s{ON_THE_FRONT}><path class=line d=\"M{} ", Px(x.at(first.x.0))));
            html.write(format_args!("{}", Px(y.at(f64::INFINITY))));
            for point in &front {
                html.write(format_args!("H{}V{}", Px(x.at(point.x.0)), Px(y.at(point.y.0))));
            }
            html.write(format_args!("H{}\"/></g>", Px(x.at(f64::INFINITY))));
        }
        let is_on_it = |point: &ScatterPoint| front.iter().any(|of| of.name == point.name);
        // Later ones cover earlier ones.
        let mut order: Vec<&ScatterPoint> = panel.points.iter().collect();
        order.sort_by_key(|point| (point.name == self.reference, is_on_it(point)));
        for point in order {
            let colour = match (point.name == self.reference, is_on_it(point)) {
                (true, _) => REFERENCE,
                (_, true) => ON_THE_FRONT,
                _ => BEHIND,
            };
            let (left, top) = (x.at(point.x.0), y.at(point.y.0));
            html.write(format_args!("<g class=\"m s{}\"><title>", colour % COLOURS)).text(&point.tooltip);
            html.write(format_args!("</title><circle class=hit cx=\"{}\" cy=\"{}\" r=\"9\"/>", Px(left), Px(top)));
            html.raw(&shape(colour, left, top, RADIUS)).raw("</g>");
        }
        let is_named = |point: &&ScatterPoint| is_on_it(point) || point.name == self.reference;
        let mut named: Vec<&ScatterPoint> = panel.points.iter().filter(is_named).collect();
        named.sort_by(|one, other| one.x.0.total_cmp(&other.x.0));
        let place = |point: &ScatterPoint| (x.at(point.x.0), y.at(point.y.0));
        let room = Area { left: x.at(0.0), right: x.at(f64::INFINITY), top: y.at(f64::INFINITY), bottom: y.at(0.0) };
        let around = |point| Area::around(place(point), RADIUS);
        let mut taken: Vec<Area> = panel.points.iter().map(around).collect();
        for point in named {
            let Some(area) = free(&point.name, place(point), &room, &taken) else { continue };
            let (left, top) = place(point);
            if top < area.top - LINE || top > area.bottom + LINE {
                let (to, end) =
                    (left.clamp(area.left, area.right), if top < area.top { area.top } else { area.bottom });
                html.write(format_args!("<path class=tick d=\"M{} {}L{} {}\"/>", Px(left), Px(top), Px(to), Px(end)));
            }
            html.write(format_args!("<text class=axis x=\"{}\" y=\"{}\">", Px(area.left), Px(area.bottom - 2.5)));
            html.text(&point.name).raw("</text>");
            taken.push(area);
        }
        html.raw("</svg>");
    }

    fn csv(&self, html: &mut Html) {
        let mut csv = Csv::new(html);
        csv.text("panel").text("name").text(&self.x).columns("ci95_low,ci95_high");
        csv.text(&self.y).columns("ci95_low,ci95_high").end();
        for panel in &self.panels {
            for point in &panel.points {
                csv.text(&panel.title).text(&point.name);
                for (value, interval) in [point.x, point.y] {
                    csv.number(Some(value)).number(interval.map(|of| of[0])).number(interval.map(|of| of[1]));
                }
                csv.end();
            }
        }
        csv.finish();
    }
}

/// Ends close to the values. Values far above nine tenths of them are beyond its upper end.
fn scale(values: impl Iterator<Item = f64>) -> Scale {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let most = values.get(values.len() * 9 / 10).map_or(f64::INFINITY, |most| FAR * most);
    let near: Vec<f64> = values.into_iter().filter(|value| *value <= most).collect();
    let (low, high) = near.first().copied().zip(near.last().copied()).unwrap_or((1.0, 2.0));
    let room = (high / low).powf(0.1).max(1.02);
    Scale::over([low / room, high * room].into_iter(), true, false, TICKS).within(low / room, high * room)
}

#[derive(Clone, Copy)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn around((x, y): (f64, f64), reach: f64) -> Self {
        Self { left: x - reach, right: x + reach, top: y - reach, bottom: y + reach }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_within(&self, room: &Self) -> bool {
        self.left >= room.left && self.right <= room.right && self.top >= room.top && self.bottom <= room.bottom
    }
}

/// Finds a place for the name of a point that covers no other point or name.
fn free(name: &str, (x, y): (f64, f64), room: &Area, taken: &[Area]) -> Option<Area> {
    let width = CHARACTER * name.chars().count() as f64;
    let sideways = [x + 6.0, x - 6.0 - width, x - width / 2.0, x + 16.0];
    let rises = [0.0, -11.0, 11.0, -20.0, 20.0, -32.0, 32.0, -44.0, 44.0];
    let places = rises.into_iter().flat_map(|rise| sideways.into_iter().map(move |left| (left, rise)));
    let areas = places.map(|(left, rise)| {
        let middle = y + rise;
        Area { left, right: left + width, top: middle - LINE / 2.0, bottom: middle + LINE / 2.0 }
    });
    areas.into_iter().find(|area| area.is_within(room) && !taken.iter().any(|other| other.overlaps(area)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, x: f64, y: f64) -> ScatterPoint {
        ScatterPoint { name: name.to_owned(), x: (x, None), y: (y, None), tooltip: name.to_owned() }
    }

    fn panel(points: Vec<ScatterPoint>) -> ScatterPanel {
        ScatterPanel { title: String::new(), points, notes: Vec::new() }
    }

    #[test]
    fn the_front_has_the_points_that_no_other_beats_and_equal_ones() {
        let points =
            [("slow", 1.0, 9.0), ("fast", 3.0, 1.0), ("both", 2.0, 2.0), ("none", 3.0, 2.0), ("twin", 2.0, 2.0)];
        let panel = panel(points.map(|(name, x, y)| point(name, x, y)).into());
        let names: Vec<&str> = panel.front().iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, ["slow", "both", "twin", "fast"]);
    }

    #[test]
    fn a_far_value_is_at_the_end_of_its_axis_and_named_below() {
        let mut points: Vec<ScatterPoint> = (0..20).map(|of| point("near", 1.0 + f64::from(of) / 20.0, 1.5)).collect();
        points.push(point("far", 12.0, 1.5));
        let panel = panel(points);
        assert!(panel.shows(&panel.points[19]) && !panel.shows(&panel.points[20]));
    }

    #[test]
    fn names_cover_neither_points_nor_names_and_stay_in_the_drawing() {
        let room = Area { left: 0.0, right: 300.0, top: 0.0, bottom: 200.0 };
        let places = [(100.0, 100.0), (104.0, 100.0), (100.0, 104.0), (290.0, 10.0)];
        let mut taken: Vec<Area> = places.iter().map(|place| Area::around(*place, RADIUS)).collect();
        for (number, place) in places.into_iter().enumerate() {
            let area = free("cocoa-plus", place, &room, &taken).unwrap_or_else(|| panic!("{number} has no name"));
            assert!(area.is_within(&room) && !taken.iter().any(|other| other.overlaps(&area)));
            taken.push(area);
        }
    }
}
