//! Papers, reduced.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use conche_lab::campaign::RunOptions;
use conche_lab::experiment::Experiment;
use conche_lab::papers::*;
use conche_lab::scenario::Unit;
use conche_lab::scenario::{Controllers, Effort};
use conche_lab::value::{MeasuredValue, Position, write_json};

#[test]
fn every_paper_has_its_scenario() {
    for paper in PAPERS {
        let experiment = paper.experiment(&Controllers::new());
        assert_eq!(experiment.name(), paper.name);
        assert!(Paper::by_name(paper.name).is_some());
    }
}

#[test]
fn a_figure_is_within_its_bar_or_beyond_it() {
    let value = MeasuredValue {
        scenario: "anrw18".to_owned(),
        item: "table1".to_owned(),
        row: "default/continuous/50/14100".to_owned(),
        column: "fct_median_s".to_owned(),
        unit: Unit::Seconds,
        published: Some(62.690),
        measured: 62.70,
        ci95: None,
        runs: 20,
        position: Position::default(),
    };
    let paper = ANRW18.experiment(&Controllers::new());
    assert_eq!(paper.within(&value), Some(true));
    assert_eq!(paper.within(&MeasuredValue { measured: 62.80, ..value.clone() }), Some(false));
    assert_eq!(paper.within(&MeasuredValue { published: None, ..value }), None);
}

/// Reads a paper with other values, replications and schemes.
fn reduced(paper: &Paper, values: &[(&str, toml::Value)], schemes: &[&str], runs: u32) -> Experiment {
    let mut experiment = Experiment::read(paper.scenario, &paper_file, &Controllers::new()).expect("valid");
    for (path, value) in values {
        experiment = experiment.with(path, value.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let controllers = schemes.iter().map(|name| (*name).to_owned()).collect();
    experiment.adjust(&Effort { runs: Some(runs), controllers, ..Effort::default() }).expect("schemes of the scenario");
    experiment
}

fn measured(experiment: &Experiment, jobs: usize) -> Vec<MeasuredValue> {
    experiment
        .measure(RunOptions { jobs: NonZeroUsize::new(jobs), ..RunOptions::default() }, &|_| {})
        .expect("it runs")
        .values
}

fn value(values: &[MeasuredValue], row: &str, column: &str) -> f64 {
    let found = values.iter().find(|value| value.row == row && value.column == column);
    found.unwrap_or_else(|| panic!("no {row} {column}")).measured
}

fn refused(paper: &Paper, path: &str, value: impl Into<toml::Value>) -> String {
    let whole = Experiment::read(paper.scenario, &paper_file, &Controllers::new()).expect("valid");
    whole.with(path, value).map(drop).expect_err(path).to_string()
}

const SIX: [&str; 6] = ["default", "cocoa", "cocoa-s", "b-rto", "linux", "ph"];

fn gprs(schemes: &[&str], runs: u32) -> Experiment {
    let values = [
        ("parts.gprs.sweep.clients.values", vec![5, 10].into()),
        ("parts.gprs.traffic.joining.exchanges", 5.into()),
        ("duration", "60s".into()),
        ("parts.flocklab.sweep.workload.points", points(&[("flocklab", "1s")])),
    ];
    reduced(&COMMAG16, &values, schemes, runs)
}

fn points(points: &[(&str, &str)]) -> toml::Value {
    let point = |(name, duration): &(&str, &str)| {
        let set = toml::Table::from_iter([("duration".to_owned(), toml::Value::from(*duration))]);
        toml::Value::Table([("name".to_owned(), (*name).into()), ("set".to_owned(), set.into())].into_iter().collect())
    };
    points.iter().map(point).collect::<Vec<_>>().into()
}

#[test]
fn clients_behind_a_modem_give_each_value_once() {
    let experiment = gprs(&SIX, 2);
    let values = measured(&experiment, 2);
    let mut names = HashSet::new();
    for value in &values {
        assert!(names.insert((&value.row, &value.column)), "{} {} twice", value.row, value.column);
        assert!(value.measured.is_finite(), "{} {}", value.row, value.column);
        assert_eq!(value.scenario, "commag16");
    }
    for item in ["table1", "fig1", "fig2", "table2", "fig3", "grid", "claims"] {
        assert!(values.iter().any(|value| value.item == item), "nothing of {item}");
    }
    assert_eq!(values.iter().filter(|value| value.row == "cocoa/gprs/5").count(), 5);
    let settled = |clients| value(&values, &format!("cocoa/gprs-burst/{clients}"), "settling_time_s");
    assert!(settled(10) > settled(5), "a row of a burst is named by those who join");
    let sampled = |scheme: &str| names.contains(&(&format!("{scheme}/gprs/5"), &"rtt_mean_s".to_owned()));
    assert_eq!(SIX.map(sampled), [false, true, true, true, true, true], "the default has no samples");
    assert!(values.iter().filter(|value| value.item == "table1").all(|value| value.published.is_some()));
    assert_eq!(experiment.tables(&values)[0].title, "Table 1: features, and bytes of state for each peer");
    let difference = values.iter().find(|value| value.column == "difference_per_s").expect("a claim");
    assert!(difference.ci95.is_some_and(|interval| interval.contains(difference.measured)), "run by run");
}

/// Rate × round-trip time = clients, up to exchanges still open at the end. Only B-RTO takes
/// exactly one sample per exchange.
#[test]
fn throughput_times_round_trip_time_is_the_number_of_clients() {
    let values = measured(&gprs(&["b-rto"], 1), 1);
    for clients in [5.0, 10.0] {
        let row = format!("b-rto/gprs/{clients}");
        let product = value(&values, &row, "throughput_per_s") * value(&values, &row, "rtt_mean_s");
        assert!((product / clients - 1.0).abs() < 0.05, "{row}: {product}");
    }
}

#[test]
fn the_default_is_dithered_from_2_to_3_seconds() {
    let rto = value(&measured(&gprs(&["default"], 1), 1), "default/gprs/10", "initial_rto_mean_s");
    assert!((rto - 2.5).abs() < 0.05, "{rto}");
}

/// B-RTO's first timeout is the round-trip time times the mean dithering factor, on any network.
/// The published ratio is 1.12, a factor from 1 to 1.25.
#[test]
fn the_published_table_2_implies_the_dithering_factor_of_b_rto() {
    let values = measured(&reduced(&COMMAG16, &[("duration", "20s".into())], &["b-rto"], 1), 2);
    for clients in [10, 20] {
        let of = |column: &str| {
            let row = format!("b-rto/gprs/{clients}");
            let value = values.iter().find(|value| value.row == row && value.column == column);
            value.and_then(|value| value.published).expect("published")
        };
        let factor = of("initial_rto_mean_s") / of("rtt_mean_s");
        assert!((factor - 1.125).abs() < 0.01, "{factor}");
    }
}

#[test]
fn the_published_intervals_are_the_bar_of_throughput() {
    let experiment = COMMAG16.experiment(&Controllers::new());
    let value = MeasuredValue {
        scenario: "commag16".to_owned(),
        item: "fig1".to_owned(),
        row: "cocoa/gprs/10".to_owned(),
        column: "throughput_per_s".to_owned(),
        unit: Unit::PerSecond,
        published: Some(17.4),
        measured: 20.8,
        ci95: None,
        runs: 2,
        position: Position::default(),
    };
    assert_eq!(experiment.tolerance(&value), Some(3.5));
    assert_eq!(experiment.within(&value), Some(true));
    assert_eq!(experiment.within(&MeasuredValue { measured: 21.0, ..value }), Some(false));
}

/// Most motes are too far away for many exchanges.
#[test]
fn motes_have_a_place_in_figures_2_to_4() {
    let values = [
        ("parts.gprs.sweep.clients.values", vec![1].into()),
        ("parts.flocklab.duration", "60s".into()),
        ("parts.flocklab.traffic.joining.exchanges", 5.into()),
    ];
    let experiment = reduced(&COMMAG16, &values, &SIX, 1);
    let values = measured(&experiment, 2);
    assert!(value(&values, "cocoa/flocklab", "throughput_per_s") > 1.0);
    let classes = values.iter().filter(|value| value.row == "cocoa/flocklab" && value.item == "fig4");
    let shares: f64 = classes.filter(|value| value.unit == Unit::Percent).map(|value| value.measured).sum();
    assert!((shares - 100.0).abs() < 1e-6, "every mote is in one class: {shares}");
    assert!(value(&values, "cocoa/flocklab-burst", "settling_time_s") > 1.0);
    let claims = values.iter().filter(|value| value.item == "claims" && value.row.ends_with("/flocklab"));
    assert_eq!(claims.count(), 6, "three comparisons of fairness, each a value and a verdict");
    let table = experiment.tables(&values).into_iter().find(|table| table.title.starts_with("Fig. 2 to 4, FlockLab"));
    let table = table.expect("a table of motes");
    let empty = table.rows.iter().flatten().filter(|cell| cell.is_empty()).count();
    assert_eq!((table.rows.len(), empty), (6, 1), "the default has no round-trip times: {table}");
}

fn motes(schemes: &[&str]) -> Experiment {
    let values = [
        ("parts.many.duration", "120s".into()),
        ("parts.baseline.traffic.gets.exchanges", 3.into()),
        ("parts.burst.duration", "120s".into()),
        ("parts.burst.traffic.sudden.start", "60s".into()),
    ];
    reduced(&ETFA14, &values, schemes, 2)
}

#[test]
fn every_table_of_motes_has_every_scheme_and_any_controller_runs() {
    let values = measured(&motes(&["coap", "cocoa-4", "linux"]), 2);
    for item in ["table2", "table3", "table4", "table5", "table6", "table7", "fig1", "fig2"] {
        for scheme in ["coap", "cocoa-4", "linux"] {
            let of_scheme = |value: &&MeasuredValue| value.item == item && value.row.starts_with(&format!("{scheme}/"));
            assert!(values.iter().any(|value| of_scheme(&value)), "{item} without {scheme}");
        }
    }
    assert!(values.iter().all(|value| value.measured.is_finite()), "numbers");
    let published = values.iter().filter(|value| value.published.is_some() && value.item != "claims").count();
    assert_eq!(published, 2 * 2 * 3, "two schemes of the paper, two duty cycles, three columns");
}

#[test]
fn results_of_papers_do_not_depend_on_the_number_of_threads() {
    for experiment in [gprs(&["cocoa", "b-rto"], 2), motes(&["cocoa"])] {
        let json = |jobs| {
            let mut lines = Vec::new();
            write_json(&measured(&experiment, jobs), &mut lines).expect("memory");
            lines
        };
        assert_eq!(json(1), json(2));
    }
}

#[test]
fn invalid_values_are_refused_with_a_remedy() {
    for (paper, path, value, expected) in [
        (&COMMAG16, "parts.gprs.links.uplink.spread.sigma", toml::Value::from(5.0), "uplink.spread.sigma: 5 is not"),
        (&COMMAG16, "parts.gprs.traffic.joining.ends_run", 8.0.into(), "joining.ends_run: 8 is no share"),
        (&COMMAG16, "parts.gprs.name", "flocklab".into(), "parts: the name `flocklab` is there twice"),
        (&COMMAG16, "parts.gprs.colour", "red".into(), "colour"),
        (&COMMAG16, "schema", 2.into(), "schema"),
        (&ETFA14, "radios.flocklab.measured.perfect", 2.0.into(), "radios.flocklab.measured.perfect: 2 is not between"),
        (
            &ETFA14,
            "radios.flocklab.measured.ratios",
            toml::toml! { rows = [[0, 1, 1.5]] }["rows"].clone(),
            "no ratio above 0 and up to 1",
        ),
        (&ETFA14, "radios.flocklab.measured.median_range_m", 0.0.into(), "median_range_m: 0 is no number above 0"),
        (&ETFA14, "radios.flocklab.medium", "udgm".into(), "only `sinr` has"),
        (&ETFA14, "radios.flocklab.mac.contikimac", toml::toml! { check_rate = 8 }.into(), "check_rate"),
        (&ETFA14, "parts.many.traffic.gets.outstanding", "all".into(), "a number of exchanges, or \"nstart\""),
        (&ETFA14, "parts.many.one_by_one", true.into(), "parts.many.one_by_one: phases and windows are of one run"),
    ] {
        let error = refused(paper, path, value);
        assert!(error.contains(expected), "{path}: {error}");
    }
}

fn value_of(unit: Unit, published: Option<f64>, measured: f64) -> MeasuredValue {
    MeasuredValue {
        scenario: "anrw18".to_owned(),
        item: "table2".to_owned(),
        row: "default/continuous".to_owned(),
        column: "0".to_owned(),
        unit,
        published,
        measured,
        ci95: None,
        runs: 3,
        position: Position::default(),
    }
}

fn summary(values: &[MeasuredValue]) -> Summary {
    let text = format!("{}\n[[reasons]]\ntext = \"so it is\"\n", ANRW18.scenario);
    let paper = Experiment::read(&text, &paper_file, &Controllers::new()).expect("a scenario");
    Summary::new(&paper, values)
}

#[test]
fn fitted_and_predicted_values_are_summarized_separately() {
    let text = format!("{}\n[[fitted]]\nrows = [\"default/*\"]\n", ANRW18.scenario);
    let paper = Experiment::read(&text, &paper_file, &Controllers::new()).expect("a scenario");
    let of = |row: &str, published, measured| MeasuredValue {
        row: row.to_owned(),
        ..value_of(Unit::Exchanges, Some(published), measured)
    };
    let values = [
        of("default/continuous", 100.0, 114.0),
        of("cocoa/random", 100.0, 50.0),
        of("cocoa/random", 50.0, 100.0),
        of("cocoa/random", 7.0, 0.0),
        value_of(Unit::Verdict, Some(1.0), 1.0),
    ];
    let Summary { fitted, predicted, .. } = Summary::new(&paper, &values);
    assert_eq!((fitted.within, fitted.values, predicted.within, predicted.values), (1, 1, 0, 3));
    let is = |mean: Option<f64>, factor: f64| mean.is_some_and(|mean| (mean - factor.ln()).abs() < 1e-9);
    assert!(is(fitted.mean_log_ratio(), 1.14) && is(predicted.mean_log_ratio(), 2.0), "{predicted:?}");
    let table = overview(&[("anrw18", Summary::new(&paper, &values))]).to_string();
    assert!(table.contains("1 of 1") && table.contains("0 of 3") && table.contains("0.69"), "{table}");
}

#[test]
fn figures_count_by_their_bar_and_claims_by_their_verdict() {
    let summary = summary(&[
        value_of(Unit::Exchanges, Some(100.0), 106.0),
        value_of(Unit::Exchanges, Some(100.0), 108.0),
        value_of(Unit::Exchanges, None, 5.0),
        value_of(Unit::Verdict, Some(1.0), 1.0),
        value_of(Unit::Verdict, Some(1.0), 0.0),
    ]);
    assert_eq!((summary.within(), summary.promised, summary.hold(), summary.claims), (1, 2, 1, 2));
    let table = misses("anrw18", &summary).to_string();
    assert!(table.contains("+8.00 %") && table.contains("does not hold"), "{table}");
    assert_eq!(table.matches("so it is").count(), 1, "one reason is told once: {table}");
}
