//! The plots of a scenario, or of each item and column.

use std::borrow::Cow;
use std::collections::BTreeSet;

use conche_lab::scenario::{Item, Kind, Plot, Scenario, Style, Texts, Unit, filled, matches_any, parsed, templates};
use conche_lab::stats::Interval;
use conche_lab::table::number;
use conche_lab::value::MeasuredValue;

use crate::chart::{Axis, Chart, Mark, Panel, Place, Series};
use crate::study::Study;
use crate::titles;
use crate::unit::symbol;
use crate::values::{bounded, domain, numeric, possible, row_labels, scheme_names};

pub(crate) fn charts(study: &Study) -> Vec<Chart> {
    let sections = study.sections();
    let own = study.experiment.as_ref().map(conche_lab::experiment::Experiment::document);
    let own = own.map(|document| document.scenario().plots.as_slice()).unwrap_or_default();
    let by_items = if own.is_empty() { default_plots(study) } else { Vec::new() };
    let schemes = scheme_names(study);
    own.iter().chain(&by_items).filter_map(|plot| chart(study, plot, sections, &schemes)).collect()
}

/// Fills a plot; `None` without measured values.
fn chart(study: &Study, plot: &Plot, sections: &[Scenario], schemes: &[String]) -> Option<Chart> {
    let rows: Vec<Cow<'_, str>> = templates(sections).collect();
    let wanted = |wanted: &str| plot.template(wanted, sections);
    let (x, series, panels) = (wanted(&plot.x), wanted(&plot.series), plot.panels.as_deref().map(wanted));
    let mut drawn = Drawn::default();
    let (mut lost, mut below) = (0_usize, 0_usize);
    for value in study.values.iter().filter(|value| value.item != "claims" && value.measured.is_finite()) {
        let Some(column) = plot.place_of(&value.item, &value.row, &value.column) else { continue };
        if plot.y_axis.log && value.measured <= 0.0 {
            below += 1;
            continue;
        }
        let of_row = row_labels(&rows, &plot.labels, &value.row);
        let Some(of_row) = of_row.or_else(|| plot.labels.is_empty().then(Vec::new)) else { continue };
        let of_column = parsed(&plot.y.all()[column], &value.column).unwrap_or_default();
        let fill = |template: &str| {
            filled(template, |name| match name {
                "column" => Some(value.column.as_str().into()),
                name => of_row.iter().chain(&of_column).find(|(of, _)| *of == name).map(|(_, label)| (*label).into()),
            })
        };
        let Some((place, of_series)) = fill(&x).zip(fill(&series)) else { continue };
        let Some(panel) = panels.as_deref().map_or(Some(String::new()), fill) else { continue };
        let is_known = drawn.add(study, plot, value, column, [panel, of_series, place]);
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
    let titles = axis_titles(study, plot, &x, &columns[columns.len() / 2], unit);
    let mut chart = drawn.chart(study, plot, &titles, schemes);
    chart.notes = notes;
    let open = if chart.y.log { chart.marks().filter(|mark| mark.reaches_zero()).count() } else { 0 };
    if open > 0 {
        let note = "intervals that reach 0 or less end at the lower end of the logarithmic axis";
        chart.notes.push(format!("{open} {note}"));
    }
    Some(chart)
}

fn axis_titles(study: &Study, plot: &Plot, x: &str, column: &str, unit: Unit) -> [String; 2] {
    let or = |title: &String, otherwise: String| if title.is_empty() { otherwise } else { title.clone() };
    let with_unit = |title: String, unit: &str| {
        let has_unit = unit.is_empty() || title.ends_with(&format!("({unit})"));
        if has_unit { title } else { format!("{title} ({unit})") }
    };
    let unit = if plot.y_axis.unit.is_empty() { symbol(unit) } else { &plot.y_axis.unit };
    let item = plot.items.first().map(String::as_str).unwrap_or_default();
    let spaced = x.replace(['_', '{', '}'], " ").trim().to_owned();
    let x_title = with_unit(or(&plot.x_axis.title, spaced), &plot.x_axis.unit);
    [x_title, with_unit(or(&plot.y_axis.title, titles::plain(study, item, column, unit)), unit)]
}

#[derive(Default)]
struct Drawn {
    unit: Option<Unit>,
    /// Lowest and highest possible value.
    domain: Option<(f64, f64)>,
    places: Vec<String>,
    series: Vec<String>,
    panels: Vec<(String, Vec<Group>)>,
}

struct Group {
    series: usize,
    place: usize,
    of: Vec<(usize, MeasuredValue)>,
    is_compared: bool,
}

impl Drawn {
    /// Adds a value; `false` if its place has one.
    fn add(&mut self, study: &Study, plot: &Plot, value: &MeasuredValue, column: usize, at: [String; 3]) -> bool {
        let domain = domain(study, value);
        let value = bounded(study, value);
        let [panel, series, place] = at;
        self.unit.get_or_insert(value.unit);
        let known = self.domain.get_or_insert(domain);
        *known = (known.0.min(domain.0), known.1.max(domain.1));
        let (series, place) = (index(&mut self.series, series), index(&mut self.places, place));
        let panel = match self.panels.iter().position(|(known, _)| *known == panel) {
            Some(known) => known,
            None => {
                self.panels.push((panel, Vec::new()));
                self.panels.len() - 1
            }
        };
        let groups = &mut self.panels[panel].1;
        let is_compared = matches_any(&plot.published, &value.row);
        let is_boxed = plot.kind == Kind::Box;
        match groups.iter_mut().find(|group| group.series == series && group.place == place) {
            Some(group) if is_boxed && group.of.iter().all(|(known, _)| *known != column) => {
                group.of.push((column, value));
            }
            Some(_) => return false,
            None => groups.push(Group { series, place, of: vec![(column, value)], is_compared }),
        }
        true
    }

    fn chart(self, study: &Study, plot: &Plot, titles: &[String; 2], schemes: &[String]) -> Chart {
        let places: Vec<Place> =
            self.places.iter().map(|label| Place { label: axis_label(label), number: numeric(label) }).collect();
        let order = sorted(&places);
        let series_order = schemes_first(schemes, &self.series);
        let rank = |order: &[usize], of: usize| order.iter().position(|known| *known == of).unwrap_or(of);
        let colour = |name: &String| {
            let scheme = schemes.iter().position(|known| known == name);
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
                    let series = rank(&series_order, group.series);
                    let at = SeriesPlace { series, place: rank(&order, group.place) };
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
            x: Axis { title: x, log: plot.x_axis.log, to: None, domain: None },
            y: Axis { title: y, log: plot.y_axis.log, to: plot.y_axis.to, domain: self.domain },
            places: order.iter().map(|of| places[*of].clone()).collect(),
            series,
            panels,
            notes: Vec::new(),
        }
    }
}

/// Indices into the chart's series and places.
struct SeriesPlace {
    series: usize,
    place: usize,
}

fn mark(study: &Study, plot: &Plot, group: &Group, at: SeriesPlace, names: [&String; 3]) -> Option<Mark> {
    let mut of: Vec<&(usize, MeasuredValue)> = group.of.iter().collect();
    of.sort_by_key(|(column, _)| *column);
    let (_, value) = of.get(of.len() / 2)?;
    let quartiles = match (plot.kind, &of[..]) {
        (Kind::Box, [a, b, c, d, e]) => Some([a, b, c, d, e].map(|(_, value)| value.measured)),
        (Kind::Box, [_]) => quartiles(study.runs.of(value).iter().map(|(_, value)| *value).collect()),
        _ => None,
    };
    let interval = value.ci95.map(|interval| (interval.low, interval.high));
    let published = value.published.filter(|value| group.is_compared && value.is_finite());
    let published_interval = study.experiment.as_ref().and_then(|of| of.published_interval(value));
    let published_interval = published_interval.map(|interval| possible(study, value, interval));
    let names: Vec<&str> = names.into_iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let tooltip = format!("{}: {}", names.join(" · "), tooltip(value, published_interval));
    let published_interval = published.and(published_interval).map(|interval| (interval.low, interval.high));
    let SeriesPlace { series, place } = at;
    let runs = value.runs;
    Some(Mark {
        series,
        place,
        value: value.measured,
        interval,
        published,
        published_interval,
        quartiles,
        runs,
        tooltip,
    })
}

fn tooltip(value: &MeasuredValue, published_interval: Option<Interval>) -> String {
    let bare = |of| number(of, value.unit);
    let show = |of| format!("{} {}", bare(of), symbol(value.unit)).trim_end().to_owned();
    let between = |interval: Option<Interval>| {
        interval.map(|of| format!(" ({} … {})", bare(of.low), bare(of.high))).unwrap_or_default()
    };
    let mut tooltip = show(value.measured) + &between(value.ci95);
    if let Some(published) = value.published {
        tooltip += &format!(", published {}{}", show(published), between(published_interval));
    }
    tooltip + &format!(", {} run{}", value.runs, if value.runs == 1 { "" } else { "s" })
}

/// Returns whisker, quartile, median, quartile and whisker.
fn quartiles(mut values: Vec<f64>) -> Option<[f64; 5]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1).filter(|last| *last >= 2)?;
    let at = |quarter: usize| {
        let (place, rest) = (last * quarter / 4, (last * quarter % 4) as f64 / 4.0);
        values[place] + (values[(place + 1).min(last)] - values[place]) * rest
    };
    Some([0, 1, 2, 3, 4].map(at))
}

/// Appends a new name.
fn index(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// `0_to_9` becomes `0–9`.
fn axis_label(label: &str) -> String {
    label.replace("_to_", "–").replace('_', " ")
}

/// By number if all have one.
fn sorted(places: &[Place]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    if places.iter().all(|place| place.number.is_some()) {
        let number = |of: usize| places[of].number.unwrap_or_default();
        order.sort_by(|a, b| number(*a).total_cmp(&number(*b)));
    }
    order
}

fn schemes_first(schemes: &[String], series: &[String]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by_key(|of| schemes.iter().position(|scheme| *scheme == series[*of]).unwrap_or(usize::MAX));
    order
}

/// Maximum plots per item.
const MOST_OF_AN_ITEM: usize = 8;
/// Minimum columns, equal except for a number, of one plot.
const ENOUGH_FOR_AN_AXIS: usize = 3;
const MOST_ROWS: usize = 120;

fn default_plots(study: &Study) -> Vec<Plot> {
    let mut plots = Vec::new();
    let mut items: Vec<&str> = Vec::new();
    for value in study.values.iter().filter(|value| value.unit != Unit::Verdict && value.item != "claims") {
        if !items.contains(&value.item.as_str()) {
            items.push(&value.item);
        }
    }
    for item in items {
        let of_item: Vec<&MeasuredValue> = study.values.iter().filter(|value| value.item == item).collect();
        let mut templates: Vec<String> = Vec::new();
        for column in columns(&of_item).into_iter().take(MOST_OF_AN_ITEM) {
            for value in of_item.iter().filter(|value| parsed(&column, &value.column).is_some()) {
                let template = template(study, &value.row);
                if !templates.contains(&template) {
                    templates.push(template);
                }
            }
            let unit = of_item.iter().find(|value| parsed(&column, &value.column).is_some()).map(|value| value.unit);
            let words = titles::plain(study, item, &column, unit.map(symbol).unwrap_or_default());
            let title = title(study, item).map_or_else(|| words.clone(), |title| format!("{title}: {words}"));
            plots.extend(templates.iter().filter_map(|template| plot(&of_item, item, &title, &column, template)));
        }
    }
    plots
}

/// Returns an item's columns; those equal except for a number become a template.
fn columns(values: &[&MeasuredValue]) -> Vec<String> {
    let all: BTreeSet<&str> = values.iter().map(|value| value.column.as_str()).collect();
    let mut columns: Vec<String> = Vec::new();
    for value in values {
        let numbered = numbered(&value.column).filter(|template| {
            all.iter().filter(|column| parsed(template, column).is_some_and(|labels| is_number(labels[0].1))).count()
                >= ENOUGH_FOR_AN_AXIS
        });
        let column = numbered.unwrap_or_else(|| value.column.clone());
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

fn numbered(column: &str) -> Option<String> {
    let start = column.find(|character: char| character.is_ascii_digit())?;
    let length = column[start..].find(|character: char| !character.is_ascii_digit()).unwrap_or(column.len() - start);
    let (before, after) = (&column[..start], &column[start + length..]);
    (!column.contains(['{', '}'])).then(|| format!("{before}{{number}}{after}"))
}

fn is_number(label: &str) -> bool {
    label.parse::<f64>().is_ok_and(f64::is_finite)
}

fn template(study: &Study, row: &str) -> String {
    let known = templates(study.sections()).find(|template| parsed(template, row).is_some());
    known.map_or_else(
        || {
            let parts = (1..).zip(row.split('/')).map(|(place, _)| format!("{{part {place}}}"));
            parts.collect::<Vec<_>>().join("/")
        },
        std::borrow::Cow::into_owned,
    )
}

fn title<'a>(study: &'a Study, item: &str) -> Option<&'a str> {
    let document = study.experiment.as_ref().map(conche_lab::experiment::Experiment::document);
    let items: &[Item] = document.map(|document| document.scenario().items.as_slice()).unwrap_or_default();
    let known = items.iter().find(|known| known.name == item && !known.title.is_empty());
    known.map(|known| known.title.as_str())
}

/// Plots a column over varying labels: the axis is the label with most numbers, the series the
/// schemes or the first label, the rest panels.
fn plot(values: &[&MeasuredValue], item: &str, title: &str, column: &str, template: &str) -> Option<Plot> {
    let of_column = values.iter().filter(|value| parsed(column, &value.column).is_some());
    let rows: Vec<_> = of_column.clone().filter_map(|value| parsed(template, &value.row)).collect();
    let unit = of_column.clone().next()?.unit;
    if rows.is_empty() || rows.len() > MOST_ROWS && !column.contains('{') {
        return None;
    }
    let names: Vec<&str> = rows[0].iter().map(|(name, _)| *name).collect();
    let distinct = |name: &str| -> BTreeSet<&str> {
        rows.iter().flatten().filter(|(known, _)| *known == name).map(|(_, label)| *label).collect()
    };
    let mut varied: Vec<&str> = names.iter().copied().filter(|name| distinct(name).len() > 1).collect();
    let numeric = |name: &&str| distinct(name).iter().all(|label| is_number(label));
    let mut take = |wanted: Option<&str>| {
        let place = varied.iter().position(|name| Some(*name) == wanted)?;
        Some(varied.remove(place).to_owned())
    };
    let has_axis = column.contains('{');
    let all: Vec<&str> = names.iter().copied().filter(|name| distinct(name).len() > 1).collect();
    let x = match has_axis {
        true => Some("number".to_owned()),
        false => take(all.iter().copied().filter(numeric).max_by_key(|name| distinct(name).len())),
    };
    let series = take(all.iter().copied().find(|name| *name == "scheme"))
        .or_else(|| take(all.iter().copied().find(|name| Some(*name) != x.as_deref())));
    let x = x.or_else(|| take(all.iter().copied().find(|name| Some(*name) != series.as_deref())));
    let first = names.first()?;
    let (x, series) = match (x, series) {
        (Some(x), Some(series)) => (x, series),
        (Some(x), None) => (x, (*first).to_owned()),
        (None, Some(series)) => (series.clone(), series),
        (None, None) => ((*first).to_owned(), (*first).to_owned()),
    };
    let panels: Vec<String> = varied.iter().map(|name| format!("{name} {{{name}}}")).collect();
    let is_curve = has_axis || distinct(&x).len() > 2 && distinct(&x).iter().all(|label| is_number(label));
    Some(Plot {
        title: title.to_owned(),
        kind: if is_curve { Kind::Line } else { Kind::Bars },
        x,
        series,
        panels: (!panels.is_empty()).then(|| panels.join(" · ")),
        y: Texts::One(column.to_owned()),
        items: vec![item.to_owned()],
        rows: vec!["*".to_owned()],
        labels: vec![template.to_owned()],
        published: vec!["*".to_owned()],
        x_axis: Style::default(),
        y_axis: Style { unit: symbol(unit).to_owned(), ..Style::default() },
        notes: Vec::new(),
    })
}
