//! `--event-log` and `--capture`.

#![allow(missing_docs, reason = "a test")]

mod common;

use std::fs;
use std::path::Path;

use common::{conche, listening, run};
use serde_json::Value;

/// The records of an event log.
fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a log");
    let records = text.split('\x1e').skip(1);
    records.map(|record| serde_json::from_str(record).expect("JSON")).collect()
}

#[test]
fn a_request_is_recorded_at_both_ends_in_files_that_are_complete_when_the_commands_have_ended() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [log, capture, at_server] =
        ["client.sqlog", "client.pcapng", "server.sqlog"].map(|name| directory.path().join(name));
    let mut serve = conche();
    serve.args(["serve", "--demo", "--bind", "127.0.0.1:0", "--event-log"]).arg(&at_server);
    let (server, address) = listening(&mut serve);
    let uri = format!("coap://{address}/test");
    // A response 4.04 is a failure, which is what one wants to look into.
    for (path, status) in [(uri.clone(), 0), (format!("{uri}/missing"), 4)] {
        let ended = run(conche().args(["get", &path, "--event-log"]).arg(&log).arg("--capture").arg(&capture));
        assert_eq!(ended.status, Some(status), "{}", ended.stderr);
        let records = records(&log);
        assert_eq!(records[0]["trace"]["vantage_point"]["type"], "client");
        let names: Vec<_> = records[1..].iter().map(|record| record["name"].as_str().expect("a name")).collect();
        assert_eq!((names[0], names.last().copied()), ("coap:message_sent", Some("coap:exchange_updated")));
        // A section, an interface and two packets.
        let capture = fs::read(&capture).expect("a capture");
        assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        assert!(capture.len() > 200);
    }
    server.signal("TERM");
    assert_eq!(server.status(), Some(0));
    let records = records(&at_server);
    assert_eq!(records[0]["trace"]["vantage_point"]["type"], "server");
    let received = records.iter().filter(|record| record["name"] == "coap:message_received").count();
    assert_eq!(received, 2);
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_anything_is_sent() {
    for option in ["--event-log", "--capture"] {
        let missing = run(conche().args(["get", "coap://127.0.0.1:1/", option, "/missing/directory/file"]));
        assert_eq!(missing.status, Some(1));
        for part in ["/missing/directory/file cannot be written", "a directory that exists"] {
            assert!(missing.stderr.contains(part), "{}", missing.stderr);
        }
    }
    let same = run(conche().args(["get", "coap://127.0.0.1:1/", "--event-log", "a", "--capture", "a"]));
    assert_eq!(same.status, Some(2), "{}", same.stderr);
}
