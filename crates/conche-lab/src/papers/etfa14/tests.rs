//! A reduced experiment: what it measures, and that threads make no difference.

use super::*;
use crate::results::write_json;
use crate::scenario::AtLeastOne;

/// Two minutes of many-to-many, and three exchanges with each mote.
fn reduced(schemes: &[&str]) -> Scenario {
    let mut scenario = Scenario::from_toml(SCENARIO).expect("valid");
    scenario.quick.duration = "120s".parse().expect("a time");
    scenario.quick.exchanges = AtLeastOne::new(3).expect("one or more");
    scenario.burst.begin = "60s".parse().expect("a time");
    scenario.burst.duration = "120s".parse().expect("a time");
    let controllers = schemes.iter().map(|name| (*name).to_owned()).collect();
    scenario.adjust(&Effort { quick: true, controllers, ..Effort::default() }).expect("valid names");
    scenario
}

fn measure(scenario: &Scenario, jobs: usize) -> Vec<Figure> {
    let options = RunOptions { jobs: std::num::NonZeroUsize::new(jobs) };
    Etfa14(scenario.clone()).measure(options, &|_| {}).expect("it runs").0
}

#[test]
fn every_table_has_every_scheme_and_any_controller_runs() {
    let figures = measure(&reduced(&["coap", "cocoa-4", "linux"]), 2);
    for item in ["table2", "table3", "table4", "table5", "table6", "table7", "fig1", "fig2"] {
        for scheme in ["coap", "cocoa-4", "linux"] {
            let of_scheme = |figure: &&Figure| figure.item == item && figure.row.starts_with(&format!("{scheme}/"));
            assert!(figures.iter().any(|figure| of_scheme(&figure)), "{item} without {scheme}");
        }
    }
    assert!(figures.iter().all(|figure| figure.measured.is_finite()), "numbers");
    let published = figures.iter().filter(|figure| figure.published.is_some() && figure.item != "claims").count();
    assert_eq!(published, 2 * 2 * 3, "two schemes of the paper, two duty cycles, three columns");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let scenario = reduced(&["cocoa"]);
    let json = |jobs| {
        let mut lines = Vec::new();
        write_json(&measure(&scenario, jobs), &mut lines).expect("memory");
        lines
    };
    assert_eq!(json(1), json(2));
}

#[test]
fn the_motes_are_as_many_hops_away_as_the_paper_s_network_has() {
    let scenario = Scenario::from_toml(SCENARIO).expect("valid");
    for rdc in scenario.rdcs.iter() {
        let network = scenario.testbed.network(rdc.contikimac, rdc.objective, scenario.seed).expect("a network");
        assert_eq!(network.servers.len(), 29);
        let hops = &network.hops;
        let mean = f64::from(hops.iter().sum::<u16>()) / hops.len() as f64;
        assert!((1.5..2.2).contains(&mean), "{}: {mean} hops in the mean, {hops:?}", rdc.name);
    }
}

#[test]
fn a_wrong_testbed_is_refused_with_what_would_be_right() {
    for (from, to, expected) in [
        ("border_router = 6", "border_router = 30", "they are 0 to 29"),
        ("min_ratio = 0.7", "min_ratio = 1.0", "has no path to the border router"),
        ("request = \"18B\"", "request = \"59B\"", "sizes.request: 59B is not between 12B and 58B"),
        ("slip_loss = 0.01", "slip_loss = 2.0", "no share from 0 to 1"),
        ("check_rate_hz = 8", "check_rate = 8", "check_rate"),
        ("check_rate_hz = 8", "check_rate_hz = 0", "expected a nonzero"),
        ("controller = \"coap-b\"", "controller = \"coap-c\"", "coap-c"),
    ] {
        assert!(SCENARIO.contains(from), "{from}");
        let error = Scenario::from_toml(&SCENARIO.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}
