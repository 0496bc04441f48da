//! Scenarios without a paper support their claims.

use std::path::{Path, PathBuf};

use super::*;

fn read(path: &Path) -> Experiment {
    let text = std::fs::read_to_string(path).expect("a text");
    let beside = |name: &str| {
        let path = path.with_file_name(name);
        std::fs::read_to_string(&path).map_err(|error| FileError::Unreadable { path, error })
    };
    Experiment::read(&text, &beside, &Controllers::new()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Runs a scenario once; the result looks up values by row and column.
fn own_scenario(name: &str, schemes: &[&str], only: &[(&str, &str)]) -> impl Fn(&str, &str) -> f64 {
    let mut experiment = read(&directory().join(name));
    let controllers = schemes.iter().map(|scheme| (*scheme).to_owned()).collect();
    let only = only.iter().map(|(axis, label)| ((*axis).to_owned(), vec![(*label).to_owned()])).collect();
    experiment.adjust(&Effort { runs: Some(1), controllers, only, ..Effort::default() }).expect("valid");
    let values = measured(&experiment);
    move |row: &str, column: &str| {
        let value = values.iter().find(|value| value.row == row && value.column == column);
        value.unwrap_or_else(|| panic!("{row}, {column}: none of {values:?}")).measured
    }
}

#[test]
fn a_gateway_with_a_shared_path_reaches_the_bound_and_retransmits_rarely() {
    let of = own_scenario("gateway.toml", &["temper", "temper-paths"], &[]);
    let bound = 400.0 * 50.0 * 94.0 * 8.0 / 30_000.0;
    let last = of("temper-paths", "last_s");
    assert!(last >= bound && last <= 1.15 * bound, "{last} s of at least {bound} s");
    assert!(of("temper-paths", "unnecessary") < 0.5 && of("temper", "unnecessary") > 1.0);
}

#[test]
fn a_prefix_with_two_bottlenecks_is_no_more_than_a_quarter_slower_than_without_sharing() {
    let of = own_scenario("mixed-paths.toml", &["temper", "temper-paths"], &[]);
    for half in ["thin_last_s", "fast_last_s"] {
        let (shared, alone) = (of("temper-paths", half), of("temper", half));
        assert!(shared <= 1.25 * alone, "{half}: {shared} s instead of {alone} s");
    }
}

#[test]
fn a_reboot_storm_ends_under_every_controller_that_is_compared() {
    let of = own_scenario("reboot-storm.toml", &["temper", "linux"], &[]);
    assert!(of("temper", "last_s") < 20.0 && of("linux", "last_s") < 20.0);
}

#[test]
fn a_storm_of_handshakes_does_not_collapse_where_nothing_is_known_of_the_path() {
    let of = own_scenario("secured-storm.toml", &["temper"], &[("session", "1s")]);
    let [last, datagrams, failed] =
        ["last_s", "handshake_datagrams", "handshakes_failed"].map(|column| of("temper/1s", column));
    assert!(last < 130.0, "190 s with flights by a clock of their own: {last} s");
    assert!(datagrams < 16.0 && failed < 15.0, "{datagrams} datagrams of 6, {failed} % fail");
}

#[test]
fn by_each_scenario_controllers_can_be_compared() {
    let entries = std::fs::read_dir(directory()).expect("it is there").map(|entry| entry.expect("readable").path());
    let files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|of| of == "toml")).collect();
    assert!(files.len() > 10, "{files:?}");
    for path in files {
        let compares = Effort { compares: true, controllers: vec!["temper".to_owned()], ..Effort::default() };
        let compared = read(&path).adjust(&compares);
        compared.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn neighbours_are_no_worse_off_beside_temper_than_beside_linux_or_their_own_kind() {
    let only = [("neighbour", "default"), ("clients", "100"), ("buffer", "inf")];
    let of = own_scenario("neighbours.toml", &["temper", "linux", "default"], &only);
    let median_s = |scheme: &str| of(&format!("{scheme}/default/100/inf"), "neighbours_median_s");
    let (temper, linux, own) = (median_s("temper"), median_s("linux"), median_s("default"));
    assert!(
        temper <= 1.02 * linux && temper < 0.9 * own,
        "{temper} s, beside linux {linux} s, among themselves {own} s"
    );
}

#[test]
fn after_an_rtt_step_temper_soon_stops_spurious_retransmissions() {
    let of = own_scenario("rtt-step.toml", &["temper", "cocoa-s"], &[("step", "2s")]);
    assert!(of("temper/2s", "unnecessary") > 0.0, "the step is noticed");
    assert!(of("temper/2s/settled", "unnecessary") <= 0.0, "{} copies", of("temper/2s/settled", "unnecessary"));
    assert!(of("cocoa-s/2s/settled", "unnecessary") > 10.0, "a controller that cannot do it is told");
}

#[test]
fn over_a_satellite_that_loses_5_percent_temper_is_as_fast_as_linux() {
    let of = own_scenario("satellite.toml", &["temper", "linux", "default"], &[("loss", "5")]);
    let [temper, linux, default] = ["temper/5", "linux/5", "default/5"].map(|row| of(row, "median_s"));
    assert!(temper < 1.1 * linux && temper < 0.9 * default, "{temper} s, linux {linux} s, default {default} s");
}

#[test]
fn temper_has_no_more_spurious_retransmissions_than_linux_at_any_nstart() {
    let of = own_scenario("nstart.toml", &["temper", "linux"], &[]);
    for at_a_time in ["1", "2", "4", "8"] {
        let [temper, linux] = ["temper", "linux"].map(|scheme| of(&format!("{scheme}/{at_a_time}"), "unnecessary"));
        assert!(temper <= linux + 0.5, "{at_a_time} at a time: {temper} copies, linux {linux}");
    }
}

#[test]
fn temper_learns_the_rtt_of_a_new_route_with_few_spurious_retransmissions() {
    let of = own_scenario("route-change.toml", &["temper"], &[]);
    assert!(of("temper", "unnecessary") < 10.0 && of("temper/detour", "throughput_per_s") > 20.0);
    assert!(of("temper/back", "throughput_per_s") > 50.0, "it has learned that the route is longer");
}

#[test]
fn no_queue_stands_where_the_devices_behind_each_router_share_their_path() {
    let of = own_scenario("fleet.toml", &["temper-paths", "temper"], &[("devices", "4000")]);
    let bound = 3.0 * 400.0 * 94.0 * 8.0 / 30_000.0;
    let [shared, alone] = ["temper-paths/4000", "temper/4000"].map(|row| of(row, "queue_above_2s_s"));
    assert!(shared <= 10.0 && alone > 10.0, "{shared} s, alone {alone} s");
    assert!(of("temper-paths/4000", "last_s") < 2.0 * bound && of("temper-paths/4000", "polled_percent") >= 100.0);
}

#[test]
fn observers_on_thin_links_stay_current_with_few_spurious_retransmissions() {
    let of = own_scenario("observers.toml", &["temper-paths", "default"], &[("notifications", "confirmable")]);
    let [shared, default] =
        ["temper-paths", "default"].map(|scheme| of(&format!("{scheme}/confirmable"), "unnecessary"));
    assert!(shared < 1.0 && default > 5.0, "{shared} copies, the default {default}");
    assert!(of("temper-paths/confirmable", "known_percent") > 99.0);
    assert!(of("temper-paths/confirmable", "queue_above_5s_s") < 10.0);
}

#[test]
fn a_download_over_tcp_is_no_slower_beside_temper_than_beside_linux() {
    let of = own_scenario("neighbour-tcp.toml", &["temper", "linux"], &[("case", "100/14100")]);
    let [temper, linux] = ["temper", "linux"].map(|scheme| of(&format!("{scheme}/100/14100"), "download_bit_per_s"));
    assert!(temper > 0.95 * linux, "{temper} bit/s, beside linux {linux}");
}

#[test]
fn of_many_clients_on_a_link_that_carries_them_each_reports_once_a_minute() {
    let mut experiment = read(&directory().join("many-clients.toml"));
    let effort = Effort { quick: true, controllers: vec!["default".to_owned()], ..Effort::default() };
    experiment.adjust(&effort).expect("valid");
    let values = measured(&experiment);
    let of = |column: &str| values.iter().find(|value| value.column == column).expect("a value").measured;
    // Poisson: 2000 reports of 1000 clients in two minutes, σ = 45.
    assert!((120.0 * of("throughput_per_s") - 2000.0).abs() < 4.0 * 45.0, "{values:?}");
    assert!(of("due_s") < 0.2 && of("failed_percent") <= 0.0, "{values:?}");
}
