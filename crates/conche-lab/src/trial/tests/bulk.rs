//! A bulk transfer over wires, beside CoAP.

use super::*;
use crate::trial::Selection;

/// A download of 200 segments over a link of 30 kbit/s, from where the servers are to where the clients are.
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
fn a_download_takes_what_the_link_has_and_is_told_of_by_its_own_traffic_only() {
    let record = record(&downloading()).expect("it runs");
    let [download, polls @ ..] = &record.flows[..] else { panic!("{:?}", record.flows) };
    let seconds = (download.tally.done.expect("it is done") - download.start).as_secs_f64();
    // 200 segments of 576 B, in frames of 30 kbit/s, take 30.7 s; the polls of two clients take little of it.
    assert!((30.7..50.0).contains(&seconds), "{seconds} s");
    assert_eq!(download.transfer.as_ref().map(|transfer| transfer.bytes), Some(200 * 536));
    assert!(polls.len() == 2 && polls.iter().all(|flow| flow.tally.answered > 100), "{:?}", answered(&record));
    let all = Selection { scheme: 0, traffic: None };
    assert_eq!(record.flows_of(all).count(), 2, "what is no endpoint counts where it is meant");
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
}
