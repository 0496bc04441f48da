//! WiOpt'12, reduced.

use std::collections::HashSet;

use super::{jobs, value};
use conche_lab::experiment::Experiment;
use conche_lab::papers::{WIOPT12, paper_file};
use conche_lab::scenario::Unit;
use conche_lab::scenario::{Controllers, Effort};
use conche_lab::value::MeasuredValue;

fn with(values: &[(&str, toml::Value)], runs: u32) -> Experiment {
    let mut experiment = Experiment::read(WIOPT12.scenario, &paper_file, &Controllers::new()).expect("valid");
    for (path, value) in values {
        experiment = experiment.with(path, value.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    experiment.adjust(&Effort { runs: Some(runs), ..Effort::default() }).expect("fewer replications");
    experiment
}

fn reduced() -> Experiment {
    let numbers = |numbers: &[i64]| toml::Value::from(numbers.to_vec());
    let mut values = vec![
        ("traffic.bulk.sender.transfer.segments", 60.into()),
        ("parts.static.sweep.window.values", numbers(&[1, 2, 4])),
        ("parts.dynamic.sweep.window.values", numbers(&[1, 4])),
    ];
    for part in ["static", "retries", "timers"] {
        values.push((format!("parts.{part}.sweep.hops.values").leak(), numbers(&[1, 3])));
    }
    for part in ["dynamic", "dynamic-retries"] {
        values.push((format!("parts.{part}.traffic.bulk.take").leak(), 4.into()));
        values.push((format!("parts.{part}.traffic.bulk.sender.transfer.segments").leak(), 60.into()));
    }
    with(&values, 2)
}

fn measured(experiment: &Experiment, threads: usize) -> Vec<MeasuredValue> {
    experiment.measure(jobs(threads), &|_| {}).expect("it runs").values
}

/// Returns the goodput of one hop: loading, backoff, CCA, 7 jiffies, airtime and unloading of
/// segment and acknowledgment. TinyOS's mean backoff is 5.051 ms, that of 140 symbols 1.12 ms.
fn goodput_of_one_hop(backoff_ms: f64) -> f64 {
    let frame = |octets: f64| 2.0 + backoff_ms + 0.128 + 7.0 / 32.768 + 0.032 * octets + 2.0;
    // The handshake's two frames minus the last acknowledgment.
    let ms = 60.0 * (frame(133.0) + frame(37.0)) + frame(37.0);
    60.0 * 96.0 * 8.0 / ms * 1000.0
}

#[test]
fn the_reduced_paper_has_all_items_and_the_closed_form_one_hop_goodput() {
    let experiment = reduced();
    let values = measured(&experiment, 2);
    let mut names = HashSet::new();
    for value in &values {
        assert!(names.insert((&value.row, &value.column)), "{} {} twice", value.row, value.column);
        assert!(value.measured.is_finite(), "{} {}", value.row, value.column);
    }
    let items = ["fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "fig9", "table1", "claims"];
    let mut order: Vec<&str> = values.iter().map(|value| value.item.as_str()).collect();
    order.dedup();
    assert_eq!(order, items, "every item in one piece, and in the order of the paper");
    assert!(values.iter().any(|value| value.unit == Unit::Verdict));
    for table in experiment.tables(&values) {
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()), "{table}");
    }
    assert_eq!(experiment.tables(&values).len(), 11, "one of the claims, too");
    for (column, backoff_ms) in [("goodput_tinyos", 5.051), ("goodput_beb", 1.12)] {
        let (goodput, expected) = (value(&values, "static/1/1", column), goodput_of_one_hop(backoff_ms));
        // One-hop links lose few frames; a backoff has a standard deviation of 2.7 ms.
        assert!((goodput / expected - 1.0).abs() < 0.05, "{column}: {goodput:.0} instead of {expected:.0} bit/s");
    }
}

/// A mean of gains differs from a gain of means.
#[test]
fn cells_are_compared_replication_by_replication_and_pooled_over_axes() {
    let experiment = with(
        &[
            ("traffic.bulk.sender.transfer.segments", 20.into()),
            ("parts.static.sweep.hops.values", vec![2].into()),
            ("parts.static.sweep.window.values", vec![1, 2].into()),
            ("parts.retries.sweep.window.values", vec![1].into()),
            ("parts.retries.sweep.hops.values", vec![1].into()),
            ("parts.timers.sweep.window.values", vec![4].into()),
            ("parts.timers.sweep.hops.values", vec![1].into()),
            ("parts.dynamic.traffic.bulk.take", 1.into()),
            ("parts.dynamic.traffic.bulk.sender.transfer.segments", 1.into()),
            ("parts.dynamic-retries.traffic.bulk.take", 1.into()),
            ("parts.dynamic-retries.traffic.bulk.sender.transfer.segments", 1.into()),
        ],
        2,
    );
    let values = measured(&experiment, 1);
    assert_eq!(values, measured(&experiment, 3), "with any number of threads");
    let find = |row: &str, column: &str| {
        values.iter().find(|value| value.row == row && value.column == column).unwrap_or_else(|| panic!("{row}"))
    };
    let runs = |value: &MeasuredValue| {
        // Two values with mean m and t-interval half-width h: t(1; .975) = 12.706.
        let half = value.ci95.map_or(0.0, |interval| (interval.high - interval.low) / 2.0) / 12.706_204_736;
        [value.measured - half, value.measured + half]
    };
    let (tinyos, beb) = (find("static/2/1", "goodput_tinyos"), find("static/2/1", "goodput_beb"));
    let gain = |one: f64, other: f64| 100.0 * (one / other - 1.0);
    let gains = |beb: [f64; 2]| {
        let [a, b] = runs(tinyos);
        f64::midpoint(gain(beb[0], a), gain(beb[1], b))
    };
    let [low, high] = runs(beb);
    let measured = find("static/2/1", "beb_gain").measured;
    let is_one = |expected: f64| (measured - expected).abs() < 1e-6;
    assert!(is_one(gains([low, high])) || is_one(gains([high, low])), "{measured}");
    let previous = values.iter().filter(|value| value.column == "further_gain" && value.row.starts_with("static"));
    assert_eq!(previous.map(|value| value.row.as_str()).collect::<Vec<_>>(), ["static/2/2"], "1 has none before it");
    let given_up = find("tinyos/2", "frames_given_up");
    assert_eq!((given_up.runs, given_up.unit), (2, Unit::Percent), "both windows together, in each replication");
    let recommended = find("window/2", "recommended");
    assert!([1.0, 2.0].contains(&recommended.measured) && recommended.ci95.is_none(), "{recommended:?}");
}

#[test]
fn other_controllers_are_run_where_timers_are_compared() {
    let mut experiment = Experiment::read(WIOPT12.scenario, &paper_file, &Controllers::new()).expect("valid");
    let controllers = vec!["cocoa".to_owned(), "static".to_owned()];
    experiment.adjust(&Effort { controllers, ..Effort::default() }).expect("two controllers");
    let schemes = |part: usize| {
        let schemes = &experiment.document().sections()[part].schemes;
        schemes.iter().map(|scheme| scheme.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(schemes(0), ["rfc6298"], "backoffs are compared under the paper's timer");
    assert_eq!(schemes(2), ["cocoa", "static"]);
}

#[test]
fn an_invalid_scenario_is_refused() {
    for (right, wrong, named) in [
        ("payload = \"96B\"", "payload = \"108B\"", "traffic.bulk.sender.transfer.payload: 108B with its header"),
        ("payload = \"96B\"", "payload = \"100B\"", "traffic.bulk.sender.transfer.payload: 120 B do not fit into a"),
        ("header = \"20B\"", "header = \"9B\"", "traffic.bulk.sender.transfer.header: 9B does not hold addresses"),
        ("max_timeouts = 8", "max_timeouts = 0", "expected a nonzero u8"),
        ("window = 1 ", "window = 0 ", "expected a nonzero u16"),
        ("hops = 1\n", "hops = 1\npace = { poisson = { interval = \"1s\" } }\n", "a transfer has no exchanges"),
        ("fixed = true #", "fixed = false #", "radios.channel 26.fixed: routes are frozen in one testbed"),
        ("only_schemes = [\"rfc6298\"]", "only_schemes = [\"linux\"]", "only_schemes: there is no scheme `linux`"),
        ("over = [\"window\"]", "over = [\"windows\"]", "over: there is no axis `windows`"),
        ("by = \"gain\"", "", "say whether it is compared `by` difference or gain"),
        ("schema = 1", "schema = 2", "schema"),
    ] {
        assert!(WIOPT12.scenario.contains(right), "{right}");
        let error = Experiment::read(&WIOPT12.scenario.replacen(right, wrong, 1), &paper_file, &Controllers::new())
            .expect_err(wrong);
        assert!(error.to_string().contains(named), "{wrong}: {error}");
    }
}

#[test]
fn too_few_routes_are_a_failure_that_reports_their_number() {
    let one = toml::Value::from(vec![40]);
    let experiment = with(&[("parts.static.sweep.hops.values", one), ("nodes.mote.count", 6.into())], 1);
    let completion = experiment.measure(jobs(2), &|_| {}).expect("the other cells run").completion;
    let of_40 =
        completion.failures.iter().filter(|failure| failure.cell.contains("/40/")).map(|failure| &failure.problem);
    let of_40: Vec<_> = of_40.collect();
    assert!(!of_40.is_empty());
    assert!(
        of_40.iter().all(|problem| problem.contains("only 0 pairs have a route of 40 hops; take fewer replications"))
    );
}
