//! `conche bench`: consistent numbers, JSON, explained mistakes.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Stdio;

use crate::common::{Ended, Process, conche, run, serve};
use serde_json::{Value, json};

fn bench(arguments: &[&str]) -> Ended {
    run(conche().arg("bench").args(arguments))
}

fn uri(address: SocketAddr, path: &str) -> String {
    format!("coap://{address}{path}")
}

fn result(arguments: &[&str], status: i32) -> Value {
    let ended = bench(&[arguments, &["--json", "-q"]].concat());
    assert_eq!(ended.status, Some(status), "{}", ended.stderr);
    let first = ended.stdout.lines().next().expect("a line");
    serde_json::from_str(first).expect("JSON")
}

fn numbers<'a>(object: &'a Value, names: &[&str]) -> Vec<&'a Value> {
    let number = |name: &&str| {
        let found = &object[*name];
        assert!(found.is_number(), "{name} of {object}");
        found
    };
    names.iter().map(number).collect()
}

#[test]
fn the_json_of_a_load_test_has_all_documented_fields() {
    let (_server, address) = serve();
    let report = result(&[&uri(address, "/test"), "-n", "200", "-c", "4", "--threads", "2"], 0);
    assert_eq!(
        (&report["schema"], &report["requests"], &report["codes"]["2.05"]),
        (&json!(1), &json!(200), &json!(200))
    );
    assert_eq!(report["plan"]["load"], "closed");
    assert_eq!(report["plan"]["requests"], json!(["GET /test"]));
    numbers(&report, &["requests_per_s", "bytes_sent_per_s", "bytes_received_per_s", "retransmissions", "measured_s"]);
    numbers(&report, &["answered", "unsent", "unfinished"]);
    numbers(&report["lost"], &["timed_out", "reset", "unreachable", "other"]);
    for times in ["latency_ms", "service_ms"] {
        let names = ["min", "p50", "p75", "p90", "p95", "p99", "p999", "max"];
        let ascending: Vec<_> = numbers(&report[times], &names).into_iter().filter_map(Value::as_f64).collect();
        assert!(ascending.is_sorted(), "{report}");
        numbers(&report[times], &["mean", "stdev"]);
    }
    numbers(&report["generator"], &["cpu_s", "busy", "cpu_us_per_request", "held", "ports_renewed"]);
    assert!(report["warnings"].is_array() && report["intervals"].is_array());
}

#[test]
fn a_person_gets_rates_percentiles_and_bars() {
    let (_server, address) = serve();
    let ended = bench(&[&uri(address, "/test"), "-r", "200", "--poisson", "-z", "500ms", "--warm-up", "100ms"]);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    for part in ["200 requests a second, poisson", "requests/s ", "2.05: ", "  99.9 % ", "retransmissions ", "■"] {
        assert!(ended.stdout.contains(part), "{part:?} in {}", ended.stdout);
    }
    let short = bench(&[&uri(address, "/test"), "-n", "20"]);
    assert!(short.stderr.contains("warning: the test was short"), "{}", short.stderr);
    assert_eq!(bench(&[&uri(address, "/test"), "-n", "20", "-q"]).stderr, "");
}

#[test]
fn bodies_go_in_blocks_both_ways_and_each_is_one_request() {
    let (_server, address) = serve();
    let up = ["-m", "put", "--payload-size", "3000B", "-n", "6", "-c", "2"];
    let report = result(&[&[uri(address, "/large-update").as_str()], &up[..]].concat(), 0);
    assert_eq!((&report["requests"], &report["codes"]["2.04"]), (&json!(6), &json!(6)));
    let report = result(&[&uri(address, "/large"), "-n", "6", "-b", "64"], 0);
    assert_eq!(report["codes"]["2.05"], 6, "{report}");
}

#[test]
fn an_observation_load_counts_notifications_and_refusals() {
    let (_server, address) = serve();
    let report = result(&[&uri(address, "/obs"), "--observe", "-c", "3", "-z", "1500ms"], 0);
    assert_eq!((&report["requests"], &report["answered"]), (&json!(3), &json!(3)), "registrations");
    numbers(&report["notifications"], &["count", "per_s"]);
    assert_eq!(report["notifications"]["refused"], 0);
    // Observers that registered before the measurement receive changes too: at least every 3 s.
    let report = result(&[&uri(address, "/obs-pumping"), "--observe", "--warm-up", "300ms", "-z", "3500ms"], 0);
    assert_eq!(report["requests"], 0, "{report}");
    assert_ne!(report["notifications"]["count"], 0, "{report}");
    let report = result(&[&uri(address, "/test"), "--observe", "-c", "3", "-z", "300ms"], 0);
    assert_eq!(report["notifications"]["refused"], 3, "what cannot be observed");
}

#[test]
fn a_mix_file_defines_the_requests_and_its_errors_are_reported() {
    let (_server, address) = serve();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("mix.toml");
    let write = |text: &str| fs::write(&file, text).expect("it can be written");
    let path = file.to_str().expect("a UTF-8 path");
    write(
        "[[request]]\nweight = 3\npath = \"/test\"\naccept = \"text\"\n\
         [[request]]\nmethod = \"put\"\npath = \"/large-update\"\npayload_size = \"2kB\"\ncontent_format = 0\n\
         [[request]]\npath = \"/query?first=1\"\ntype = \"NON\"\noptions = [\"65000,x\"]\n",
    );
    let report = result(&[&uri(address, ""), "--mix", path, "-n", "100"], 0);
    let names: Vec<_> = report["kinds"].as_array().expect("several").iter().map(|kind| &kind["name"]).collect();
    assert_eq!(names, ["GET /test", "PUT /large-update", "GET /query"]);
    assert_eq!(report["answered"], 100, "{report}");
    for (wrong, told) in [
        ("[[request]]\npath = \"test\"", "a path begins with /"),
        ("[[request]]\npath = \"/\"\nwheight = 1", "unknown field `wheight`"),
        ("[[request]]\npath = \"/\"\npayload = \"x\"\npayload_size = \"1B\"", "only one of payload"),
        ("[[request]]\npath = \"/\"\nmethod = \"head\"", "methods are get"),
        ("[[request]]\npath = \"/\"\nweight = 0", "there is no request to send"),
    ] {
        write(wrong);
        let ended = bench(&[&uri(address, ""), "--mix", path]);
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(told), "{told:?} in {}", ended.stderr);
    }
}

#[test]
fn mistakes_are_explained_and_have_their_status() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
    // Never assigned to a socket.
    let free = SocketAddr::from(([127, 0, 0, 1], 1));
    let uri = uri(silent.local_addr().expect("it is bound"), "/");
    let refused = format!("coap://{free}/");
    for (arguments, status, told) in [
        (&["-n", "1", "-z", "1s"][..], 2, "cannot be used with"),
        (&["--poisson"], 2, "--rate"),
        (&["-r", "0"], 2, "above 0"),
        (&["-z", "0"], 2, "a time above 0"),
        (&["--cc", "default", "-w", "2"], 2, "above 1 only with a congestion controller that measures RTTs"),
        (&["-c", "1", "--threads", "2"], 2, "as many endpoints as threads"),
        (&["--observe", "-m", "put"], 2, "only GET and FETCH can be observed"),
        (&["-m", "head"], 2, "methods are get"),
        (&["-N", "--timeout", "100ms", "-n", "1"], 3, "no answer from"),
    ] {
        let ended = bench(&[&[uri.as_str()], arguments].concat());
        assert_eq!(ended.status, Some(status), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{told:?} in {}", ended.stderr);
    }
    let ended = bench(&[&refused, "-n", "1"]);
    assert_eq!(ended.status, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("no response from {free}")), "{}", ended.stderr);
    assert_eq!(bench(&[]).status, Some(2), "a URI is needed");
    assert_eq!(bench(&["127.0.0.1/test"]).status, Some(2), "with a scheme");
}

#[test]
fn a_test_without_success_has_the_status_of_its_responses() {
    let (_server, address) = serve();
    let report = result(&[&uri(address, "/nothing"), "-n", "10"], 4);
    assert_eq!(report["codes"]["4.04"], 10);
}

#[cfg(target_os = "linux")]
#[test]
fn a_test_that_is_interrupted_before_it_measures_does_not_blame_the_server() {
    let (_server, address) = serve();
    let mut process = conche();
    let process = process.args(["bench", &uri(address, "/test"), "--warm-up", "1h"]).stdout(Stdio::null());
    let mut process = Process(process.stderr(Stdio::piped()).spawn().expect("the command starts"));
    process.catches_interrupts();
    process.signal("INT");
    let mut stderr = String::new();
    process.0.stderr.take().expect("it is piped").read_to_string(&mut stderr).expect("text");
    assert_eq!(process.status(), Some(130), "{stderr}");
    assert!(stderr.contains("conche: interrupted before the first measured request"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_unwritable_standard_error_does_not_fail_a_load_test() {
    let (_server, address) = serve();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let mut command = conche();
    let command = command.args(["bench", &uri(address, "/test"), "-n", "20"]).stdout(Stdio::null()).stderr(full);
    assert_eq!(command.status().expect("the command starts").code(), Some(0));
}

fn made_up(path: &Path, answered: &[u64], milliseconds: f64) {
    let latency = json!({
        "min": milliseconds, "mean": milliseconds, "stdev": 0.0, "p50": milliseconds, "p75": milliseconds,
        "p90": milliseconds, "p95": milliseconds, "p99": milliseconds, "p999": milliseconds, "max": milliseconds,
    });
    let interval = |answered: &u64| json!({ "seconds": 1.0, "answered": answered, "lost": 0, "notifications": 0, "latency_ms": latency });
    let all: u64 = answered.iter().sum();
    let report = json!({
        "schema": 1,
        "plan": {
            "target": "192.0.2.1:5683", "requests": ["GET /"], "load": "closed", "rate": null, "endpoints": 1,
            "in_flight": 1, "threads": 1, "warm_up_s": 0.0,
        },
        "measured_s": answered.len(),
        "requests": all,
        "answered": all,
        "lost": { "timed_out": 0, "reset": 0, "unreachable": 0, "other": 0 },
        "unsent": 0,
        "unfinished": 0,
        "codes": { "2.05": all },
        "requests_per_s": all as f64 / answered.len() as f64,
        "bytes_sent_per_s": 0.0,
        "bytes_received_per_s": 0.0,
        "retransmissions": 0,
        "latency_ms": latency,
        "service_ms": latency,
        "histogram": [],
        "intervals": answered.iter().map(interval).collect::<Vec<_>>(),
        "generator": {
            "cpu_s": 0.0, "waited_s": 0.0, "busy": 0.0, "cpu_us_per_request": null, "late_ms": null, "held": 0,
            "ports_renewed": 0, "datagrams_dropped": 0,
        },
        "warnings": [],
    });
    fs::write(path, report.to_string()).expect("it can be written");
}

#[test]
fn two_results_are_compared_by_ratios_with_intervals() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let files = ["before.json", "after.json", "noise.json", "none.json"].map(|name| directory.path().join(name));
    let [before, after, noise, none] = files.each_ref().map(|file| file.to_str().expect("a UTF-8 path"));
    made_up(&files[0], &[100, 102, 98, 100, 101], 2.0);
    made_up(&files[1], &[200, 204, 196, 200, 202], 1.0);
    made_up(&files[2], &[60, 150, 90, 140, 100], 2.0);
    fs::write(&files[3], "{}").expect("it can be written");
    let rows = |first: &str, second: &str| -> Vec<Value> {
        let ended = bench(&["compare", first, second, "--json"]);
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let faster = rows(before, after);
    let names: Vec<_> = faster.iter().filter_map(|row| row["quantity"].as_str()).collect();
    let expected =
        ["requests_per_s", "unanswered_share", "latency_p50_ms", "latency_p90_ms", "latency_p99_ms", "latency_p999_ms"];
    assert_eq!(names, expected);
    let of = |row: &Value| ["low", "ratio", "high"].map(|name| row[name].as_f64().expect("a number"));
    let [low, ratio, high] = of(&faster[0]);
    // Twice the same logarithms: s² = 2.2e-4 of each, t(8; .975) = 2.306.
    assert!((ratio - 2.0).abs() < 1e-9 && (1.9..2.0).contains(&low) && (2.0..2.1).contains(&high), "{low} {high}");
    assert!((of(&faster[2])[1] - 0.5).abs() < 1e-9);
    let [low, _, high] = of(&rows(before, noise)[0]);
    assert!(low < 1.0 && high > 1.0, "five noisy seconds tell nothing: {low} {high}");

    let table = bench(&["compare", before, after]).stdout;
    assert!(table.contains("better") && !table.contains("worse"), "{table}");
    assert!(bench(&["compare", after, before]).stdout.contains("worse"));
    assert!(bench(&["compare", before, noise]).stdout.contains("undecided"));
    let ended = bench(&["compare", before, none]);
    assert_eq!(ended.status, Some(2));
    assert!(ended.stderr.contains("none.json is no result of `conche bench --json`"), "{}", ended.stderr);
}

#[test]
fn comparing_a_failed_test_or_no_result_names_the_fault() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let files = ["good.json", "failed.json", "two.json"].map(|name| directory.path().join(name));
    let [good, failed, two] = files.each_ref().map(|file| file.to_str().expect("a UTF-8 path"));
    made_up(&files[0], &[100, 100], 2.0);
    let result = fs::read_to_string(good).expect("it is there");
    fs::write(failed, format!("{result}\n{}\n", json!({ "schema": 1, "error": "nobody answers", "status": 3 })))
        .expect("it can be written");
    fs::write(two, format!("{result}\n{result}\n")).expect("it can be written");
    for (wrong, told) in [
        (failed, "failed.json is no result of `conche bench --json`: the test has failed (nobody answers); compare"),
        (two, "two.json is no result of `conche bench --json`: it holds 2 JSON objects instead of one; keep each"),
    ] {
        let ended = bench(&["compare", good, wrong]);
        assert_eq!(ended.status, Some(2));
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
}

#[test]
fn a_comparison_lists_omitted_intervals_and_differing_settings() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let files = ["before.json", "after.json"].map(|name| directory.path().join(name));
    let [before, after] = files.each_ref().map(|file| file.to_str().expect("a UTF-8 path"));
    made_up(&files[0], &[100, 100, 100, 100], 2.0);
    made_up(&files[1], &[100, 0, 100, 0], 2.0);
    let mut stalls: Value = serde_json::from_slice(&fs::read(after).expect("it is there")).expect("JSON");
    (stalls["requests"], stalls["lost"]["timed_out"], stalls["unsent"]) = (json!(400), json!(150), json!(50));
    for silent in [1, 3] {
        stalls["intervals"][silent]["latency_ms"] = Value::Null;
    }
    (stalls["plan"]["load"], stalls["plan"]["rate"]) = (json!("constant"), json!(100.0));
    fs::write(after, stalls.to_string()).expect("it can be written");
    let ended = bench(&["compare", before, after, "--json"]);
    let rows: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&rows[0]["ratio"], &rows[0]["low"]), (&json!(0.5), &Value::Null), "of the whole tests");
    assert_eq!((&rows[1]["first"], &rows[1]["second"], &rows[1]["ratio"]), (&json!(0.0), &json!(0.5), &Value::Null));
    for told in [
        "2 of 4 intervals of the second have no answer",
        "the tests differ in load: closed, then constant",
        "the tests differ in rate: none, then 100.0",
    ] {
        assert!(ended.stderr.contains(told), "{told:?} in {}", ended.stderr);
    }
    assert_eq!(bench(&["compare", before, before]).stderr, "");
}
