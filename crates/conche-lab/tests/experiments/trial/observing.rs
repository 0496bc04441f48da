//! Observers and notifying servers.

use super::*;
use conche_lab::trial::{Flow, Observed, Selection};

/// Two clients observe a server each, which changes every 10 s from 20 s.
fn observing(notifications: &str) -> String {
    let pace = "pace = { every = { interval = \"1s\", spread = false } }";
    let observe = "pace = { every = { interval = \"10s\", spread = false } }\nstart = \"20s\"\nresponse = \"40B\"";
    SMALL.replace(pace, &format!("{observe}\nobserve = \"{notifications}\""))
}

fn known(flow: &Flow) -> &Observed {
    flow.observed.as_ref().expect("it observes")
}

#[test]
fn an_observer_knows_each_change_half_a_round_trip_later() {
    let record =
        record(&observing("confirmable").replace("response = ", "stop = \"55s\"\nresponse = ")).expect("it runs");
    for flow in &record.flows {
        let Observed { changes, received } = known(flow);
        let millis = |at: &conche_netsim::Instant| at.as_nanos() / 1_000_000;
        assert!(changes.iter().map(millis).eq([20_000, 30_000, 40_000, 50_000]), "{changes:?}");
        // The state at registration is valid from the start.
        assert_eq!((received.len(), millis(&received[0].changed)), (5, 0));
        let ages: Vec<u64> =
            received[1..].iter().map(|received| millis(&received.at) - millis(&received.changed)).collect();
        assert_eq!(ages, [100; 4], "half of a round trip");
        assert_eq!((flow.exchanges.len(), flow.tally.answered, flow.tally.failed), (4, 4, 0));
        let round_trips = flow.exchanges.iter().map(|exchange| exchange.round_trip.expect("acknowledged").as_millis());
        assert!(round_trips.eq([200; 4]), "{:?}", flow.exchanges);
    }
    let servers: Vec<_> = record.nodes_of(Selection { scheme: 0, traffic: Some(0) }).map(|node| node.node).collect();
    assert_eq!(servers, [3, 4].map(|place| record.flows[place - 3].server), "those who send copies are the servers");
}

#[test]
fn a_late_acknowledgement_causes_a_spurious_retransmission() {
    let text = observing("confirmable").replace("delay = \"60ms\"", "delay = \"1500ms\"");
    let record = record(&text).expect("it runs");
    for flow in &record.flows {
        // The round trip takes 3080 ms.
        assert!(flow.exchanges.iter().all(|exchange| (exchange.transmissions, exchange.unnecessary) == (2, 1)));
        assert!(flow.exchanges.len() >= 3, "{:?}", flow.exchanges);
    }
}

#[test]
fn of_notifications_as_the_endpoint_sends_them_by_itself_each_fifth_is_acknowledged() {
    let text = observing("each-fifth-confirmable").replace("duration = \"60s\"", "duration = \"125s\"");
    // The default also checks that the peer is alive.
    let record = record(&text.replace("controller = \"default\"", "controller = \"linux\"")).expect("it runs");
    for flow in &record.flows {
        assert_eq!((known(flow).changes.len(), known(flow).received.len(), flow.exchanges.len()), (11, 12, 2));
    }
}

#[test]
fn an_observer_that_was_cut_off_learns_the_last_state_and_one_that_is_gone_for_good_is_given_up() {
    let cut = "[[changes]]\nat = \"25s\"\nevent = { cut-off = { nodes = \"client[0]\", for = \"20s\" } }\n[endpoint]";
    let back = record(&observing("confirmable").replace("[endpoint]", cut)).expect("it runs");
    let received = &known(&back.flows[0]).received;
    let changed: Vec<u64> = received.iter().map(|received| received.changed.as_nanos() / 1_000_000_000).collect();
    assert_eq!(changed, [0, 20, 40, 50], "the state of 30 s was superseded");
    let gone = observing("confirmable").replace("duration = \"60s\"", "duration = \"300s\"");
    let gone = record(&gone.replace("[endpoint]", &cut.replace("20s", "275s"))).expect("it runs");
    assert_eq!((gone.flows[0].tally.failed, gone.flows[1].tally.failed), (1, 0));
}

#[test]
fn an_observer_that_forgot_and_answers_with_a_reset_has_acknowledged_nothing() {
    let reboot = "[[changes]]\nat = \"25s\"\nevent = { reboot = { nodes = \"client[0]\" } }\n[endpoint]";
    let record = record(&observing("confirmable").replace("[endpoint]", reboot)).expect("it runs");
    let acknowledged: Vec<u64> = answered(&record);
    assert_eq!(acknowledged, [3, 4], "the change at 30 s came before it observed again");
}

/// As above, with requests from the first server to the second.
fn asking(controller: &str, is_first: bool) -> String {
    let asks = format!("[[traffic]]\nname = \"asks\"\nfrom = \"server[0]\"\nto = \"server[1]\"\n{controller}\n");
    let mark = if is_first { "[[traffic]]\nname = \"polls\"" } else { "[endpoint]" };
    observing("confirmable").replace(mark, &format!("{asks}{mark}"))
}

#[test]
fn requests_and_notifications_of_a_node_share_one_controller() {
    for is_first in [true, false] {
        assert!(record(&asking("", is_first)).is_ok());
        let error = record(&asking("controller = \"linux\"", is_first)).expect_err("of two controllers");
        assert!(error.contains("other traffic under another controller"), "{error}");
    }
}

#[test]
fn observed_traffic_needs_a_pace_an_end_and_room_for_a_timestamp() {
    for (from, to, expected) in [
        (
            "response = \"40B\"",
            "response = \"14B\"",
            "traffic.polls.response: less than 15B: a notification holds when",
        ),
        ("start = \"20s\"", "exchanges = 3", "traffic.polls.exchanges: changes are not counted"),
        ("duration = \"60s\"", "time_limit = \"60s\"", "traffic: what is observed changes without end"),
        ("observe =", "controller = \"linux\"\nobserve =", "traffic.polls.controller: its servers send"),
    ] {
        let text = observing("confirmable");
        assert!(text.contains(from), "{from}");
        let error = record(&text.replace(from, to)).expect_err(to);
        assert!(error.starts_with(expected), "{to}: {error}");
    }
}
