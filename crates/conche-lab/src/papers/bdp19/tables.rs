//! The paper's figures as tables of text.

use crate::papers::{Values, claim};
use crate::report::{Align, Table, number};
use crate::results::{Figure, Unit};

/// The panels of Fig. 1, and what else is worth seeing of it.
const PANELS: [(&str, &str); 7] = [
    ("jain_short", "Jain's index over short windows"),
    ("jain_long", "Jain's index over the whole run"),
    ("goodput", "goodput of all motes (bit/s)"),
    ("retransmission_index", "retransmissions among all transmissions"),
    ("loss", "messages given up (%)"),
    ("rtt_median", "median round-trip time (s)"),
    ("starving", "motes with less than a tenth of the mean goodput"),
];

/// Fig. 1 to 4 and the claims.
pub(super) fn tables(figures: &[Figure]) -> Vec<Table> {
    let mut tables: Vec<Table> = PANELS.iter().map(|(column, name)| panel(figures, column, name)).collect();
    tables.extend([series(figures), dynamic(figures), mixed(figures), claims(figures)]);
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// A value and half the width of its interval.
fn shown(figure: &Figure) -> String {
    let value = number(figure.measured, figure.unit);
    match figure.ci95 {
        Some(interval) => format!("{value} ± {}", number((interval.high - interval.low) / 2.0, figure.unit)),
        None => value,
    }
}

/// What comes first, second and so on in rows such as `default/udgm/static/60`.
fn part(row: &str, place: usize) -> &str {
    row.split('/').nth(place).unwrap_or_default()
}

/// All different ones, in the order of their first appearance.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn item<'a>(figures: &'a [Figure], name: &str) -> Vec<&'a Figure> {
    figures.iter().filter(|figure| figure.item == name).collect()
}

/// Each medium and rate a row, each scheme a column.
fn panel(figures: &[Figure], column: &str, name: &str) -> Table {
    let values = Values::new(figures);
    let of_item = item(figures, "fig1");
    let rows = || of_item.iter().map(|figure| figure.row.as_str());
    let schemes = distinct(rows().map(|row| part(row, 0)));
    let cells = distinct(rows().filter_map(|row| row.split_once('/').map(|(_, cell)| cell)));
    let row = |cell: &str| {
        let of_scheme = |scheme: &&str| values.get(&format!("{scheme}/{cell}"), column).map(shown).unwrap_or_default();
        let names = [part(cell, 0).to_owned(), part(cell, 2).to_owned()];
        names.into_iter().chain(schemes.iter().map(of_scheme)).collect()
    };
    // Each medium by itself, with growing rates.
    let media = distinct(cells.iter().map(|cell| part(cell, 0)));
    let rows = media.iter().flat_map(|medium| cells.iter().filter(move |cell| part(cell, 0) == *medium));
    Table {
        title: format!("Fig. 1: {name}, by rate of each mote"),
        header: ["medium", "bit/s"].iter().chain(&schemes).map(|name| (*name).to_owned()).collect(),
        align: Align::FirstTwoLeft,
        rows: rows.map(|cell| row(cell)).collect(),
        notes: Vec::new(),
    }
}

/// Goodput of one mote over time at the highest rate: each window a row, each medium and scheme a column.
fn series(figures: &[Figure]) -> Table {
    let values = Values::new(figures);
    let of_item = item(figures, "fig2");
    let rate = |row: &str| part(row, 3).parse::<f64>().unwrap_or(0.0);
    let highest = of_item.iter().map(|figure| rate(&figure.row)).fold(0.0, f64::max);
    let at_highest: Vec<_> = of_item.iter().filter(|figure| rate(&figure.row) >= highest).collect();
    let rows = distinct(at_highest.iter().map(|figure| figure.row.as_str()));
    let columns = distinct(at_highest.iter().map(|figure| figure.column.as_str()));
    let name = |row: &&str| format!("{} {}", part(row, 1), part(row, 0));
    let hops = rows.first().map_or("", |row| part(row, 4)).replace('_', " ");
    let line = |column: &&str| {
        let time = column.trim_start_matches("goodput_until_").to_owned();
        let value = |row: &&str| values.get(row, column).map(shown).unwrap_or_default();
        std::iter::once(time).chain(rows.iter().map(value)).collect()
    };
    Table {
        title: format!("Fig. 2: goodput of a mote {hops} away, up to each time (bit/s), {highest} bit/s offered"),
        header: std::iter::once("until".to_owned()).chain(rows.iter().map(name)).collect(),
        align: Align::FirstLeft,
        rows: columns.iter().map(line).collect(),
        notes: Vec::new(),
    }
}

/// Each step a row; for each scheme its short-term fairness and its goodput.
fn dynamic(figures: &[Figure]) -> Table {
    const SHOWN: [(&str, &str); 3] = [("jain_short", "Jain"), ("goodput_mote", "bit/s"), ("loss", "loss %")];
    let values = Values::new(figures);
    let of_item = item(figures, "fig3");
    let rows = || of_item.iter().map(|figure| figure.row.as_str());
    let schemes = distinct(rows().map(|row| part(row, 0)));
    let steps = distinct(rows().filter_map(|row| row.split_once('/').map(|(_, step)| step)));
    let columns: Vec<_> =
        schemes.iter().flat_map(|scheme| SHOWN.map(|(column, name)| (*scheme, column, name))).collect();
    let line = |step: &&str| {
        let rate = if part(step, 3).is_empty() { "all" } else { part(step, 3) };
        let value = |(scheme, column, _): &(&str, &str, &str)| {
            let figure = values.get(&format!("{scheme}/{step}"), column);
            figure.map(|figure| number(figure.measured, figure.unit)).unwrap_or_default()
        };
        [part(step, 0).to_owned(), rate.to_owned()].into_iter().chain(columns.iter().map(value)).collect()
    };
    Table {
        title: "Fig. 3: short-term fairness, goodput of a mote and losses while the rate changes".to_owned(),
        header: ["medium".to_owned(), "bit/s".to_owned()]
            .into_iter()
            .chain(columns.iter().map(|(scheme, _, name)| format!("{scheme} {name}")))
            .collect(),
        align: Align::FirstTwoLeft,
        rows: steps.iter().map(line).collect(),
        notes: Vec::new(),
    }
}

/// Each medium and scheme a row.
fn mixed(figures: &[Figure]) -> Table {
    const SHOWN: [(&str, &str); 7] = [
        ("jain_short", "Jain"),
        ("goodput", "goodput"),
        ("starving", "starving"),
        ("silent", "silent %"),
        ("retransmission_index", "retransmissions"),
        ("loss", "loss %"),
        ("goodput_unaware", "NON goodput"),
    ];
    let values = Values::new(figures);
    let of_item = item(figures, "fig4");
    let rows = distinct(of_item.iter().map(|figure| figure.row.as_str()));
    let line = |row: &&str| {
        let value = |(column, _): &(&str, &str)| values.get(row, column).map(shown).unwrap_or_default();
        [part(row, 1).to_owned(), part(row, 0).to_owned()].into_iter().chain(SHOWN.iter().map(value)).collect()
    };
    Table {
        title: "Fig. 4: Confirmable messages beside traffic that knows of no congestion".to_owned(),
        header: ["medium", "scheme"].into_iter().chain(SHOWN.map(|(_, name)| name)).map(str::to_owned).collect(),
        align: Align::FirstTwoLeft,
        rows: rows.iter().map(line).collect(),
        notes: vec![
            "starving: motes with less than a tenth of the mean goodput; silent: windows in which a mote got nothing through"
                .to_owned(),
        ],
    }
}

/// The claims, and below them why some do not hold.
fn claims(figures: &[Figure]) -> Table {
    let failed = figures.iter().filter(|figure| figure.unit == Unit::Verdict && figure.measured < 0.5);
    let reasons = distinct(failed.filter_map(super::claims::reason));
    Table { notes: reasons.into_iter().map(str::to_owned).collect(), ..claim::table(figures) }
}
