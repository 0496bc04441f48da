//! A figure as data, and its drawing.
//!
//! | file | what it holds |
//! |---|---|
//! | `scale` | from values to places on an axis |
//! | `draw` | a panel as SVG |
//! | `marks` | shapes, bars, boxes, whiskers |
//! | `lanes` | exchanges copy by copy, over one axis of time |

mod draw;
mod lanes;
mod marks;
mod scale;

use conche_lab::scenario::Kind;

use crate::html::Html;
pub(crate) use lanes::{Lane, lanes};
pub(crate) use marks::shape;
pub(crate) use scale::Scale;

/// Colours, which the style sheet names, and shapes.
pub(crate) const COLOURS: usize = 8;

/// A figure: panels over the same axes.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) kind: Kind,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// What stands along the horizontal axis.
    pub(crate) places: Vec<Place>,
    pub(crate) series: Vec<Series>,
    pub(crate) panels: Vec<Panel>,
    pub(crate) notes: Vec<String>,
}

/// What is written along an axis, and how it is divided.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) log: bool,
    /// Where it ends, if that is not above all values.
    pub(crate) to: Option<f64>,
}

/// A place on the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) label: String,
    /// What the label says, if that is a number.
    pub(crate) number: Option<f64>,
}

/// What has a colour and a shape of its own.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) colour: usize,
}

/// What is drawn over one pair of axes.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) marks: Vec<Mark>,
}

/// A value that is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) series: usize,
    pub(crate) place: usize,
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) published: Option<f64>,
    pub(crate) published_interval: Option<(f64, f64)>,
    /// What a box has: whisker, quartile, median, quartile, whisker.
    pub(crate) quartiles: Option<[f64; 5]>,
    /// What a reader who points at it is told.
    pub(crate) told: String,
}

impl Chart {
    /// Whether the horizontal axis is one of numbers.
    fn is_numeric(&self) -> bool {
        matches!(self.kind, Kind::Line | Kind::Points)
            && self.places.len() > 1
            && self.places.iter().all(|place| place.number.is_some_and(|number| !self.x.log || number > 0.0))
    }

    /// Whether one panel needs the width of two.
    fn is_wide(&self) -> bool {
        let columns = self.places.len() * if self.is_dodged() { self.series.len() } else { 1 };
        matches!(self.kind, Kind::Bars | Kind::Box) && columns > 18 || !self.is_numeric() && self.places.len() > 12
    }

    /// Whether series stand side by side: not where each place has one only, as when schemes stand along the axis.
    fn is_dodged(&self) -> bool {
        self.panels.iter().any(|panel| panel.marks.windows(2).any(|pair| pair[0].place == pair[1].place))
    }

    fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.panels.iter().flat_map(|panel| &panel.marks)
    }

    /// The figure with its title, legend and notes.
    pub(crate) fn html(&self, html: &mut Html) {
        let class = match (self.is_wide(), self.panels.len()) {
            (true, 2..) => "chart full",
            (true, _) => "chart half",
            (false, 2 | 4) => "chart two",
            (false, 3 | 5..) => "chart full three",
            (false, _) => "chart",
        };
        html.raw("<figure class=\"").raw(class).raw("\"><figcaption>").text(&self.title).raw("</figcaption>");
        self.legend(html);
        html.raw("<div class=plots>");
        for panel in &self.panels {
            html.raw("<div>");
            if !panel.title.is_empty() {
                html.raw("<h5>").text(&panel.title).raw("</h5>");
            }
            draw::panel(self, panel, html);
            html.raw("</div>");
        }
        html.raw("</div>");
        for note in &self.notes {
            html.raw("<p class=note>").text(note).raw("</p>");
        }
        html.raw("</figure>\n");
    }

    fn legend(&self, html: &mut Html) {
        html.raw("<ul class=legend>");
        for series in &self.series {
            html.raw("<li>").raw(&key(series.colour, false)).text(&series.name).raw("</li>");
        }
        if self.marks().any(|mark| mark.published.is_some()) {
            html.raw("<li>").raw(&key(0, true)).raw("published</li>");
        }
        if self.marks().any(|mark| mark.interval.is_some() && mark.quartiles.is_none()) {
            html.raw("<li class=dim><svg class=key viewBox=\"0 0 12 12\"><path class=wk d=\"M6 1v10M3 1h6M3 11h6\"/></svg>95 % interval</li>");
        }
        html.raw("</ul>");
    }
}

/// A shape as a legend shows it.
pub(crate) fn key(colour: usize, hollow: bool) -> String {
    let class = if hollow { "pub".to_owned() } else { format!("s{}", colour % COLOURS) };
    format!("<svg class=key viewBox=\"0 0 12 12\"><g class={class}>{}</g></svg>", shape(colour, 6.0, 6.0, 4.2))
}
