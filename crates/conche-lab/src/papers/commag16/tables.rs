//! The paper's tables and figures as tables of text.

use super::measure::CLASSES;
use super::scenario::Scenario;
use crate::papers::{Values, claim};
use crate::report::{Align, Table, comparison, number};
use crate::results::Figure;

/// What is shown of every number of clients: the workload, the column, and the title.
const GRIDS: [(&str, &str, &str); 6] = [
    ("gprs", "throughput_per_s", "Fig. 1, all clients: transactions a second"),
    ("gprs", "retransmissions_percent", "Fig. 2, all clients: retransmissions in per cent of all transmissions"),
    ("gprs", "rtt_mean_s", "Table 2, all clients: mean round-trip time in seconds"),
    ("gprs", "initial_rto_mean_s", "Table 2, all clients: mean initial RTO in seconds"),
    ("gprs-burst", "settling_time_s", "Fig. 3: settling time of a burst in seconds"),
    ("gprs", "jain_index", "Fairness: Jain's index of the clients' transactions"),
];

/// Table 1, the published values of Fig. 1, Fig. 2 and Table 2 beside the measured ones, everything for all numbers of
/// clients, and claims.
pub(super) fn tables(scenario: &Scenario, figures: &[Figure]) -> Vec<Table> {
    let published = [
        ("fig1", "throughput_per_s", "Fig. 1: transactions a second"),
        ("fig2", "retransmissions_percent", "Fig. 2: retransmissions in per cent of all transmissions"),
        ("table2", "rtt_mean_s", "Table 2: mean round-trip time in seconds"),
        ("table2", "initial_rto_mean_s", "Table 2: mean initial RTO in seconds"),
    ];
    let mut tables = vec![table_1(scenario)];
    tables.extend(published.map(|(item, column, title)| beside_published(figures, item, column, title)));
    let values = Values::new(figures);
    tables.extend(GRIDS.map(|(workload, column, title)| grid(scenario, &values, workload, column, title)));
    tables.extend([motes(scenario, &values), classes(scenario, &values)]);
    tables.push(claim::table(figures));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn table_1(scenario: &Scenario) -> Table {
    let yes = |feature: bool| if feature { "yes" } else { "-" }.to_owned();
    let rows = scenario.schemes.iter().filter_map(|scheme| {
        let named = scheme.named()?;
        let features = named.features;
        Some(vec![
            scheme.name.clone(),
            named.name.to_owned(),
            yes(features.strong_rtt),
            yes(features.weak_rtt),
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
    Table {
        title: "Table 1: features, and bytes of state for each peer".to_owned(),
        header: header.map(String::from).into(),
        align: Align::FirstTwoLeft,
        rows: rows.collect(),
        ..Table::default()
    }
}

fn beside_published(figures: &[Figure], item: &str, column: &str, title: &str) -> Table {
    let found =
        figures.iter().filter(|figure| figure.item == item && figure.column == column && figure.published.is_some());
    comparison(title, ["scheme", "clients"], found, |figure| {
        let (scheme, cell) = figure.row.split_once('/').unwrap_or((&figure.row, ""));
        [scheme.to_owned(), cell.trim_start_matches("gprs/").to_owned()]
    })
}

/// Each scheme a row, each number of clients a column.
fn grid(scenario: &Scenario, values: &Values<'_>, workload: &str, column: &str, title: &str) -> Table {
    let numbers = scenario.gprs.iter().flat_map(|gprs| gprs.clients.iter());
    let clients: Vec<String> = numbers.map(|clients| clients.get().to_string()).collect();
    let rows = scenario.schemes.iter().map(|scheme| {
        let cell = |clients: &String| {
            let figure = values.get(&format!("{}/{workload}/{clients}", scheme.name), column);
            figure.map(shown).unwrap_or_default()
        };
        std::iter::once(scheme.name.clone()).chain(clients.iter().map(cell)).collect()
    });
    Table {
        title: title.to_owned(),
        rows: rows.collect(),
        header: std::iter::once("scheme".to_owned()).chain(clients.iter().map(|n| format!("{n} clients"))).collect(),
        ..Table::default()
    }
}

/// Each scheme a row, everything that is measured of motes a column.
fn motes(scenario: &Scenario, values: &Values<'_>) -> Table {
    const SHOWN: [(&str, &str, &str); 6] = [
        ("flocklab", "throughput_per_s", "transactions/s"),
        ("flocklab", "retransmissions_percent", "retransmissions %"),
        ("flocklab", "rtt_mean_s", "RTT (s)"),
        ("flocklab", "initial_rto_mean_s", "initial RTO (s)"),
        ("flocklab-burst", "settling_time_s", "settling time (s)"),
        ("flocklab", "jain_index", "Jain's index"),
    ];
    let rows = scenario.schemes.iter().filter_map(|scheme| {
        let cells = SHOWN.iter().map(|(cell, column, _)| {
            let figure = values.get(&format!("{}/{cell}", scheme.name), column);
            figure.map(shown).ok_or(())
        });
        let cells = cells.collect::<Result<Vec<_>, _>>().ok()?;
        Some(std::iter::once(scheme.name.clone()).chain(cells).collect())
    });
    Table {
        title: "Fig. 2 to 4, FlockLab".to_owned(),
        header: std::iter::once("scheme").chain(SHOWN.map(|(_, _, name)| name)).map(String::from).collect(),
        rows: rows.collect(),
        ..Table::default()
    }
}

/// Each scheme a row, each class of transactions a column.
fn classes(scenario: &Scenario, values: &Values<'_>) -> Table {
    let rows = scenario.schemes.iter().filter_map(|scheme| {
        let row = format!("{}/flocklab", scheme.name);
        let cells: Option<Vec<_>> = CLASSES
            .iter()
            .map(|column| values.get(&row, column).map(|figure| number(figure.measured, figure.unit)))
            .collect();
        Some(std::iter::once(scheme.name.clone()).chain(cells?).collect())
    });
    let names = (0..CLASSES.len())
        .map(|class| if class < 10 { format!("{}-{}", 10 * class, 10 * class + 9) } else { "100+".to_owned() });
    Table {
        title: "Fig. 4: share of motes in per cent, by their transactions in a run".to_owned(),
        header: std::iter::once("scheme".to_owned()).chain(names).collect(),
        rows: rows.collect(),
        ..Table::default()
    }
}

/// The mean and the half-width of its interval.
fn shown(figure: &Figure) -> String {
    let mean = number(figure.measured, figure.unit);
    match figure.ci95 {
        Some(interval) => format!("{mean} ± {}", number((interval.high - interval.low) / 2.0, figure.unit)),
        None => mean,
    }
}
