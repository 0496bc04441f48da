//! Emulation in virtual time: a program repeats a simulated endpoint's datagrams.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use conche_lab::campaign::Replication;
use conche_lab::networks::NETWORKS;
use conche_lab::scenario::{Cell, Controllers, Document, Security};
use conche_lab::trial::{Emulation, Observing, RecordOptions, Routes, Trace, run_observed};
use conche_netsim::packet::Packet;
use conche_netsim::trace::{Digest, DropReason, Observer};
use conche_netsim::wired::LinkConfig;
use conche_netsim::{BitRate, Instant, LinkId, NodeId};

/// Eight clients share a slow, lossy uplink with a short queue, which changes after 20 s.
const NETWORK: &str = r#"
schema = 1
name = "emulated"
title = "A lossy uplink"
replications = 1
seed = 1
duration = "60s"
schemes = [{ name = "default", controller = "default" }]
nodes = [{ name = "client", count = 8 }, { name = "hub" }, { name = "server" }]

[[links]]
name = "access"
between = ["client", "hub"]
wire = { delay = "10ms" }

[[links]]
name = "uplink"
from = "hub"
to = "server"
wire = { rate = "5kbit/s", delay = "50ms", loss = "5%", queue = "60B", jitter = { uniform = ["0ms", "30ms"] } }

[[links]]
name = "downlink"
from = "server"
to = "hub"
wire = { rate = "20kbit/s", delay = "50ms", loss = "5%", queue = "500B" }

[[changes]]
at = "20s"
event = { link = { name = "uplink", wire = { rate = "2kbit/s", delay = "90ms", loss = "5%", queue = "60B" } } }

[[traffic]]
name = "polls"
from = "client"
to = "server"
response = "60B"
pace = { poisson = { interval = "500ms" } }
"#;

const FIRST: Replication = Replication { index: 0, count: 1, seed: 7 };

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    Sent,
    Entered(LinkId),
    Dropped(DropReason),
    Delivered,
}

type Seen = (Instant, Fate, NodeId, NodeId, Vec<u8>);

#[derive(Default)]
struct Log(Vec<Seen>);

impl Log {
    fn push(&mut self, now: Instant, fate: Fate, packet: &Packet) {
        self.0.push((now, fate, packet.meta.from, packet.meta.to, packet.bytes().to_vec()));
    }
}

impl Observer for Log {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        self.push(now, Fate::Sent, packet);
    }

    fn on_entered(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.push(now, Fate::Entered(link), packet);
    }

    fn on_dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {
        self.push(now, Fate::Dropped(reason), packet);
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        self.push(now, Fate::Delivered, packet);
    }
}

fn document(text: &str) -> Document {
    Document::from_toml(text).expect("a valid scenario")
}

fn simulated() -> Vec<Seen> {
    let log = Rc::new(RefCell::new(Log::default()));
    let trace = &mut |_: &_| Trace::Packets(Rc::<RefCell<Log>>::clone(&log));
    let observing = Observing { trace: Some(trace), ..Observing::default() };
    let document = document(NETWORK);
    run_observed(&document.cells()[0], RecordOptions::default(), FIRST, &Routes::default(), observing)
        .expect("it runs");
    log.take().0
}

/// Sends the clients' datagrams of a simulation at their times, and returns the fate of all, and
/// the number of arrivals at the programs.
fn emulated(programs: &str, simulated: &[Seen]) -> (Vec<Seen>, usize) {
    let document = document(NETWORK);
    let log = Rc::new(RefCell::new(Log::default()));
    let observers = &mut |_: &_| vec![Trace::Packets(Rc::<RefCell<Log>>::clone(&log))];
    let mut emulation =
        Emulation::new(&document.cells()[0], FIRST, &[programs.to_owned()], observers).expect("it can be emulated");
    let of_programs = emulation.nodes("programs", programs).expect("there are some");
    let mut arrived = 0;
    for (at, fate, from, to, bytes) in simulated {
        if *fate != Fate::Sent || !of_programs.contains(from) {
            continue;
        }
        while let Some(next) = emulation.next_time().filter(|next| next < at) {
            emulation.advance_to(next).expect("its changes are valid");
        }
        emulation.advance_to(*at).expect("its changes are valid");
        emulation.send(*from, *to, bytes).expect("they are nodes");
        while let Some(datagram) = emulation.take_arrived() {
            assert!(of_programs.contains(&datagram.to) && datagram.at <= emulation.now());
            arrived += 1;
        }
    }
    emulation.advance_to(Instant::ZERO + emulation.limit()).expect("its changes are valid");
    arrived += std::iter::from_fn(|| emulation.take_arrived()).count();
    (log.take().0, arrived)
}

#[test]
fn a_program_that_sends_what_an_endpoint_would_has_the_packet_times_of_the_simulation() {
    let simulated = simulated();
    let dropped = |wanted: fn(&DropReason) -> bool| {
        simulated.iter().filter(|(_, fate, ..)| matches!(fate, Fate::Dropped(reason) if wanted(reason))).count()
    };
    assert!(dropped(|reason| matches!(reason, DropReason::Lost(_))) > 10);
    assert!(dropped(|reason| matches!(reason, DropReason::QueueFull(_))) > 10);
    for programs in ["client", "client[0..3]", "client[5]"] {
        let (emulated, arrived) = emulated(programs, &simulated);
        assert!(arrived > 3, "{programs}: {arrived} arrived");
        let differs = emulated.iter().zip(&simulated).find(|(emulated, simulated)| emulated != simulated);
        assert_eq!((differs, emulated.len()), (None, simulated.len()), "{programs}");
    }
}

#[test]
fn an_emulation_of_the_same_datagrams_is_the_same() {
    let simulated = simulated();
    let again = || emulated("client", &simulated);
    assert_eq!(again(), again());
}

fn refused(text: &str, programs: &str) -> String {
    let document = document(text);
    let emulation = Emulation::new(&document.cells()[0], FIRST, &[programs.to_owned()], &mut |_| Vec::new());
    emulation.map(drop).expect_err("it is refused").to_string()
}

#[test]
fn a_scenario_that_programs_cannot_join_is_refused() {
    assert_eq!(
        refused(NETWORK, "sensor"),
        "the program of `sensor`: there are no nodes `sensor`; there are client, hub, server"
    );
    assert!(refused(NETWORK, "client[9]").contains("its 8 nodes are client[0..8]"));
    let secured = format!("{NETWORK}\n[endpoint]\nsecurity = \"dtls-psk\"");
    assert!(refused(&secured, "client").starts_with("endpoint.security: simulated endpoints have keys"));
}

#[test]
fn a_reboot_names_the_nodes_of_programs_at_its_time() {
    let reboot = "[[changes]]\nat = \"30s\"\nevent = { reboot = { nodes = \"client[0..2]\" } }";
    let document = document(&format!("{NETWORK}\n{reboot}"));
    let mut emulation = Emulation::new(&document.cells()[0], FIRST, &["client[1..4]".to_owned()], &mut |_| Vec::new())
        .expect("it can be emulated");
    let rebooted = emulation.nodes("node", "client[1]").expect("there is one");
    emulation.advance_to(Instant::from_millis(29_999)).expect("its changes are valid");
    assert_eq!(emulation.take_rebooted(), []);
    emulation.advance_to(Instant::from_millis(30_000)).expect("its changes are valid");
    assert_eq!((emulation.take_rebooted(), emulation.take_rebooted()), (rebooted, Vec::new()));
}

#[test]
fn a_simulation_refuses_a_node_with_a_program() {
    let text = NETWORK.replace("count = 8 }", "count = 8, program = \"true\" }");
    let problem = super::record(&text).expect_err("it needs an emulation");
    assert!(problem.starts_with("nodes.client.program: a simulation runs no programs"), "{problem}");
}

#[test]
fn simulated_clients_ask_a_server_that_is_a_program() {
    let document = document(&NETWORK.replace("response = \"60B\"", "exchanges = 3"));
    let mut emulation = Emulation::new(&document.cells()[0], FIRST, &["server".to_owned()], &mut |_| Vec::new())
        .expect("it can be emulated");
    let server = emulation.nodes("server", "server").expect("there is one")[0];
    assert!(emulation.is_program(server) && !emulation.is_server(server));
    let mut asked = 0;
    while let Some(next) = emulation.next_time().filter(|next| *next <= Instant::ZERO + Duration::from_secs(600)) {
        emulation.advance_to(next).expect("its changes are valid");
        while let Some(request) = emulation.take_arrived() {
            asked += 1;
            // A piggybacked 2.05 with the request's message ID and token.
            let mut response = request.bytes[..4 + usize::from(request.bytes[0] & 0xf)].to_vec();
            (response[0], response[1]) = (0x60 | request.bytes[0] & 0xf, 0x45);
            emulation.send(server, request.from, &response).expect("two nodes");
        }
        if emulation.are_clients_done() {
            break;
        }
    }
    assert!(emulation.are_clients_done());
    let record = emulation.into_record();
    let answered: u64 = record.flows.iter().map(|flow| flow.tally.answered).sum();
    assert!(answered >= 20 && asked >= 24, "{answered} of 24 requests were answered; {asked} arrived");
}

#[test]
fn simulated_nodes_answer_echo_requests_of_programs() {
    let document = document(&NETWORK.replace("loss = \"5%\", ", ""));
    let mut emulation = Emulation::new(&document.cells()[0], FIRST, &["client".to_owned()], &mut |_| Vec::new())
        .expect("it can be emulated");
    let node = |name: &str| emulation.nodes("node", name).expect("there is one")[0];
    let (client, hub, server) = (node("client[0]"), node("hub"), node("server"));
    // With CoAP's version and an unknown code, a message that a server would reject.
    let bytes = [0x40, 0xff, 1, 1];
    let requests = [hub, server].map(|to| emulation.send_echo_request(client, to, &bytes).expect("two nodes"));
    emulation.advance_to(Instant::from_millis(1000)).expect("its changes are valid");
    let replies: Vec<_> = std::iter::from_fn(|| emulation.take_arrived()).collect();
    let seen: Vec<_> = replies.iter().map(|reply| (reply.from, reply.answers, &*reply.bytes)).collect();
    assert_eq!(seen, [(hub, Some(requests[0]), &bytes[..]), (server, Some(requests[1]), &bytes[..])]);
    assert!(replies[1].at > Instant::from_millis(120), "two ways of 60 ms: {replies:?}");
}

#[test]
fn requests_with_a_path_are_longer_and_answered_like_those_of_the_root() {
    let mut sizes = [0, 0];
    for (size, path) in sizes.iter_mut().zip(["", "path = \"sensors/temperature\""]) {
        let document = document(&NETWORK.replace("response = \"60B\"", &format!("response = \"60B\"\n{path}")));
        let record = conche_lab::trial::run(&document.cells()[0], RecordOptions::default(), FIRST, &Routes::default());
        let record = record.expect("it runs").outcome;
        assert!(record.flows.iter().all(|flow| flow.tally.answered > 10 && flow.tally.failed == 0), "{path}");
        *size = record.flows[0].request_bytes;
    }
    assert_eq!(sizes[1] - sizes[0], 20, "2 headers of an option, and 18 bytes");
    let problem = |path: &str| {
        let text = NETWORK.replace("response = \"60B\"", &format!("path = \"{path}\""));
        Document::from_toml(&text).map(drop).expect_err("it is refused").to_string()
    };
    assert!(problem("/a").contains("`/a` is no path of segments of 1 to 255 bytes"));
    assert!(problem("").contains("write it as in \"sensors/1\""));
    let text = NETWORK.replace("response = \"60B\"", "path = \"sensors\"\nrequest = \"10B\"");
    let problem = super::record(&text).expect_err("it is refused");
    assert!(problem.starts_with("traffic.polls: its `path` makes requests longer"), "{problem}");
}

/// Packets and end of a cell's run, by its usual way.
fn run_digest(cell: &Cell) -> (Digest, Duration) {
    let digest = Rc::new(RefCell::new(Digest::default()));
    let trace = &mut |_: &_| Trace::Packets(Rc::<RefCell<Digest>>::clone(&digest));
    let observing = Observing { trace: Some(trace), ..Observing::default() };
    let ran = run_observed(cell, RecordOptions::default(), FIRST, &Routes::default(), observing).expect("it runs");
    (digest.take(), ran.outcome.elapsed)
}

/// Packets and end of a cell's run in steps, with links that may change.
fn stepped_digest(cell: &Cell) -> (Digest, Instant) {
    let digest = Rc::new(RefCell::new(Digest::default()));
    let observers = &mut |_: &_| vec![Trace::Packets(Rc::<RefCell<Digest>>::clone(&digest))];
    let mut emulation = Emulation::changeable(cell, FIRST, &[], observers).expect("it can be stepped");
    let mut until = Instant::ZERO;
    while !emulation.simulate_to(until).expect("its changes are valid") {
        until += Duration::from_millis(333);
    }
    let end = emulation.now();
    (digest.take(), end)
}

/// A cell whose links may change, and that runs in steps, is the same run: the live view relies on it.
#[test]
fn a_simulation_in_steps_with_changeable_links_has_the_packets_of_its_run() {
    for network in NETWORKS {
        let experiment = network.experiment(&Controllers::default());
        let cell = &experiment.document().cells()[0];
        // Keys of DTLS are random, so that two runs differ.
        if cell.scenario.endpoint.security != Security::Plain {
            continue;
        }
        let ((run, elapsed), (stepped, end)) = (run_digest(cell), stepped_digest(cell));
        assert_eq!(run, stepped, "{}", network.name);
        // A run without a duration ends with its last exchange, before its last packets.
        assert!(end - Instant::ZERO >= elapsed, "{}: {end:?} {elapsed:?}", network.name);
        assert!(cell.scenario.duration.is_none_or(|duration| end == Instant::ZERO + duration.0), "{}", network.name);
    }
}

#[test]
fn a_changed_link_delays_later_packets_and_fails_without_losing_its_settings() {
    let document = document(NETWORK);
    let log = Rc::new(RefCell::new(Log::default()));
    let observers = &mut |_: &_| vec![Trace::Packets(Rc::<RefCell<Log>>::clone(&log))];
    let mut emulation = Emulation::changeable(&document.cells()[0], FIRST, &[], observers).expect("it can be stepped");
    let named = |emulation: &Emulation<'_>, wanted| {
        let topology = emulation.topology();
        topology.links().find(|(_, name)| *name == wanted).map(|(link, _)| link).expect("a link")
    };
    let access = named(&emulation, "access[0]>");
    let config = emulation.link_config(access).expect("a wired link");
    let slow = LinkConfig { delay: Duration::from_secs(100), ..config };
    emulation.change_link(access, slow).expect("a valid change");
    assert_eq!(emulation.link_config(access), Some(slow));
    let wrong = emulation.change_link(access, LinkConfig { rate: Some(BitRate::bit(0)), ..config });
    assert!(wrong.is_err_and(|error| error.to_string().contains("\"access[0]>\" has a rate of zero")));
    let other = named(&emulation, "access[1]>");
    emulation.set_link_up(other, false).expect("a link");
    assert!(!emulation.is_link_up(other) && emulation.is_link_up(access));
    emulation.simulate_to(Instant::from_millis(10_000)).expect("its changes are valid");
    let crossed = |node: NodeId| {
        let log = log.borrow();
        log.0.iter().filter(|(_, fate, from, ..)| *from == node && matches!(fate, Fate::Entered(_))).count()
    };
    let (first, second, third) = (node(&emulation, 0), node(&emulation, 1), node(&emulation, 2));
    assert!(crossed(first) > 0 && crossed(second) == 0 && crossed(third) > 1);
    let past = log.borrow().0.iter().filter(|(_, fate, from, ..)| *from == first && *fate != Fate::Sent).count();
    assert_eq!(past, crossed(first), "nothing has arrived at the other end");
    assert_eq!(emulation.link_config(other), Some(config), "a link that is down keeps its settings");
}

fn node(emulation: &Emulation<'_>, client: usize) -> NodeId {
    emulation.nodes("test", &format!("client[{client}]")).expect("a node")[0]
}
