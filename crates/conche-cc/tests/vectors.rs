//! Checks every controller against event traces with expected timers.

use conche_cc::any::{ALL, Named};
use conche_conformance::vectors::{Unusable, check, schema, subject};
use serde_json::{Value, json};

const VECTORS: &str = include_str!("data/controller-vectors.json");
const TEMPER_VECTORS: &str = include_str!("data/temper-vectors.json");
/// `controller,vectors,version,hash`; `-` without vectors.
const VERSIONS: &str = include_str!("data/versions.csv");

#[test]
fn every_vector_passes() {
    for (file, vectors) in [(VECTORS, 187), (TEMPER_VECTORS, 84)] {
        let report = check(file).expect("the project's own file is usable");
        let failures: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "{} failed:\n{}", report.failed, failures.join("\n"));
        assert_eq!(report.passed, vectors);
    }
}

#[test]
fn a_change_of_vectors_asks_for_a_version() {
    let rows: Vec<&str> = VERSIONS.lines().skip(1).collect();
    let wrong = ALL.iter().filter_map(|named| {
        let row = rows.iter().find(|row| row.split(',').next() == Some(named.name()));
        let expected = row_of(named, row.and_then(|row| row.split(',').nth(1)).unwrap_or("-"));
        (row != Some(&expected.as_str())).then_some(expected)
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(
        wrong.is_empty(),
        "the version or the vectors of a controller changed. If its behaviour changed, raise its `version` in \
         src/any.rs: results on disk are reused for the same version only. Then run this test again, and put these \
         lines into tests/data/versions.csv:\n{}",
        wrong.join("\n")
    );
    assert_eq!(rows.len(), ALL.len(), "tests/data/versions.csv has a row of each controller, and no other");
}

fn row_of(named: &Named, vectors: &str) -> String {
    let key = format!(r#""algo": "{vectors}""#);
    let own = [VECTORS, TEMPER_VECTORS].into_iter().flat_map(str::lines).filter(|line| line.contains(&key));
    let own: Vec<&str> = own.map(|line| line.trim_end_matches([',', ']', '}'])).collect();
    // FNV-1a.
    let hashed = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = match &own[..] {
        [] => "-".to_owned(),
        own => format!("{:016x}", own.join("\n").bytes().fold(0xcbf2_9ce4_8422_2325, hashed)),
    };
    format!("{},{vectors},{},{hash}", named.name(), named.version().unwrap_or_default())
}

#[test]
fn a_change_of_any_expectation_fails() {
    let own = |file| serde_json::from_str::<schema::File>(file).expect("the project's own file is usable");
    for mut vector in [own(VECTORS), own(TEMPER_VECTORS)].into_iter().flat_map(|file| file.vectors) {
        for event in 0..vector.events.len() {
            let keys: Vec<String> = vector.events[event].expect.keys().cloned().collect();
            for key in keys {
                let original = vector.events[event].expect[&key].clone();
                vector.events[event].expect.insert(key.clone(), changed(&original));
                let failures = subject::check(&vector).expect("usable");
                assert_eq!(failures.len(), 1, "{} event {event}: {key} {original} is not checked", vector.id);
                vector.events[event].expect.insert(key, original);
            }
        }
    }
}

fn changed(expected: &Value) -> Value {
    match expected {
        Value::Null => json!(1),
        Value::Bool(flag) => json!(!flag),
        Value::Number(number) => json!(number.as_f64().expect("a float") * 1.02 + 2.5),
        other => json!(format!("not {other}")),
    }
}

fn file(algo: &str, events: &str) -> String {
    format!(r#"{{"vectors": [{{"id": "own", "algo": "{algo}", "params": {{}}, "events": [{events}]}}]}}"#)
}

fn failed_keys(algo: &str, events: &str) -> Vec<String> {
    let report = check(&file(algo, events)).expect("usable");
    report.failures.into_iter().map(|failure| failure.key).collect()
}

#[test]
fn a_wrong_expectation_fails() {
    let start = |expect| failed_keys("default", &format!(r#"{{"t": 0, "ev": "start", "u": 0, "expect": {expect}}}"#));
    assert_eq!(start(r#"{"timeout_ms": 2000, "base_ms": 2000}"#), [""; 0]);
    assert_eq!(start(r#"{"timeout_ms": 2013, "base_ms": 2000}"#), ["timeout_ms"]);
    assert_eq!(start(r#"{"timeout_ms": 2000, "base_ms": 1987}"#), ["base_ms"]);
    assert_eq!(start(r#"{"gave_up": true}"#), ["gave_up"]);
    assert_eq!(start(r#"{"state": "FAST"}"#), ["state"], "the default has no state to show");
}

#[test]
fn an_expectation_that_is_not_known_makes_the_file_unusable() {
    let unknown = file("default", r#"{"t": 0, "ev": "start", "expect": {"timeout": 2000}}"#);
    let error = check(&unknown).expect_err("timeout is not timeout_ms").to_string();
    assert!(error.contains("own: event 0") && error.contains("timeout_ms"), "{error}");
}

#[test]
fn unusable_vector_files_give_the_reason() {
    assert!(matches!(check("{"), Err(Unusable::Malformed(_))));
    assert!(matches!(check(r#"{"vectors": []}"#), Err(Unusable::Empty)));
    let unknown = check(&file("cubic", "")).expect_err("no such algorithm").to_string();
    assert!(unknown.contains("cubic") && unknown.contains("cocoa03"), "{unknown}");
    let reversed = file("default", r#"{"t": 0, "ev": "ack", "rtx": 0}"#);
    assert!(check(&reversed).expect_err("nothing runs").to_string().contains("exchange 0 is not running"));
    let misspelt = file("default", r#"{"t": 0, "ev": "start", "expects": {}}"#);
    assert!(check(&misspelt).expect_err("a field too many").to_string().contains("expects"));
}

/// draft-ietf-core-cocoa-03 §5: an RTO apart, every 8th as Confirmable.
#[test]
fn non_confirmable_messages_are_spaced_by_the_rto_at_the_time_of_sending() {
    let events = r#"
        {"t": 0, "ev": "start", "u": 0},
        {"t": 300, "ev": "ack", "rtx": 0, "expect": {"next_base_ms": 1450}},
        {"t": 300, "ev": "non_submit", "expect": {"send_at_ms": 300, "as_con": false}},
        {"t": 301, "ev": "non_submit", "expect": {"send_at_ms": 1750, "as_con": false}},
        {"t": 302, "ev": "non_submit", "expect": {"send_at_ms": 3200, "as_con": false}},
        {"t": 9000, "ev": "non_submit", "expect": {"send_at_ms": 9000, "as_con": false}},
        {"t": 9000, "ev": "non_submit", "expect": {"send_at_ms": 10450, "as_con": false}},
        {"t": 9000, "ev": "non_submit", "expect": {"send_at_ms": 11900, "as_con": false}},
        {"t": 9000, "ev": "non_submit", "expect": {"send_at_ms": 13350, "as_con": false}},
        {"t": 9000, "ev": "non_submit", "expect": {"send_at_ms": 14800, "as_con": true}},
        {"t": 9000, "ev": "non_submit", "expect": {"send_at_ms": 16250, "as_con": false}}"#;
    assert_eq!(failed_keys("cocoa03", events), [""; 0]);
}

/// RFC 7252 §4.7: after 100 bytes to a silent peer, 100 s without a message.
#[test]
fn without_an_rto_a_silent_peer_gets_the_probing_rate() {
    let events = r#"
        {"t": 0, "ev": "non_submit", "size": 100, "expect": {"send_at_ms": 0, "as_con": false}},
        {"t": 10, "ev": "non_submit", "size": 50, "expect": {"send_at_ms": 100000, "as_con": false}},
        {"t": 20, "ev": "non_submit", "size": 50, "expect": {"send_at_ms": 150000, "as_con": false}}"#;
    assert_eq!(failed_keys("default", events), [""; 0]);
}
