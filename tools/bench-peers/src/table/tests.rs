//! Tables of a few measurements.

use super::*;

fn about() -> About {
    let machine = Machine { cores: 2, processor: "a processor".to_owned(), kernel: "6.1".to_owned() };
    let extent = Extent { rounds: 1, seconds: 2.0, warm_up: 1.0, known: 100, introducing: 1.0 };
    let versions = vec![(Peer::Raw, "–".to_owned()), (Peer::Conche, "0.1.0".to_owned())];
    About { machine, date: "2026-01-31".to_owned(), extent, versions }
}

fn results() -> Results {
    let mut results = Results::default();
    let sample =
        |per_s: f64, cpu_us: f64| Sample { per_s, cpu_us: Some(cpu_us), p50_us: Some(123.4), ..Sample::default() };
    results.add(Load::Many, Peer::Raw, Sample { generator: 0.99, ..sample(200_000.0, 2.0) });
    results.add(Load::Many, Peer::Conche, sample(100_000.0, 5.0));
    results.add(Load::Many, Peer::Libcoap, Sample { foreign: 0.2, ..sample(40_000.0, 20.0) });
    let known = Sample { known: Some(44_600.0), bytes_per_peer: Some(456.0), ..sample(90_000.0, 6.0) };
    results.add(Load::Known, Peer::Conche, known);
    results.add(Load::Blocks, Peer::Conche, sample(150e6, 400.0));
    results
}

#[test]
fn ratios_come_first_and_doubtful_values_are_marked_and_explained() {
    let text = page(&results(), &about()).to_string();
    let expected = "\
| server  | CPU ÷ raw UDP | requests/s ÷ raw UDP | requests/s ÷ libcoap | requests/s | CPU µs/request | p50 µs | p99 µs |
| ------- | ------------: | -------------------: | -------------------: | ---------: | -------------: | -----: | -----: |
| raw UDP |          1.00 |                 1.00 |                 5.00 |    200000† |           2.00 |    123 |      – |
| conche  |          2.50 |                 0.50 |                 2.50 |     100000 |           5.00 |    123 |      – |
| libcoap |            10 |                 0.20 |                 1.00 |     40000~ |           20.0 |    123 |      – |
";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("\n† the measuring") && text.contains("\n~ other processes") && !text.contains('‡'),
        "{text}"
    );
    assert!(text.contains("on 2026-01-31 with 2 cores of a processor, Linux 6.1: conche 0.1.0."), "{text}");
}

#[test]
fn knowing_many_peers_is_compared_with_knowing_none() {
    let text = table(&results(), Load::Known);
    assert_eq!(cells(&text, "conche"), ["0.90", "–", "90000", "6.00", "44600", "456"]);
    let page = page(&results(), &about()).to_string();
    assert!(page.contains("\nFor 1 s, or until 100 peers were known"), "{page}");
}

#[test]
fn oscore_is_compared_with_plain_coap_and_with_californium() {
    let mut results = results();
    for (peer, per_s) in [(Peer::Conche, 25_000.0), (Peer::Californium, 10_000.0)] {
        results.add(Load::Oscore, peer, Sample { per_s, cpu_us: Some(20.0), ..Sample::default() });
    }
    let text = table(&results, Load::Oscore);
    assert!(text.contains("requests/s ÷ Californium") && !text.contains("libcoap"), "{text}");
    assert_eq!(cells(&text, "conche"), ["4.00", "0.25", "2.50", "25000", "20.0", "–", "–"]);
    assert_eq!(cells(&text, "Californium"), ["–", "–", "1.00", "10000", "20.0", "–", "–"]);
}

#[test]
fn the_memory_of_a_session_stands_beside_how_fast_sessions_open() {
    let mut results = results();
    let sample = Sample { per_s: 17_000.0, bytes_per_session: Some(7530.4), ..Sample::default() };
    results.add(Load::Handshakes, Peer::Conche, sample);
    let text = page(&results, &about()).to_string();
    assert_eq!(cells(&text[text.find("sessions/s").expect("the table")..], "conche").last(), Some(&"7530"));
    assert!(text.contains("\nbytes/session: ") && text.contains("of 2000 idle ones"), "{text}");
}

fn cells<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let row = text.lines().find_map(|line| line.strip_prefix("| ")?.strip_prefix(name)).expect("a row");
    row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn block_transfers_are_reported_in_megabytes_per_second() {
    let text = table(&results(), Load::Blocks);
    assert!(text.contains("MB/s") && text.contains(" 150 |"), "{text}");
}

#[test]
fn unmeasured_loads_have_no_table() {
    let text = page(&results(), &about()).to_string();
    assert_eq!(text.matches("### ").count(), 3, "{text}");
}

#[test]
fn a_program_reads_medians_ratios_and_rounds() {
    let text = json(&results(), &about()).expect("it can be written");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let conche = &document["rows"][1];
    assert_eq!((&conche["load"], &conche["peer"]), (&"many".into(), &"conche".into()));
    assert_eq!(conche["cpu_over_raw"], 2.5);
    assert_eq!(conche["rounds"][0]["per_s"], 100_000.0);
    assert_eq!(document["rows"][2]["doubts"][0], "disturbed");
    assert_eq!(document["about"]["machine"]["kernel"], "6.1");
}
