//! ANRW'18, reduced, against closed forms.

mod bdp19;
mod own;
mod wiopt12;

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use conche_lab::campaign::{self, Progress, RunOptions};
use conche_lab::experiment::{Experiment, Measured};
use conche_lab::papers::ANRW18;
use conche_lab::scenario::Unit;
use conche_lab::scenario::{Cell, Controllers, Effort, FileError};
use conche_lab::table::Table;
use conche_lab::value::MeasuredValue;
use conche_lab::value::write_json;

/// Transmission time of one response frame on the downlink.
const SERVICE: f64 = 94.0 * 8.0 / 30_000.0;
/// The rest of a round trip, on average.
const LATENCY: f64 = 0.637;

/// Reduces ANRW'18.
fn anrw18(clients: &[u32], buffers: &[&str], schemes: &[&str], replications: u32) -> Experiment {
    let whole = Experiment::read(ANRW18.scenario, &conche_lab::papers::paper_file, &Controllers::new()).expect("valid");
    let axis = whole.document().scenario().sweep.iter().find(|axis| axis.name == "buffer").expect("an axis");
    let chosen = axis.points().into_iter().filter(|point| buffers.contains(&point.name.as_str()));
    let points: Vec<toml::Value> = chosen.map(point).collect();
    let clients: Vec<i64> = clients.iter().map(|clients| i64::from(*clients)).collect();
    let mut reduced = whole
        .with("sweep.clients.values", clients)
        .and_then(|reduced| reduced.with("sweep.buffer.points", points))
        .expect("values of the scenario");
    let controllers = schemes.iter().map(|name| (*name).to_owned()).collect();
    reduced.adjust(&Effort { runs: Some(replications), controllers, ..Effort::default() }).expect("valid");
    reduced
}

fn point(point: conche_lab::scenario::Point) -> toml::Value {
    let value = point.value.map(|value| ("value".to_owned(), value));
    let table = [("name".to_owned(), point.name.into())].into_iter().chain(value).collect();
    toml::Value::Table(table)
}

fn jobs(number: usize) -> RunOptions<'static> {
    RunOptions { jobs: NonZeroUsize::new(number), ..RunOptions::default() }
}

fn measured(experiment: &Experiment) -> Vec<MeasuredValue> {
    experiment.measure(jobs(2), &|_| {}).expect("runs").values
}

fn json(values: &[MeasuredValue]) -> String {
    let mut lines = Vec::new();
    write_json(values, &mut lines).expect("memory");
    String::from_utf8(lines).expect("JSON is UTF-8")
}

fn value(values: &[MeasuredValue], row: &str, column: &str) -> f64 {
    let found = values.iter().find(|value| value.row == row && value.column == column);
    found.unwrap_or_else(|| panic!("no {row} {column}")).measured
}

fn run(experiment: &Experiment, seed: u64) -> conche_lab::trial::Record {
    let cells = experiment.document().cells();
    let replication = campaign::Replication { index: 0, count: 1, seed };
    conche_lab::trial::run(&cells[0], conche_lab::trial::RecordOptions::default(), replication, &Arc::default())
        .expect("it ends")
        .outcome
}

fn completions(record: &conche_lab::trial::Record) -> Vec<f64> {
    let mut times: Vec<f64> =
        record.flows.iter().map(|flow| (flow.tally.done.expect("each is done") - flow.start).as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[test]
fn one_client_takes_33_0_to_33_2_seconds() {
    for seed in 1..=5 {
        let record = run(&anrw18(&[1], &["inf"], &["default"], 1), seed);
        let completion = completions(&record)[0];
        assert!((33.0..=33.2).contains(&completion), "{completion} s with seed {seed}");
        assert_eq!((record.nodes[0].copies, record.nodes[0].dropped.all), (50, 0));
    }
}

/// FCT_k = L + (49 N + k)·s: beyond N* = 26 clients the downlink never idles.
#[test]
fn fifty_clients_finish_at_the_closed_form_times() {
    for seed in 1..=3 {
        let completions = completions(&run(&anrw18(&[50], &["14100"], &["default"], 1), seed));
        for pair in completions.windows(2) {
            let gap = pair[1] - pair[0];
            assert!((gap - SERVICE).abs() < 1e-6, "{gap} s between two clients");
        }
        // L is an average over busy periods.
        for (k, completion) in (1..).zip(&completions) {
            let expected = LATENCY + (49.0 * 50.0 + f64::from(k)) * SERVICE;
            assert!((completion - expected).abs() < 0.015, "client {k}: {completion} s, not {expected} s");
        }
    }
}

/// 26 waiting frames, and those served meanwhile.
#[test]
fn fifteen_frames_of_the_initial_burst_are_lost_at_2500_bytes() {
    let values = measured(&anrw18(&[50], &["2500"], &["default"], 3));
    let of = |column| value(&values, "default/continuous/50/2500", column);
    assert_eq!((of("drops_per_run"), of("copies_per_run")), (15.0, 2515.0));
    assert_eq!((of("retransmissions_0"), of("retransmissions_1")), (3.0 * 2485.0, 45.0));
    assert_eq!(of("unnecessary_mean").to_bits(), 0.0_f64.to_bits(), "every repetition replaced a lost copy");
}

/// T_end ≈ L + s·Σtransmissions: each occupies the downlink once. After the last client finishes,
/// only spurious ones are left, fewer than clients.
#[test]
fn in_a_collapse_every_copy_takes_its_turn() {
    let record = run(&anrw18(&[100], &["inf"], &["default"], 1), 1);
    let last = *completions(&record).last().expect("100 clients");
    let copies: u64 = record.nodes.iter().map(|node| node.copies).sum();
    let all = LATENCY + copies as f64 * SERVICE;
    assert!(last < all + 0.015 && last > all - 100.0 * SERVICE, "{last} s, all copies {all} s");
    let exchanges = record.flows.iter().flat_map(|flow| &flow.exchanges);
    let unnecessary: u64 = exchanges.map(|exchange| u64::from(exchange.unnecessary)).sum();
    assert_eq!(unnecessary, copies - 5000, "nothing was lost, nothing was needed");
    assert!(copies > 9500, "half of the copies are in vain: {copies}");
}

#[test]
fn forgetting_changes_nothing_for_a_controller_without_memory_and_costs_cocoa_its_estimates() {
    let values = measured(&anrw18(&[100], &["14100"], &["default", "cocoa"], 1));
    let copies =
        |scheme: &str, workload: &str| value(&values, &format!("{scheme}/{workload}/100/14100"), "copies_per_run");
    assert_eq!(copies("default", "continuous").to_bits(), copies("default", "random").to_bits());
    assert!(copies("cocoa", "random") > copies("cocoa", "continuous") + 500.0);
}

#[test]
fn failed_exchanges_do_not_count_towards_the_fifty() {
    let experiment = anrw18(&[50], &["2500"], &["default"], 1).with("endpoint.max_retransmit", 0).expect("a value");
    let record = run(&experiment, 1);
    let failed: u64 = record.flows.iter().map(|flow| flow.tally.failed).sum();
    let (copies, dropped) =
        record.nodes.iter().fold((0, 0), |(copies, dropped), node| (copies + node.copies, dropped + node.dropped.all));
    assert!(record.flows.iter().all(|flow| flow.tally.answered == 50), "50 clients complete 50 exchanges each");
    assert_eq!((failed, copies), (dropped, 2500 + failed), "each lost copy was the only one of its exchange");
    assert!(failed >= 15, "{failed}");
}

#[test]
fn an_unfinished_run_names_its_cell_and_its_progress() {
    let experiment = anrw18(&[10], &["inf"], &["default"], 1).with("time_limit", "10s").expect("a time");
    let Measured { values, completion, .. } = experiment.measure(jobs(1), &|_| {}).expect("the others could run");
    let [failure, _] = &completion.failures[..] else { panic!("50 exchanges take 33 s: {completion:?}") };
    let error = failure.to_string();
    let begin = "default/continuous/10/inf, replication 0: after 10s of virtual time client 0 has completed 1";
    assert!(error.starts_with(begin) && error.contains(" of 50 exchanges"), "{error}");
    assert!(values.iter().all(|value| value.item == "table3"), "no run, no figure but those without runs: {values:?}");
}

#[test]
fn results_depend_on_the_seed_and_not_on_the_number_of_threads() {
    let experiment = anrw18(&[10, 60], &["2500", "inf"], &["default", "cocoa"], 3);
    let [one, two] = [1, 2].map(|threads| json(&experiment.measure(jobs(threads), &|_| {}).expect("runs").values));
    assert_eq!(one, two);
    let other = experiment.with("seed", 2).expect("a seed");
    assert_ne!(json(&measured(&other)), one);
}

#[test]
fn a_mix_has_the_clients_of_both_halves() {
    let values = measured(&anrw18(&[60], &["14100"], &["default", "cocoa"], 2));
    for half in ["default", "cocoa"] {
        let row = format!("{half}@default+cocoa/continuous/60/14100");
        let exchanges: f64 = (0..=20).map(|k| value(&values, &row, &format!("retransmissions_{k}"))).sum();
        // 30 clients, 50 exchanges, 2 replications.
        assert!((exchanges - 3000.0).abs() < 0.5, "{row}: {exchanges}");
    }
}

#[test]
fn progress_ends_when_all_work_is_done() {
    let seen: Mutex<Vec<Progress>> = Mutex::new(Vec::new());
    let watch = |progress| seen.lock().expect("no panic").push(progress);
    anrw18(&[1, 10], &["inf"], &["default"], 2).measure(jobs(2), &watch).expect("runs");
    let seen = seen.into_inner().expect("no panic");
    assert_eq!(seen.len(), 2 * 2 * 2, "one report a run");
    assert!(seen.iter().all(|progress| progress.done <= progress.total));
    assert!(seen.iter().any(|progress| progress.done == progress.total));
}

#[test]
fn one_replication_gives_table_1() {
    let values = measured(&anrw18(&[50], &["2500", "14100"], &["default"], 1));
    let table: Vec<_> = values.iter().filter(|value| value.item == "table1").collect();
    assert_eq!(table.len(), 14, "seven percentiles of two buffers");
    for value in table {
        let deviation = value.deviation_percent().expect("all of Table 1 is published");
        let bound = if value.row.ends_with("14100") { 0.1 } else { 0.5 };
        assert!(deviation.abs() < bound, "{} {}: {deviation} %", value.row, value.column);
    }
}

/// The paper's counts from twenty scatter by a few per cent themselves.
#[test]
fn three_replications_give_table_2() {
    let values = measured(&anrw18(&[400], &["inf"], &["default"], 3));
    for (column, tolerance) in [("0", 15.0), ("1", 12.0), ("2", 12.0), ("3", 8.0), ("4", 0.2)] {
        let value =
            values.iter().find(|value| value.row == "default/continuous" && value.column == column).expect("Table 2");
        let deviation = value.deviation_percent().expect("published");
        assert!(deviation.abs() < tolerance, "{column} retransmissions: {} exchanges, {deviation} %", value.measured);
    }
    let row = |value: &&MeasuredValue| value.item == "table2" && value.row == "default/continuous";
    let exchanges: f64 = values.iter().filter(row).map(|value| value.measured).sum();
    assert!((exchanges - 400_000.0).abs() < 0.5, "scaled to the paper's 20 replications: {exchanges}");
}

#[test]
fn each_value_is_there_once_and_has_a_known_item() {
    let schemes = ["default", "cocoa", "default-fb1", "default-fb2", "cocoa-fb1", "cocoa-fb2"];
    let experiment = anrw18(&[1, 10, 50], &["2500", "14100", "28200", "inf"], &schemes, 2);
    let values = measured(&experiment);
    let mut names = HashSet::new();
    for value in &values {
        assert!(names.insert((&value.row, &value.column)), "{} {} twice", value.row, value.column);
        let items = &experiment.document().scenario().items;
        let is_known = value.item == "claims" || items.iter().any(|item| item.name == value.item);
        assert!(is_known, "unknown item {:?}", value.item);
        assert_eq!((value.scenario.as_str(), value.runs), ("anrw18", 2));
        assert!(value.measured.is_finite(), "{} {}", value.row, value.column);
    }
}

#[test]
fn lines_have_the_documented_fields() {
    let text = json(&measured(&anrw18(&[10], &["inf"], &["default"], 2)));
    let value = ["schema", "scenario", "item", "row", "column", "unit", "published", "measured", "ci95", "runs"];
    let fields = [&value[..], &["part", "axes", "mix", "scheme", "phase"]].concat();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("one object a line");
        let object = line.as_object().expect("an object");
        assert!(object.len() == fields.len() && fields.iter().all(|field| object.contains_key(*field)), "{line}");
        assert_eq!(line["schema"], 1);
        if line["row"] == "default/random/10/inf" {
            let axes = serde_json::json!({ "workload": "random", "clients": 10, "buffer": "inf" });
            assert_eq!((&line["axes"], &line["scheme"]), (&axes, &"default".into()));
        }
        assert!(line["measured"].is_number() && (line["ci95"].is_null() || line["ci95"].as_array().is_some()));
    }
}

#[test]
fn claims_are_put_to_the_test_when_their_schemes_are_run() {
    let values = measured(&anrw18(&[100], &["28200"], &["default", "cocoa"], 3));
    let claims: Vec<_> = values.iter().filter(|value| value.item == "claims").collect();
    let [ratio, verdict] = claims[..] else { panic!("{claims:?}") };
    assert_eq!(ratio.row, "default_nearly_twice_cocoa/continuous/100/28200");
    assert!((1.9..2.0).contains(&ratio.measured), "{}", ratio.measured);
    assert_eq!((verdict.unit, verdict.measured.total_cmp(&1.0).is_eq()), (Unit::Verdict, true));
    let only_default = measured(&anrw18(&[100], &["28200"], &["default"], 1));
    assert!(only_default.iter().all(|value| value.item != "claims"));
}

#[test]
fn other_controllers_get_a_table_of_their_own() {
    let experiment = anrw18(&[10], &["inf"], &["coap-b"], 1);
    let values = measured(&experiment);
    assert!(values.iter().all(|value| matches!(value.item.as_str(), "grid" | "table2")));
    let titles: Vec<String> = experiment.tables(&values).into_iter().map(|table| table.title).collect();
    assert_eq!(titles, ["Other controllers in the same scenario, largest buffer"]);
}

#[test]
fn values_outside_the_tables_of_a_scenario_are_shown_too() {
    let experiment = anrw18(&[10], &["2500"], &["coap-b"], 1);
    let tables = experiment.tables(&measured(&experiment));
    let [all] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!(all.title, "What was measured of each cell, with 95 % intervals");
    assert!(all.rows.iter().any(|row| row[0] == "coap-b/continuous/10/2500"), "{all}");
}

#[test]
fn tables_show_every_panel_of_the_run_cells() {
    let experiment = anrw18(&[2, 50], &["2500", "14100", "inf"], &["default", "cocoa", "cocoa-fb2"], 1);
    let tables = experiment.tables(&measured(&experiment));
    let text: String = tables.iter().map(Table::to_string).collect();
    for expected in ["Table 1:", "Fig. 2: flow completion time in seconds, 14100 B buffer", "Fig. 3:", "Fig. 4:"] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    let panel = tables.iter().find(|table| table.title.contains("2500 B buffer")).expect("Fig. 2");
    assert_eq!(panel.header, ["clients", "default/continuous", "default/random", "cocoa/continuous", "cocoa/random"]);
    assert_eq!(panel.rows.len(), 2, "one row for each number of clients");
}

#[test]
fn the_examples_run_and_are_short() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/examples");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).expect("it is there") {
        let path = entry.expect("readable").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        assert!(text.lines().count() < 60, "{} has {} lines", path.display(), text.lines().count());
        let none = |_: &str| Err(FileError::NotFound);
        let mut experiment = Experiment::read(&text, &none, &Controllers::new())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        experiment.adjust(&Effort { runs: Some(1), ..Effort::default() }).expect("valid");
        let values = measured(&experiment);
        let answered = values.iter().filter(|value| value.column == "throughput_per_s");
        assert!(answered.into_iter().all(|value| value.measured > 0.0), "{}", path.display());
        assert!(!experiment.tables(&values).is_empty(), "{}", path.display());
        names.push(experiment.name().to_owned());
    }
    names.sort_unstable();
    assert_eq!(names, ["codel", "failing-link", "half-and-half", "nat"]);
}
