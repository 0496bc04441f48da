//! `conche bench` over `coaps`: sessions opened before the test or as its load, and errors.
#![cfg(unix)]

use serde_json::{Value, json};

use crate::common::Ended;
use crate::security::{Files, ask, lamp, serve};

fn bench(files: &Files, key: &str, uri: &str, arguments: &[&str]) -> Ended {
    let security = ["-u", "lamp", "--psk-key-file", &files.path(key)];
    ask(&[&["bench", "-q", "--json", uri][..], &security, arguments].concat())
}

fn report(ended: &Ended) -> Value {
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("JSON")
}

#[test]
fn each_endpoint_has_one_session_that_is_open_before_the_test() {
    let (files, _server, address) = lamp();
    let uri = format!("coaps://{address}/test");
    let report = report(&bench(&files, "lamp.key", &uri, &["-n", "400", "-c", "5", "-w", "4", "--threads", "2"]));
    assert_eq!((&report["answered"], &report["codes"]["2.05"]), (&json!(400), &json!(400)));
    let handshakes = &report["handshakes"];
    assert_eq!(
        (&handshakes["opened"], &handshakes["failed"], &handshakes["lost"]),
        (&json!(5), &json!(0), &json!(0)),
        "{handshakes}"
    );
    for name in ["per_s", "bytes"] {
        assert!(handshakes[name].as_f64() > Some(0.0), "{name} of {handshakes}");
    }
    assert!(handshakes["time_ms"]["p50"].is_number());
    // With a large body and blocks, too.
    let ended = bench(&files, "lamp.key", &format!("coaps://{address}/large"), &["-n", "20", "-c", "2"]);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
}

#[test]
fn a_load_of_handshakes_opens_a_session_for_each_request() {
    let (files, _server, address) = lamp();
    let ended = bench(&files, "lamp.key", &format!("coaps://{address}/test"), &["--handshakes", "-n", "60", "-c", "4"]);
    let report = report(&ended);
    assert_eq!((&report["answered"], &report["handshakes"]["opened"]), (&json!(60), &json!(60)), "{report}");
    assert_eq!((&report["handshakes"]["failed"], &report["handshakes"]["lost"]), (&json!(0), &json!(0)));
}

#[test]
fn credentials_are_taken_from_the_file_of_the_user() {
    let (files, _server, address) = lamp();
    let key = files.path("lamp.key");
    let entry = format!("[[credentials]]\nuri = \"coaps://*:*\"\npsk-identity = \"lamp\"\npsk-key-file = \"{key}\"\n");
    let config = files.secret("conche.toml", entry);
    let uri = format!("coaps://{address}/test");
    assert_eq!(ask(&["bench", "-q", &uri, "-n", "10", "--config", &config]).status, Some(0));
    let none = ask(&["bench", &uri, "-n", "10"]);
    assert_eq!(none.status, Some(2));
    assert!(none.stderr.contains("coaps:// needs a pre-shared key"), "{}", none.stderr);
}

#[test]
fn a_load_test_without_a_session_ends_at_once_with_the_reason() {
    let (files, _server, address) = lamp();
    let uri = format!("coaps://{address}/test");
    for arguments in [&["-n", "10"][..], &["--handshakes", "-n", "10"]] {
        let wrong = bench(&files, "other.key", &uri, arguments);
        assert_eq!(wrong.status, Some(6), "{}", wrong.stderr);
        assert!(wrong.stderr.contains("there is no session with the server"), "{}", wrong.stderr);
    }
    let nobody = bench(&files, "lamp.key", "coaps://127.0.0.1:1/", &["-n", "10"]);
    assert_eq!(nobody.status, Some(3), "{}", nobody.stderr);
    assert!(nobody.stderr.contains("no response from"), "{}", nobody.stderr);
}

#[test]
fn requests_are_protected_from_end_to_end_and_the_numbers_go_on_where_they_ended() {
    let files = Files::new();
    let ([client, server], others) = (files.pair(), Files::new());
    let [other_client, other_server] = others.pair();
    let (_server, address) = serve(&["--oscore", &server, "--oscore", &other_server]);
    let uri = format!("coap://{address}/test");
    // The second run continues the sequence numbers of the first, and one request in between fits.
    for (requests, threads) in [("400", "1"), ("300", "2")] {
        let keys = ["--oscore", &client, "--oscore", &other_client, "--threads", threads];
        let ended = ask(&[&["bench", "-q", "--json", &uri, "-w", "8", "-n", requests][..], &keys].concat());
        let report = report(&ended);
        assert_eq!(
            (&report["codes"]["2.05"].to_string(), &report["plan"]["endpoints"]),
            (&requests.to_owned(), &json!(2))
        );
        assert_eq!(ask(&["get", &uri, "--oscore", &client]).stdout, "hello");
    }
    let entry = format!("[[credentials]]\nuri = \"coap://*:*\"\noscore = \"{client}\"\n");
    let config = files.secret("conche.toml", entry);
    assert_eq!(ask(&["bench", "-q", &uri, "-n", "10", "--config", &config]).status, Some(0));
    assert_eq!(ask(&["bench", "-q", &uri, "-n", "10"]).status, Some(4), "without protection");
    let shared = ask(&["bench", "-q", &uri, "-c", "2", "--oscore", &client]);
    assert_eq!(shared.status, Some(2), "{}", shared.stderr);
    assert!(shared.stderr.contains("each needs one of its own"), "{}", shared.stderr);
}

#[test]
fn credentials_of_another_pair_end_a_load_at_once() {
    let (files, others) = (Files::new(), Files::new());
    let ([client, _], [_, server]) = (files.pair(), others.pair());
    let (_server, address) = serve(&["--oscore", &server]);
    let ended = ask(&["bench", "-q", &format!("coap://{address}/test"), "--oscore", &client]);
    assert_eq!(ended.status, Some(6), "{}", ended.stderr);
    assert!(ended.stderr.contains("the first request that was protected with OSCORE"), "{}", ended.stderr);
}

#[test]
fn an_invalid_handshake_load_is_refused() {
    let (files, _server, address) = lamp();
    let plain = ask(&["bench", &format!("coap://{address}/test"), "--handshakes"]);
    assert_eq!(plain.status, Some(2), "{}", plain.stderr);
    assert!(plain.stderr.contains("use a coaps URI"), "{}", plain.stderr);
    let shared = bench(&files, "lamp.key", &format!("coaps://{address}/test"), &["--handshakes", "-w", "2"]);
    assert_eq!(shared.status, Some(2), "{}", shared.stderr);
    assert!(shared.stderr.contains("one request at a time"), "{}", shared.stderr);
}
