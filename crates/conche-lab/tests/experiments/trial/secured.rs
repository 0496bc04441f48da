//! DTLS sessions in simulated networks.

use std::time::Duration;

use super::*;

/// 100 clients open a session with a server and register over this wire.
fn registrations(wire: &str, endpoint: &str, addition: &str) -> Result<Record, String> {
    record(&format!(
        r#"
schema = 1
name = "registrations"
title = "Clients register"
replications = 1
seed = 1
time_limit = "24h"
nodes = [{{ name = "client", count = 100 }}, {{ name = "server" }}]

[[links]]
name = "path"
between = ["client", "server"]
wire = {{ {wire} }}

[[traffic]]
name = "register"
from = "client"
to = "server"
exchanges = 1
count = "succeeded"
request = "100B"
response = "20B"

[endpoint]
max_retransmit = 4
nstart = 1
timeout_cap = "60s"
token_length = 2
{endpoint}

[[schemes]]
name = "default"
controller = "default"
{addition}
"#
    ))
}

const PSK: &str = "security = \"dtls-psk\"";
const LOSSY: &str =
    "delay = \"50ms\", jitter = { uniform = [\"0ms\", \"300ms\"], order = \"free\" }, duplicate = \"10%\"";

fn handshakes(record: &Record) -> (Vec<Duration>, u64, u64, u64) {
    let each = || record.flows.iter().map(|flow| &flow.handshakes);
    let mut done: Vec<Duration> = each().flat_map(|handshakes| handshakes.done.iter().copied()).collect();
    done.sort_unstable();
    (
        done,
        each().map(|handshakes| handshakes.failed).sum(),
        each().map(|handshakes| handshakes.datagrams).sum(),
        each().map(|handshakes| handshakes.bytes).sum(),
    )
}

#[test]
fn a_session_takes_three_round_trips_before_the_first_request_and_its_datagrams_are_counted() {
    let record = registrations("delay = \"50ms\"", PSK, "").expect("it runs");
    let (done, failed, datagrams, bytes) = handshakes(&record);
    assert_eq!((done.len(), failed), (100, 0));
    assert!(done.iter().all(|time| time.as_millis() == 300), "{done:?}");
    // ClientHello, HelloVerifyRequest, ClientHello, and flights of server, client and server.
    assert_eq!(datagrams, 600);
    assert!((40_000..80_000).contains(&bytes), "{bytes} bytes of 100 handshakes");
    let exchange = record.flows[0].exchanges[0];
    assert_eq!((exchange.began.as_millis(), exchange.ended.as_millis()), (300, 400));
    assert!(record.flows.iter().all(|flow| flow.tally.failed == 0));
    let plain = registrations("delay = \"50ms\"", "", "").expect("it runs");
    assert_eq!(plain.flows[0].exchanges[0].ended.as_millis(), 100);
    assert_eq!(handshakes(&plain), (Vec::new(), 0, 0, 0));
}

#[test]
fn all_register_over_paths_that_lose_repeat_and_disorder_and_the_same_seed_gives_the_same_times() {
    let mut medians = Vec::new();
    for (loss, most) in [("0%", 0), ("10%", 0), ("30%", 10)] {
        let run = || registrations(&format!("{LOSSY}, loss = \"{loss}\""), PSK, "").expect("all are done");
        let (record, again) = (run(), run());
        let (done, failed, datagrams, bytes) = handshakes(&record);
        assert_eq!(handshakes(&again), (done.clone(), failed, datagrams, bytes));
        assert!(done.len() >= 100, "{} sessions, {failed} handshakes failed", done.len());
        assert!(failed <= most, "{failed} handshakes failed where {loss} is lost");
        assert!(record.flows.iter().all(|flow| flow.tally.answered == 1));
        medians.push(done[done.len() / 2]);
    }
    assert!(medians[0] < medians[1] && medians[1] < medians[2], "{medians:?}");
}

#[test]
fn flights_are_cut_into_datagrams_of_110_bytes() {
    let small = format!("{PSK}\nhandshakes = {{ mtu = \"110B\" }}");
    let (done, _, datagrams, bytes) = handshakes(&registrations("delay = \"50ms\"", &small, "").expect("it runs"));
    assert_eq!(done.len(), 100);
    // With 1280 B there are 600.
    assert!(datagrams > 600 && bytes <= 110 * datagrams, "{datagrams} datagrams, {bytes} bytes");
    let lossy = registrations(&format!("{LOSSY}, loss = \"10%\""), &small, "").expect("all are done");
    assert_eq!(handshakes(&lossy).0.len(), 100);
}

#[test]
fn unanswered_handshakes_fail_at_their_deadline_and_are_retried() {
    let small = format!("{PSK}\nhandshakes = {{ deadline = \"10s\" }}");
    let dead = "[[changes]]\nat = \"0s\"\nevent = { cut-off = { nodes = \"client[7]\", for = \"15s\" } }";
    let record = registrations("delay = \"50ms\"", &small, dead).expect("all are done");
    let flow = &record.flows[7];
    assert_eq!((flow.handshakes.failed, flow.handshakes.done.len()), (1, 1));
    assert_eq!((flow.tally.failed, flow.tally.answered), (1, 1));
    let done = flow.tally.done.expect("it is").as_millis();
    assert!((15_000..25_000).contains(&done), "the second handshake goes on when the network is back: {done} ms");
}

#[test]
fn a_client_that_starts_anew_opens_another_session_and_one_whose_server_does_when_nothing_is_answered() {
    let text = SMALL.replace("token_length = 2", "token_length = 2\nsecurity = \"dtls-psk\"").replace("60s", "600s");
    let change = |nodes: &str| format!("[[changes]]\nat = \"30s\"\nevent = {{ reboot = {{ nodes = \"{nodes}\" }} }}");
    let client = record(&format!("{text}\n{}", change("client[0]"))).expect("it runs");
    assert_eq!(client.flows.iter().map(|flow| flow.handshakes.done.len()).collect::<Vec<_>>(), [2, 1]);
    assert!(answered(&client).iter().all(|answered| *answered >= 595), "{:?}", answered(&client));
    let server = record(&format!("{text}\n{}", change("server[1]"))).expect("it runs");
    assert_eq!(server.flows.iter().map(|flow| flow.handshakes.done.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(server.flows[1].tally.failed, 1, "the request that waited in vain");
    assert!(answered(&server)[1] > 400, "{:?}", answered(&server));
}

#[test]
fn traffic_without_sessions_and_invalid_handshakes_are_refused() {
    let refused = |endpoint: &str, changed: (&str, &str)| {
        let text = SMALL.replace("token_length = 2", &format!("token_length = 2\n{endpoint}"));
        record(&text.replace(changed.0, changed.1)).expect_err("it makes no sense")
    };
    let nothing = ("", "");
    let observes =
        refused(PSK, ("to = \"server\"\n", "to = \"server\"\nobserve = \"confirmable\"\nresponse = \"20B\"\n"));
    assert!(observes.contains("endpoint.security") && observes.contains("`polls`"), "{observes}");
    let mtu = refused("handshakes = { mtu = \"98B\" }", nothing);
    assert!(mtu.contains("between 99B and 65507B"), "{mtu}");
    let deadline = refused("handshakes = { deadline = \"0s\" }", nothing);
    assert!(deadline.contains("longer than 0s"), "{deadline}");
    assert!(refused("security = \"tls\"", nothing).contains("dtls-psk"));
}
