//! Runs of small scenarios.

mod bulk;
mod emulation;
mod groups;
mod nat;
mod observing;
mod secured;
mod substitutes;

use conche_lab::campaign::Replication;
use conche_lab::experiment::Experiment;
use conche_lab::metrics::{Endpoints, Sample, sample};
use conche_lab::scenario::{Controllers, Document, FileError, Metric, ScenarioError};
use conche_lab::trial::{Record, RecordOptions, Routes, Selection, run};

/// Two clients send a request per second to a server each, over links of 100 ms each way.
const SMALL: &str = r#"
schema = 1
name = "small"
title = "Two clients"
replications = 1
seed = 1
duration = "60s"
nodes = [{ name = "client", count = 2 }, { name = "hub" }, { name = "server", count = 2 }]

[[links]]
name = "access"
between = ["client", "hub"]
wire = { delay = "40ms" }

[[links]]
name = "core"
between = ["hub", "server"]
wire = { delay = "60ms" }

[[traffic]]
name = "polls"
from = "client"
to = "server"
pace = { every = { interval = "1s", spread = false } }

[endpoint]
max_retransmit = 4
nstart = 1
timeout_cap = "60s"
token_length = 2

[[schemes]]
name = "default"
controller = "default"
"#;

fn record(text: &str) -> Result<Record, String> {
    let document = Document::from_toml(text).map_err(|error: ScenarioError| error.to_string())?;
    run(&document.cells()[0], RecordOptions::default(), Replication { index: 0, count: 1, seed: 1 }, &Routes::default())
        .map(|ran| ran.outcome)
        .map_err(|error| error.to_string())
}

fn with(addition: &str) -> Record {
    record(&format!("{SMALL}\n{addition}")).expect("it runs")
}

fn answered(record: &Record) -> Vec<u64> {
    record.flows.iter().map(|flow| flow.tally.answered).collect()
}

#[test]
fn clients_are_dealt_to_servers_and_ask_by_the_clock() {
    let record = with("");
    let pairs: Vec<_> = record.flows.iter().map(|flow| (flow.client.index(), flow.server.index())).collect();
    assert_eq!(pairs, [(0, 3), (1, 4)]);
    // At 0, 1, … 59 s; the one at 60 s is open.
    assert_eq!(answered(&record), [60, 60]);
    let times = record.flows[0].exchanges.iter().map(|exchange| exchange.ended - exchange.began);
    assert!(times.into_iter().all(|time| time.as_millis() == 200));
}

#[test]
fn all_pairs_and_a_part_of_a_group_can_be_asked() {
    let text = SMALL.replace("to = \"server\"\n", "to = \"server\"\npairs = \"all\"\n");
    assert_eq!(record(&text).expect("it runs").flows.len(), 4);
    let text = SMALL.replace("from = \"client\"\nto", "from = \"client[1]\"\nto");
    let part = record(&text).expect("it runs");
    assert!(part.flows.iter().all(|flow| flow.client.index() == 1) && part.flows.len() == 2, "{:?}", part.flows);
}

#[test]
fn queue_drops_and_random_losses_add_up_to_all_drops() {
    let drops = |wire: &str| {
        let text = SMALL.replace("{ delay = \"60ms\" }", &format!("{{ delay = \"60ms\", {wire} }}"));
        let record = record(&text).expect("it runs");
        record.nodes.iter().fold([0; 3], |[all, queue, random], node| {
            let of = node.dropped;
            [all + of.all, queue + of.queue, random + of.random]
        })
    };
    let [all, queue, random] = drops("loss = \"20%\"");
    assert!(all > 0 && queue == 0 && random == all, "{all} {queue} {random}");
    let [all, queue, random] = drops("rate = \"40bit/s\", queue = { packets = 1 }");
    assert!(all > 0 && queue == all && random == 0, "{all} {queue} {random}");
}

#[test]
fn a_traffic_without_a_path_is_refused() {
    let text = SMALL.replace("between = [\"hub\", \"server\"]", "from = \"hub\"\nto = \"server\"");
    let error = record(&text).expect_err("no way back");
    assert_eq!(
        error,
        "traffic.polls: no path leads from `server[0]` to `client[0]`; connect them by [[links]] (`between` has both \
         directions), or by a radio"
    );
}

#[test]
fn a_link_that_fails_carries_nothing_until_it_is_up_again() {
    let record = with("[[changes]]\nat = \"20500ms\"\nevent = { fail = { link = \"core\", for = \"10s\" } }");
    let during = |began: f64| (20.5..30.5).contains(&began);
    for flow in &record.flows {
        let in_time = flow.exchanges.iter().filter(|exchange| exchange.transmissions == 1);
        let began: Vec<f64> = in_time.map(|exchange| exchange.began.as_nanos() as f64 / 1e9).collect();
        assert!(began.iter().all(|began| !during(*began)), "{began:?}");
        assert!(began.len() > 20, "it goes on before and after: {began:?}");
    }
}

#[test]
fn a_link_change_keeps_all_settings_it_does_not_name() {
    let slower =
        with("[[changes]]\nat = \"30s\"\nevent = { link = { name = \"access\", wire = { loss = \"100%\" } } }");
    assert!(answered(&slower).iter().all(|answered| *answered == 30), "{:?}", answered(&slower));
    let farther =
        with("[[changes]]\nat = \"30500ms\"\nevent = { link = { name = \"access\", wire = { delay = \"140ms\" } } }");
    let times: Vec<u128> =
        farther.flows[0].exchanges.iter().map(|exchange| (exchange.ended - exchange.began).as_millis()).collect();
    assert_eq!((times[30], times[31], times.len()), (200, 400, 60), "{times:?}");
}

#[test]
fn a_node_that_is_cut_off_gets_nothing() {
    let record = with("[[changes]]\nat = \"30500ms\"\nevent = { cut-off = { nodes = \"server[0]\", for = \"60s\" } }");
    assert_eq!(answered(&record), [31, 60]);
}

#[test]
fn a_client_that_reboots_begins_anew_and_nothing_of_it_is_lost() {
    let text = SMALL.replace("pace = { every = { interval = \"1s\", spread = false } }", "exchanges = 20");
    let reboot = "[[changes]]\nat = \"2100ms\"\nevent = { reboot = { nodes = \"client[0]\" } }";
    let record = record(&format!("{text}\n{reboot}")).expect("it runs");
    // One exchange is lost with the node.
    assert_eq!(answered(&record), [30, 20]);
    assert_eq!(record.flows[0].exchanges.len(), 30);
    assert!(record.flows[0].exchanges.iter().all(|exchange| exchange.transmissions == 1), "no request is a duplicate");
}

#[test]
fn several_parts_of_a_group_are_joined() {
    let text = SMALL.replace("count = 2 }, { name = \"hub\" }", "count = 5 }, { name = \"hub\" }");
    let text = text.replace("from = \"client\"\nto", "from = \"client[0,2..4]\"\nto");
    let record = record(&text).expect("it runs");
    let clients: Vec<_> = record.flows.iter().map(|flow| flow.client.index()).collect();
    assert_eq!(clients, [0, 2, 3]);
}

#[test]
fn a_run_ends_when_enough_of_the_exchanges_that_end_it_have_succeeded() {
    let text =
        SMALL.replace("pace = { every = { interval = \"1s\", spread = false } }", "exchanges = 20\nends_run = 0.5");
    let record = record(&text).expect("it runs");
    assert_eq!(answered(&record).iter().sum::<u64>(), 20, "half of two times twenty");
    assert_eq!(record.elapsed.as_millis(), 2000);
    let refused = text.replace("exchanges = 20\n", "");
    let error = Document::from_toml(&refused).expect_err("no end").to_string();
    assert_eq!(error, "traffic.polls.ends_run: a share of exchanges without end; say how many `exchanges` a flow has");
}

#[test]
fn flows_that_are_run_one_by_one_have_a_run_each() {
    let text = SMALL.replace("pace = { every = { interval = \"1s\", spread = false } }", "exchanges = 20");
    let text = text.replace("duration = \"60s\"", "time_limit = \"60s\"");
    let together = record(&text).expect("it runs");
    let apart = record(&format!("one_by_one = true\n{text}")).expect("it runs");
    assert_eq!((together.elapsed.as_secs(), apart.elapsed.as_secs()), (4, 8), "20 round trips of 200 ms");
    assert_eq!((answered(&apart), apart.nodes.len()), (vec![20, 20], 2));
    let late = record(&format!("one_by_one = true\n{}", text.replace("\"60s\"\nnodes", "\"3s\"\nnodes")));
    let error = late.expect_err("4 s are needed");
    assert!(error.starts_with("after 3s of virtual time client 0 has completed 1"), "{error}");
}

#[test]
fn a_flow_has_as_many_exchanges_at_a_time_as_its_scheme_lets_out() {
    let text = SMALL.replace("pace = { every = { interval = \"1s\", spread = false } }", "outstanding = \"nstart\"");
    let text = text.replace("controller = \"default\"", "controller = \"cocoa\"");
    let four = record(&format!("{text}\nnstart = 4"));
    let [one, four] = [record(&text), four].map(|record| answered(&record.expect("it runs"))[0]);
    assert_eq!((one, four), (300, 1200));
}

#[test]
fn unknown_nodes_and_links_are_named_in_the_error() {
    for (from, to, expected) in [
        (
            "to = \"server\"",
            "to = \"servers\"",
            "traffic.polls.to: there are no nodes `servers`; there are client, hub, server",
        ),
        (
            "[endpoint]",
            "[[changes]]\nat = \"1s\"\nevent = { reboot = { nodes = \"client[1..3]\" } }\n[endpoint]",
            "changes.0.event.reboot.nodes: `client[1..3]` exceeds the group",
        ),
        (
            "to = \"server\"",
            "to = \"server[2]\"",
            "traffic.polls.to: `server[2]` exceeds the group; its 2 nodes are server[0..2]",
        ),
        ("to = \"server\"", "to = \"server[a]\"", "traffic.polls.to: `server[a]` is no name of nodes"),
        (
            "[endpoint]",
            "[[changes]]\nat = \"1s\"\nevent = { fail = { link = \"x\", for = \"1s\" } }\n[endpoint]",
            "changes.0.event.fail.link: there is no link `x`; the links are access, core",
        ),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let error = record(&SMALL.replacen(from, to, 1)).expect_err(to);
        assert!(error.starts_with(expected), "{to}: {error}");
    }
}

/// One client sends every second, 20 s on and 10 s off; the other uses the same server.
const UNAWARE: &str = r#"
[[traffic]]
name = "noise"
from = "client[1]"
to = "server[0]"
sender = "unaware"
confirmable = false
request = "40B"
pace = { on-off = { interval = "1s", on = "20s", off = "10s" } }
"#;

fn wanting_arrivals(text: &str) -> Result<Record, String> {
    let document = Document::from_toml(text).expect("valid");
    let wanted = RecordOptions { arrivals: true, ..RecordOptions::default() };
    run(&document.cells()[0], wanted, Replication { index: 0, count: 1, seed: 1 }, &Routes::default())
        .map(|ran| ran.outcome)
        .map_err(|error| error.to_string())
}

#[test]
fn an_unaware_sender_keeps_its_pace_and_gets_no_answer() {
    let alone = SMALL
        .replace("from = \"client\"\nto", "from = \"client[0]\"\nto")
        .replace("to = \"server\"\n", "to = \"server[0]\"\n");
    let record = wanting_arrivals(&format!("{alone}{UNAWARE}")).expect("it runs");
    let [polls, noise] = &record.flows[..] else { panic!("{:?}", record.flows) };
    assert_eq!((polls.tally.answered, polls.arrivals.len()), (60, 60), "who has an endpoint is answered");
    assert!(noise.tally.opened == 40 && noise.arrivals.len() == 40 && noise.exchanges.is_empty(), "{noise:?}");
    let seconds: Vec<u64> = noise.arrivals.iter().map(|at| at.as_nanos() / 1_000_000_000).collect();
    assert!(seconds.iter().all(|second| second % 30 <= 20), "{seconds:?}");
    assert_eq!(noise.request_bytes, 40 + 28);
    assert_eq!(record.nodes.len(), 1, "copies are counted of endpoints");
}

#[test]
fn a_node_has_an_endpoint_or_none() {
    let error = wanting_arrivals(&format!("{SMALL}{UNAWARE}")).expect_err("client 1 has one");
    assert!(error.starts_with("traffic.noise: its clients send other traffic with an endpoint, or without"), "{error}");
    let other_way = SMALL
        .replace("[endpoint]", &format!("{UNAWARE}\n[endpoint]"))
        .replace("from = \"client\"\nto", "from = \"server[1]\"\nto");
    let error = wanting_arrivals(&other_way.replace("to = \"server\"\n", "to = \"client[1]\"\n"))
        .expect_err("client 1 has none");
    assert_eq!(error, "traffic: a sender that is unaware answers nothing; ask other nodes");
}

#[test]
fn a_clock_follows_the_phases() {
    let pace = "pace = { phases = [\"1s\", \"5s\"] }\n";
    let text = SMALL.replace("pace = { every = { interval = \"1s\", spread = false } }", pace);
    let phases = "phases = [{ name = \"fast\", lasts = \"20s\" }, { name = \"slow\", lasts = \"40s\" }]\nseed = 1";
    let record = wanting_arrivals(&text.replace("seed = 1", phases)).expect("it runs");
    for flow in &record.flows {
        let millis: Vec<u64> = flow.arrivals.iter().map(|at| at.as_nanos() / 1_000_000).collect();
        let steps: Vec<u64> = millis.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let change = steps.iter().position(|step| *step != 1000).expect("the second phase");
        assert!(steps[change + 1..].iter().all(|step| *step == 5000), "{steps:?}");
        // The second clock's phase is within 5 s; 60 ms to the server.
        assert!((20_000..=25_100).contains(&millis[change + 1]), "{millis:?}");
    }
}

#[test]
fn a_run_that_ends_by_itself_lasts_until_nothing_is_left_to_do() {
    let text = SMALL.replace("duration = \"60s\"", "time_limit = \"1h\"").replace("pace =", "exchanges = 3\npace =");
    let record = record(&text).expect("it ends");
    assert_eq!(answered(&record), [3, 3]);
    let elapsed = record.elapsed.as_secs();
    assert!(elapsed < 600, "{elapsed} s: the last exchange ends after 2.2 s, and EXCHANGE_LIFETIME is 247 s");
}

#[test]
fn a_message_longer_than_a_frame_is_refused_where_nothing_fragments() {
    let radio = "nodes = [{ name = \"client\", count = 2, place = { line = { spacing_m = 1 } } }, { name = \"hub\" }, \
                 { name = \"server\", count = 2, place = { line = { spacing_m = 1 } } }]\n\
                 [[radios]]\nname = \"field\"\nstations = [\"client\", \"server\"]\nmedium = \"udgm\"\n\
                 mac = { preset = \"ieee802154\" }\nrouting = { rpl = { root = \"server\", psdu_octets = 100 } }\n";
    let begin = SMALL.find("nodes = [").expect("nodes");
    let end = SMALL.find("[[links]]").expect("links");
    let text = |response: &str| {
        let traffic = format!("to = \"server\"\nresponse = \"{response}\"");
        format!("{}{radio}{}", &SMALL[..begin], SMALL[end..].replace("to = \"server\"", &traffic))
    };
    let error = record(&text("200B")).expect_err("127 B");
    assert!(error.starts_with("traffic.polls.response: 200 B do not fit into a frame of the radio `field`"), "{error}");
    assert!(Document::from_toml(&text("100B")).is_ok());
    let fragmenting = text("200B").replace("\"ieee802154\" }", "\"ieee802154\", sixlowpan = {} }");
    assert!(Document::from_toml(&fragmenting).is_ok());
}

#[test]
fn a_mote_that_the_border_router_has_no_room_for_gets_no_answer() {
    let radio = "nodes = [{ name = \"client\" }, { name = \"mote\", count = 3, place = { line = { spacing_m = 5 } } }, \
                 { name = \"server\", count = 2 }]\n\
                 [[links]]\nname = \"slip\"\nbetween = [\"client\", \"mote[0]\"]\nwire = {}\n\
                 [[links]]\nname = \"behind\"\nbetween = [\"mote[1..3]\", \"server\"]\nwire = {}\n\
                 [[radios]]\nname = \"field\"\nstations = [\"mote\"]\nmedium = \"udgm\"\n\
                 mac = { preset = \"ieee802154\" }\nrouting = { rpl = { root = \"mote[0]\", psdu_octets = 100 } }\n\
                 [[traffic]]\nname = \"polls\"\nfrom = \"client\"\nto = \"server\"\npairs = \"all\"\nexchanges = 1\n";
    let (begin, end) = (SMALL.find("nodes = [").expect("nodes"), SMALL.find("[endpoint]").expect("an endpoint"));
    let text = format!("{}{radio}{}", &SMALL[..begin], &SMALL[end..]);
    let of = |text: &str| answered(&record(text).expect("a run"));
    assert_eq!(of(&text), [1, 1]);
    let few = text.replace("psdu_octets = 100", "psdu_octets = 100, routes = 1");
    let turned = few.replace("[\"mote[1..3]\", \"server\"]", "[\"server\", \"mote[1..3]\"]");
    assert_ne!(few, turned);
    let (few, turned) = (of(&few), of(&turned));
    assert_eq!(few.iter().sum::<u64>(), 1, "{few:?}");
    assert_eq!(few, turned, "a link both ways is the same from either end");
}

#[test]
fn requests_that_wait_in_the_client_count_from_when_they_were_due() {
    // An exchange takes 200 ms, and ten a second are due at each client.
    let overloaded = SMALL.replace("interval = \"1s\"", "interval = \"100ms\"");
    let record = record(&overloaded).expect("it runs");
    let all = Selection { scheme: 0, traffic: None };
    let endpoints = Endpoints { max_retransmit: 4, features: None };
    let of = |metric: Metric| sample(&metric, &record, all, endpoints);
    let longest = |metric: Metric| match of(metric) {
        Sample::Each(nanos, _) => nanos.into_iter().max().expect("exchanges") / 1_000_000,
        other => panic!("{other:?}"),
    };
    assert_eq!(longest(Metric::ExchangeTime), 200);
    assert!((29_000..=30_200).contains(&longest(Metric::DueTime)), "half of 60 s");
    let due: u64 = record.flows.iter().map(|flow| flow.tally.generated).sum();
    assert!((1200..=1202).contains(&due), "{due}");
    assert_eq!(of(Metric::Offered), Sample::Ratio(due as f64, 60.0));
    let done: u64 = answered(&record).into_iter().sum();
    assert_eq!(of(Metric::Delivered), Sample::Ratio(100.0 * done as f64, due as f64));
}

#[test]
fn a_server_answers_each_traffic_by_its_own_settings() {
    let other = "\n[[traffic]]\nname = \"puts\"\nfrom = \"client\"\nto = \"server\"\nmethod = \"PUT\"\n\
                 request = \"40B\"\nresponse = \"60B\"\nexchanges = 3\nstart = \"500ms\"\n";
    let text = format!("{SMALL}{other}");
    let record = wanting_arrivals(&text).expect("it runs");
    assert_eq!(answered(&record), [60, 60, 3, 3]);
    let resources: Vec<usize> = record.flows.iter().map(|flow| flow.resource).collect();
    assert_eq!(resources, [0, 0, 1, 1]);
    let arrivals: Vec<usize> = record.flows.iter().map(|flow| flow.arrivals.len()).collect();
    assert_eq!(arrivals, [60, 60, 3, 3]);
    assert_eq!(record.flows[2].request_bytes, 40 + 28, "its path is part of its size");
    let error = wanting_arrivals(&text.replace("40B", "9B")).expect_err("there is no room for a path");
    assert!(error.starts_with("traffic.puts: its server answers other traffic differently"), "{error}");
}

#[test]
fn a_body_takes_a_round_trip_for_each_block() {
    let blocks = |keys: &str| {
        let text = SMALL.replace("to = \"server\"\n", &format!("to = \"server\"\nexchanges = 2\n{keys}"));
        let record = record(&text).expect("it runs");
        let times: Vec<u128> =
            record.flows[0].exchanges.iter().map(|one| (one.ended - one.began).as_millis()).collect();
        assert!(record.flows[0].exchanges.iter().all(|one| one.answered && one.transmissions == 1));
        times
    };
    assert_eq!(blocks("block = \"64B\"\nresponse = \"640B\"\n"), [2000, 2000]);
    assert_eq!(blocks("block = \"64B\"\nmethod = \"PUT\"\nrequest = \"640B\"\n"), [2000, 2000]);
}

#[test]
fn a_cell_that_cannot_run_is_refused_before_any_run_with_its_point_and_line() {
    let sweep = "[[sweep]]\nname = \"server\"\npath = \"traffic.polls.to\"\nvalues = [\"server\", \"client[0]\"]\n";
    let text = format!("{SMALL}\n{sweep}");
    let experiment =
        Experiment::read(&text, &|_| Err(FileError::NotFound), &Controllers::new()).expect("each reference exists");
    let error = experiment.check().expect_err("a client asks itself");
    assert_eq!(error.to_string(), "sweep (server client[0]): traffic.polls: a node would ask itself");
    assert_eq!(&text[error.span().expect("the value")], "\"client[0]\"");
}
