//! `conche observe` and `conche get -s`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;

use crate::common::{Ended, Process, conche, run, serve};
use serde_json::Value;

fn observe(address: SocketAddr, path: &str, arguments: &[&str]) -> Ended {
    run(conche().arg("observe").arg(format!("coap://{address}{path}")).args(arguments))
}

fn numbers(text: &str) -> Vec<u64> {
    text.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("a number: {line:?}"))).collect()
}

#[test]
fn each_state_is_a_line_and_newer_than_the_one_before() {
    let (_server, address) = serve();
    let ended = observe(address, "/obs-pumping", &["--count", "3"]);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let states = numbers(&ended.stdout);
    assert!(states.len() == 3 && states.is_sorted_by(|one, other| one < other), "{states:?}");
}

#[test]
fn as_json_each_state_is_an_object() {
    let (_server, address) = serve();
    let ended = observe(address, "/obs-pumping", &["--json", "-n", "2"]);
    let states: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!((ended.status, states.len()), (Some(0), 2), "{ended:?}");
    for state in &states {
        assert!(state["schema"] == 1 && state["code"] == "2.05" && state["payload"].is_string(), "{state}");
    }
    let measured: Vec<bool> = states.iter().map(|state| state["elapsed_ms"].is_f64()).collect();
    assert_eq!(measured, [true, false], "a notification has no exchange of its own: {states:?}");
    let times: Vec<f64> = states.iter().filter_map(|state| state["time_s"].as_f64()).collect();
    assert!(times.len() == 2 && times[0] >= 0.0 && times.is_sorted(), "{times:?}");
}

#[test]
fn an_unobservable_resource_is_printed_and_reported() {
    let (_server, address) = serve();
    let ended = observe(address, "/test", &[]);
    assert_eq!((ended.status, ended.stdout.as_str()), (Some(1), "hello\n"), "{ended:?}");
    assert!(ended.stderr.contains("does not let this be observed"), "{ended:?}");
    assert_eq!(observe(address, "/missing", &[]).status, Some(4));
}

#[test]
fn get_observes_for_the_given_time() {
    let (_server, address) = serve();
    let ended = run(conche().args(["get", &format!("coap://{address}/obs-pumping"), "-s", "1"]));
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert!(!numbers(&ended.stdout).is_empty(), "{ended:?}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_or_sigterm_deregisters_and_is_the_way_to_end_without_a_limit() {
    let (_server, address) = serve();
    for (limit, signal, status) in [(&[][..], "INT", 0), (&["-n", "1000000"], "INT", 130), (&[], "TERM", 0)] {
        let mut command = conche();
        command.args(["observe", "-v", &format!("coap://{address}/obs-pumping")]).args(limit);
        let mut observer = Process(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"));
        let mut first = String::new();
        // Open until the end: a closed pipe would end the command as well.
        let mut stdout = BufReader::new(observer.0.stdout.take().expect("it is piped"));
        stdout.read_line(&mut first).expect("a state");
        observer.signal(signal);
        let stderr = observer.0.stderr.take().expect("it is piped");
        let trace = std::io::read_to_string(stderr).expect("text");
        assert!(trace.contains("Observe: 1"), "{trace}");
        assert_eq!(observer.status(), Some(status), "{limit:?}");
    }
}

#[test]
fn by_default_it_ends_with_a_deregistration_and_by_rst_with_a_reset_of_the_next_notification() {
    let (_server, address) = serve();
    for (cancel, deregisters, rejects) in
        [(&[][..], true, false), (&["--cancel", "get"], true, false), (&["--cancel", "rst"], false, true)]
    {
        let ended = observe(address, "/obs-pumping", &[&["-v", "-n", "1"], cancel].concat());
        assert_eq!(ended.status, Some(0), "{ended:?}");
        let lines = || ended.stderr.lines();
        let sent = |what: &str| lines().position(|line| line.starts_with('>') && line.contains(what));
        // The first Reset after a ping of the server is the response to the ping.
        let pinged = lines().position(|line| line.starts_with('<') && line.contains("(a ping)"));
        let answer =
            pinged.and_then(|ping| lines().skip(ping).position(|line| line.contains(" RST ")).map(|at| ping + at));
        let reset = (0..)
            .zip(lines())
            .find(|(at, line)| Some(*at) != answer && line.starts_with('>') && line.contains(" RST "));
        let (deregistration, reset) = (sent(" Observe: 1"), reset.map(|(at, _)| at));
        assert_eq!(deregistration.is_some(), deregisters, "{cancel:?}: {}", ended.stderr);
        // A notification in flight during the deregistration is rejected, too.
        assert!(reset.is_some() == rejects || reset > deregistration, "{cancel:?}: {}", ended.stderr);
    }
    assert_eq!(observe(address, "/obs-pumping", &["--cancel", "now"]).status, Some(2));
}
