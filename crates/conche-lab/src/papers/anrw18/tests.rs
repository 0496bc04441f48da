//! The paper's tables and claims: what a reduced run measures, and how it is named.

use std::collections::HashSet;

use super::*;
use crate::campaign::RunOptions;
use crate::report::Table;
use crate::results::{Unit, write_json};
use crate::run::run;
use crate::scenario::reduced;

fn measured(clients: &[u32], buffers: &[&str], schemes: &[&str], replications: u32) -> Vec<Measurements> {
    let scenario = reduced::anrw18(clients, buffers, schemes, replications);
    run(&scenario, RunOptions::default(), &|_| {}).expect("runs").0
}

#[test]
fn one_replication_gives_table_1() {
    let figures = figures(&measured(&[50], &["2500", "14100"], &["default"], 1));
    let table: Vec<_> = figures.iter().filter(|figure| figure.item == "table1").collect();
    assert_eq!(table.len(), 14, "seven percentiles of two buffers");
    for figure in table {
        let deviation = figure.deviation_percent().expect("all of Table 1 is published");
        let bound = if figure.row.ends_with("14100") { 0.1 } else { 0.5 };
        assert!(deviation.abs() < bound, "{} {}: {deviation} %", figure.row, figure.column);
    }
}

/// Three replications; the paper's counts are of twenty and scatter by a few per cent themselves.
#[test]
fn three_replications_give_table_2() {
    let figures = figures(&measured(&[400], &["inf"], &["default"], 3));
    for (column, tolerance) in [("0", 15.0), ("1", 12.0), ("2", 12.0), ("3", 8.0), ("4", 0.2)] {
        let figure = figures
            .iter()
            .find(|figure| (figure.row.as_str(), figure.column.as_str()) == ("default/continuous", column))
            .expect("a count of Table 2");
        let deviation = figure.deviation_percent().expect("published");
        assert!(deviation.abs() < tolerance, "{column} retransmissions: {} exchanges, {deviation} %", figure.measured);
    }
    let exchanges: f64 = figures
        .iter()
        .filter(|figure| figure.item == "table2" && figure.row == "default/continuous")
        .map(|figure| figure.measured)
        .sum();
    assert!((exchanges - 400_000.0).abs() < 0.5, "scaled to the paper's 20 replications: {exchanges}");
}

#[test]
fn each_value_is_there_once_and_has_a_known_item() {
    let schemes = ["default", "cocoa", "default-fb1", "default-fb2", "cocoa-fb1", "cocoa-fb2"];
    let figures = figures(&measured(&[1, 10, 50], &["2500", "14100", "28200", "inf"], &schemes, 2));
    let mut names = HashSet::new();
    for figure in &figures {
        assert!(names.insert((&figure.row, &figure.column)), "{} {} twice", figure.row, figure.column);
        assert!(items::rank(&figure.item) < items::ITEMS.len(), "unknown item {:?}", figure.item);
        assert_eq!((figure.paper.as_str(), figure.runs), ("anrw18", 2));
        assert!(figure.measured.is_finite(), "{} {}", figure.row, figure.column);
    }
    for scheme in schemes {
        for workload in ["continuous", "random"] {
            let row = format!("{scheme}/{workload}/10/28200");
            let mut columns: Vec<String> = crate::metrics::FCT.iter().map(|(column, _)| (*column).to_owned()).collect();
            columns.extend((0..=20).map(|k| format!("retransmissions_{k}")));
            columns.extend(["unnecessary_median", "copies_per_run", "drops_per_run"].map(String::from));
            for column in &columns {
                assert!(names.contains(&(&row, column)), "{row} has no {column}");
            }
        }
    }
}

#[test]
fn lines_have_the_documented_fields() {
    let figures = figures(&measured(&[10], &["inf"], &["default"], 2));
    let mut text = Vec::new();
    write_json(&figures, &mut text).expect("memory");
    let fields = ["schema", "paper", "item", "row", "column", "unit", "published", "measured", "ci95", "runs"];
    for line in String::from_utf8(text).expect("JSON is UTF-8").lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("one object a line");
        let object = line.as_object().expect("an object");
        assert!(object.len() == fields.len() && fields.iter().all(|field| object.contains_key(*field)), "{line}");
        assert_eq!(line["schema"], 1);
        assert!(line["measured"].is_number() && (line["ci95"].is_null() || line["ci95"].as_array().is_some()));
    }
}

#[test]
fn claims_are_put_to_the_test_when_their_schemes_are_run() {
    let figures = figures(&measured(&[100], &["28200"], &["default", "cocoa"], 1));
    let claims: Vec<_> = figures.iter().filter(|figure| figure.item == "claims").collect();
    let [ratio, verdict] = claims[..] else { panic!("{claims:?}") };
    assert_eq!(ratio.row, "default_nearly_twice_cocoa/continuous/100/28200");
    assert!((1.9..2.0).contains(&ratio.measured), "{}", ratio.measured);
    assert_eq!((verdict.unit, verdict.measured.total_cmp(&1.0).is_eq()), (Unit::Verdict, true));
    let only_default = measured(&[100], &["28200"], &["default"], 1);
    assert!(super::figures(&only_default).iter().all(|figure| figure.item != "claims"));
}

#[test]
fn other_controllers_get_a_table_of_their_own() {
    let figures = figures(&measured(&[10], &["inf"], &["coap-b"], 1));
    assert!(figures.iter().all(|figure| matches!(figure.item.as_str(), "grid" | "table2")));
    let tables = tables::tables(&figures);
    let titles: Vec<_> = tables.iter().map(|table| table.title.as_str()).collect();
    assert_eq!(titles, ["Other controllers in the same scenario, largest buffer"]);
}

#[test]
fn tables_show_every_panel_of_what_was_run() {
    let figures = figures(&measured(&[2, 50], &["2500", "14100", "inf"], &["default", "cocoa", "cocoa-fb2"], 1));
    let tables: Vec<Table> = tables::tables(&figures);
    let text: String = tables.iter().map(Table::to_string).collect();
    for expected in ["Table 1:", "Fig. 2: flow completion time in seconds, 14100 B buffer", "Fig. 3:", "Fig. 4:"] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    let panel = tables.iter().find(|table| table.title.contains("2500 B buffer")).expect("Fig. 2");
    assert_eq!(panel.header, ["clients", "default/continuous", "default/random", "cocoa/continuous", "cocoa/random"]);
    assert_eq!(panel.rows.len(), 2, "one row for each number of clients");
}
