//! One plot as an SVG file: a line per scheme over a numeric axis.

use std::borrow::Cow;
use std::collections::BTreeMap;

use conche_lab::scenario::{matches_any, templates};
use conche_lab::table::number;
use conche_lab::value::MeasuredValue;

use crate::chart::{Scale, extent, shape, tick_label};
use crate::html::{Html, Px};
use crate::read::Results;
use crate::study::Study;
use crate::titles;
use crate::unit::symbol;
use crate::values::{base_unit, bounded, numeric, own_schemes, row_labels};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 308.0;
/// Average width of a character of the labels.
const CHARACTER: f64 = 8.4;
/// Minimum distance between labels of lines.
const LINE_HEIGHT: f64 = 18.0;
const TICKS: u32 = 5;
/// Larger factors have a logarithmic axis.
const LINEAR: f64 = 1000.0;
/// More lines are unreadable.
const MOST_LINES: usize = 8;

const STYLE: &str = "\
svg{--paper:#fff;--ink:#1a1d21;--soft:#57606a;--grid:#e4e8ec;--s0:#0072b2;--s1:#d55e00;--s2:#00805d;--s3:#a8458d;--s4:#946f00;--s5:#2b87be;--s6:#666;--s7:#8a4b2a;\
font:13px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}\
@media (prefers-color-scheme:dark){svg{--paper:#0d1117;--ink:#e8eaed;--soft:#9aa4af;--grid:#262d36;--s0:#58b0ee;--s1:#ff8b45;--s2:#35c99b;--s3:#e08fc9;--s4:#e9b93a;--s5:#9bd6fb;--s6:#b3b3b3;--s7:#cf9168}}\
.paper{fill:var(--paper)}text{fill:var(--soft)}.title{fill:var(--ink);font-size:17px;font-weight:600}.axis{fill:var(--ink)}\
.grid{stroke:var(--grid);fill:none}.base{stroke:var(--soft);fill:none}\
.line{fill:none;stroke:var(--c);stroke-width:2.5;stroke-linejoin:round}.wk{fill:none;stroke:var(--c);stroke-width:1.5}\
.mark path{fill:var(--c)}.name{fill:var(--c);font-weight:600}";

/// Why a figure cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FigureError {
    /// No scenario has this value.
    #[error("no results have the value `{wanted}`; they have {}", known.join(", "))]
    Unknown {
        /// Requested value.
        wanted: String,
        /// Known values.
        known: Vec<String>,
    },
    /// Several scenarios have this value.
    #[error("{} have the value `{wanted}`; draw one directory of one scenario", scenarios.join(" and "))]
    Ambiguous {
        /// Requested value.
        wanted: String,
        /// Scenarios.
        scenarios: Vec<String>,
    },
    /// No row has the requested labels.
    #[error("no value of `{0}` has these labels")]
    Empty(String),
    /// A label is not selected.
    #[error("several labels of {axis}; choose one with `--only {axis}={}` ({})", labels[0], labels.join(", "))]
    Open {
        /// Axis.
        axis: String,
        /// Its labels, at least two.
        labels: Vec<String>,
    },
    /// No axis has two numbers.
    #[error("no axis has several numbers, so there is nothing to draw a line over")]
    NoAxis,
    /// Values of different items or rows share a place.
    #[error("several values of a scheme have the same {0}; choose one with `--only AXIS=LABEL`")]
    Crowded(String),
    /// There are too many schemes.
    #[error("{0} schemes; choose at most {MOST_LINES} with `--only scheme=NAME,NAME`")]
    TooMany(usize),
}

/// The selection of a figure's values.
#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    /// Column of the value, such as `fct_median_s`.
    pub column: &'a str,
    /// Labels by axis; `*` is a wildcard. `scheme` selects schemes.
    pub only: &'a [(String, Vec<String>)],
    /// Command that draws the figure, recorded in it.
    pub command: &'a str,
}

/// Draws a value over a numeric axis as an SVG file, with one line per scheme.
///
/// # Errors
/// If no scenario or several have the value, or an axis other than that of the numbers has several
/// labels.
pub fn figure(results: &[Results], selection: &Selection<'_>) -> Result<String, FigureError> {
    let all = || results.iter().flat_map(|of| of.studies.iter().map(move |study| (of, study)));
    let has = |study: &Study| values(study).any(|value| value.column == selection.column);
    let found: Vec<(&Results, &Study)> = all().filter(|(_, study)| has(study)).collect();
    match found[..] {
        [(of, study)] => {
            let plot = Lines::of(study, selection)?;
            let command = |words: &[String]| {
                let program = words.first().map(|first| first.rsplit(['/', '\\']).next().unwrap_or(first));
                program.into_iter().chain(words.iter().skip(1).map(String::as_str)).collect::<Vec<_>>().join(" ")
            };
            let commands = [command(&of.manifest.command), selection.command.to_owned()];
            Ok(plot.svg(&commands.map(|command| command.trim().to_owned())))
        }
        [] => {
            let mut known: Vec<String> =
                all().flat_map(|(_, study)| values(study)).map(|of| of.column.clone()).collect();
            known.sort();
            known.dedup();
            Err(FigureError::Unknown { wanted: selection.column.to_owned(), known })
        }
        _ => Err(FigureError::Ambiguous {
            wanted: selection.column.to_owned(),
            scenarios: found.iter().map(|(_, study)| study.about.name.clone()).collect(),
        }),
    }
}

fn values(study: &Study) -> impl Iterator<Item = &MeasuredValue> {
    study.values.iter().filter(|value| value.item != "claims" && value.measured.is_finite())
}

/// The data of the figure.
struct Lines {
    title: String,
    subtitle: String,
    x_title: String,
    lines: Vec<Line>,
}

struct Line {
    scheme: String,
    colour: usize,
    /// By rising number.
    points: Vec<(f64, MeasuredValue)>,
}

fn is_scheme(axis: &str) -> bool {
    axis == "scheme"
}

impl Lines {
    fn of<'a>(study: &'a Study, selection: &Selection<'_>) -> Result<Self, FigureError> {
        let rows: Vec<Cow<'_, str>> = templates(study.sections()).collect();
        let is_wanted = |axis: &str, label: &str| {
            let mut of_axis = selection.only.iter().filter(|(name, _)| name == axis);
            of_axis.all(|(_, wanted)| matches_any(wanted, label))
        };
        let mut chosen: Vec<(BTreeMap<String, String>, &'a MeasuredValue)> = Vec::new();
        for value in values(study).filter(|value| value.column == selection.column) {
            let Some(of_row) = row_labels(&rows, &[], &value.row) else { continue };
            let of_row: BTreeMap<String, String> =
                of_row.into_iter().map(|(axis, label)| (axis.to_owned(), label.to_owned())).collect();
            let has_all = selection.only.iter().all(|(axis, _)| of_row.contains_key(axis));
            // Other mixes, `a@a+b`, only if selected.
            let is_alone =
                |label: &String| !label.contains('@') || selection.only.iter().any(|(axis, _)| is_scheme(axis));
            if has_all
                && of_row.iter().all(|(axis, label)| is_wanted(axis, label))
                && of_row.get("scheme").is_some_and(is_alone)
            {
                chosen.push((of_row, value));
            }
        }
        let (first, value) = chosen.first().ok_or_else(|| FigureError::Empty(selection.column.to_owned()))?;
        let distinct = |axis: &str| {
            let mut labels: Vec<&str> = Vec::new();
            for label in chosen.iter().filter_map(|(of_row, _)| of_row.get(axis).map(String::as_str)) {
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
            labels
        };
        let axes: Vec<&String> = first.keys().filter(|axis| !is_scheme(axis)).collect();
        let is_numeric =
            |axis: &&&String| distinct(axis).len() > 1 && distinct(axis).iter().all(|label| numeric(label).is_some());
        let x = axes.iter().filter(is_numeric).max_by_key(|axis| distinct(axis).len()).ok_or(FigureError::NoAxis)?;
        if let Some(open) = axes.iter().find(|axis| *axis != x && distinct(axis).len() > 1) {
            let labels = distinct(open).into_iter().map(str::to_owned).collect();
            return Err(FigureError::Open { axis: (*open).clone(), labels });
        }
        let schemes = distinct("scheme");
        if schemes.len() > MOST_LINES {
            return Err(FigureError::TooMany(schemes.len()));
        }
        let known = own_schemes(study);
        let mut lines: Vec<Line> = Vec::new();
        for (place, scheme) in schemes.into_iter().enumerate() {
            let of_scheme =
                chosen.iter().filter(|(of_row, _)| of_row.get("scheme").is_some_and(|known| known == scheme));
            let mut points: Vec<(f64, MeasuredValue)> = of_scheme
                .filter_map(|(of_row, value)| Some((numeric(of_row.get(*x)?)?, bounded(study, value))))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if points.windows(2).any(|pair| pair[0].0.total_cmp(&pair[1].0).is_eq()) {
                return Err(FigureError::Crowded((*x).clone()));
            }
            let colour = known.iter().position(|known| *known == scheme).unwrap_or(place);
            lines.push(Line { scheme: scheme.to_owned(), colour, points });
        }
        let name = if study.about.title.is_empty() { &study.about.name } else { &study.about.title };
        let fixed = axes.iter().filter(|axis| **axis != *x).map(|axis| format!("{axis} {}", distinct(axis)[0]));
        let counts = || chosen.iter().map(|(_, value)| value.runs);
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let runs = match (least, most) {
            (_, 1) => "1 run each".to_owned(),
            (least, most) if least == most => format!("{most} runs each"),
            _ => format!("{least} to {most} runs each"),
        };
        // Ticks are numbers without a unit.
        let unit = distinct(x).first().and_then(|label| base_unit(label));
        let x_title = x.replace('_', " ") + &unit.map_or_else(String::new, |unit| format!(" ({unit})"));
        let has_intervals = chosen.iter().any(|(_, value)| value.ci95.is_some());
        let runs = if has_intervals { runs + ", 95 % intervals" } else { runs };
        let subtitle: Vec<String> = std::iter::once(name.clone()).chain(fixed).chain([runs]).collect();
        Ok(Self {
            title: titles::with_unit(titles::words(study, &value.item, &value.column), value.unit),
            subtitle: subtitle.join(" · "),
            x_title,
            lines,
        })
    }

    fn svg(&self, commands: &[String]) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let names: Vec<String> = self.lines.iter().map(Line::name).collect();
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let right = WIDTH - 24.0 - CHARACTER * longest as f64;
        let spread = |values: &mut dyn Iterator<Item = f64>| {
            let (low, high) =
                values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
            low > 0.0 && high / low > LINEAR
        };
        let intervals = points().filter_map(|(_, value)| value.ci95).map(|interval| (interval.low, interval.high));
        let x = Scale::over(points().map(|(x, _)| *x), spread(&mut points().map(|(x, _)| *x)), false, TICKS)
            .between(LEFT + 14.0, right - 10.0);
        let is_log = spread(&mut points().map(|(_, value)| value.measured));
        let measured = extent(points().map(|(_, value)| value.measured).collect(), intervals);
        let y = Scale::over(measured.into_iter(), is_log, true, TICKS).between(BOTTOM, TOP);
        let mut html = Html::default();
        html.write(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n<title>"
        ));
        html.text(&format!("{}. {}", self.title, self.subtitle)).raw("</title>\n<desc>Drawn by: ");
        html.text(&commands.join("; ")).raw("</desc>\n<style>").raw(STYLE).raw("</style>\n");
        html.write(format_args!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\n"));
        html.raw("<text class=\"title\" x=\"16\" y=\"28\">").text(&self.title);
        html.raw("</text><text x=\"16\" y=\"48\">").text(&self.subtitle).raw("</text>\n");
        for tick in y.ticks(TICKS) {
            let at = y.at(tick);
            html.write(format_args!(
                "<path class=\"grid\" d=\"M{LEFT} {0}H{1}\"/><text x=\"{2}\" y=\"{3}\" text-anchor=\"end\">{4}</text>\n",
                Px(at), Px(right), Px(LEFT - 8.0), Px(at + 4.5), tick_label(tick)
            ));
        }
        html.write(format_args!("<path class=\"base\" d=\"M{LEFT} {}H{}\"/>\n", Px(y.ground()), Px(right)));
        let mut free_from = f64::NEG_INFINITY;
        let mut numbers: Vec<f64> = points().map(|(x, _)| *x).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        for tick in numbers {
            let (at, name) = (x.at(tick), tick_label(tick));
            let half = CHARACTER * name.chars().count() as f64 / 2.0;
            html.write(format_args!("<path class=\"base\" d=\"M{} {BOTTOM}v5\"/>", Px(at)));
            if at - half >= free_from {
                free_from = at + half + 4.0;
                html.write(format_args!(
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{name}</text>\n",
                    Px(at),
                    Px(BOTTOM + 20.0)
                ));
            }
        }
        let middle = Px(f64::midpoint(LEFT, right));
        html.write(format_args!(
            "<text class=\"axis\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">",
            Px(HEIGHT - 12.0)
        ));
        html.text(&self.x_title).raw("</text>\n");
        let ends: Vec<f64> = self
            .lines
            .iter()
            .map(|line| line.points.last().map_or(BOTTOM, |(_, value)| y.at(value.measured)))
            .collect();
        for ((line, name), at) in self.lines.iter().zip(&names).zip(apart(&ends)) {
            line.draw(&x, &y, &mut html);
            html.write(format_args!("<text class=\"name\" x=\"{}\" y=\"{}\">", Px(right + 8.0), Px(at + 5.0)));
            html.text(name).raw("</text></g>\n");
        }
        html.raw("</svg>\n");
        html.finish()
    }
}

impl Line {
    /// With its last value.
    fn name(&self) -> String {
        let last = self
            .points
            .last()
            .map(|(_, value)| format!("{} {}", number(value.measured, value.unit), symbol(value.unit)));
        format!("{} {}", self.scheme, last.unwrap_or_default()).trim_end().to_owned()
    }

    fn draw(&self, x: &Scale, y: &Scale, html: &mut Html) {
        html.write(format_args!(
            "<g style=\"--c:var(--s{})\"><path class=\"line\" d=\"",
            self.colour % crate::chart::COLOURS
        ));
        for (place, (at, value)) in self.points.iter().enumerate() {
            let command = if place == 0 { 'M' } else { 'L' };
            html.write(format_args!("{command}{} {}", Px(x.at(*at)), Px(y.at(value.measured))));
        }
        html.raw("\"/><path class=\"wk\" d=\"");
        for (at, interval) in self.points.iter().filter_map(|(at, value)| Some((*at, value.ci95?))) {
            let (at, low, high) = (x.at(at), y.at(interval.low), y.at(interval.high));
            html.write(format_args!("M{0} {1}V{2}M{3} {1}h8M{3} {2}h8", Px(at), Px(low), Px(high), Px(at - 4.0)));
        }
        html.raw("\"/><g class=\"mark\">");
        for (at, value) in &self.points {
            html.raw(&shape(self.colour, x.at(*at), y.at(value.measured), 4.5));
        }
        html.raw("</g>");
    }
}

/// Moves labels apart, each as near to its line as possible.
fn apart(ends: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|a, b| ends[*a].total_cmp(&ends[*b]));
    let mut placed = ends.to_vec();
    for _ in 0..50 {
        for pair in order.windows(2) {
            let missing = LINE_HEIGHT - (placed[pair[1]] - placed[pair[0]]);
            if missing > 0.0 {
                placed[pair[0]] -= missing / 2.0;
                placed[pair[1]] += missing / 2.0;
            }
        }
        placed.iter_mut().for_each(|at| *at = at.clamp(TOP - 6.0, BOTTOM));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_have_the_colours_of_the_report() {
        let report = include_str!("assets/report.css").replace(": ", ":");
        let colours: Vec<&str> =
            STYLE.split(['{', '}', ';']).filter(|rule| rule.starts_with("--s") && rule.len() > 6).collect();
        let of_schemes = colours.iter().filter(|rule| rule[3..].starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(of_schemes.clone().filter(|rule| report.contains(**rule)).count(), 2 * crate::chart::COLOURS);
        assert!(of_schemes.clone().all(|rule| report.contains(*rule)), "{colours:?}");
    }
}
