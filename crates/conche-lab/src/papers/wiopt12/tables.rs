//! Tables of text: one for each item, and the claims.

use super::figures::ITEMS;
use crate::report::{Align, Table, number};
use crate::results::{Figure, Unit};

/// What the last part of an item's rows is, which a table has side by side.
fn heading(item: &str) -> &'static str {
    match item {
        "fig3" | "fig8" | "table1" => "hops",
        "fig4" | "fig5" => "retries",
        _ => "window",
    }
}

/// All items that were measured, then the claims.
pub(super) fn tables(figures: &[Figure]) -> Vec<Table> {
    let items = ITEMS.iter().map(|(item, title)| item_table(figures, item, title));
    items.chain([claims(figures)]).filter(|table| !table.rows.is_empty()).collect()
}

/// A row for each value of each row's beginning, a column for each end of a row.
fn item_table(figures: &[Figure], item: &str, title: &str) -> Table {
    let of_item: Vec<&Figure> = figures.iter().filter(|figure| figure.item == item).collect();
    let (mut names, mut ends) = (Vec::new(), Vec::new());
    for figure in &of_item {
        let (begin, end) = split(figure);
        push_new(&mut names, (begin, figure.column.as_str()));
        push_new(&mut ends, end);
    }
    // Numbers in their order, words behind them.
    ends.sort_by_key(|end| end.parse().unwrap_or(u32::MAX));
    let cell = |begin: &str, column: &str, end: &str| {
        let found = of_item.iter().find(|figure| split(figure) == (begin, end) && figure.column == column);
        found.map(|figure| shown(figure)).unwrap_or_default()
    };
    let rows = names.iter().map(|(begin, column)| {
        let cells = ends.iter().map(|end| cell(begin, column, end));
        [(*begin).to_owned(), value_name(&of_item, column)].into_iter().chain(cells).collect()
    });
    let heads = ends.iter().map(|end| format!("{} {end}", heading(item)));
    Table {
        title: format!("{item}: {title}"),
        header: ["routes", "value"].into_iter().map(str::to_owned).chain(heads).collect(),
        align: Align::FirstTwoLeft,
        rows: rows.collect(),
        notes: notes(item),
    }
}

fn claims(figures: &[Figure]) -> Table {
    let claims = figures.iter().filter(|figure| figure.item == "claims");
    let (values, verdicts): (Vec<&Figure>, Vec<&Figure>) = claims.partition(|figure| figure.unit != Unit::Verdict);
    let rows = values.iter().zip(verdicts).map(|(value, verdict)| {
        let measured = number(value.measured, value.unit);
        vec![value.row.clone(), value.column.clone(), measured, number(verdict.measured, verdict.unit)]
    });
    Table {
        title: "claims: what the paper says in words".to_owned(),
        header: ["claim", "compared", "measured", "verdict"].map(str::to_owned).to_vec(),
        align: Align::FirstTwoLeft,
        rows: rows.collect(),
        notes: vec!["ratio_apart: holds if the 95 % intervals of both values do not overlap".to_owned()],
    }
}

fn split(figure: &Figure) -> (&str, &str) {
    figure.row.rsplit_once('/').unwrap_or(("", &figure.row))
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, element: T) {
    if !list.contains(&element) {
        list.push(element);
    }
}

/// A value as narrow as a wide table needs it.
fn shown(figure: &Figure) -> String {
    match figure.unit {
        Unit::BitsPerSecond => format!("{:.2}", figure.measured / 1000.0),
        Unit::Seconds => format!("{:.0}", figure.measured * 1000.0),
        unit => number(figure.measured, unit),
    }
}

fn value_name(of_item: &[&Figure], column: &str) -> String {
    let unit = of_item.iter().find(|figure| figure.column == column).map(|figure| figure.unit);
    let unit = match unit {
        Some(Unit::BitsPerSecond) => " (kbit/s)",
        Some(Unit::Seconds) => " (ms)",
        Some(Unit::Percent) => " (%)",
        _ => "",
    };
    format!("{column}{unit}")
}

fn notes(item: &str) -> Vec<String> {
    let note = match item {
        "fig2" => "static/H: frozen routes of H hops; gains are means over replications of the gain of each",
        "fig3" => "over all windows; frames: datagrams that the MAC gave up, once a hop",
        "fig4" => "retries/H/W: routes of H hops, window W; round trips of segments that were sent once",
        "fig6" => "of all routes that sources found; goodput of transfers that succeeded",
        "fig8" => "timer/T/W: timer T, window W",
        _ => return Vec::new(),
    };
    vec![note.to_owned()]
}
