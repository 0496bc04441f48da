//! The command's output, messages and exit status.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::Stdio;

use crate::common::own_address::own_address;
use crate::common::{Ended, Process, conche, listening, run, serve};

fn ask(arguments: &[&str]) -> Ended {
    run(conche().args(arguments))
}

fn uri(address: SocketAddr, path: &str) -> String {
    format!("coap://{address}{path}")
}

/// Receives everything and sends nothing.
fn silence() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
    let uri = uri(socket.local_addr().expect("it is bound"), "/");
    (socket, uri)
}

#[test]
fn standard_output_has_the_unchanged_payload_only() {
    let (_server, address) = serve();
    let ended = ask(&["get", &uri(address, "/test")]);
    assert_eq!((ended.status, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "hello", ""));
    let ended = ask(&["get", &uri(address, "/test"), "--non", "--accept", "text", "-T", "0x0102"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (Some(0), "hello"));
}

#[test]
fn a_resource_is_written_counted_and_removed() {
    let (_server, address) = serve();
    let test = uri(address, "/test");
    assert_eq!(ask(&["put", &test, "-e", ""]).status, Some(0));
    assert_eq!(ask(&["get", &test]).stdout, "");
    assert_eq!(ask(&["put", &test, "-e", "new", "-t", "json"]).status, Some(0));
    assert_eq!(ask(&["get", &test, "-A", "application/json"]).stdout, "new");
    assert_eq!(ask(&["delete", &test]).status, Some(0));
    assert_eq!(ask(&["get", &test]).status, Some(4));
    let count = uri(address, "/count");
    assert_eq!([ask(&["post", &count]).stdout, ask(&["post", &count]).stdout], ["1", "2"]);
}

#[test]
fn a_command_starts_from_stored_path_state_and_reports_it() {
    let (_server, address) = serve();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("paths");
    let file = file.to_str().expect("a UTF-8 path");
    let known = format!("* known of the path to {address}, ");
    let test = uri(address, "/test");
    for knows in [false, true, true] {
        let ended = ask(&["get", &test, "--path-store", file, "-v"]);
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(0), "hello"));
        assert_eq!(ended.stderr.contains(&known), knows, "{}", ended.stderr);
    }
    for others in [&["get", "--no-shared-paths"][..], &["get"]] {
        let ended = run(conche().args(others).args([&test, "-v"]));
        assert!(!ended.stderr.contains(&known), "{}", ended.stderr);
    }
    assert_eq!(ask(&["get", &test, "--path-store", file, "--no-shared-paths"]).status, Some(2));
}

#[test]
fn every_requesting_command_stores_path_state() {
    let (_server, address) = serve();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("paths");
    let store = file.to_str().expect("a UTF-8 path");
    let test = uri(address, "/test");
    let commands = [&["discover"][..], &["put", "-e", "x"], &["observe", "-n", "1"], &["get", "-s", "3"]];
    for arguments in commands {
        let ended = run(conche().args(arguments).args([&test, "--path-store", store]));
        assert!(file.exists(), "{arguments:?}: {}", ended.stderr);
        fs::remove_file(&file).expect("it is there");
    }
}

#[test]
fn a_foreign_path_store_gives_a_warning_and_stays_unchanged() {
    let (_server, address) = serve();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("letter");
    fs::write(&file, "a letter").expect("it can be written");
    let ended = ask(&["get", &uri(address, "/test"), "--path-store", file.to_str().expect("a UTF-8 path")]);
    assert_eq!((ended.status, ended.stdout.as_str()), (Some(0), "hello"));
    assert!(ended.stderr.contains("does not begin with `conche paths 1`"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "a letter");
}

#[test]
fn a_put_larger_than_a_readable_body_is_refused() {
    let (_server, address) = serve();
    let test = uri(address, "/test");
    let refused = ask(&["put", &test, "-e", &"x".repeat(65_537)]);
    assert_eq!(refused.status, Some(4));
    assert!(
        refused.stderr.contains("4.13") && refused.stderr.contains("the limit is 65536 bytes"),
        "{}",
        refused.stderr
    );
    assert_eq!(ask(&["put", &test, "-e", &"x".repeat(65_536)]).status, Some(0));
    assert_eq!(ask(&["get", &test]).stdout.len(), 65_536);
}

#[test]
fn a_payload_comes_from_an_argument_a_file_or_standard_input() {
    let (_server, address) = serve();
    let test = uri(address, "/test");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (input, output) = (directory.path().join("in"), directory.path().join("out"));
    fs::write(&input, b"\x00\xff from a file").expect("it can be written");
    let [input, output] = [input, output].map(|path| path.into_os_string().into_string().expect("a UTF-8 path"));

    assert_eq!(ask(&["put", &test, "-f", &input]).status, Some(0));
    assert_eq!(ask(&["get", &test, "-o", &output]).stdout, "");
    assert_eq!(fs::read(&output).expect("it was written"), b"\x00\xff from a file");
    for payload in [["--payload", "here"], ["--payload-file", "-"], ["-f", "-"]] {
        let mut put = conche();
        let mut put = put.args(["put", &test]).args(payload).stdin(Stdio::piped()).spawn().expect("the command starts");
        // A command that reads no standard input may have ended by now.
        let _ = put.stdin.take().expect("it is piped").write_all(b"here");
        assert!(put.wait().expect("it ends").success(), "{payload:?}");
        assert_eq!(ask(&["get", &test]).stdout, "here", "{payload:?}");
    }
    let missing = ask(&["put", &test, "-f", "/nonexistent"]);
    assert_eq!(missing.status, Some(2));
    assert!(missing.stderr.contains("/nonexistent cannot be read: "), "{}", missing.stderr);
}

#[test]
fn an_error_response_is_a_message_and_its_class_the_exit_status() {
    let (_server, address) = serve();
    for (arguments, path, status, message) in [
        (&[][..], "/missing", 4, "the server answers 4.04 Not Found\n"),
        (
            &["-A", "json"],
            "/test",
            4,
            "the server answers 4.06 Not Acceptable: Content-Format 0 (text/plain; charset=utf-8) is available, \
             50 (application/json) is not\n",
        ),
        (
            &["-O", "35,coap://example.com/"],
            "/test",
            5,
            "the server answers 5.05 Proxying Not Supported: this is no proxy\n",
        ),
    ] {
        let ended = run(conche().arg("get").args(arguments).arg(uri(address, path)));
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(status), ""), "{arguments:?}");
        assert_eq!(ended.stderr, format!("conche: {address}: {message}"), "{arguments:?}");
    }
}

#[test]
fn no_answer_and_no_listener_have_the_same_exit_status() {
    let (_silent, there) = silence();
    let late = ask(&["get", &there, "-B", "0.1"]);
    assert_eq!(late.status, Some(3));
    assert!(late.stderr.contains("deadline passed"), "{}", late.stderr);

    let (closed, there) = silence();
    drop(closed);
    let refused = ask(&["get", &there, "-B", "5"]);
    assert_eq!(refused.status, Some(3));
    #[cfg(target_os = "linux")]
    for part in ["reports the peer unreachable", "\nhint: no server listens on that port"] {
        assert!(refused.stderr.contains(part), "{part:?} in {}", refused.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_request_refused_by_the_system_is_no_timeout() {
    // The client does not set the socket option for broadcast; without a route it is unreachable.
    let refused = ask(&["get", "coap://255.255.255.255/", "-B", "20"]);
    assert!(refused.stderr.contains("the operating system does not send the request: "), "{}", refused.stderr);
    let is_permission = refused.stderr.contains("Permission denied");
    assert_eq!(refused.status, Some(if is_permission { 1 } else { 3 }), "{}", refused.stderr);
    assert_eq!(refused.stderr.contains("\nhint: usually a firewall"), is_permission, "{}", refused.stderr);
}

// RFC 7252 §4.2
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_restarts_is_waited_for_on_request() {
    let address = own_address();
    let there = uri(address, "/");
    let mut client = conche();
    let client = client.args(["get", &there, "-vv", "-B", "60", "--retry-unreachable"]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let mut stderr = BufReader::new(client.stderr.take().expect("it is piped")).lines();
    assert!(stderr.any(|line| line.is_ok_and(|line| line.contains("reports the peer unreachable"))));
    let server = UdpSocket::bind(address).expect("the address is this test's own");
    let mut request = [0; 64];
    let (_, from) = server.recv_from(&mut request).expect("a retransmission");
    // A piggybacked 2.05 with the request's message ID and token, which is 8 bytes long.
    let response = [&[0x68, 0x45, request[2], request[3]], &request[4..12], b"\xffback"].concat();
    server.send_to(&response, from).expect("it can be sent");
    std::thread::spawn(move || stderr.count());
    let ended = client.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(0), &b"back"[..]));
}

#[test]
fn a_response_that_is_long_in_coming_is_explained_meanwhile() {
    let (silent, there) = silence();
    let mut client = conche();
    let client = client.args(["get", &there, "-v", "-B", "30"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("the command starts");
    let mut request = [0; 64];
    let (_, from) = silent.recv_from(&mut request).expect("a request");
    // An Empty ACK with the request's message ID.
    silent.send_to(&[0x60, 0, request[2], request[3]], from).expect("it can be sent");
    let mut stderr = BufReader::new(client.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
    let line = stderr.find(|line| line.starts_with("* ")).expect("it is explained");
    assert!(line.starts_with("* acknowledged after "), "{line}");
    assert!(line.ends_with("; waiting for the response (at most 30s in all)"), "{line}");
    std::thread::spawn(move || stderr.count());
    let response = [&[0x58, 0x45, 0, 1], &request[4..12], b"\xffdone"].concat();
    silent.send_to(&response, from).expect("it can be sent");
    let ended = client.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(0), &b"done"[..]));
}

#[test]
fn argument_errors_have_their_own_status_and_message() {
    for (arguments, message) in [
        (&["get"][..], "required arguments were not provided"),
        (&["get", "coap://h/", "--nope"], "unexpected argument '--nope'"),
        (&["get", "http://h/"], r#"the URI's scheme is "http": it must be "coap""#),
        (&["get", "coaps://h/"], "coaps:// needs a pre-shared key"),
        (&["get", "coap://h/", "--cc", "cocoaa"], "did you mean cocoa?"),
        (&["get", "coap://h/", "--cc", "cocoaa"], "peak-hopper"),
        (&["get", "coap://h/", "-A", "jsn"], "a number from 0 to 65535, a media type, or"),
        (&["get", "coap://h/", "-B", "0"], "a time above 0"),
        (&["get", "coap://h/", "-B", "-1"], "a time above 0"),
        (&["get", "coap://h:abc/"], r#"the port "abc" is not a number from 1 to 65535"#),
        (&["get", "127.0.0.1/a"], "the URI has no scheme: write coap://127.0.0.1/a"),
        (&["serve", "--demo", "--bind", "127.0.0.1"], "the port is missing: write 127.0.0.1:5683"),
        (&["serve", "--demo", "--bind", "::"], "the port is missing: write [::]:5683"),
        (&["serve", "--demo", "--bind", "h:x"], r#"the port "x" is not a number from 0 to 65535"#),
        (&["serve", "--demo", "--bind", "5683"], "as in 127.0.0.1:5683 or [::]:5683"),
        (&["get", "coap://127.0.0.1/", "-O", "5,x"], "option If-None-Match: 0 to 0 bytes are allowed"),
        (&["put", "coap://h/", "-e", "a", "-f", "b"], "cannot be used with"),
        (&["put", "coap://h/"], "put needs a payload: -e TEXT or -f FILE; -e '' "),
        (&["get", "coap://h/", "-t", "json"], "-A FORMAT requests the format of the response"),
        (&["get", "coap://h/", "--bind", "h"], "as in 192.0.2.1:5683"),
        (&["get", "coap://224.0.1.187/"], "hint: this command sends to one host"),
        (&["ping", "coap://224.0.1.187"], "hint: this command sends to one host"),
        (&["ping", "coap://[ff02::fd%25lo]"], "hint: this command sends to one host"),
        (&["serve"], "<DIR|--demo>"),
        (&["run", "anrw18"], "the paper of that name is `conche reproduce anrw18`"),
        (&["run", "networks"], "`conche compare networks` runs all networks, `conche run` takes one"),
        (&["run", "nb-iott"], "did you mean the network `nb-iot`?"),
        (&["run", "x.toml", "-j", "0"], "a whole number from 1 to 1024 was expected"),
        (&["run", "x.toml", "-j", "1025"], "a whole number from 1 to 1024 was expected"),
        (&["reproduce", "bpd"], "did you mean `bdp19`?"),
        (&["compare", "anrw81"], "did you mean `anrw18`?"),
        (&["controllers", "bpd"], "did you mean bdp?"),
        (&["put", "coap://h/", "-f", "/nonexistent"], "/nonexistent cannot be read: "),
        (&["get", "coap://h/", "--oscore", "/nonexistent"], "/nonexistent: No such file"),
        (&["bench", "coap://h/", "--mix", "/nonexistent"], "/nonexistent cannot be read: "),
        (&["reproduce", "Cargo.toml"], "it is a file: `conche run` takes scenarios"),
    ] {
        let ended = ask(arguments);
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.contains(message), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn a_filter_of_messages_that_cannot_be_read_is_not_ignored() {
    let ended = run(conche().arg("controllers").env("CONCHE_LOG", "conche=loud"));
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("'conche=loud' is no filter"), "{}", ended.stderr);
    assert_eq!(run(conche().arg("controllers").env("CONCHE_LOG", "warn,conche=debug")).status, Some(0));
    assert_eq!(run(conche().arg("controllers").env("CONCHE_LOG", "")).status, Some(0));
}

#[test]
fn an_address_in_use_is_reported_with_a_hint() {
    let (socket, _) = silence();
    let taken = socket.local_addr().expect("it is bound").to_string();
    let ended = ask(&["serve", "--demo", "--bind", &taken]);
    assert_eq!(ended.status, Some(1));
    assert!(ended.stderr.contains(&format!("{taken} cannot be listened on: ")), "{}", ended.stderr);
    assert!(ended.stderr.contains("\nhint: another program uses this port: "), "{}", ended.stderr);
}

#[cfg(unix)]
#[test]
fn a_signalled_server_exits_with_success() {
    for signal in ["INT", "TERM"] {
        let (server, _) = serve();
        server.signal(signal);
        assert_eq!(server.status(), Some(0), "{signal}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_request_has_an_exit_status_of_its_own() {
    let (silent, there) = silence();
    let client = Process(conche().args(["get", &there]).stderr(Stdio::null()).spawn().expect("the command starts"));
    silent.recv(&mut [0; 64]).expect("a request");
    client.signal("INT");
    assert_eq!(client.status(), Some(130));
}

#[cfg(unix)]
#[test]
fn a_request_that_is_terminated_ends_as_one_that_is_interrupted() {
    let (silent, there) = silence();
    let client = Process(conche().args(["get", &there]).stderr(Stdio::null()).spawn().expect("the command starts"));
    silent.recv(&mut [0; 64]).expect("a request");
    client.signal("TERM");
    assert_eq!(client.status(), Some(130));
}

#[cfg(unix)]
#[test]
fn a_signalled_client_exits_even_if_its_output_is_not_read() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("big"), vec![b'x'; 300_000]).expect("it can be written");
    let served = directory.path().to_str().expect("a UTF-8 path");
    let (_server, address) = listening(conche().args(["serve", served, "--bind", "127.0.0.1:0"]));
    let mut client = conche();
    let client = client.args(["get", &uri(address, "/big")]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = Process(client.spawn().expect("the command starts"));
    // One byte only, of more than a pipe holds.
    let mut stdout = client.0.stdout.take().expect("it is piped");
    stdout.read_exact(&mut [0]).expect("the beginning of it");
    client.signal("TERM");
    assert_eq!(client.status(), Some(130));
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_experiment_reports_it_and_has_no_results() {
    let mut process = conche();
    let process = process.args(["reproduce", "anrw18", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process(process.spawn().expect("the command starts"));
    process.catches_interrupts();
    process.signal("INT");
    let [mut stdout, mut stderr] = [String::new(), String::new()];
    process.0.stdout.take().expect("it is piped").read_to_string(&mut stdout).expect("text");
    process.0.stderr.take().expect("it is piped").read_to_string(&mut stderr).expect("text");
    assert_eq!(process.status(), Some(130));
    assert_eq!(stdout, "");
    assert!(stderr.contains("interrupted; no results (with -o DIR, an experiment can be resumed)"), "{stderr}");
    assert!(stderr.contains(r#""kind":"interrupted","status":130"#), "{stderr}");
}

#[test]
fn q_block_with_a_non_confirmable_request_is_a_usage_error() {
    let (_silence, uri) = silence();
    for command in ["get", "put"] {
        let ended = ask(&[command, "-N", "--q-block", &uri]);
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(2), ""));
        assert!(ended.stderr.contains("--non") && ended.stderr.contains("--q-block"), "{}", ended.stderr);
    }
}
