//! Plots for a scenario that defines none: one per item and column.

use std::collections::BTreeSet;

use conche_lab::scenario::Unit;
use conche_lab::scenario::{Item, Kind, Plot, Style, Texts, parsed, templates};
use conche_lab::value::MeasuredValue;

use crate::read::Study;
use crate::unit_symbol::symbol;

/// Maximum plots per item; further columns appear in its table only.
const MOST_OF_AN_ITEM: usize = 8;
/// Minimum number of columns, equal except for a number, that form one plot.
const ENOUGH_FOR_AN_AXIS: usize = 3;
/// Maximum rows of a readable plot.
const MOST_ROWS: usize = 120;

pub(crate) fn plots(study: &Study) -> Vec<Plot> {
    let mut plots = Vec::new();
    let mut items: Vec<&str> = Vec::new();
    for figure in study.figures.iter().filter(|figure| figure.unit != Unit::Verdict && figure.item != "claims") {
        if !items.contains(&figure.item.as_str()) {
            items.push(&figure.item);
        }
    }
    for item in items {
        let of_item: Vec<&MeasuredValue> = study.figures.iter().filter(|figure| figure.item == item).collect();
        let mut templates: Vec<String> = Vec::new();
        for column in columns(&of_item).into_iter().take(MOST_OF_AN_ITEM) {
            for figure in of_item.iter().filter(|figure| parsed(&column, &figure.column).is_some()) {
                let template = template(study, &figure.row);
                if !templates.contains(&template) {
                    templates.push(template);
                }
            }
            let title = title(study, item);
            plots.extend(templates.iter().filter_map(|template| plot(&of_item, item, title, &column, template)));
        }
    }
    plots
}

/// Returns the columns of an item; columns that differ in a number only become a template.
fn columns(figures: &[&MeasuredValue]) -> Vec<String> {
    let all: BTreeSet<&str> = figures.iter().map(|figure| figure.column.as_str()).collect();
    let mut columns: Vec<String> = Vec::new();
    for figure in figures {
        let numbered = numbered(&figure.column).filter(|template| {
            all.iter().filter(|column| parsed(template, column).is_some_and(|labels| is_number(labels[0].1))).count()
                >= ENOUGH_FOR_AN_AXIS
        });
        let column = numbered.unwrap_or_else(|| figure.column.clone());
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

/// Replaces the first number of a column by a placeholder.
fn numbered(column: &str) -> Option<String> {
    let start = column.find(|character: char| character.is_ascii_digit())?;
    let length = column[start..].find(|character: char| !character.is_ascii_digit()).unwrap_or(column.len() - start);
    let (before, after) = (&column[..start], &column[start + length..]);
    (!column.contains(['{', '}'])).then(|| format!("{before}{{number}}{after}"))
}

fn is_number(label: &str) -> bool {
    label.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Returns the template of a row, from the scenario or by position.
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

fn title<'a>(study: &'a Study, item: &'a str) -> &'a str {
    let document = study.experiment.as_ref().map(conche_lab::experiment::Experiment::document);
    let items: &[Item] = document.map(|document| document.scenario().items.as_slice()).unwrap_or_default();
    let known = items.iter().find(|known| known.name == item && !known.title.is_empty());
    known.map_or(item, |known| &known.title)
}

/// Plots a column over the labels that vary: the axis is the label with most numbers, the series
/// are the schemes or the first label, and the rest becomes panels.
fn plot(figures: &[&MeasuredValue], item: &str, title: &str, column: &str, template: &str) -> Option<Plot> {
    let of_column = figures.iter().filter(|figure| parsed(column, &figure.column).is_some());
    let rows: Vec<_> = of_column.clone().filter_map(|figure| parsed(template, &figure.row)).collect();
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
    let spaced = column.replace('_', " ");
    Some(Plot {
        title: format!("{title}: {}", spaced.replace(['{', '}'], "")),
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
