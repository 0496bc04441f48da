//! Scenarios: what is read from TOML, and what is refused.

use conche_proto::cc::AnyController;
use conche_proto::cc::cocoa::Cocoa;
use conche_proto::cc::full_backoff::CocoaFullBackoff;

use super::*;
use crate::papers::anrw18;

fn changed(from: &str, to: &str) -> Result<Scenario, ScenarioError> {
    let text = anrw18::SCENARIO;
    assert!(text.contains(from), "the scenario does not contain {from:?}");
    Scenario::from_toml(&text.replacen(from, to, 1))
}

fn problem(from: &str, to: &str) -> String {
    changed(from, to).expect_err("it should be refused").to_string()
}

#[test]
fn the_paper_of_2018_is_as_published() {
    let scenario = Scenario::from_toml(anrw18::SCENARIO).expect("valid");
    let Network::SharedBottleneck(network) = &scenario.network;
    let clients: Vec<_> = network.clients.iter().map(|clients| clients.get()).collect();
    assert_eq!(clients, [1, 10, 50, 100, 200, 400]);
    let buffers: Vec<_> = network.downlink.buffers.iter().map(|buffer| buffer.size.0).collect();
    assert_eq!(buffers, [2_500, 14_100, 28_200, 1_410_000]);
    assert_eq!((network.uplink.rate.as_bits(), network.downlink.rate.as_bits()), (60_000, 30_000));
    assert_eq!((scenario.replications.get(), scenario.endpoint.max_retransmit), (20, 20));
    let cocoa = scenario.scheme("cocoa").expect("a scheme of the paper").build().expect("valid options");
    assert_eq!(cocoa, Cocoa::anrw18().into());
    let default = scenario.scheme("default").expect("a scheme of the paper").build().expect("valid options");
    assert_eq!(Ok(default), AnyController::by_name("default"));
    let full = scenario.scheme("cocoa-fb2").expect("a scheme of the paper").build().expect("valid options");
    assert_eq!(full, CocoaFullBackoff { cocoa: Cocoa::anrw18(), ..CocoaFullBackoff::variant_2() }.into());
}

#[test]
fn a_bare_number_is_refused_where_it_stands() {
    let error = changed("rate = \"30kbit/s\"", "rate = 30").expect_err("no unit");
    assert!(error.to_string().contains("write a data rate as in \"30kbit/s\""), "{error}");
    let span = error.span().expect("the place is known");
    let text = anrw18::SCENARIO.replacen("rate = \"30kbit/s\"", "rate = 30", 1);
    assert_eq!(&text[span], "30");
}

#[test]
fn unknown_keys_are_refused() {
    assert!(problem("nstart = 1", "nstrat = 1").contains("nstrat"));
    assert!(problem("rate = \"60kbit/s\"", "rate = \"60kbit/s\"\njitter = \"1ms\"").contains("jitter"));
}

#[test]
fn unknown_controllers_and_schemes_are_named_beside_the_known_ones() {
    let error = problem("controller = \"cocoa\"", "controller = \"cacoa\"");
    assert!(error.contains("cacoa") && error.contains("default-fb1"), "{error}");
    let error = problem("schemes = [\"default\", \"cocoa\"]", "schemes = [\"default\", \"coca\"]");
    assert_eq!(
        error,
        "mixes.default+cocoa.schemes: there is no scheme `coca`; the schemes are default, cocoa, default-fb1, \
         default-fb2, cocoa-fb1, cocoa-fb2"
    );
}

#[test]
fn options_that_a_controller_does_not_have_are_refused() {
    let error = problem("controller = \"default\"", "controller = \"default\"\naging = \"off\"");
    assert_eq!(error, "schemes.default.aging: the controller `default` has no such option; leave it out");
}

#[test]
fn values_without_sense_are_refused() {
    for (from, to, expected) in [
        ("replications = 20", "replications = 0", "at least 1"),
        ("schema = 1", "schema = 2", "schema: this conche reads scenarios of schema 1, not 2"),
        ("batch = [1, 10]", "batch = [10, 1]", "write the least, at least 1, and the most"),
        ("name = \"random\"", "name = \"continuous\"", "workloads: the name `continuous` is there twice"),
        ("response = \"66B\"", "response = \"5B\"", "server.response: 5B is not between 6B and 1152B"),
        ("clients = [1, 10, 50, 100, 200, 400]", "clients = []", "at least one element"),
        ("name = \"inf\"", "name = \"a/b\"", "`a/b` is no name"),
        ("rate = \"30kbit/s\"", "rate = \"0bit/s\"", "sends nothing"),
        ("nstart = 1 ", "nstart = 0 ", "endpoint.nstart"),
        ("ack_random_factor = 1.5", "ack_random_factor = 0.5", "schemes.default.ack_random_factor"),
    ] {
        let error = problem(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn other_controllers_run_through_the_same_scenario() {
    let scenario = Scenario::from_toml(anrw18::SCENARIO).expect("valid");
    let changed = scenario.with_schemes(&["cocoa", "default", "coap-b"]).expect("valid names");
    let names: Vec<_> = changed.schemes.iter().map(|scheme| scheme.name.as_str()).collect();
    assert_eq!(names, ["cocoa", "default", "coap-b"]);
    assert_eq!(changed.scheme("cocoa"), scenario.scheme("cocoa"), "the scenario's own scheme comes first");
    let mixes: Vec<_> = changed.mixes.iter().map(|mix| mix.name.as_str()).collect();
    assert_eq!(mixes, ["default+cocoa"]);
    for bad in [&["cacoa"] as &[&str], &["cocoa", "cocoa"], &[]] {
        assert!(scenario.with_schemes(bad).is_err(), "{bad:?} was accepted");
    }
}
