//! The paper's experiment in small: one short replication of few clients.

use std::collections::HashSet;

use super::*;
use crate::results::{Unit, write_json};

/// The scenario with few clients and schemes, without motes, and a burst of few exchanges.
fn reduced(schemes: &[&str]) -> ComMag16 {
    let text = SCENARIO
        .replace("clients = [10, 20, 30, 40]", "clients = [5, 10]")
        .replace("duration = \"180s\"", "duration = \"60s\"")
        .replace("exchanges = 25", "exchanges = 5");
    let mut scenario = Scenario::from_toml(&text).expect("a smaller scenario is valid as well");
    let controllers = schemes.iter().map(|scheme| (*scheme).to_owned()).collect();
    scenario.adjust(&Effort { runs: Some(2), controllers, ..Effort::default() }).expect("schemes of the scenario");
    scenario.flocklab = None;
    ComMag16(scenario)
}

fn figures(experiment: &ComMag16, jobs: usize) -> Vec<Figure> {
    let options = RunOptions { jobs: std::num::NonZeroUsize::new(jobs) };
    experiment.measure(options, &|_| {}).expect("it runs").0
}

fn value(figures: &[Figure], row: &str, column: &str) -> f64 {
    let found = figures.iter().find(|figure| figure.row == row && figure.column == column);
    found.unwrap_or_else(|| panic!("no {row} {column}")).measured
}

#[test]
fn each_value_is_there_once_and_finite() {
    let experiment = reduced(&["default", "cocoa", "cocoa-s", "b-rto", "linux", "ph"]);
    let figures = figures(&experiment, 1);
    let mut names = HashSet::new();
    for figure in &figures {
        assert!(names.insert((&figure.row, &figure.column)), "{} {} twice", figure.row, figure.column);
        assert!(figure.measured.is_finite(), "{} {}", figure.row, figure.column);
        assert_eq!(figure.paper, "commag16");
    }
    for item in ["table1", "fig1", "fig2", "table2", "fig3", "grid", "claims"] {
        assert!(figures.iter().any(|figure| figure.item == item), "nothing of {item}");
    }
    assert_eq!(figures.iter().filter(|figure| figure.row == "cocoa/gprs/5").count(), 5);
    assert!(!names.contains(&(&"cocoa/gprs-burst/5".to_owned(), &"settling_time_s".to_owned())), "nobody joins");
    assert!(figures.iter().filter(|figure| figure.item == "table1").all(|figure| figure.published.is_some()));
    assert!(!experiment.tables(&figures).is_empty());
}

/// In a closed loop every client always has one exchange: each run has rate × round-trip time = clients, but for what is
/// left over at its end.
#[test]
fn throughput_times_round_trip_time_is_the_number_of_clients() {
    let mut experiment = reduced(&["linux"]);
    experiment.0.replications = crate::scenario::AtLeastOne::new(1).expect("one");
    let figures = figures(&experiment, 1);
    for clients in [5.0, 10.0] {
        let row = format!("linux/gprs/{clients}");
        let product = value(&figures, &row, "throughput_per_s") * value(&figures, &row, "rtt_mean_s");
        assert!((product / clients - 1.0).abs() < 0.05, "{row}: {product}");
    }
}

#[test]
fn the_default_is_dithered_from_2_to_3_seconds() {
    let figures = figures(&reduced(&["default"]), 1);
    let rto = value(&figures, "default/gprs/10", "initial_rto_mean_s");
    assert!((rto - 2.5).abs() < 0.05, "{rto}");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let experiment = reduced(&["cocoa", "b-rto"]);
    let json = |jobs| {
        let mut out = Vec::new();
        write_json(&figures(&experiment, jobs), &mut out).expect("memory");
        out
    };
    assert_eq!(json(1), json(2));
}

/// One short run under few schemes; most motes are too far away for many exchanges in it.
#[test]
fn motes_have_a_place_in_figures_2_to_4() {
    let ComMag16(mut scenario) = reduced(&["default", "cocoa", "cocoa-s", "b-rto", "linux", "ph"]);
    scenario.flocklab = Scenario::from_toml(SCENARIO).expect("valid").flocklab;
    scenario.gprs = None;
    scenario.replications = crate::scenario::AtLeastOne::new(1).expect("one");
    let experiment = ComMag16(scenario);
    let figures = figures(&experiment, 2);
    assert!(value(&figures, "cocoa/flocklab", "throughput_per_s") > 1.0);
    let classes = figures.iter().filter(|figure| figure.row == "cocoa/flocklab" && figure.item == "fig4");
    let shares: f64 = classes.filter(|figure| figure.unit == Unit::Percent).map(|figure| figure.measured).sum();
    assert!((shares - 100.0).abs() < 1e-6, "every mote is in one class: {shares}");
    assert!(value(&figures, "cocoa/flocklab-burst", "settling_time_s") > 1.0);
    let claims: Vec<_> = figures.iter().filter(|figure| figure.item == "claims").collect();
    assert_eq!(claims.len(), 6, "three comparisons of fairness, each a value and a verdict");
    assert!(!experiment.tables(&figures).is_empty());
}

#[test]
fn the_published_intervals_are_the_bar_of_throughput() {
    let figures = figures(&reduced(&["cocoa"]), 1);
    let figure = figures
        .iter()
        .find(|figure| figure.row == "cocoa/gprs/10" && figure.column == "throughput_per_s")
        .expect("measured");
    let published = Figure { published: Some(17.4), unit: Unit::PerSecond, ..figure.clone() };
    assert_eq!(PAPER.experiment().within(&Figure { measured: 20.8, ..published.clone() }), Some(true));
    assert_eq!(PAPER.experiment().within(&Figure { measured: 21.0, ..published }), Some(false));
}

#[test]
fn values_without_sense_are_refused() {
    let cases = [
        ("stall_probability = 0.002", "stall_probability = 1.2", "gprs.uplink.stall_probability: 1.2 is not"),
        ("request = \"93B\"", "request = \"11B\"", "gprs.request: 11B is no frame"),
        ("rate = \"40kbit/s\"", "rate = \"0bit/s\"", "gprs.downlink.rate"),
        ("sigma = 0.5", "sigma = 5.0", "gprs.uplink.spread.sigma"),
        ("check_rate_hz = 16", "check_rate = 16", "check_rate"),
        ("request = \"18B\"", "request = \"80B\"", "flocklab.request: 80B is not between 12B and 60B"),
        ("settled = 0.8", "settled = 8.0", "burst.settled"),
        ("schema = 1", "schema = 2", "schema"),
        ("model = \"commag16\"", "model = \"commag16\"\nmodle = 1", "modle"),
    ];
    for (from, to, expected) in cases {
        assert!(SCENARIO.contains(from), "{from}");
        let error = Scenario::from_toml(&SCENARIO.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}
