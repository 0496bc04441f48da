//! A plot as data, and its drawing.

mod axes;
mod csv;
mod distribution;
mod draw;
mod heat;
mod lanes;
mod scale;
mod scatter;
mod series;

use conche_lab::scenario::Kind;

use crate::html::Html;
pub(crate) use csv::Csv;
pub(crate) use distribution::{Curve, Distribution};
pub(crate) use draw::{extent, shape};
pub(crate) use heat::{Heat, HeatPanel};
pub(crate) use lanes::{Lane, lanes};
pub(crate) use scale::{Scale, label as tick_label};
pub(crate) use scatter::{Scatter, ScatterPanel, ScatterPoint};
pub(crate) use series::{SeriesLine, SeriesPanel, TimeSeries};

/// Colours in the style sheet, and shapes.
pub(crate) const COLOURS: usize = 8;

/// A plot: panels over the same axes.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) kind: Kind,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Positions on the horizontal axis.
    pub(crate) places: Vec<Place>,
    pub(crate) series: Vec<Series>,
    pub(crate) panels: Vec<Panel>,
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) log: bool,
    /// Upper end, unless a value or an interval is above it.
    pub(crate) to: Option<f64>,
    /// Lowest and highest possible value, which the axis does not exceed.
    pub(crate) domain: Option<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) label: String,
    /// Number in the label.
    pub(crate) number: Option<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) colour: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) marks: Vec<Mark>,
}

#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) series: usize,
    pub(crate) place: usize,
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) published: Option<f64>,
    pub(crate) published_interval: Option<(f64, f64)>,
    /// Whisker, quartile, median, quartile, whisker.
    pub(crate) quartiles: Option<[f64; 5]>,
    pub(crate) runs: u32,
    pub(crate) tooltip: String,
}

impl Mark {
    /// Whether an interval has no place on a logarithmic axis.
    pub(crate) fn reaches_zero(&self) -> bool {
        [self.interval, self.published_interval].into_iter().flatten().any(|(low, _)| low <= 0.0)
    }
}

impl Chart {
    fn is_numeric(&self) -> bool {
        matches!(self.kind, Kind::Line | Kind::Points)
            && self.places.len() > 1
            && self.places.iter().all(|place| place.number.is_some_and(|number| !self.x.log || number > 0.0))
    }

    fn is_wide(&self) -> bool {
        let columns = self.places.len() * if self.is_dodged() { self.series.len() } else { 1 };
        matches!(self.kind, Kind::Bars | Kind::Box) && columns > 18 || !self.is_numeric() && self.places.len() > 12
    }

    fn is_dodged(&self) -> bool {
        self.panels.iter().any(|panel| panel.marks.windows(2).any(|pair| pair[0].place == pair[1].place))
    }

    pub(crate) fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.panels.iter().flat_map(|panel| &panel.marks)
    }

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
        self.csv(html);
        html.raw("</figure>\n");
    }

    /// Writes the values as CSV, for the script to save.
    fn csv(&self, html: &mut Html) {
        let x = if self.x.title.is_empty() { "x" } else { &self.x.title };
        let columns = "ci95_low,ci95_high,published,published_low,published_high,runs";
        let mut csv = Csv::new(html);
        csv.text("panel").text("series").text(x).text(&self.y.title).columns(columns).end();
        for panel in &self.panels {
            for mark in &panel.marks {
                csv.text(&panel.title).text(&self.series[mark.series].name).text(&self.places[mark.place].label);
                csv.number(Some(mark.value));
                let ends = |of: Option<(f64, f64)>| [of.map(|of| of.0), of.map(|of| of.1)];
                let [low, high] = ends(mark.interval);
                let [published_low, published_high] = ends(mark.published_interval);
                for number in [low, high, mark.published, published_low, published_high, Some(f64::from(mark.runs))] {
                    csv.number(number);
                }
                csv.end();
            }
        }
        csv.finish();
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

/// A shape of the legend.
pub(crate) fn key(colour: usize, hollow: bool) -> String {
    let class = if hollow { "pub".to_owned() } else { format!("s{}", colour % COLOURS) };
    format!("<svg class=key viewBox=\"0 0 12 12\"><g class={class}>{}</g></svg>", shape(colour, 6.0, 6.0, 4.2))
}
