//! Values by scheme and cell, and cells ranked by difference.

use std::borrow::Cow;
use std::cmp::Ordering;

use conche_lab::experiment::Experiment;
use conche_lab::scenario::{Better, Kind, Plot, Unit, Value, parsed, templates};
use conche_lab::stats::Interval;
use conche_lab::units::{BitRate, Size, Span};
use conche_lab::value::MeasuredValue;

use crate::study::Study;
use crate::titles::definition;
use crate::unit;

pub(crate) struct SchemeValue<'a> {
    pub(crate) scheme: &'a str,
    /// The row without the scheme.
    pub(crate) cell: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: &'a MeasuredValue,
}

impl SchemeValue<'_> {
    /// Whether it has the network for itself; others are named `a@a+b`.
    pub(crate) fn is_alone(&self) -> bool {
        !self.scheme.contains('@')
    }

    /// Formats the cell: `clients 400 · buffer inf`.
    pub(crate) fn place(&self) -> String {
        let labels = self.labels.iter().map(|(name, label)| format!("{} {label}", name.replace('_', " ")));
        labels.collect::<Vec<_>>().join(" · ")
    }
}

/// Returns values of all schemes, without claims and single classes.
pub(crate) fn scheme_values<'a>(study: &'a Study) -> Vec<SchemeValue<'a>> {
    let sections = study.sections();
    let rows: Vec<Cow<'_, str>> = templates(sections).collect();
    let classes: Vec<(String, &Value)> = sections
        .iter()
        .flat_map(|section| &section.values)
        .filter(|value| value.column.contains("{}"))
        .map(|value| (value.column.replace("{}", "{label}"), value))
        .collect();
    let comparable = study.values.iter().filter(|value| {
        let is_class = || {
            classes.iter().any(|(class, of)| {
                of.item.as_ref().is_none_or(|item| *item == value.item) && parsed(class, &value.column).is_some()
            })
        };
        value.item != "claims" && value.unit != Unit::Verdict && value.measured.is_finite() && !is_class()
    });
    let of = |value: &'a MeasuredValue| -> Option<SchemeValue<'a>> {
        let of_row = row_labels(&rows, &[], &value.row)?;
        let (_, scheme) = of_row.iter().find(|(name, _)| *name == "scheme")?;
        let start = (scheme.as_ptr() as usize).checked_sub(value.row.as_ptr() as usize)?;
        let (before, after) = (value.row.get(..start)?, value.row.get(start + scheme.len()..)?);
        let rest = [before, after].map(|side| side.trim_matches('/')).join("/");
        let cell = rest.trim_matches('/').replace('/', " · ");
        let others = of_row.iter().filter(|(name, _)| *name != "scheme");
        let labels = others.map(|(name, label)| ((*name).to_owned(), (*label).to_owned())).collect();
        Some(SchemeValue { scheme: &value.row[start..start + scheme.len()], cell, labels, value })
    };
    comparable.filter_map(of).collect()
}

pub(crate) fn row_labels<'a>(
    templates: &'a [Cow<'a, str>],
    own: &'a [String],
    row: &'a str,
) -> Option<Vec<(&'a str, &'a str)>> {
    match own {
        [] => templates.iter().find_map(|template| parsed(template, row)),
        own => own.iter().find_map(|template| parsed(template, row)),
    }
}

/// The scenario's schemes come first, in its order.
pub(crate) fn scheme_names(study: &Study) -> Vec<String> {
    let mut names: Vec<String> = own_schemes(study).into_iter().map(str::to_owned).collect();
    for value in scheme_values(study).iter().filter(|value| value.is_alone()) {
        if names.iter().all(|name| name != value.scheme) {
            names.push(value.scheme.to_owned());
        }
    }
    names
}

pub(crate) fn own_schemes(study: &Study) -> Vec<&str> {
    let document = study.experiment.as_ref().map(Experiment::document);
    let schemes = document.map(|document| document.scenario().schemes.iter());
    schemes.into_iter().flatten().map(|scheme| scheme.name.as_str()).collect()
}

/// Returns the columns of the scenario's plots; without plots, all measured ones, primary first.
pub(crate) fn columns<'a>(study: &'a Study, cells: &[SchemeValue<'a>]) -> Vec<&'a str> {
    let document = study.experiment.as_ref().map(Experiment::document);
    let plots: &[Plot] = document.map(|document| document.scenario().plots.as_slice()).unwrap_or_default();
    let of_plots = plots.iter().map(|plot| {
        let columns = plot.y.all();
        columns[if plot.kind == Kind::Box { columns.len() / 2 } else { 0 }].as_str()
    });
    let measured = || cells.iter().map(|cell| cell.value.column.as_str());
    match plots {
        [] => distinct(primary(study).filter(|column| measured().any(|of| of == *column)).chain(measured())),
        _ => distinct(of_plots.filter(|column| !column.contains('{'))),
    }
}

pub(crate) fn main_columns<'a>(study: &'a Study, cells: &[SchemeValue<'a>]) -> Vec<&'a str> {
    let columns = columns(study, cells);
    let is_measured = |column: &&str| cells.iter().any(|cell| cell.value.column == *column);
    distinct(primary(study).chain(columns).filter(is_measured))
}

fn primary(study: &Study) -> impl Iterator<Item = &str> {
    let values = study.sections().iter().flat_map(|section| &section.values);
    values.filter(|value| value.primary).map(|value| value.column.as_str())
}

/// Returns the lowest and the highest possible value of a column. Claims, and differences and gains
/// between cells, have no bounds.
pub(crate) fn domain(study: &Study, value: &MeasuredValue) -> (f64, f64) {
    let is_by = || definition(study, &value.item, &value.column).is_some_and(|of| of.by.is_some());
    let (low, high) = unit::domain(value.unit);
    let is_bounded = (low..=high).contains(&value.measured) && value.item != "claims" && !is_by();
    if is_bounded { (low, high) } else { (f64::NEG_INFINITY, f64::INFINITY) }
}

/// Cuts off the impossible part of a symmetric interval.
pub(crate) fn possible(study: &Study, value: &MeasuredValue, interval: Interval) -> Interval {
    let (low, high) = domain(study, value);
    Interval { low: interval.low.max(low), high: interval.high.min(high) }
}

pub(crate) fn bounded(study: &Study, value: &MeasuredValue) -> MeasuredValue {
    MeasuredValue { ci95: value.ci95.map(|interval| possible(study, value, interval)), ..value.clone() }
}

/// Returns the primary columns; without any, the first main one.
pub(crate) fn primary_columns<'a>(study: &'a Study, cells: &[SchemeValue<'a>]) -> Vec<&'a str> {
    let main = main_columns(study, cells);
    let count = main.iter().filter(|column| primary(study).any(|of| of == **column)).count();
    main.into_iter().take(count.max(1)).collect()
}

pub(crate) fn better(study: &Study, item: &str, column: &str) -> Option<Better> {
    definition(study, item, column).and_then(Value::better)
}

pub(crate) struct Contrast<'a> {
    pub(crate) cell: &'a str,
    pub(crate) high: &'a SchemeValue<'a>,
    pub(crate) low: &'a SchemeValue<'a>,
}

impl Contrast<'_> {
    fn ratio(&self) -> f64 {
        self.high.value.measured / self.low.value.measured
    }

    /// Sorts the larger difference first, and last those whose 95 % intervals overlap.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let is_apart = |of: &Self| is_below(of.low.value, of.high.value);
        is_apart(other).cmp(&is_apart(self)).then(other.ratio().total_cmp(&self.ratio()))
    }
}

/// Whether the 95 % interval of one value, or else the value, is below that of another.
pub(crate) fn is_below(one: &MeasuredValue, other: &MeasuredValue) -> bool {
    let highest = one.ci95.map_or(one.measured, |interval| interval.high);
    other.ci95.map_or(other.measured, |interval| interval.low) > highest
}

/// Returns the cells of a column by falling difference between controllers.
///
/// The difference is the ratio of the highest to the lowest positive value. Cells where their 95 %
/// intervals overlap come last.
pub(crate) fn contrasts<'a>(cells: &'a [SchemeValue<'a>], column: &str) -> Vec<Contrast<'a>> {
    let mut found: Vec<Contrast<'a>> = Vec::new();
    let usable = |of: &&SchemeValue<'_>| of.is_alone() && of.value.column == column && of.value.measured > 0.0;
    for of in cells.iter().filter(usable) {
        match found.iter_mut().find(|contrast| contrast.cell == of.cell) {
            Some(contrast) if of.value.measured > contrast.high.value.measured => contrast.high = of,
            Some(contrast) if of.value.measured < contrast.low.value.measured => contrast.low = of,
            Some(_) => {}
            None => found.push(Contrast { cell: &of.cell, high: of, low: of }),
        }
    }
    found.retain(|contrast| contrast.high.scheme != contrast.low.scheme);
    found.sort_by(Contrast::order);
    found
}

/// Sorts labels: numbers first, then others in order of appearance.
pub(crate) fn sorted(labels: &mut [&str]) {
    let number = |label: &str| numeric(label).unwrap_or(f64::INFINITY);
    labels.sort_by(|a, b| number(a).total_cmp(&number(b)));
}

/// Reads a number in its base unit: `20`, `8.5`, `5%`, and 120 for `2min`.
pub(crate) fn numeric(label: &str) -> Option<f64> {
    in_base_unit(label).map(|(number, _)| number)
}

/// Returns the base unit of a label, if it has one.
pub(crate) fn base_unit(label: &str) -> Option<&'static str> {
    in_base_unit(label)?.1
}

fn in_base_unit(label: &str) -> Option<(f64, Option<&'static str>)> {
    if let Ok(Span(span)) = label.parse() {
        return Some((span.as_secs_f64(), Some("s")));
    }
    if let Ok(rate) = label.parse::<BitRate>() {
        return Some((rate.as_bits() as f64, Some("bit/s")));
    }
    if let Ok(Size(bytes)) = label.parse() {
        return Some((bytes as f64, Some("B")));
    }
    let (number, unit) = match label.strip_suffix('%') {
        Some(number) => (number, Some("%")),
        None => (label.trim_end_matches(|character: char| character.is_ascii_alphabetic() || character == ' '), None),
    };
    number.trim_end().parse().ok().filter(|number: &f64| number.is_finite()).map(|number| (number, unit))
}

pub(crate) fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use conche_lab::stats::Interval;

    use conche_lab::value::Position;

    use super::*;

    #[test]
    fn labels_with_units_are_numbers_in_their_base_unit() {
        let labels = ["20", "8.5", "5%", "100ms", "5s", "2min", "30kbit/s", "1KiB", "20 clients"];
        let numbers = [20.0, 8.5, 5.0, 0.1, 5.0, 120.0, 30_000.0, 1024.0, 20.0];
        assert_eq!(labels.map(numeric), numbers.map(Some));
        assert_eq!(["quiet", "20/min", "1e400", ""].map(numeric), [None; 4]);
        assert_eq!(["100ms", "5%", "20", "20 clients"].map(base_unit), [Some("s"), Some("%"), None, None]);
    }

    fn measured(scheme: &str, cell: &str, measured: f64, reach: f64) -> MeasuredValue {
        MeasuredValue {
            scenario: "p".to_owned(),
            item: "grid".to_owned(),
            row: format!("{scheme}/{cell}"),
            column: "c".to_owned(),
            unit: Unit::Seconds,
            published: None,
            measured,
            ci95: Some(Interval { low: measured - reach, high: measured + reach }),
            runs: 3,
            position: Position::default(),
        }
    }

    #[test]
    fn numbers_come_before_other_labels() {
        let mut labels = ["inf", "28200B", "other", "9"];
        sorted(&mut labels);
        assert_eq!(labels, ["9", "28200B", "inf", "other"]);
    }

    #[test]
    fn controllers_differ_most_where_their_ratio_is_largest_and_their_intervals_are_apart() {
        let values = [
            measured("a", "small", 1.0, 0.1),
            measured("b", "small", 1.5, 0.1),
            measured("a", "large", 1.0, 0.1),
            measured("b", "large", 3.0, 0.1),
            measured("a", "unsure", 1.0, 9.0),
            measured("b", "unsure", 8.0, 9.0),
            measured("a", "zero", 0.0, 0.0),
            measured("b", "zero", 8.0, 0.0),
            measured("a", "single", 8.0, 0.0),
            measured("b@a+b", "single", 1.0, 0.0),
        ];
        let cells: Vec<SchemeValue<'_>> = values
            .iter()
            .map(|value| {
                let (scheme, cell) = value.row.split_once('/').expect("a cell");
                SchemeValue { scheme, cell: cell.to_owned(), labels: Vec::new(), value }
            })
            .collect();
        let found = contrasts(&cells, "c");
        let names: Vec<_> = found.iter().map(|of| (of.cell, of.high.scheme, of.low.scheme)).collect();
        assert_eq!(names, [("large", "b", "a"), ("small", "b", "a"), ("unsure", "b", "a")]);
    }
}
