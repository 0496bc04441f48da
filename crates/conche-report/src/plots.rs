//! Fills the plots that a scenario defines with measured values.

use std::borrow::Cow;

use conche_lab::scenario::Unit;
use conche_lab::scenario::{Kind, Plot, Scenario, filled, matches_any, parsed, templates};
use conche_lab::stats::Interval;
use conche_lab::table::number;
use conche_lab::value::MeasuredValue;

use crate::chart::{Axis, Chart, Mark, Panel, Place, Series};
use crate::read::Study;
use crate::unit_symbol::symbol;

/// Returns the plots of a study in order: those of its scenario or, without any, one per item and
/// column.
pub(crate) fn charts(study: &Study) -> Vec<Chart> {
    let sections = study.sections();
    let own = study.experiment.as_ref().map(conche_lab::experiment::Experiment::document);
    let own = own.map(|document| document.scenario().figures.as_slice()).unwrap_or_default();
    let by_items = if own.is_empty() { crate::fallback::plots(study) } else { Vec::new() };
    own.iter().chain(&by_items).filter_map(|plot| chart(study, plot, sections)).collect()
}

/// Returns the labels of a row, by name.
pub(crate) fn labels<'a>(
    templates: &'a [Cow<'a, str>],
    own: &'a [String],
    row: &'a str,
) -> Option<Vec<(&'a str, &'a str)>> {
    match own {
        [] => templates.iter().find_map(|template| parsed(template, row)),
        own => own.iter().find_map(|template| parsed(template, row)),
    }
}

/// Builds a plot; `None` if none of its values was measured.
fn chart(study: &Study, plot: &Plot, sections: &[Scenario]) -> Option<Chart> {
    let rows: Vec<Cow<'_, str>> = templates(sections).collect();
    let wanted = |wanted: &str| plot.template(wanted, sections);
    let (x, series, panels) = (wanted(&plot.x), wanted(&plot.series), plot.panels.as_deref().map(wanted));
    let mut drawn = Drawn::default();
    let (mut lost, mut below) = (0_usize, 0_usize);
    for figure in study.figures.iter().filter(|figure| figure.item != "claims" && figure.measured.is_finite()) {
        let Some(column) = plot.place_of(&figure.item, &figure.row, &figure.column) else { continue };
        if plot.y_axis.log && figure.measured <= 0.0 {
            below += 1;
            continue;
        }
        let of_row = labels(&rows, &plot.labels, &figure.row);
        let Some(of_row) = of_row.or_else(|| plot.labels.is_empty().then(Vec::new)) else { continue };
        let of_column = parsed(&plot.y.all()[column], &figure.column).unwrap_or_default();
        let fill = |template: &str| {
            filled(template, |name| match name {
                "column" => Some(figure.column.as_str().into()),
                name => of_row.iter().chain(&of_column).find(|(of, _)| *of == name).map(|(_, label)| (*label).into()),
            })
        };
        let Some((place, of_series)) = fill(&x).zip(fill(&series)) else { continue };
        let Some(panel) = panels.as_deref().map_or(Some(String::new()), fill) else { continue };
        let is_known = drawn.add(plot, figure, column, [panel, of_series, place]);
        lost += usize::from(!is_known);
    }
    let unit = drawn.unit?;
    let mut notes = plot.notes.clone();
    if lost > 0 {
        notes.push(format!("{lost} more values have the same place, series and panel as others and are not drawn"));
    }
    if below > 0 {
        notes.push(format!("{below} values are 0, which a logarithmic axis does not have"));
    }
    let columns = plot.y.all();
    Some(drawn.chart(study, plot, notes, &axis_titles(plot, &x, &columns[columns.len() / 2], unit)))
}

fn axis_titles(plot: &Plot, x: &str, column: &str, unit: Unit) -> [String; 2] {
    let spaced = |text: &str| text.replace(['_', '{', '}'], " ").trim().to_owned();
    let or = |title: &String, otherwise: &str| if title.is_empty() { spaced(otherwise) } else { title.clone() };
    let with_unit = |title: String, unit: &str| if unit.is_empty() { title } else { format!("{title} ({unit})") };
    let unit = if plot.y_axis.unit.is_empty() { symbol(unit) } else { &plot.y_axis.unit };
    [with_unit(or(&plot.x_axis.title, x), &plot.x_axis.unit), with_unit(or(&plot.y_axis.title, column), unit)]
}

/// A plot under construction.
#[derive(Default)]
struct Drawn {
    unit: Option<Unit>,
    places: Vec<String>,
    series: Vec<String>,
    panels: Vec<(String, Vec<Group>)>,
}

/// The values of one series at one place: a single one, or the five of a box.
struct Group {
    series: usize,
    place: usize,
    of: Vec<(usize, MeasuredValue)>,
    is_compared: bool,
}

impl Drawn {
    /// Adds a value; `false` if its place already has one.
    fn add(&mut self, plot: &Plot, figure: &MeasuredValue, column: usize, at: [String; 3]) -> bool {
        let [panel, series, place] = at;
        self.unit.get_or_insert(figure.unit);
        let (series, place) = (index(&mut self.series, series), index(&mut self.places, place));
        let panel = match self.panels.iter().position(|(known, _)| *known == panel) {
            Some(known) => known,
            None => {
                self.panels.push((panel, Vec::new()));
                self.panels.len() - 1
            }
        };
        let groups = &mut self.panels[panel].1;
        let is_compared = matches_any(&plot.published, &figure.row);
        let is_boxed = plot.kind == Kind::Box;
        match groups.iter_mut().find(|group| group.series == series && group.place == place) {
            Some(group) if is_boxed && group.of.iter().all(|(known, _)| *known != column) => {
                group.of.push((column, figure.clone()));
            }
            Some(_) => return false,
            None => groups.push(Group { series, place, of: vec![(column, figure.clone())], is_compared }),
        }
        true
    }

    fn chart(self, study: &Study, plot: &Plot, notes: Vec<String>, titles: &[String; 2]) -> Chart {
        let places: Vec<Place> =
            self.places.iter().map(|label| Place { label: axis_label(label), number: numeric(label) }).collect();
        let order = sorted(&places);
        let series_order = schemes_first(study, &self.series);
        let rank = |order: &[usize], of: usize| order.iter().position(|known| *known == of).unwrap_or(of);
        let colour = |name: &String| {
            let scheme = scheme_names(study).iter().position(|known| known == name);
            scheme.unwrap_or_else(|| self.series.iter().position(|known| known == name).unwrap_or_default())
        };
        let distinct =
            series_order.iter().map(|of| Series { name: self.series[*of].clone(), colour: colour(&self.series[*of]) });
        let series: Vec<Series> = distinct.collect();
        let panels = self.panels.iter().map(|(title, groups)| Panel {
            title: title.clone(),
            marks: groups
                .iter()
                .filter_map(|group| {
                    let at = (rank(&series_order, group.series), rank(&order, group.place));
                    let names = [title, &self.series[group.series], &self.places[group.place]];
                    mark(study, plot, group, at, names)
                })
                .collect(),
        });
        let mut panels: Vec<Panel> = panels.collect();
        for panel in &mut panels {
            panel.marks.sort_by_key(|mark| (mark.place, mark.series));
        }
        let [x, y] = titles.clone();
        Chart {
            title: plot.title.clone(),
            kind: plot.kind,
            x: Axis { title: x, log: plot.x_axis.log, to: None },
            y: Axis { title: y, log: plot.y_axis.log, to: plot.y_axis.to },
            places: order.iter().map(|of| places[*of].clone()).collect(),
            series,
            panels,
            notes,
        }
    }
}

/// Builds the mark of a value or box.
fn mark(
    study: &Study,
    plot: &Plot,
    group: &Group,
    (series, place): (usize, usize),
    names: [&String; 3],
) -> Option<Mark> {
    let mut of: Vec<&(usize, MeasuredValue)> = group.of.iter().collect();
    of.sort_by_key(|(column, _)| *column);
    let (_, figure) = of.get(of.len() / 2)?;
    let quartiles = match (plot.kind, &of[..]) {
        (Kind::Box, [a, b, c, d, e]) => Some([a, b, c, d, e].map(|(_, figure)| figure.measured)),
        (Kind::Box, [_]) => quartiles(study.runs.of(figure).iter().map(|(_, value)| *value).collect()),
        _ => None,
    };
    let interval = figure.ci95.map(|interval| (interval.low, interval.high));
    let published = figure.published.filter(|value| group.is_compared && value.is_finite());
    let published_interval = study.experiment.as_ref().and_then(|of| of.published_interval(figure));
    let names: Vec<&str> = names.into_iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let tooltip = format!("{}: {}", names.join(" · "), tooltip(figure, published_interval));
    let published_interval = published.and(published_interval).map(|interval| (interval.low, interval.high));
    Some(Mark { series, place, value: figure.measured, interval, published, published_interval, quartiles, tooltip })
}

/// Formats a value for the tooltip.
fn tooltip(figure: &MeasuredValue, published_interval: Option<Interval>) -> String {
    let bare = |value| number(value, figure.unit);
    let show = |value| format!("{} {}", bare(value), symbol(figure.unit)).trim_end().to_owned();
    let between = |interval: Option<Interval>| {
        interval.map(|of| format!(" ({} … {})", bare(of.low), bare(of.high))).unwrap_or_default()
    };
    let mut tooltip = show(figure.measured) + &between(figure.ci95);
    if let Some(published) = figure.published {
        tooltip += &format!(", published {}{}", show(published), between(published_interval));
    }
    tooltip + &format!(", {} run{}", figure.runs, if figure.runs == 1 { "" } else { "s" })
}

/// Returns whisker, quartile, median, quartile and whisker of the runs' values.
fn quartiles(mut values: Vec<f64>) -> Option<[f64; 5]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1).filter(|last| *last >= 2)?;
    let at = |quarter: usize| {
        let (place, rest) = (last * quarter / 4, (last * quarter % 4) as f64 / 4.0);
        values[place] + (values[(place + 1).min(last)] - values[place]) * rest
    };
    Some([0, 1, 2, 3, 4].map(at))
}

/// Returns the index of a name in a list; appends it if it is new.
fn index(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// Reads the number in a label that may end in a unit: `20`, `8.5`, `120s`.
fn numeric(label: &str) -> Option<f64> {
    let digits = label.trim_end_matches(|character: char| character.is_ascii_alphabetic() || character == ' ');
    digits.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Formats a label for an axis: `0_to_9` becomes `0–9`.
fn axis_label(label: &str) -> String {
    label.replace("_to_", "–").replace('_', " ")
}

/// Orders places by number if all have one; otherwise keeps their order.
fn sorted(places: &[Place]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    if places.iter().all(|place| place.number.is_some()) {
        let number = |of: usize| places[of].number.unwrap_or_default();
        order.sort_by(|a, b| number(*a).total_cmp(&number(*b)));
    }
    order
}

pub(crate) fn scheme_names(study: &Study) -> Vec<&str> {
    let document = study.experiment.as_ref().map(conche_lab::experiment::Experiment::document);
    let schemes = document.map(|document| document.scenario().schemes.iter());
    schemes.into_iter().flatten().map(|scheme| scheme.name.as_str()).collect()
}

/// Orders series: the scenario's schemes first, then the others.
fn schemes_first(study: &Study, series: &[String]) -> Vec<usize> {
    let schemes = scheme_names(study);
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by_key(|of| schemes.iter().position(|scheme| *scheme == series[*of]).unwrap_or(usize::MAX));
    order
}
