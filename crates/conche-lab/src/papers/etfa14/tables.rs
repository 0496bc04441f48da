//! The paper's tables and figures as tables of text.

use crate::papers::claim;
use crate::report::{Align, Table, comparison, number};
use crate::results::Figure;

const TABLES: [(&str, &str); 6] = [
    ("table2", "Table II: one-to-one, no duty cycle"),
    ("table3", "Table III: one-to-one, ContikiMAC"),
    ("table4", "Table IV: many-to-many, no duty cycle"),
    ("table5", "Table V: many-to-many, ContikiMAC"),
    ("table6", "Table VI: burst, no duty cycle"),
    ("table7", "Table VII: burst, ContikiMAC"),
];

pub(super) fn tables(figures: &[Figure]) -> Vec<Table> {
    let table = |(item, title): &(&str, &str)| {
        let of_item = figures.iter().filter(|figure| figure.item == *item);
        comparison(title, ["scheme", "value"], of_item, |figure| [scheme_of(figure).to_owned(), figure.column.clone()])
    };
    let mut tables: Vec<Table> = TABLES.iter().map(table).collect();
    let share = "Fig. 1: share of timeouts by length, many-to-many, in per cent";
    tables.push(matrix(figures, share, |figure| figure.item == "fig1", "rto_"));
    let over_time = "Fig. 2: mean timeout in seconds until each time, many-to-many";
    tables.push(matrix(figures, over_time, |figure| figure.item == "fig2", "rto_until_"));
    let done = "Fig. 2: exchanges that had succeeded until each time, many-to-many";
    tables.push(matrix(figures, done, |figure| figure.item == "fig2", "done_until_"));
    tables.push(claim::table(figures));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// One row a class, one column a scheme and duty cycle.
fn matrix(figures: &[Figure], title: &str, of: impl Fn(&Figure) -> bool, prefix: &str) -> Table {
    let shown: Vec<&Figure> = figures.iter().filter(|figure| of(figure) && figure.column.starts_with(prefix)).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut header = vec![String::new()];
    for figure in shown {
        let class = figure.column.trim_start_matches(prefix).replace('_', " ");
        let series = figure.row.replace("/many", "");
        if !header.contains(&series) {
            header.push(series);
        }
        let value = number(figure.measured, figure.unit);
        match rows.iter_mut().find(|row| row.first() == Some(&class)) {
            Some(row) => row.push(value),
            None => rows.push(vec![class, value]),
        }
    }
    Table { title: title.to_owned(), header, align: Align::FirstLeft, rows, notes: Vec::new() }
}

fn scheme_of(figure: &Figure) -> &str {
    figure.row.split('/').next().unwrap_or_default()
}
