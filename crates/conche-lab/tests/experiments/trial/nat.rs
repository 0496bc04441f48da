//! Clients behind a NAT, which forgets their addresses.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use conche_lab::trial::{Emulation, Flow, Observing, Trace, run_observed};
use conche_netsim::packet::Packet;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::Topology;
use conche_netsim::{Instant, NodeId};

const PACE: &str = "pace = { every = { interval = \"1s\", spread = false } }";

/// The hub of [`SMALL`] as NAT, and this pace.
fn behind(timeout: &str, pace: &str) -> String {
    let nat = format!("[[nats]]\nname = \"home\"\nat = \"hub\"\ninside = \"client\"\ntimeout = \"{timeout}\"\n");
    SMALL.replace(PACE, pace).replace("[endpoint]", &format!("{nat}[endpoint]"))
}

fn add(text: &str, addition: &str) -> String {
    text.replace("[endpoint]", &format!("{addition}\n[endpoint]"))
}

/// Senders as receivers see them, and datagrams without a mapping.
#[derive(Default)]
struct Seen {
    senders: Vec<NodeId>,
    unmapped: Vec<Instant>,
}

impl Observer for Seen {
    fn on_delivered(&mut self, _: Instant, packet: &Packet) {
        self.senders.push(packet.meta.from);
    }

    fn on_dropped(&mut self, now: Instant, _: &Packet, reason: DropReason) {
        assert!(matches!(reason, DropReason::NoMapping(_) | DropReason::NodeDown(_)), "{reason:?}");
        self.unmapped.extend(matches!(reason, DropReason::NoMapping(_)).then_some(now));
    }
}

impl Seen {
    /// Number of addresses that nodes had.
    fn addresses(&self) -> usize {
        let mut senders = self.senders.clone();
        senders.sort_unstable();
        senders.dedup();
        senders.len()
    }
}

fn observed(text: &str) -> (Record, Seen) {
    let document = Document::from_toml(text).expect("a valid scenario");
    let seen = Rc::new(RefCell::new(Seen::default()));
    let trace = &mut |_: &Topology| Trace::Packets(Rc::<RefCell<Seen>>::clone(&seen));
    let observing = Observing { trace: Some(trace), ..Observing::default() };
    let options = RecordOptions { arrivals: true, timeouts: true, ..RecordOptions::default() };
    let replication = Replication { index: 0, count: 1, seed: 1 };
    let ran = run_observed(&document.cells()[0], options, replication, &Routes::default(), observing);
    (ran.expect("it runs").outcome, seen.take())
}

fn millis(at: Instant) -> u64 {
    at.as_nanos() / 1_000_000
}

/// Times of changes and ages at arrival, in ms.
fn ages(flow: &Flow) -> Vec<(u64, u64)> {
    let received = &flow.observed.as_ref().expect("it observes").received;
    received.iter().map(|received| (millis(received.changed), millis(received.at) - millis(received.changed))).collect()
}

#[test]
fn a_pause_longer_than_the_timeout_makes_a_client_another_peer() {
    let pace = |seconds| format!("pace = {{ every = {{ interval = \"{seconds}s\", spread = false }} }}");
    let long = |text: &str| text.replace("duration = \"60s\"", "duration = \"600s\"");
    // Two servers, and two clients at 0 s, 100 s, … or 0 s, 130 s, …
    for (seconds, requests, addresses) in [(100, 6, 2 + 2), (130, 5, 2 + 10)] {
        let (record, seen) = observed(&long(&behind("120s", &pace(seconds))));
        assert_eq!(answered(&record), [requests; 2], "every {seconds} s");
        assert_eq!((seen.addresses(), seen.unmapped.len()), (addresses, 0), "every {seconds} s");
    }
}

/// Requests at 1 s over a round trip of 2 s, and an event when the responses are before the hub.
fn interrupted(event: &str) -> (Record, Seen) {
    let text = behind("120s", "pace = { at = [\"1s\"] }").replace("40ms", "500ms").replace("60ms", "500ms");
    observed(&add(&text, &format!("[[changes]]\nat = \"2200ms\"\nevent = {event}")))
}

#[test]
fn a_response_after_the_rebinding_is_lost_and_the_retransmission_served_as_new() {
    let (rebound, seen) = interrupted("{ rebind = { nodes = \"client\" } }");
    let (interrupted, _) = interrupted("{ cut-off = { nodes = \"hub\", for = \"500ms\" } }");
    for flow in rebound.flows.iter().chain(&interrupted.flows) {
        let [exchange] = flow.exchanges[..] else { panic!("one exchange: {:?}", flow.exchanges) };
        assert_eq!((exchange.transmissions, exchange.answered), (2, true));
        // The first timeout is between 2 s and 3 s, and the answer takes 2 s.
        assert!((5000..=6000).contains(&millis(exchange.ended)), "{exchange:?}");
    }
    let arrivals = |record: &Record| record.flows.iter().map(|flow| flow.arrivals.len()).collect::<Vec<_>>();
    assert_eq!(arrivals(&interrupted), [1, 1], "the server knows the duplicate");
    assert_eq!(arrivals(&rebound), [2, 2], "no duplicate has another source");
    assert_eq!(seen.unmapped.iter().map(|at| millis(*at)).collect::<Vec<_>>(), [2500, 2500]);
    assert_eq!(rebound.nodes_of(Selection { scheme: 0, traffic: None }).map(|node| node.dropped.all).sum::<u64>(), 2);
}

/// The clients observe servers that change every 50 s from 20 s.
fn observing(timeout: &str) -> String {
    let pace = "pace = { every = { interval = \"50s\", spread = false } }\nstart = \"20s\"\nresponse = \"40B\"\n\
                observe = \"confirmable\"";
    behind(timeout, pace).replace("duration = \"60s\"", "duration = \"110s\"")
}

#[test]
fn an_observation_behind_a_nat_stops_with_the_mapping_and_resumes_with_the_registration() {
    let (record, seen) = observed(&observing("30s"));
    for flow in &record.flows {
        let [(0, _), (20_000, 100), (70_000, age)] = ages(flow)[..] else { panic!("{:?}", ages(flow)) };
        // Registered again Max-Age, 60 s, and 5 s to 15 s after the last notification.
        assert!((15_000..=25_300).contains(&age), "{age} ms");
    }
    assert!(seen.unmapped.len() >= 4, "each change, and at least one retransmission");
    assert_eq!(seen.addresses(), 2 + 4, "two of each client");
}

#[test]
fn an_observer_at_a_lost_address_is_given_up() {
    let text = observing("30s").replace("duration = \"110s\"", "duration = \"200s\"");
    let (record, _) = observed(&text.replace("interval = \"50s\"", "interval = \"500s\""));
    assert_eq!(record.flows.iter().map(|flow| flow.tally.failed).collect::<Vec<_>>(), [0, 0], "nothing was lost");
    let (record, _) = observed(&text);
    assert!(record.flows.iter().all(|flow| flow.tally.failed == 1), "of the change at 70 s");
}

#[test]
fn requests_within_the_timeout_keep_an_observation_alive() {
    let keep_alive = "[[traffic]]\nname = \"keep-alive\"\nfrom = \"client\"\nto = \"server\"\n\
                      pace = { every = { interval = \"25s\", spread = false } }";
    let (record, seen) = observed(&add(&observing("30s"), keep_alive));
    for flow in record.flows.iter().filter(|flow| flow.observed.is_some()) {
        assert_eq!(ages(flow)[1..], [(20_000, 100), (70_000, 100)]);
    }
    assert_eq!((seen.addresses(), seen.unmapped.len()), (2 + 2, 0));
}

#[test]
fn the_address_of_a_nat_keeps_the_path_state_of_its_host() {
    let rebind = "[[changes]]\nat = \"45s\"\nevent = { rebind = { nodes = \"client\" } }";
    let text = observing("300s").replace("interval = \"50s\"", "interval = \"10s\"");
    let text = add(&text.replace("duration = \"110s\"", "duration = \"180s\""), rebind);
    // First timeouts of each server, to the address that registers again from 105 s on.
    let timeouts = |paths: &str| {
        let (record, _) =
            observed(&text.replace("controller = \"default\"", &format!("controller = \"linux\"\n{paths}")));
        let servers = record.nodes_of(Selection { scheme: 0, traffic: Some(0) });
        let first = servers.map(|node| {
            let mut later = node.timeouts.iter().filter(|of| of.attempt == 0 && millis(of.at) > 105_000);
            later.next().expect("a notification").after.as_millis()
        });
        first.collect::<Vec<_>>()
    };
    assert!(timeouts("").iter().all(|first| *first >= 1000), "{:?}", timeouts(""));
    let hosts = timeouts("paths = \"hosts\"");
    assert!(hosts.iter().all(|first| (200..1000).contains(first)), "after round trips of 200 ms: {hosts:?}");
}

#[test]
fn a_dtls_session_ends_with_the_address_of_its_client() {
    let text = behind("300s", "pace = { at = [\"1s\", \"40s\", \"200s\"] }");
    let text = text.replace("duration = \"60s\"", "duration = \"300s\"");
    let text = text.replace("[endpoint]", "[endpoint]\nsecurity = \"dtls-psk\"");
    let rebind = "[[changes]]\nat = \"30s\"\nevent = { rebind = { nodes = \"client[0]\" } }";
    let (record, _) = observed(&add(&text, rebind));
    let outcomes = record.flows.iter().map(|flow| (flow.tally.answered, flow.tally.failed, flow.handshakes.done.len()));
    assert_eq!(outcomes.collect::<Vec<_>>(), [(2, 1, 2), (3, 0, 1)]);
}

#[test]
fn requests_have_to_come_from_inside_through_the_nat() {
    let text = behind("120s", PACE);
    for (from, to, expected) in [
        (
            "from = \"client\"\nto = \"server\"",
            "from = \"server\"\nto = \"client\"",
            "traffic.polls: `client[0]` is behind the NAT `hub`, which knows no address for first requests",
        ),
        (
            "[[traffic]]",
            "[[links]]\nname = \"direct\"\nfrom = \"server\"\nto = \"client\"\n[[traffic]]",
            "traffic.polls: the path from `server[0]` to `client[0]` avoids the NAT `hub`",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let error = super::record(&text.replacen(from, to, 1)).expect_err(to);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn nats_of_a_group_have_equal_shares_of_the_nodes_inside() {
    let text = behind("120s", PACE).replace("{ name = \"hub\" }", "{ name = \"hub\", count = 2 }");
    let (record, seen) = observed(&text);
    assert_eq!((answered(&record), seen.addresses()), (vec![60; 2], 2 + 2));
}

#[test]
fn an_emulated_server_sees_another_address_after_the_rebinding() {
    let rebind = "[[changes]]\nat = \"2s\"\nevent = { rebind = { nodes = \"client[0]\" } }";
    let document = Document::from_toml(&add(&behind("120s", PACE), rebind)).expect("a valid scenario");
    let programs = ["client".to_owned(), "server".to_owned()];
    let replication = Replication { index: 0, count: 1, seed: 1 };
    let mut emulation =
        Emulation::new(&document.cells()[0], replication, &programs, &mut |_| Vec::new()).expect("it can be emulated");
    let [client, server] = ["client[0]", "server[0]"].map(|of| emulation.nodes("test", of).expect("a node")[0]);
    assert!(emulation.are_connected(client, server) && !emulation.are_connected(server, client));
    let mut pass = |until_ms: u64, from: NodeId, to: NodeId| {
        emulation.send(from, to, b"datagram").expect("addresses");
        emulation.advance_to(Instant::from_millis(until_ms)).expect("no change is refused");
        let arrived = emulation.take_arrived().map(|arrived| (arrived.from, arrived.to));
        arrived.inspect(|(from, _)| assert!(*from == server || emulation.addresses().node(*from) == client))
    };
    let (first, _) = pass(1000, client, server).expect("an arrival");
    assert_eq!(pass(1500, server, first), Some((server, client)));
    assert_eq!(pass(1900, client, server), Some((first, server)));
    assert_eq!(pass(3000, server, first), Some((server, client)), "it is before the rebinding");
    assert_eq!(pass(4000, server, first), None);
    let (second, _) = pass(5000, client, server).expect("an arrival");
    assert_ne!(first, second);
    assert_eq!((pass(6000, server, first), pass(7000, server, second)), (None, Some((server, client))));
}
