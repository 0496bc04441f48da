//! Lays out values as text tables.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::Experiment;
use super::claims::CLAIMS;
use crate::report::{Table, deviation, interval, number};
use crate::results::{MeasuredValue, Unit, Verdict};
use crate::scenario::{self, Scenario, filled, matches_any, parsed, templates};

/// The scenario's tables, or one of all values if those are empty, and the claims.
pub(super) fn tables(experiment: &Experiment, figures: &[MeasuredValue]) -> Vec<Table> {
    let scenario = experiment.scenario();
    let view = View::new(experiment.document.sections(), figures);
    let mut tables: Vec<Table> = scenario.tables.iter().map(|table| view.table(table)).collect();
    tables.retain(|table| !table.rows.is_empty());
    // Values outside the scenario's tables must appear, such as of controllers that the paper did
    // not run.
    if tables.is_empty() {
        tables.push(everything(figures));
    }
    tables.push(claims(experiment, figures));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Returns the claims, with reasons for refuted ones as notes.
fn claims(experiment: &Experiment, figures: &[MeasuredValue]) -> Table {
    let mut notes: Vec<String> = Vec::new();
    for figure in
        figures.iter().filter(|figure| figure.unit == Unit::Verdict && Verdict::of(figure.measured) == Verdict::Refuted)
    {
        let known = experiment.reason(figure).filter(|reason| notes.iter().all(|known| known != reason));
        notes.extend(known.map(str::to_owned));
    }
    let claims = figures.iter().filter(|figure| figure.item == CLAIMS);
    let (values, verdicts): (Vec<_>, Vec<_>) = claims.partition(|figure| figure.unit != Unit::Verdict);
    let rows = values.iter().zip(verdicts).map(|(value, verdict)| {
        let compared = value.column.trim_end_matches("_s").replace('_', " ");
        vec![
            value.row.replace('_', " "),
            compared,
            number(value.measured, value.unit),
            interval(value),
            number(verdict.measured, verdict.unit),
        ]
    });
    Table {
        title: "What is said in words".to_owned(),
        header: ["claim", "compared", "measured", "95 %", ""].map(String::from).into(),
        names: 2,
        rows: rows.collect(),
        notes,
    }
}

fn everything(figures: &[MeasuredValue]) -> Table {
    let shown = || figures.iter().filter(|figure| figure.item != CLAIMS);
    let columns = each_once(shown().map(|figure| figure.column.as_str()));
    let rows = each_once(shown().map(|figure| figure.row.as_str()));
    let values = Values::new(figures);
    let line = |row: &&str| {
        let shown = columns.iter().map(|column| values.get(row, column).map(with_error).unwrap_or_default());
        std::iter::once((*row).to_owned()).chain(shown).collect()
    };
    Table {
        title: "What was measured of each cell, with 95 % intervals".to_owned(),
        header: std::iter::once("cell").chain(columns.iter().copied()).map(String::from).collect(),
        names: 1,
        rows: rows.iter().map(line).collect(),
        notes: Vec::new(),
    }
}

fn each_once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    names.filter(|name| seen.insert(*name)).collect()
}

fn with_error(figure: &MeasuredValue) -> String {
    let value = number(figure.measured, figure.unit);
    match figure.ci95 {
        Some(interval) => format!("{value} ± {}", number((interval.high - interval.low) / 2.0, figure.unit)),
        None => value,
    }
}

#[derive(Clone, Debug)]
struct Values<'a>(HashMap<(&'a str, &'a str), &'a MeasuredValue>);

impl<'a> Values<'a> {
    /// Of two values with the same row and column, the later counts.
    fn new(figures: &'a [MeasuredValue]) -> Self {
        Self(figures.iter().map(|figure| ((figure.row.as_str(), figure.column.as_str()), figure)).collect())
    }

    fn get(&self, row: &str, column: &str) -> Option<&'a MeasuredValue> {
        self.0.get(&(row, column)).copied()
    }
}

/// Results with their rows' labels.
struct View<'a> {
    figures: &'a [MeasuredValue],
    values: Values<'a>,
    /// Row templates.
    templates: Vec<Cow<'a, str>>,
    /// Labelled columns: text before and after the label.
    columns: Vec<(&'a str, &'a str)>,
}

struct Line<'a> {
    names: Vec<String>,
    cells: Vec<(String, Vec<&'a MeasuredValue>)>,
}

impl<'a> View<'a> {
    fn new(sections: &'a [Scenario], figures: &'a [MeasuredValue]) -> Self {
        let values = sections.iter().flat_map(|section| &section.values);
        let columns = values.filter_map(|value| value.column.split_once("{}")).collect();
        Self { figures, values: Values::new(figures), templates: templates(sections).collect(), columns }
    }

    fn table(&self, layout: &scenario::Table) -> Table {
        let of_items = |figure: &&MeasuredValue| {
            let mut items = layout.items.iter();
            figure.item != CLAIMS && (layout.items.is_empty() || items.any(|item| *item == figure.item))
        };
        let shown: Vec<&MeasuredValue> = self
            .figures
            .iter()
            .filter(of_items)
            .filter(|figure| matches_any(&layout.rows, &figure.row) && matches_any(&layout.columns, &figure.column))
            .filter(|figure| {
                layout.labels.is_empty() || layout.labels.iter().any(|own| parsed(own, &figure.row).is_some())
            })
            .collect();
        let heads = layout.names.iter().map(|name| name.head.clone());
        let (header, rows) = match layout.cells.is_empty() {
            true => self.comparison(layout, &shown),
            false => self.grid(layout, &shown),
        };
        let (header, names) = (heads.chain(header).collect(), layout.names.len().clamp(1, 2));
        Table { title: layout.title.clone(), header, names, rows, notes: layout.notes.clone() }
    }

    fn comparison(&self, layout: &scenario::Table, shown: &[&MeasuredValue]) -> (Vec<String>, Vec<Vec<String>>) {
        let show = |value: f64, unit| match unit {
            Unit::Seconds => format!("{value:.3}"),
            unit => number(value, unit),
        };
        let line = |figure: &&MeasuredValue| {
            let published = show(figure.published?, figure.unit);
            let names = self.names(layout, figure);
            let values = [published, show(figure.measured, figure.unit), deviation(figure), interval(figure)];
            Some(names?.into_iter().chain(values).collect())
        };
        let header = ["published", "measured", "deviation", "95 % interval"].map(String::from).into();
        (header, shown.iter().filter_map(line).collect())
    }

    /// A line per combination of names, a column per `across` and cell.
    fn grid(&self, layout: &scenario::Table, shown: &[&'a MeasuredValue]) -> (Vec<String>, Vec<Vec<String>>) {
        let mut lines: Vec<Line<'a>> = Vec::new();
        let mut across: Vec<String> = Vec::new();
        for figure in shown {
            let Some((names, place)) = self.names(layout, figure).zip(self.fill(layout, &layout.across, figure)) else {
                continue;
            };
            if !across.contains(&place) {
                across.push(place.clone());
            }
            let line = lines.iter().position(|line| line.names == names).unwrap_or_else(|| {
                lines.push(Line { names, cells: Vec::new() });
                lines.len() - 1
            });
            match lines[line].cells.iter_mut().find(|(known, _)| *known == place) {
                Some((_, figures)) => figures.push(figure),
                None => lines[line].cells.push((place, vec![figure])),
            }
        }
        in_their_order(&mut across, String::as_str);
        let first: Vec<String> = lines.iter().filter_map(|line| line.names.first().cloned()).collect();
        lines.sort_by_key(|line| first.iter().position(|name| Some(name) == line.names.first()));
        in_their_order(&mut lines, |line| line.names.first().filter(|_| line.names.len() == 1).map_or("", |name| name));
        let heading = |(place, head): (&String, &String)| match (place.as_str(), head.as_str()) {
            ("", head) => head.to_owned(),
            (place, "") => place.to_owned(),
            (place, head) => format!("{place} {head}"),
        };
        let pairs = across.iter().flat_map(|place| layout.cells.iter().map(move |cell| (place, cell)));
        let header = pairs.clone().map(|(place, cell)| heading((place, &cell.head))).collect();
        let cell = |line: &Line<'_>, place: &String, template: &str| {
            let (_, figures) = line.cells.iter().find(|(known, _)| known == place)?;
            filled(template, |name| self.shown(figures, name).map(Cow::from))
        };
        let rows = lines.iter().filter_map(|line| {
            let cells: Vec<Option<String>> = pairs.clone().map(|(place, of)| cell(line, place, &of.show)).collect();
            let is_there = cells.iter().any(Option::is_some);
            is_there
                .then(|| line.names.iter().cloned().chain(cells.into_iter().map(Option::unwrap_or_default)).collect())
        });
        (header, rows.collect())
    }

    /// Resolves a name in a cell template: `value`, or a column of this or another row in this
    /// cell; a trailing `±` adds the interval.
    fn shown(&self, figures: &[&MeasuredValue], name: &str) -> Option<String> {
        let (name, with_interval) = name.strip_suffix('±').map_or((name, false), |name| (name, true));
        let figure = match name {
            "value" => *figures.first()?,
            column => figures.iter().find_map(|figure| self.values.get(&figure.row, column))?,
        };
        Some(if with_interval { with_error(figure) } else { number(figure.measured, figure.unit) })
    }

    /// Returns the names left of a value; `None` if not shown.
    fn names(&self, layout: &scenario::Table, figure: &MeasuredValue) -> Option<Vec<String>> {
        let name = |head: &scenario::Head| self.fill(layout, &head.show, figure).or_else(|| head.missing.clone());
        layout.names.iter().map(name).collect()
    }

    /// The text of `{}` in a column; the shortest match.
    fn label<'f>(&self, column: &'f str) -> Option<&'f str> {
        let read = |(before, behind): &(&str, &str)| column.strip_prefix(before)?.strip_suffix(behind);
        self.columns.iter().filter_map(read).min_by_key(|label| label.len())
    }

    fn fill(&self, layout: &scenario::Table, template: &str, figure: &MeasuredValue) -> Option<String> {
        let mut templates = self.templates.iter().map(Cow::as_ref).filter(|_| layout.labels.is_empty());
        let own = || layout.labels.iter().find_map(|template| parsed(template, &figure.row));
        let labels = templates.find_map(|template| parsed(template, &figure.row)).or_else(own).unwrap_or_default();
        filled(template, |name| match name {
            "column" => Some(figure.column.as_str().into()),
            "label" => self.label(&figure.column).map(Cow::from),
            name => labels.iter().find(|(known, _)| *known == name).map(|(_, label)| (*label).into()),
        })
    }
}

/// Sorts numeric names by number; others keep their order.
fn in_their_order<T>(elements: &mut [T], name: impl Fn(&T) -> &str) {
    if elements.iter().all(|element| name(element).parse::<f64>().is_ok()) {
        elements.sort_by(|a, b| {
            let number = |element| name(element).parse::<f64>().unwrap_or_default();
            number(a).total_cmp(&number(b))
        });
    }
}
