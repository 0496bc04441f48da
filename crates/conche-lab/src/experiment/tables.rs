//! Lays out values as text tables.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use conche_results::Verdict;

use crate::table::{Table, deviation, interval, number};
use crate::value::{MeasuredValue, Position};

use super::Experiment;
use super::claims::CLAIMS;
use crate::scenario::{self, Scenario, Scheme, Unit, filled, matches_any, parsed, templates};

pub(super) fn tables(experiment: &Experiment, values: &[MeasuredValue]) -> Vec<Table> {
    let scenario = experiment.scenario();
    let layouts = Layouts::new(experiment.document.sections(), values);
    let mut tables: Vec<Table> = scenario.tables.iter().map(|table| layouts.table(table)).collect();
    tables.retain(|table| !table.rows.is_empty());
    // Controllers beyond the paper's may appear in no table.
    if tables.is_empty() {
        tables.push(everything(values));
    }
    if let (Some(first), missing @ [_, ..]) = (tables.first_mut(), &without_value(experiment, values)[..]) {
        first.notes.push(format!("No run has a value of {}.", missing.join(", ")));
    }
    tables.push(claims(experiment, values));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn without_value<'a>(experiment: &'a Experiment, values: &[MeasuredValue]) -> Vec<&'a str> {
    let cells = experiment.document.cells().iter();
    let of_cell = cells.flat_map(|cell| {
        let is_its = |value: &&scenario::Value| cell.schemes.iter().any(|scheme| cell.is_among(&value.only, scheme));
        // Values across cells belong to some only.
        cell.scenario.values.iter().filter(|value| !value.is_across_cells()).filter(is_its)
    });
    let columns = each_once(of_cell.map(|value| value.column.as_str())).into_iter();
    let has_none = |column: &&str| {
        let pattern = [column.replace("{}", "*")];
        !values.iter().any(|value| matches_any(&pattern, &value.column))
    };
    columns.filter(has_none).collect()
}

/// Lists claims; reasons of refuted ones are notes.
fn claims(experiment: &Experiment, values: &[MeasuredValue]) -> Table {
    let mut notes: Vec<String> = Vec::new();
    for value in
        values.iter().filter(|value| value.unit == Unit::Verdict && Verdict::of(value.measured) == Verdict::Refuted)
    {
        let known = experiment.reason(value).filter(|reason| notes.iter().all(|known| known != reason));
        notes.extend(known.map(str::to_owned));
    }
    let claims = values.iter().filter(|value| value.item == CLAIMS);
    let (compared, verdicts): (Vec<_>, Vec<_>) = claims.partition(|value| value.unit != Unit::Verdict);
    let rows = compared.iter().zip(verdicts).map(|(value, verdict)| {
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

fn everything(values: &[MeasuredValue]) -> Table {
    let shown = || values.iter().filter(|value| value.item != CLAIMS);
    let columns = each_once(shown().map(|value| value.column.as_str()));
    let rows = each_once(shown().map(|value| value.row.as_str()));
    let by_name = ByName::new(values);
    let line = |row: &&str| {
        let shown = columns.iter().map(|column| by_name.get(row, column).map(with_error).unwrap_or_default());
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

fn with_error(value: &MeasuredValue) -> String {
    let shown = number(value.measured, value.unit);
    match value.ci95 {
        Some(interval) => format!("{shown} ± {}", number((interval.high - interval.low) / 2.0, value.unit)),
        None => shown,
    }
}

#[derive(Clone, Debug)]
struct ByName<'a>(HashMap<(&'a str, &'a str), &'a MeasuredValue>);

impl<'a> ByName<'a> {
    fn new(values: &'a [MeasuredValue]) -> Self {
        Self(values.iter().map(|value| ((value.row.as_str(), value.column.as_str()), value)).collect())
    }

    fn get(&self, row: &str, column: &str) -> Option<&'a MeasuredValue> {
        self.0.get(&(row, column)).copied()
    }
}

struct Layouts<'a> {
    values: &'a [MeasuredValue],
    by_name: ByName<'a>,
    templates: Vec<Cow<'a, str>>,
    /// Labelled columns: text before and after the label.
    columns: Vec<(&'a str, &'a str)>,
}

struct Line<'a> {
    names: Vec<String>,
    cells: Vec<(String, Vec<&'a MeasuredValue>)>,
}

impl<'a> Layouts<'a> {
    fn new(sections: &'a [Scenario], values: &'a [MeasuredValue]) -> Self {
        let listed = sections.iter().flat_map(|section| &section.values);
        let columns = listed.filter_map(|value| value.column.split_once("{}")).collect();
        Self { values, by_name: ByName::new(values), templates: templates(sections).collect(), columns }
    }

    fn table(&self, layout: &scenario::Table) -> Table {
        let of_items = |value: &&MeasuredValue| {
            let mut items = layout.items.iter();
            value.item != CLAIMS && (layout.items.is_empty() || items.any(|item| *item == value.item))
        };
        let shown: Vec<&MeasuredValue> = self
            .values
            .iter()
            .filter(of_items)
            .filter(|value| matches_any(&layout.rows, &value.row) && matches_any(&layout.columns, &value.column))
            .filter(|value| {
                layout.labels.is_empty() || layout.labels.iter().any(|own| parsed(own, &value.row).is_some())
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
        let line = |value: &&MeasuredValue| {
            let published = show(value.published?, value.unit);
            let names = self.names(layout, value);
            let cells = [published, show(value.measured, value.unit), deviation(value), interval(value)];
            Some(names?.into_iter().chain(cells).collect())
        };
        let header = ["published", "measured", "deviation", "95 % interval"].map(String::from).into();
        (header, shown.iter().filter_map(line).collect())
    }

    /// Builds a line per combination of names.
    fn grid(&self, layout: &scenario::Table, shown: &[&'a MeasuredValue]) -> (Vec<String>, Vec<Vec<String>>) {
        let mut lines: Vec<Line<'a>> = Vec::new();
        let mut across: Vec<String> = Vec::new();
        for value in shown {
            let Some((names, place)) = self.names(layout, value).zip(self.fill(layout, &layout.across, value)) else {
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
                Some((_, values)) => values.push(value),
                None => lines[line].cells.push((place, vec![value])),
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
            let (_, values) = line.cells.iter().find(|(known, _)| known == place)?;
            filled(template, |name| self.shown(values, name).map(Cow::from))
        };
        let rows = lines.iter().filter_map(|line| {
            let cells: Vec<Option<String>> = pairs.clone().map(|(place, of)| cell(line, place, &of.show)).collect();
            let is_there = cells.iter().any(Option::is_some);
            is_there
                .then(|| line.names.iter().cloned().chain(cells.into_iter().map(Option::unwrap_or_default)).collect())
        });
        (header, rows.collect())
    }

    /// Resolves a template's name: `value`, or a column of a row in this cell; a trailing `±` adds
    /// the interval.
    fn shown(&self, values: &[&MeasuredValue], name: &str) -> Option<String> {
        let (name, with_interval) = name.strip_suffix('±').map_or((name, false), |name| (name, true));
        let value = match name {
            "value" => *values.first()?,
            column => values.iter().find_map(|value| self.by_name.get(&value.row, column))?,
        };
        Some(if with_interval { with_error(value) } else { number(value.measured, value.unit) })
    }

    /// Returns a value's names; `None` if it is not shown.
    fn names(&self, layout: &scenario::Table, value: &MeasuredValue) -> Option<Vec<String>> {
        let name = |head: &scenario::Head| self.fill(layout, &head.show, value).or_else(|| head.missing.clone());
        layout.names.iter().map(name).collect()
    }

    /// Returns the text in place of `{}`, by the shortest match.
    fn label<'f>(&self, column: &'f str) -> Option<&'f str> {
        let read = |(before, behind): &(&str, &str)| column.strip_prefix(before)?.strip_suffix(behind);
        self.columns.iter().filter_map(read).min_by_key(|label| label.len())
    }

    fn fill(&self, layout: &scenario::Table, template: &str, value: &MeasuredValue) -> Option<String> {
        let mut templates = self.templates.iter().map(Cow::as_ref).filter(|_| layout.labels.is_empty());
        let own = || layout.labels.iter().find_map(|template| parsed(template, &value.row));
        let labels = templates.find_map(|template| parsed(template, &value.row)).or_else(own).unwrap_or_default();
        filled(template, |name| match name {
            "column" => Some(value.column.as_str().into()),
            "label" => self.label(&value.column).map(Cow::from),
            name => labels.iter().find(|(known, _)| *known == name).map(|(_, label)| (*label).into()),
        })
    }
}

fn in_their_order<T>(elements: &mut [T], name: impl Fn(&T) -> &str) {
    if elements.iter().all(|element| name(element).parse::<f64>().is_ok()) {
        elements.sort_by(|a, b| {
            let number = |element| name(element).parse::<f64>().unwrap_or_default();
            number(a).total_cmp(&number(b))
        });
    }
}

pub(super) fn feature_values(scenario: &Scenario) -> Vec<MeasuredValue> {
    let Some(shown) = &scenario.features else { return Vec::new() };
    let peer_bytes = |scheme: &Scheme| {
        let features = scheme.controller.named(&scenario.controllers)?.features;
        Some(MeasuredValue {
            scenario: scenario.name.clone(),
            item: shown.item.clone(),
            row: scheme.name.clone(),
            column: "peer_bytes".to_owned(),
            unit: Unit::Bytes,
            published: features.published_bytes.map(f64::from),
            measured: features.peer_bytes as f64,
            ci95: None,
            runs: 1,
            position: Position::default(),
        })
    };
    scenario.schemes.iter().filter_map(peer_bytes).collect()
}

pub(super) fn feature_table(scenario: &Scenario) -> Option<Table> {
    let scenario::Features { title, .. } = scenario.features.as_ref()?;
    let yes = |feature: bool| if feature { "yes" } else { "-" }.to_owned();
    let rows = scenario.schemes.iter().filter_map(|scheme| {
        let named = scheme.controller.named(&scenario.controllers)?;
        let features = named.features;
        Some(vec![
            scheme.name.clone(),
            named.name().to_owned(),
            yes(features.strong_rtt),
            yes(features.weak_rtt.is_some()),
            scheme.ack_random_factor.map_or(features.dithering.to_owned(), |factor| format!("[1, {factor}]")),
            features.backoff.to_owned(),
            features.ageing.to_owned(),
            yes(features.reuses_backed_off_rto),
            features.published_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            features.peer_bytes.to_string(),
        ])
    });
    let header =
        ["scheme", "controller", "strong", "weak", "dithering", "backoff", "ageing", "reuses", "published B", "B"];
    Some(Table {
        title: title.clone(),
        header: header.map(String::from).into(),
        names: 2,
        rows: rows.collect(),
        ..Table::default()
    })
}
