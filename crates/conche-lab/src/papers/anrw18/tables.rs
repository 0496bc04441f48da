//! The paper's tables and figures as tables of text.

use std::collections::HashMap;

use super::published::REPLICATIONS;
use crate::experiment::replications;
use crate::papers::claim;
use crate::report::{Align, Table, comparison, number};
use crate::results::{Figure, Unit};

/// Schemes and workloads in the order of the tables.
const SCHEMES: [&str; 6] = ["default", "cocoa", "default-fb1", "default-fb2", "cocoa-fb1", "cocoa-fb2"];
const WORKLOADS: [&str; 2] = ["continuous", "random"];
const BUFFERS: [(&str, &str); 3] = [("2500", "2500 B"), ("14100", "14100 B"), ("inf", "largest")];

/// Tables 1 and 2, the panels of Fig. 2 and 3, Fig. 4, mixed runs, values in the text, and claims, as far as their schemes
/// were run.
pub(super) fn tables(figures: &[Figure]) -> Vec<Table> {
    let values = Values::new(figures);
    let mut tables = vec![table_1(figures), table_2(figures), table_2_all(&values)];
    for (buffer, name) in BUFFERS {
        let title = format!("Fig. 2: flow completion time in seconds, {name} buffer");
        tables.push(panel(&values, &title, &SCHEMES[..2], buffer));
    }
    for (schemes, base) in [(&SCHEMES[2..4], "the default"), (&SCHEMES[4..], "CoCoA")] {
        let title = format!("Fig. 3: flow completion time in seconds, {base} with full backoff, largest buffer");
        tables.push(panel(&values, &title, schemes, "inf"));
    }
    for (buffer, name) in &BUFFERS[1..] {
        tables.push(figure_4(&values, buffer, name));
    }
    tables.push(others(&values));
    tables.push(mixed(figures));
    tables.push(text(figures));
    tables.push(claim::table(figures));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn table_1(figures: &[Figure]) -> Table {
    comparison(
        "Table 1: flow completion time in seconds, 50 clients, default",
        ["buffer", "percentile"],
        figures.iter().filter(|figure| figure.item == "table1"),
        |figure| {
            let buffer = figure.row.rsplit('/').next().unwrap_or_default();
            let percentile = figure.column.trim_start_matches("fct_").trim_end_matches("_s");
            [format!("{buffer} B"), percentile.to_owned()]
        },
    )
}

fn table_2(figures: &[Figure]) -> Table {
    let shown = || figures.iter().filter(|figure| figure.item == "table2" && figure.published.is_some());
    let made = match shown().next() {
        Some(figure) if figure.runs != REPLICATIONS => {
            format!("{}, scaled to the paper's {REPLICATIONS}", replications(figure.runs))
        }
        _ => replications(REPLICATIONS),
    };
    comparison(
        &format!("Table 2: exchanges by number of retransmissions, 400 clients, largest buffer, {made}"),
        ["scheme", "retransmissions"],
        shown(),
        |figure| [figure.row.clone(), figure.column.clone()],
    )
}

fn table_2_all(values: &Values<'_>) -> Table {
    const SHOWN: usize = 7;
    let rows = rows_of(&SCHEMES, |row| {
        let mut counts = vec![row.to_owned()];
        for k in 0..SHOWN {
            counts.push(values.shown(row, &k.to_string())?);
        }
        Some(counts)
    });
    Table {
        title: "Table 2, all schemes: exchanges by number of retransmissions".to_owned(),
        header: std::iter::once("scheme".to_owned()).chain((0..SHOWN).map(|k| k.to_string())).collect(),
        rows,
        ..Table::default()
    }
}

/// A panel of Fig. 2 or 3: each number of clients a row, each scheme and workload a column.
fn panel(values: &Values<'_>, title: &str, schemes: &[&str], buffer: &str) -> Table {
    let series: Vec<String> = series_of(schemes).filter(|series| values.has(series, buffer)).collect();
    let cell = |series: &String, clients: u32| {
        let row = format!("{series}/{clients}/{buffer}");
        let [p10, p25, median, p75, p90] =
            ["p10", "p25", "median", "p75", "p90"].map(|name| values.shown(&row, &format!("fct_{name}_s")));
        Some(format!("{} ({} … {})\n[{} … {}]", median?, p25?, p75?, p10?, p90?))
    };
    let rows = values.clients.iter().filter_map(|clients| {
        let cells: Option<Vec<_>> = series.iter().map(|series| cell(series, *clients)).collect();
        Some(std::iter::once(clients.to_string()).chain(cells?).collect())
    });
    Table {
        title: title.to_owned(),
        header: std::iter::once("clients".to_owned()).chain(series.iter().cloned()).collect(),
        rows: if series.is_empty() { Vec::new() } else { rows.collect() },
        notes: vec!["median (quartiles) [10th and 90th percentile]".to_owned()],
        ..Table::default()
    }
}

fn figure_4(values: &Values<'_>, buffer: &str, name: &str) -> Table {
    let rows = rows_of(&SCHEMES, |series| {
        let shown =
            values.clients.iter().map(|n| values.shown(&format!("{series}/{n}/{buffer}"), "unnecessary_median"));
        let shown: Option<Vec<_>> = shown.collect();
        Some(std::iter::once(series.to_owned()).chain(shown?).collect())
    });
    Table {
        title: format!("Fig. 4: unnecessary retransmissions per client, median, by number of clients, {name} buffer"),
        header: std::iter::once("scheme".to_owned()).chain(values.clients.iter().map(u32::to_string)).collect(),
        rows,
        ..Table::default()
    }
}

/// Schemes that are not the paper's.
fn others(values: &Values<'_>) -> Table {
    let mut rows = Vec::new();
    for series in values.series.iter().filter(|series| !series_of(&SCHEMES).any(|known| known == **series)) {
        for clients in &values.clients {
            let row = format!("{series}/{clients}/inf");
            let columns = ["fct_p25_s", "fct_median_s", "fct_p75_s", "unnecessary_median", "copies_per_run"];
            let shown: Option<Vec<_>> = columns.iter().map(|column| values.shown(&row, column)).collect();
            rows.extend(shown.map(|shown| [series.clone(), clients.to_string()].into_iter().chain(shown).collect()));
        }
    }
    Table {
        title: "Other controllers in the same scenario, largest buffer".to_owned(),
        header: ["scheme", "clients", "p25 (s)", "median (s)", "p75 (s)", "unnecessary", "copies"]
            .map(String::from)
            .into(),
        align: Align::FirstTwoLeft,
        rows,
        ..Table::default()
    }
}

/// One row a cell, both halves in it: neighbours in the list of figures are halves of one mix.
fn mixed(figures: &[Figure]) -> Table {
    let medians: Vec<_> =
        figures.iter().filter(|figure| figure.item == "mixed" && figure.column == "fct_median_s").collect();
    let rows = medians.chunks_exact(2).filter_map(|halves| {
        let [first, second] = halves else { return None };
        let mut parts = first.row.split('/');
        let (_, mix) = parts.next()?.split_once('@')?;
        let (workload, clients, buffer) = (parts.next()?, parts.next()?, parts.next()?);
        let shown = matches!(clients, "100" | "400") && matches!(buffer, "2500" | "14100" | "inf");
        let values = [first, second].map(|half| number(half.measured, half.unit));
        let ratio = number(second.measured / first.measured, Unit::Ratio);
        shown.then(|| {
            [mix, workload, clients, buffer].map(String::from).into_iter().chain(values).chain([ratio]).collect()
        })
    });
    let header = ["mix", "workload", "clients", "buffer", "first half (s)", "second half (s)", "second/first"];
    Table {
        title: "Mixed runs: median flow completion time of each half's clients".to_owned(),
        header: header.map(String::from).into(),
        align: Align::FirstTwoLeft,
        rows: rows.collect(),
        ..Table::default()
    }
}

fn text(figures: &[Figure]) -> Table {
    let stated = figures
        .iter()
        .filter(|figure| figure.published.is_some() && !matches!(figure.item.as_str(), "table1" | "table2" | "claims"));
    let mut table = comparison("Other published values", ["cell", "value"], stated, |figure| {
        [figure.row.clone(), figure.column.clone()]
    });
    table.notes = vec!["medians at 100 clients are read off a figure of the paper, to about 1 s".to_owned()];
    table
}

fn series_of<'a>(schemes: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    schemes.iter().flat_map(|scheme| WORKLOADS.map(|workload| format!("{scheme}/{workload}")))
}

fn rows_of(schemes: &[&str], row: impl Fn(&str) -> Option<Vec<String>>) -> Vec<Vec<String>> {
    series_of(schemes).filter_map(|series| row(&series)).collect()
}

/// Figures by row and column.
struct Values<'a> {
    by_name: HashMap<(&'a str, &'a str), &'a Figure>,
    clients: Vec<u32>,
    /// Schemes and workloads, without mixes.
    series: Vec<String>,
}

impl<'a> Values<'a> {
    fn new(figures: &'a [Figure]) -> Self {
        let by_name = figures.iter().map(|figure| ((figure.row.as_str(), figure.column.as_str()), figure)).collect();
        let (mut clients, mut series) = (Vec::new(), Vec::new());
        for figure in figures.iter().filter(|figure| figure.column == "fct_median_s") {
            let parts: Vec<_> = figure.row.split('/').collect();
            let [scheme, workload, number, _] = parts[..] else { continue };
            clients.extend(number.parse::<u32>());
            series.extend((!scheme.contains('@')).then(|| format!("{scheme}/{workload}")));
        }
        clients.sort_unstable();
        clients.dedup();
        let mut seen = std::collections::HashSet::new();
        series.retain(|name| seen.insert(name.clone()));
        Self { by_name, clients, series }
    }

    fn has(&self, series: &str, buffer: &str) -> bool {
        self.clients
            .iter()
            .any(|n| self.by_name.contains_key(&(format!("{series}/{n}/{buffer}").as_str(), "fct_median_s")))
    }

    fn shown(&self, row: &str, column: &str) -> Option<String> {
        self.by_name.get(&(row, column)).map(|figure| number(figure.measured, figure.unit))
    }
}
