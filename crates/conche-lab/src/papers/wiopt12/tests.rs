//! A reduced testbed: its routes, what one hop costs, and how values are named.

use std::collections::HashSet;

use super::*;
use crate::results::Unit;

/// Short transfers over few routes.
fn reduced() -> Scenario {
    let text = SCENARIO
        .replace("segments = 470", "segments = 60")
        .replace("hops = [1, 2, 3, 4, 5]", "hops = [1, 3]")
        .replace("windows = [1, 2, 3, 4, 5, 6, 7, 8]", "windows = [1, 2, 4]")
        .replace("windows = [1, 2, 3, 4, 5]", "windows = [1, 4]")
        .replace("replications = 10", "replications = 3")
        .replace("replications = 5", "replications = 2")
        .replace("pairs = 31", "pairs = 4");
    Scenario::from_toml(&text).expect("a reduced scenario is one")
}

fn measured(scenario: &Scenario, jobs: usize) -> Vec<Figure> {
    let jobs = std::num::NonZeroUsize::new(jobs);
    let experiment = Wiopt12(scenario.clone(), String::new(), false);
    experiment.measure(RunOptions { jobs, ..RunOptions::default() }, &|_| {}).expect("it runs").0
}

#[test]
fn frozen_routes_have_their_length_and_lead_there_and_back() {
    let scenario = reduced();
    let testbed = Testbed::new(&scenario);
    for (hops, routes) in &testbed.routes {
        assert_eq!(routes.len(), 3, "routes of {hops} hops");
        for route in routes {
            let (first, last) = (route.there[0], route.there[usize::from(*hops)]);
            assert_eq!((route.hops(), route.back[0], route.back[route.back.len() - 1]), (*hops, last, first));
            assert_eq!(route.next_hops(first)[&last], route.there[1]);
            assert_eq!(route.next_hops(last).get(&last), None);
        }
    }
    let ends: HashSet<_> = testbed.pairs.iter().collect();
    assert_eq!(ends.len(), 4, "pairs differ");
}

/// A segment and its acknowledgment over one hop: loading, backoff, CCA, 7 jiffies, airtime and unloading of both, and
/// 1 ms at either end. TinyOS's mean backoff is 5.051 ms, that of 140 symbols 1.12 ms.
#[test]
fn one_segment_at_a_time_over_one_hop_has_the_goodput_of_its_frames() {
    let figures = measured(&reduced(), 2);
    for (column, backoff_ms) in [("goodput_tinyos", 5.051), ("goodput_beb", 1.12)] {
        let frame = |octets: f64| 2.0 + backoff_ms + 0.128 + 7.0 / 32.768 + 0.032 * octets + 2.0 + 1.0;
        // The handshake's two frames, and that the last acknowledgment does not count, make one frame.
        let ms = 60.0 * (frame(133.0) + frame(37.0)) + frame(37.0);
        let expected = 60.0 * 96.0 * 8.0 / ms * 1000.0;
        let goodput = figures.iter().find(|figure| figure.row == "static/1/1" && figure.column == column);
        let goodput = goodput.expect("a cell of Fig. 2").measured;
        // Links of one hop lose a frame now and then, and a backoff has a standard deviation of 2.7 ms.
        assert!((goodput / expected - 1.0).abs() < 0.05, "{column}: {goodput:.0} instead of {expected:.0} bit/s");
    }
}

#[test]
fn figures_do_not_depend_on_the_number_of_threads_and_each_is_there_once() {
    let scenario = reduced();
    let figures = measured(&scenario, 1);
    assert_eq!(figures, measured(&scenario, 3));
    let mut names = HashSet::new();
    for figure in &figures {
        assert!(names.insert((&figure.row, &figure.column)), "{} {} twice", figure.row, figure.column);
        assert!(figure.measured.is_finite(), "{} {}", figure.row, figure.column);
    }
    let tables = tables::tables(&figures);
    for (item, _) in figures::ITEMS.iter().chain(&[("claims", "")]) {
        assert!(figures.iter().any(|figure| figure.item == *item), "nothing of {item}");
        let table = tables.iter().find(|table| table.title.starts_with(item)).expect("a table of each item");
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()), "{item}");
    }
    assert!(figures.iter().any(|figure| figure.unit == Unit::Verdict));
}

#[test]
fn other_controllers_take_the_place_of_the_papers_timers() {
    let mut scenario = reduced();
    let controllers = vec!["cocoa".to_owned(), "static".to_owned()];
    scenario.adjust(&Effort { controllers, ..Effort::default() }).expect("two controllers");
    let names: Vec<&str> = scenario.schemes.iter().map(|scheme| scheme.name.as_str()).collect();
    assert_eq!(names, ["cocoa", "static", "rfc6298"], "and those that all else uses");
    assert_eq!(scenario.transfer.scheme, "rfc6298");
    let unknown = Effort { controllers: vec!["cacoa".to_owned()], ..Effort::default() };
    let error = scenario.adjust(&unknown).expect_err("there is none");
    assert!(error.to_string().contains("cocoa"), "{error}");
}

#[test]
fn a_scenario_that_makes_no_sense_is_refused() {
    for (right, wrong, named) in [
        ("payload = \"96B\"", "payload = \"97B\"", "transfer.payload"),
        ("header = \"20B\"", "header = \"9B\"", "transfer.header"),
        ("pairs = 31", "pairs = 4000", "dynamic.pairs"),
        ("max_timeouts = 8", "max_timeouts = 0", "transfer.max_timeouts"),
        ("scheme = \"rfc6298\"", "scheme = \"linux\"", "transfer.scheme"),
        ("windows = [1, 2, 3, 4, 5]", "windows = [0]", "windows"),
        ("transition_width_db = 1.9", "transition_width_db = 0.0", "radio.transition_width_db"),
        ("schema = 1", "schema = 2", "schema"),
    ] {
        assert!(SCENARIO.contains(right), "{right}");
        let error = Scenario::from_toml(&SCENARIO.replace(right, wrong)).expect_err(wrong);
        assert!(error.to_string().starts_with(named), "{wrong}: {error}");
    }
}
