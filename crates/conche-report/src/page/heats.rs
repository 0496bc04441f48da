//! Heat maps over two swept axes.

use super::telling::Telling;
use crate::chart::{Heat, HeatPanel};
use crate::html::Html;
use crate::study::Study;
use crate::titles;
use crate::values::{SchemeValue, better, distinct, main_columns, scheme_names, sorted};

const MOST_COLUMNS: usize = 3;
/// Larger maps would not fit a page.
const MOST_LABELS: usize = 16;

pub(super) fn write(study: &Study, cells: &[SchemeValue<'_>], telling: &Telling<'_>, html: &mut Html) {
    let schemes = scheme_names(study);
    let columns = main_columns(study, cells);
    let heats: Vec<Heat> = columns
        .into_iter()
        .filter_map(|column| heat(study, cells, telling, &schemes, column))
        .take(MOST_COLUMNS)
        .collect();
    if heats.is_empty() {
        return;
    }
    html.raw("<h3>Heat maps</h3>\n<div class=heats>\n");
    heats.iter().for_each(|heat| heat.html(html));
    html.raw("</div>\n");
}

/// Draws the two axes with most labels; others have the most telling cell's label.
fn heat(
    study: &Study,
    cells: &[SchemeValue<'_>],
    telling: &Telling<'_>,
    schemes: &[String],
    column: &str,
) -> Option<Heat> {
    let of_column: Vec<&SchemeValue<'_>> =
        cells.iter().filter(|of| of.is_alone() && of.value.column == column).collect();
    // Other templates have other axes.
    let first = of_column.iter().min_by_key(|of| telling.rank(&of.cell))?;
    let has_axes = |of: &&&SchemeValue<'_>| of.labels.iter().map(|of| &of.0).eq(first.labels.iter().map(|of| &of.0));
    let of_column: Vec<&SchemeValue<'_>> = of_column.iter().filter(has_axes).copied().collect();
    let labels = |axis: usize| distinct(of_column.iter().map(|of| of.labels[axis].1.as_str()));
    let mut axes: Vec<usize> = (0..first.labels.len()).filter(|axis| labels(*axis).len() > 1).collect();
    axes.sort_by_key(|axis| std::cmp::Reverse(labels(*axis).len()));
    let (x, y) = (*axes.first()?, *axes.get(1)?);
    let fixed: Vec<usize> = axes.into_iter().skip(2).collect();
    let (mut columns, mut rows) = (labels(x), labels(y));
    sorted(&mut columns);
    sorted(&mut rows);
    if columns.len() > MOST_LABELS || rows.len() > MOST_LABELS {
        return None;
    }
    let is_shown = |of: &&&SchemeValue<'_>| fixed.iter().all(|axis| of.labels[*axis] == first.labels[*axis]);
    let shown: Vec<&SchemeValue<'_>> = of_column.iter().filter(is_shown).copied().collect();
    let panel = |scheme: &String| -> Option<HeatPanel> {
        let value = |row: &str, column: &str| {
            let is_it =
                |of: &&&SchemeValue<'_>| of.scheme == scheme && of.labels[x].1 == column && of.labels[y].1 == row;
            shown.iter().find(is_it).map(|of| of.value.measured)
        };
        let values: Vec<Vec<Option<f64>>> =
            rows.iter().map(|row| columns.iter().map(|column| value(row, column)).collect()).collect();
        let is_there = values.iter().flatten().any(Option::is_some);
        is_there.then(|| HeatPanel { scheme: scheme.clone(), values })
    };
    let panels: Vec<HeatPanel> = schemes.iter().filter_map(panel).collect();
    let spaced = |text: &str| text.replace('_', " ");
    let fixed = fixed.iter().map(|axis| format!(", {} {}", spaced(&first.labels[*axis].0), first.labels[*axis].1));
    let owned = |labels: Vec<&str>| labels.into_iter().map(str::to_owned).collect();
    Some(Heat {
        title: titles::with_unit(titles::of_column(study, column) + &fixed.collect::<String>(), first.value.unit),
        unit: first.value.unit,
        better: better(study, &first.value.item, column),
        axes: [x, y].map(|axis| spaced(&first.labels[axis].0)),
        columns: owned(columns),
        rows: owned(rows),
        panels,
    })
}
