//! `--event-log` and `--capture`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{conche, listening, run, serve};
use serde_json::Value;

pub fn records(path: &Path) -> Vec<Value> {
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
    // A response 4.04 is a failure, which users record to analyse.
    for (path, status) in [(uri.clone(), 0), (format!("{uri}/missing"), 4)] {
        let ended = run(conche().args(["get", &path, "--event-log"]).arg(&log).arg("--capture").arg(&capture));
        assert_eq!(ended.status, Some(status), "{}", ended.stderr);
        let records = records(&log);
        assert_eq!(records[0]["trace"]["vantage_point"]["type"], "client");
        let names: Vec<_> = records[1..].iter().map(|record| record["name"].as_str().expect("a name")).collect();
        assert_eq!((names[0], names.last().copied()), ("coap:message_sent", Some("coap:exchange_updated")));
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

fn recorded(log: &Path, capture: &Path) -> (String, Vec<String>) {
    assert!(fs::read(capture).expect("a capture").len() > 200);
    let records = records(log);
    let name = |record: &Value| record["name"].as_str().expect("a name").to_owned();
    let vantage_point = records[0]["trace"]["vantage_point"]["type"].as_str().expect("a type").to_owned();
    (vantage_point, records[1..].iter().map(name).collect())
}

#[test]
fn pings_discoveries_and_relayed_messages_are_recorded() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name);
    let (_server, address) = serve();
    let (log, capture) = (file("relay.sqlog"), file("relay.pcapng"));
    let mut relay = conche();
    relay.args(["relay", &address.to_string(), "--event-log"]).arg(&log).arg("--capture").arg(&capture);
    let (relay, between) = listening(&mut relay);
    for arguments in [&["ping", "-n", "2", "-i", "0.01"][..], &["discover"]] {
        let (log, capture) = (file("client.sqlog"), file("client.pcapng"));
        let uri = format!("coap://{between}");
        let ended = run(conche().args(arguments).arg(uri).arg("--event-log").arg(&log).arg("--capture").arg(&capture));
        assert_eq!(ended.status, Some(0), "{ended:?}");
        let (vantage_point, names) = recorded(&log, &capture);
        assert_eq!((vantage_point.as_str(), names[0].as_str()), ("client", "coap:message_sent"));
        assert!(names.iter().any(|name| name == "coap:message_received"), "{names:?}");
    }
    relay.signal("TERM");
    assert_eq!(relay.status(), Some(0));
    let (vantage_point, names) = recorded(&log, &capture);
    assert_eq!(vantage_point, "network");
    let of = |name: &str| names.iter().filter(|other| *other == name).count();
    assert_eq!(of("coap:message_sent"), of("coap:message_received"), "{names:?}");
    assert!(names.len() >= 3 * 4, "two pings and a request, each received and sent on in both directions: {names:?}");
}

/// Returns the CoAP codes and paths that tshark finds in the sessions of a capture.
#[cfg(unix)]
fn dissected(capture: &Path, port: u16, more: &[String]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-Y", "coap && !_ws.malformed", "-T", "fields"]);
    command.args(["-e", "coap.code", "-e", "coap.opt.uri_path"]).args(more);
    command.args(["-d", &format!("udp.port=={port},dtls"), "-d", &format!("dtls.port=={port},coap")]);
    let output = command.output().expect("tshark must be installed: apt-get install tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[cfg(unix)]
#[test]
#[ignore = "needs tshark"]
fn wireshark_reads_a_captured_session_with_the_key_log_of_either_end_and_not_without() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name);
    for (name, text) in [("key", "a key of sixteen"), ("keys", "lamp-7:a key of sixteen")] {
        fs::write(file(name), text).expect("it can be written");
        fs::set_permissions(file(name), fs::Permissions::from_mode(0o600)).expect("it is ours");
    }
    let (at_server, at_client, capture) = (file("server.log"), file("client.log"), file("relay.pcapng"));
    let mut serve = conche();
    serve.args(["serve", "--demo", "--bind", "127.0.0.1:0", "--psk-keys"]).arg(file("keys"));
    let (_server, address) = listening(serve.env("SSLKEYLOGFILE", &at_server));
    // The path between the ends carries only DTLS records.
    let (relay, between) = listening(conche().args(["relay", &address.to_string(), "--capture"]).arg(&capture));
    let mut get = conche();
    get.args(["get", "-u", "lamp-7", "--psk-key-file"]).arg(file("key")).arg(format!("coaps://{between}/test"));
    let ended = run(get.env("SSLKEYLOGFILE", &at_client));
    assert_eq!((ended.status, ended.stdout.as_str()), (Some(0), "hello"), "{}", ended.stderr);
    relay.signal("TERM");
    assert_eq!(relay.status(), Some(0));

    assert_eq!(dissected(&capture, between.port(), &[]), [""; 0]);
    for log in [at_server, at_client] {
        let keys = ["-o".to_owned(), format!("tls.keylog_file:{}", log.display())];
        // GET and 2.05.
        assert_eq!(dissected(&capture, between.port(), &keys), ["1\ttest", "69\t"]);
    }
}

#[test]
fn an_unwritable_record_file_is_reported_before_the_first_datagram() {
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
