//! A bulk transfer beside CoAP.

use super::*;
use conche_lab::scenario::{Controllers, Transferred};
use conche_lab::trial::Selection;

fn downloading() -> String {
    let nodes = "{ name = \"server\", count = 2 }, { name = \"source\" }, { name = \"sink\" }, { name = \"modem\" }]";
    let links = "[[links]]\nname = \"down\"\nbetween = [\"modem\", \"hub\"]\nwire = { rate = \"30kbit/s\", delay = \"100ms\", \
                 queue = \"50000B\" }\n[[links]]\nname = \"to-source\"\nbetween = [\"source\", \"modem\"]\n\
                 [[links]]\nname = \"to-sink\"\nbetween = [\"sink\", \"hub\"]\n\
                 [[traffic]]\nname = \"download\"\nfrom = \"source\"\nto = \"sink\"\ncontroller = \"linux\"\n\
                 sender = { tcp = { segments = 200, payload = \"536B\", header = \"12B\", window = 64, min_rto = \"1s\", \
                 max_timeouts = 15 } }\n[[traffic]]";
    let text = SMALL.replace("{ name = \"server\", count = 2 }]", nodes).replacen("[[traffic]]", links, 1);
    text.replace("between = [\"hub\", \"server\"]", "between = [\"modem\", \"server\"]")
        .replace("duration = \"60s\"", "duration = \"300s\"")
}

#[test]
fn a_download_fills_the_link_and_counts_for_its_own_traffic_only() {
    let record = record(&downloading()).expect("it runs");
    let [download, polls @ ..] = &record.flows[..] else { panic!("{:?}", record.flows) };
    let seconds = (download.tally.done.expect("it is done") - download.start).as_secs_f64();
    // The transfer takes 30.7 s at 30 kbit/s, the polls little.
    assert!((30.7..50.0).contains(&seconds), "{seconds} s");
    assert_eq!(download.transfer.as_ref().map(|transfer| transfer.bytes), Some(200 * 536));
    assert!(polls.len() == 2 && polls.iter().all(|flow| flow.tally.answered > 100), "{:?}", answered(&record));
    let all = Selection { scheme: 0, traffic: None };
    assert_eq!(record.flows_of(all).count(), 2, "what is no endpoint counts where it is meant");
}

#[test]
fn a_download_that_takes_longer_than_a_run_may_is_an_error_and_one_that_is_done_is_none() {
    let limited = |limit: &str| {
        let text = downloading().replace("pace = { every = { interval = \"1s\", spread = false } }", "exchanges = 3");
        record(&text.replace("duration = \"300s\"", &format!("time_limit = \"{limit}\"")))
    };
    let error = limited("20s").expect_err("30 s are needed");
    assert!(error.starts_with("after 20s of virtual time client 0 has completed 0 of 1"), "{error}");
    let record = limited("300s").expect("it is done");
    assert!(record.flows.iter().all(|flow| flow.tally.done.is_some()), "{:?}", answered(&record));
}

#[test]
fn a_node_that_starts_anew_is_no_end_of_a_transfer() {
    let rebooting = |node: &str| {
        let change = format!("[[changes]]\nat = \"10s\"\nevent = {{ reboot = {{ nodes = \"{node}\" }} }}\n[endpoint]");
        record(&downloading().replace("[endpoint]", &change))
    };
    for end in ["source", "sink"] {
        let error = rebooting(end).expect_err(end);
        assert!(error.starts_with("changes: a node that starts anew has no TCP transfer to go on with"), "{error}");
    }
    assert!(rebooting("client[0]").is_ok());
}

#[test]
fn beside_radios_a_download_has_the_duration_of_its_run() {
    let radio = "{ name = \"mote\", count = 2, place = { line = { spacing_m = 5 } } }, { name = \"source\" }";
    let field = "[[radios]]\nname = \"field\"\nstations = [\"mote\"]\nmedium = \"udgm\"\nmac = { preset = \"ieee802154\" }\n\
                 routing = { rpl = { root = \"mote[0]\", psdu_octets = 100 } }\n[[links]]\nname = \"down\"";
    let text = downloading().replace("{ name = \"source\" }", radio).replacen("[[links]]\nname = \"down\"", field, 1);
    let text = text.replace("pace = { every = { interval = \"1s\", spread = false } }", "exchanges = 3");
    record(&text).expect("a duration is enough");
    let error = record(&text.replace("duration = \"300s\"", "time_limit = \"300s\"")).expect_err("who ends it?");
    assert!(error.starts_with("traffic: beside radios a run with a time_limit ends with its exchanges"), "{error}");
}

#[test]
fn a_node_has_one_end_of_a_transfer_and_nothing_else() {
    for (from, to) in [("to = \"sink\"", "to = \"client[0]\""), ("from = \"source\"", "from = \"server[0]\"")] {
        let text = downloading();
        assert!(text.contains(from), "{from}");
        let error = record(&text.replace(from, to)).expect_err(to);
        assert!(error.starts_with("traffic: a node has one end of a TCP transfer, and nothing else"), "{error}");
    }
    let error = record(&downloading().replace("536B", "1500B")).expect_err("1512 B");
    assert!(error.starts_with("traffic.download.sender.tcp.payload: 1500B with its header is longer"), "{error}");
    let error = record(&downloading().replace("12B", "4B")).expect_err("5 B");
    assert!(error.starts_with("traffic.download.sender.tcp.header: 4B does not hold the numbers"), "{error}");
}

#[test]
fn a_download_that_is_not_done_has_a_rate_until_the_end_of_the_run() {
    let rates = |duration: &str| {
        let record = record(&downloading().replace("duration = \"300s\"", duration)).expect("it runs");
        [Transferred::Goodput, Transferred::Arrived].map(|metric| {
            let download = Selection { scheme: 0, traffic: Some(0) };
            let endpoints = Endpoints { max_retransmit: 4, features: None };
            let Sample::OfFlows(flows) = sample(&Metric::Transfer(metric), &record, download, endpoints) else {
                panic!("no sample of flows");
            };
            flows[0]
        })
    };
    let [goodput, arrived] = rates("duration = \"20s\"");
    assert_eq!(goodput, None);
    assert!((20_000.0..30_000.0).contains(&arrived.expect("some arrived")), "{arrived:?}");
    let [goodput, arrived] = rates("duration = \"300s\"");
    assert!(goodput.is_some());
    assert_eq!(goodput, arrived);
}

#[test]
fn rates_of_a_file_are_those_of_the_link_from_a_random_time_or_the_one_that_is_written() {
    // 30 kbit/s for 10 s, and an outage of 10 s.
    let file = |_: &str| Ok::<_, FileError>("time_s,bit_per_s\n0,30000\n10,0\n20,0\n".to_owned());
    let arrived = |start: &str, seed: u64| {
        let trace = format!("trace = {{ rates = {{ csv = \"lte.csv\" }}{start} }}\nwire = {{ delay = \"100ms\"");
        let text = downloading().replace("wire = { rate = \"30kbit/s\", delay = \"100ms\"", &trace);
        let document =
            Document::read(&text.replace("duration = \"300s\"", "duration = \"40s\""), &file, &Controllers::new());
        let replication = Replication { index: 0, count: 1, seed };
        let document = document.unwrap_or_else(|error| panic!("{error}"));
        let ran = run(&document.cells()[0], RecordOptions::default(), replication, &Routes::default());
        ran.expect("it runs").outcome.flows[0].transfer.as_ref().map_or(0, |transfer| transfer.arrived)
    };
    assert_eq!(arrived("", 1), arrived("", 1), "the same seed");
    assert_ne!(arrived("", 1), arrived("", 2), "another time in the trace");
    let fixed = arrived(", start = \"0s\"", 1);
    assert_ne!(fixed, arrived(", start = \"10s\"", 1));
    // 20 s of 30 kbit/s carry at most 73 kB of payload.
    assert!((10_000..73_000).contains(&fixed), "{fixed} B");
}
