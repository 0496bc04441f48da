//! The tables of a few measurements.

use super::*;

fn about() -> About {
    let machine = Machine { cores: 2, processor: "a processor".to_owned(), kernel: "6.1".to_owned() };
    let extent = Extent { rounds: 1, seconds: 2.0, warm_up: 1.0, known: 100 };
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
    results.add(Load::Known, Peer::Conche, Sample { bytes_per_peer: Some(456.0), ..sample(90_000.0, 6.0) });
    results.add(Load::Blocks, Peer::Conche, sample(150e6, 400.0));
    results
}

#[test]
fn ratios_come_first_and_doubts_are_marked_and_told() {
    let text = text(&results(), &about());
    let expected = "\
| server  | CPU ÷ raw UDP | requests/s ÷ raw UDP | requests/s ÷ libcoap | requests/s | CPU µs/request | p50 µs | p99 µs |
| ------- | ------------: | -------------------: | -------------------: | ---------: | -------------: | -----: | -----: |
| raw UDP |          1.00 |                 1.00 |                 5.00 |    200000† |           2.00 |    123 |      – |
| conche  |          2.50 |                 0.50 |                 2.50 |     100000 |           5.00 |    123 |      – |
| libcoap |            10 |                 0.20 |                 1.00 |     40000~ |           20.0 |    123 |      – |
";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("\n† the generator") && text.contains("\n~ others") && !text.contains('‡'), "{text}");
    assert!(text.contains("on 2026-01-31 with 2 cores of a processor, Linux 6.1: conche 0.1.0."), "{text}");
}

#[test]
fn knowing_many_peers_is_compared_with_knowing_none() {
    let text = table(&results(), Load::Known);
    let row = text.lines().last().expect("a row");
    let cells: Vec<_> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["conche", "0.90", "–", "90000", "6.00", "456"]);
}

#[test]
fn blocks_are_told_in_megabytes() {
    let text = table(&results(), Load::Blocks);
    assert!(text.contains("MB/s") && text.contains(" 150 |"), "{text}");
}

#[test]
fn what_was_not_measured_has_no_table() {
    let text = text(&results(), &about());
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
