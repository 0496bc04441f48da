//! The command's output for responses, messages and failures: on terminals, in pipes and as JSON.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Stdio;

use crate::common::{Ended, conche, listening, run, serve};
use serde_json::Value;

fn ask(arguments: &[&str]) -> Ended {
    run(conche().args(arguments))
}

fn uri(address: SocketAddr, path: &str) -> String {
    format!("coap://{address}{path}")
}

fn object(ended: &Ended) -> Value {
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    serde_json::from_str(&ended.stdout).expect("it is JSON")
}

/// Returns the object on standard error.
fn failure(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stderr).unwrap_or_else(|error| panic!("{error}: {}", ended.stderr))
}

#[test]
fn json_is_one_object_with_a_schema() {
    let (_server, address) = serve();
    let ended = ask(&["get", &uri(address, "/test"), "--json"]);
    let json = object(&ended);
    assert!(json["retransmissions"].is_u64(), "{json}");
    for (pointer, expected) in [
        ("/schema", "1"),
        ("/code", "\"2.05\""),
        ("/payload", "\"hello\""),
        ("/content_format/number", "0"),
        ("/content_format/name", "\"text/plain; charset=utf-8\""),
    ] {
        assert_eq!(json.pointer(pointer).map(ToString::to_string).as_deref(), Some(expected), "{pointer}");
    }
    let missing = ask(&["get", &uri(address, "/missing"), "--json"]);
    assert_eq!((missing.status, &object(&missing)["code"]), (Some(4), &"4.04".into()));
    assert_eq!(failure(&missing)["kind"], "response");
}

#[test]
fn json_of_a_failure_is_an_object_on_standard_error() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
    let there = uri(silent.local_addr().expect("it is bound"), "/");
    for (arguments, status, kind) in [
        (&["get", &there, "-B", "0.1", "--json"][..], 3, "timeout-or-unreachable"),
        (&["get", "http://h/", "--json"], 2, "usage"),
        (&["get", "--json", "--nope"], 2, "usage"),
        (&["put", &there, "-f", "/nonexistent", "--json"], 2, "usage"),
    ] {
        let ended = ask(arguments);
        let json = failure(&ended);
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(status), ""), "{arguments:?}");
        assert_eq!((&json["schema"], &json["kind"], &json["status"]), (&1.into(), &kind.into(), &status.into()));
        assert!(json["error"].as_str().is_some_and(|error| !error.is_empty()), "{json}");
    }
    let hint = &failure(&ask(&["get", &there, "-B", "0.1", "--json"]))["hint"];
    assert!(hint.as_str().is_some_and(|hint| hint.contains("coaps://")), "{hint}");
}

#[test]
fn verbose_shows_each_message_and_how_the_exchange_went() {
    let (_server, address) = serve();
    let ended = ask(&["get", &uri(address, "/test?unit=K"), "-v", "-A", "text", "-T", "0x0a0b"]);
    assert_eq!(ended.stdout, "hello");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let [sent, path, query, accept, received, ..] = lines.as_slice() else { panic!("{}", ended.stderr) };
    assert!(sent.starts_with("> ") && sent.contains(" CON GET [0x"), "{sent}");
    assert!(sent.contains(&format!("] token 0a0b to {address}, ")), "{sent}");
    assert_eq!(
        [*path, *query, *accept],
        [">   Uri-Path: \"test\"", ">   Uri-Query: \"unit=K\"", ">   Accept: 0 (text/plain; charset=utf-8)"]
    );
    assert!(received.starts_with("< ") && received.contains(" ACK 2.05 Content [0x"), "{received}");
    for part in [
        "\n<   Content-Format: 0 (text/plain; charset=utf-8)\n",
        "\n<   payload: \"hello\" (5 bytes)\n",
        "; no retransmission\n",
        "\n* retransmission timeout (RTO) of the last copy: ",
    ] {
        assert!(ended.stderr.contains(part), "{part:?} in {}", ended.stderr);
    }
    let traced = ask(&["get", &uri(address, "/test"), "-vv"]).stderr;
    assert!(traced.contains("id=1}: sent bytes=") && traced.contains("rto="), "{traced}");
}

#[test]
fn verbose_output_of_a_non_request_has_no_acknowledgement() {
    let (_server, address) = serve();
    let ended = ask(&["get", &uri(address, "/test"), "-v", "--non"]).stderr;
    assert!(ended.contains(" NON GET ") && ended.contains(" NON 2.05 Content "), "{ended}");
    assert!(ended.contains("\n* response after ") && !ended.contains("acknowledged"), "{ended}");
    assert!(!ended.contains("RTO"), "{ended}");
}

#[test]
fn the_response_code_of_a_change_is_printed_on_standard_error() {
    let (_server, address) = serve();
    let test = uri(address, "/test");
    for (arguments, told) in [
        (&["put", &test, "-e", "new"][..], "2.04 Changed\n"),
        (&["delete", &test], "2.02 Deleted\n"),
        (&["put", &test, "-e", "new"], "2.01 Created\n"),
        (&["put", &test, "-e", "new", "-q"], ""),
        (&["get", &test], ""),
    ] {
        let ended = ask(arguments);
        assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), told), "{arguments:?}");
    }
}

/// The rest of the payload, and whether a block is the last, is unknown before the pipe is read.
#[test]
fn a_pipe_is_sent_while_it_is_read_and_a_response_goes_to_its_file_while_it_comes() {
    let (_server, address) = serve();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (large, file) = (uri(address, "/large-update"), directory.path().join("came"));
    for lines in [1, 2_000] {
        let sent = "all is well, and nothing else\n".repeat(lines);
        let mut put = conche();
        put.args(["put", &large, "-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut put = put.spawn().expect("it starts");
        put.stdin.take().expect("a pipe").write_all(sent.as_bytes()).expect("it is read");
        let put = put.wait_with_output().expect("it ends");
        assert_eq!((put.status.code(), &put.stderr[..]), (Some(0), &b"2.04 Changed\n"[..]));
        let get = run(conche().args(["get", "-v", &large, "-o"]).arg(&file));
        assert_eq!((get.status, get.stdout.as_str()), (Some(0), ""));
        assert_eq!(std::fs::read_to_string(&file).expect("it was written"), sent);
        let blocks = get.stderr.contains("messages, since not all fits into one");
        assert_eq!(blocks, lines > 1, "the course of all messages is told: {}", get.stderr);
    }
    std::fs::remove_file(&file).expect("it is there");
    let get = run(conche().args(["get", &uri(address, "/nowhere"), "-o"]).arg(&file));
    assert!(get.status != Some(0) && !file.exists(), "an error is no file: {}", get.stderr);
}

/// Runs a command on a pseudo-terminal, and returns what it shows.
#[cfg(target_os = "linux")]
fn on_terminal(command: &str) -> String {
    let script = std::process::Command::new("script").args(["-qec", command, "/dev/null"]).output();
    let shown = script.expect("script is part of util-linux");
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn a_download_to_a_file_has_a_bar_on_a_terminal_unless_quiet_or_json() {
    let (_server, address) = serve();
    let mut relay = conche();
    let (_relay, slow) = listening(relay.args(["relay", &address.to_string(), "--delay", "20ms"]));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("large");
    let program = env!("CARGO_BIN_EXE_conche");
    let get = format!("{program} get -b 64 coap://{slow}/large -o {}", file.display());
    let shown = on_terminal(&get);
    for part in ["receiving", " of 1.95 KiB [", "/s"] {
        assert!(shown.contains(part), "{part} in {shown:?}");
    }
    for option in ["--quiet", "--json"] {
        let shown = on_terminal(&format!("{get} {option}"));
        assert!(!shown.contains("receiving"), "{option}: {shown:?}");
    }
    let piped = run(conche().args(["get", "-b", "64", &uri(slow, "/large"), "-o"]).arg(&file));
    assert_eq!((piped.status, piped.stderr.as_str()), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn tables_fit_the_terminal_and_are_a_line_for_each_row_in_a_pipe() {
    let (_server, address) = serve();
    let program = env!("CARGO_BIN_EXE_conche");
    for columns in [60, 100] {
        let shown = on_terminal(&format!("stty rows 24 cols {columns}; {program} discover {}", uri(address, "")));
        let widest = shown.lines().map(|line| line.trim_end_matches('\r').chars().count()).max();
        assert!(widest.is_some_and(|widest| widest > 20 && widest <= columns), "{widest:?}: {shown}");
    }
    let piped = ask(&["discover", &uri(address, "")]).stdout;
    let row = piped.lines().find(|line| line.starts_with(" /large-create ")).expect("a row");
    assert!(row.contains("POST makes a resource below it"), "{piped}");
    assert!(piped.lines().all(|line| line.trim_end() == line), "{piped}");
}

#[test]
fn json_names_the_file_that_holds_the_payload() {
    let (_server, address) = serve();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("payload");
    let get = |path: &str| run(conche().args(["--json", "get", &uri(address, path), "-o"]).arg(&file));
    let json = |stdout: &str| serde_json::from_str::<serde_json::Value>(stdout).expect("JSON");

    let missing = json(&get("/nowhere").stdout);
    assert!(missing.get("output").is_none() && !file.exists(), "{missing}");
    let found = json(&get("/test").stdout);
    assert_eq!(found["output"].as_str(), file.to_str());
    assert!(found.get("payload").is_none(), "{found}");
    assert_eq!(std::fs::read(&file).expect("it was written"), b"hello");
}

#[test]
fn a_file_named_by_a_dash_is_standard_output() {
    let (_server, address) = serve();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut get = conche();
    let ended = run(get.args(["get", &uri(address, "/test"), "-o", "-"]).current_dir(directory.path()));
    assert_eq!((ended.status, ended.stdout.as_str()), (Some(0), "hello"));
    assert!(!directory.path().join("-").exists());
}

#[test]
fn a_request_leaves_from_the_address_that_is_asked_for() {
    let (_server, address) = serve();
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
    let local = free.local_addr().expect("it is bound").to_string();
    let taken = ask(&["get", &uri(address, "/test"), "--bind", &local]);
    assert_eq!(taken.status, Some(1));
    assert!(taken.stderr.starts_with("conche: no socket could be opened: "), "{}", taken.stderr);
    drop(free);
    assert_eq!(ask(&["get", &uri(address, "/test"), "--bind", &local]).stdout, "hello");
}
