//! `conche emulate`: programs over a scenario's network. The machine may be loaded, so no test
//! needs punctual events.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::common::{Ended, Process, conche, run};

/// Two clients, 40 ms each way.
const SMALL: &str = r#"
schema = 1
name = "small"
title = "Two clients"
replications = 1
seed = 1
duration = "10min"
schemes = [{ name = "default", controller = "default" }]
nodes = [{ name = "client", count = 2 }, { name = "hub" }, { name = "server" }]

[[links]]
name = "access"
between = ["client", "hub"]
wire = { delay = "10ms" }

[[links]]
name = "core"
between = ["hub", "server"]
wire = { rate = "1Mbit/s", delay = "30ms" }

[[traffic]]
name = "gets"
from = "client"
to = "server"
exchanges = 3
response = "20B"
"#;

const CONCHE: &str = env!("CARGO_BIN_EXE_conche");

fn scenario(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("scenario.toml");
    fs::write(&file, text).expect("it can be written");
    (directory, file)
}

fn command(scenario: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = conche();
    command.arg("emulate").arg(scenario).args(["--max-lateness", "1h"]).args(arguments);
    command
}

fn emulate(text: &str, arguments: &[&str]) -> Ended {
    let (_directory, file) = scenario(text);
    run(&mut command(&file, arguments))
}

fn report(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(ended.stdout.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn row<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let rows = report["links"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

#[test]
fn client_programs_ask_a_simulated_server() {
    let program = format!("client={CONCHE} get -q coap://{{server}}/any; echo; echo {{index}} >&2");
    let ended = emulate(SMALL, &["--node", &program]);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let lines: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("client.")).collect();
    // 20 bytes less header, token and payload marker.
    for client in ["client.0 | ", "client.1 | "] {
        assert!(
            lines.iter().any(|line| line.strip_prefix(client).is_some_and(|line| line.starts_with("..."))),
            "{ended:?}"
        );
    }
    assert!(ended.stderr.contains("client.0 | 0\n") && ended.stderr.contains("client.1 | 1\n"), "{ended:?}");
    assert!(ended.stdout.contains("small (default), seed 1"), "{ended:?}");
}

#[test]
fn a_simulated_server_has_content_for_a_get_whatever_its_traffic() {
    let text = SMALL.replace("response = \"20B\"", "method = \"POST\"");
    let ended = emulate(&text, &["--node", &format!("client[0]={CONCHE} get coap://{{server}}/")]);
    // The command prints the code of other empty responses.
    assert!(ended.status == Some(0) && !ended.stderr.contains("2.04"), "{ended:?}");
    let ended = emulate(&text, &["--node", &format!("client[0]={CONCHE} post coap://{{server}}/ -e 1")]);
    assert!(ended.stderr.contains("client.0 | 2.04 Changed"), "{ended:?}");
}

#[test]
fn simulated_clients_ask_a_server_program() {
    let program = format!("server={CONCHE} serve --demo --bind {{bind}}");
    let text = SMALL.replace("exchanges = 3", "exchanges = 3\npath = \"test\"");
    let ended = emulate(&text, &["--node", &program, "--json"]);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let report = report(&ended);
    assert_eq!((&report["end"], &report["is_valid"]), (&"clients".into(), &true.into()), "{report}");
    let traffic = &report["traffic"][0];
    let counts = ["requests", "answered", "failed"].map(|count| traffic[count].as_u64());
    assert_eq!(counts, [Some(6), Some(6), Some(0)], "{report}");
    // Two ways of 40 ms, and the time of the server.
    assert!(traffic["duration_p50_ms"].as_f64() > Some(80.0), "{report}");
    let core = row(&report, "core>");
    assert!(core["sent"].as_u64() >= Some(6) && core["delay_p50_ms"].as_f64() > Some(29.9), "{report}");
    assert!(row(&report, "client to server")["delay_p50_ms"].as_f64() > Some(39.9), "{report}");
    assert!(ended.stderr.contains("server | listening on"), "standard output is JSON: {ended:?}");
}

#[test]
fn programs_of_both_roles_meet_and_the_scenario_names_them() {
    let server = format!("{{ name = \"server\", program = \"{CONCHE} serve --demo --bind {{bind}}\" }}");
    let text = SMALL.replace("{ name = \"server\" }", &server);
    let program = format!("client[1]={CONCHE} get -q coap://{{server}}/test");
    let (directory, file) = scenario(&text);
    let capture = directory.path().join("run.pcapng");
    let capture = capture.to_str().expect("text");
    let ended = run(&mut command(&file, &["--node", &program, "--json", "--seed", "5", "--pcapng", capture]));
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let report = report(&ended);
    assert_eq!((&report["end"], &report["seed"]), (&"programs".into(), &5.into()), "{report}");
    assert_eq!(report["programs"][0], serde_json::json!({ "node": "client.1", "status": 0 }), "{report}");
    assert_eq!(report["programs"][1]["node"], "server", "{report}");
    assert!(fs::metadata(capture).expect("a file").len() > 300);

    let ended = run(conche().arg("run").arg(&file));
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("a simulation runs no programs; run the scenario by `conche emulate`"), "{ended:?}");
}

#[test]
fn the_first_failing_program_gives_the_exit_status() {
    let ended = emulate(SMALL, &["--node", "client[0]=true", "--node", "client[1]=exit 23"]);
    assert_eq!(ended.status, Some(23), "{ended:?}");
    assert!(ended.stderr.contains("the program of client.1 ended with exit status 23"), "{ended:?}");
    assert!(ended.stdout.lines().any(|line| line.split_whitespace().eq(["client.1", "23"])), "{ended:?}");
    let ended = emulate(SMALL, &["--node", "client[0]=exit 3", "--json"]);
    assert!(ended.status == Some(3) && ended.stderr.contains("\"kind\":\"program\""), "{ended:?}");
    let ended = emulate(SMALL, &["--node", "server=echo {bind} >&2; exit 4"]);
    assert_eq!(ended.status, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("it was to listen at 127."), "{ended:?}");
}

#[test]
fn a_stagger_holds_later_client_programs_back() {
    let (_directory, file) = scenario(SMALL);
    let mut command = command(&file, &["--node", "client=echo {index}; sleep 1000", "--stagger", "1h"]);
    let mut process = Process(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts"));
    let mut out = BufReader::new(process.0.stdout.take().expect("it is piped"));
    let mut text = String::new();
    out.read_line(&mut text).expect("text");
    assert_eq!(text, "client.0 | 0\n");
    process.signal("INT");
    out.read_to_string(&mut text).expect("text");
    assert!(process.status() == Some(130) && !text.contains("client.1 |"), "{text}");
}

#[test]
fn a_reboot_kills_a_program_and_starts_it_again() {
    let (directory, file) = scenario(SMALL);
    let lives = directory.path().join("lives");
    // The machine may be too loaded for the first life to write before the first reboot.
    let reboots =
        (1..60).map(|second| format!("{{ at = \"{second}s\", event = {{ reboot = {{ nodes = \"client[0]\" }} }} }}"));
    let changes = format!("changes=[{}]", reboots.collect::<Vec<_>>().join(","));
    let life = format!(
        "echo >> {0}; test $(wc -l < {0}) -gt 1 || {{{{ trap '' TERM; sleep 1000; exit 3; }}}}",
        lives.display()
    );
    let ended = run(&mut command(&file, &["--set", &changes, "--json", "--node", &format!("client[0]={life}")]));
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert!(fs::read_to_string(&lives).expect("text").lines().count() >= 2);
    assert_eq!(report(&ended)["programs"], serde_json::json!([{ "node": "client.0", "status": 0 }]));
    let ended = run(&mut command(&file, &["--set", &changes, "--node", "client=external"]));
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("the scenario reboots it, but conche can start only commands anew"), "{ended:?}");
}

#[test]
fn an_emulation_that_is_too_late_is_invalid() {
    let program = format!("client={CONCHE} get -q coap://{{server}}/");
    let (_directory, file) = scenario(SMALL);
    let ended = run(conche().arg("emulate").arg(&file).args(["--node", &program, "--max-lateness", "0.000001"]));
    assert_eq!(ended.status, Some(7), "{ended:?}");
    assert!(ended.stderr.contains("the run is invalid: 1 % of the events"), "{ended:?}");
}

#[test]
fn a_mistake_is_reported_with_what_would_be_right() {
    let refused = |arguments: &[&str]| {
        let ended = emulate(SMALL, arguments);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        ended.stderr
    };
    assert!(refused(&[]).contains("no node has a program; write --node NODES=PROGRAM"));
    assert!(refused(&["--node", "sensor=true"]).contains("there are no nodes `sensor`; there are client, hub, server"));
    assert!(refused(&["--node", "client[2]=true"]).contains("its 2 nodes are client[0..2]"));
    assert!(refused(&["--node", "client"]).contains("it has to be a name, `=` and a value"));
    assert!(refused(&["--node", "client=get {sever}"]).contains("{sever}: there are no nodes `sever`"));
    assert!(refused(&["--node", "client=get {hub}"]).contains("{hub} is no server"));
    assert!(refused(&["--node", "hub=external"]).contains("no traffic leads from hub"));
    assert!(refused(&["--node", "client=127.0.0.1:5683"]).contains("client is a client; an address is for servers"));
    assert!(refused(&["--node", "client=serve {bind}"]).contains("no traffic leads to client, and no program has"));
    assert!(refused(&["--node", "server=localhost:5683"]).contains("an address and a port, as in 127.0.0.1:5683"));
    let taken = UdpSocket::bind("127.9.0.4:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).expect("loopback");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    assert!(refused(&["--node", "client=external", "--port", &port]).contains(&format!("--port {port}: ")));
    let empty = SMALL.replace("name = \"server\" }", "name = \"server\", program = \"\" }");
    let ended = emulate(&empty, &[]);
    assert!(ended.status == Some(2) && ended.stderr.contains("nodes.server.program: it is empty"), "{ended:?}");
    let twice = refused(&["--node", "client=true", "--node", "client=false"]);
    assert!(twice.contains("--node client=… is there twice"));
    let secured = ["--node", "client=true", "--set", "endpoint.security=dtls-psk"];
    assert!(refused(&secured).contains("simulated endpoints have keys that no program knows"));
}

/// Reads the address of a door.
fn door(process: &mut Process) -> String {
    let mut line = String::new();
    let mut out = BufReader::new(process.0.stdout.take().expect("it is piped"));
    out.read_line(&mut line).expect("it announces the address");
    std::thread::spawn(move || out.read_until(0, &mut Vec::new()));
    let address = line.split_once("coap://").and_then(|(_, rest)| rest.split_once(',')).map(|(address, _)| address);
    address.unwrap_or_else(|| panic!("an address: {line:?}")).to_owned()
}

#[test]
fn external_clients_take_the_nodes_in_turn_until_none_is_left() {
    let (_directory, file) = scenario(SMALL);
    let mut command = command(&file, &["--node", "client=external"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process(command.spawn().expect("it starts"));
    let address = door(&mut process);
    let get = [0x40, 0x01, 0x12, 0x34];
    let sockets: Vec<UdpSocket> = (0..3)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
            socket.connect(&address).expect("the door");
            socket
        })
        .collect();
    for socket in &sockets[..2] {
        socket.send(&get).expect("loopback");
        let mut buffer = [0; 100];
        let length = socket.recv(&mut buffer).expect("a response");
        assert_eq!(buffer[..4], [0x60, 0x45, 0x12, 0x34], "{length}");
    }
    sockets[2].send(&get).expect("loopback");
    let mut line = String::new();
    let mut errors = BufReader::new(process.0.stderr.take().expect("it is piped"));
    while !line.contains("sends to server") {
        line.clear();
        assert!(errors.read_line(&mut line).expect("text") > 0, "it reports the third source");
    }
    assert!(line.contains("each of its 2 nodes has another address already"), "{line}");
    assert!(line.contains("--set nodes.client.count=3"), "{line}");
    process.signal("TERM");
    assert_eq!(process.status(), Some(0), "a signal is the end of external programs");
}

#[test]
fn concurrent_sources_of_one_node_are_reported() {
    let sweep = "\n[[sweep]]\nname = \"clients\"\npath = \"nodes.client.count\"\nvalues = [1, 2]\n";
    let (_directory, file) = scenario(&format!("{SMALL}{sweep}"));
    let mut command = command(&file, &["--node", "client=external"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process(command.spawn().expect("it starts"));
    let address = door(&mut process);
    let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    for socket in sockets.iter().cycle().take(3) {
        socket.send_to(&[0x40, 0x01, 0x12, 0x34], &address).expect("loopback");
    }
    let mut line = String::new();
    BufReader::new(process.0.stderr.take().expect("it is piped")).read_line(&mut line).expect("text");
    assert!(line.contains("send to server at the same time, but both are client"), "{line}");
    assert!(line.contains("--set 'sweep.clients.values=[2]'"), "{line}");
    process.signal("INT");
    assert_eq!(process.status(), Some(0));
}

#[test]
fn a_program_that_sends_nothing_is_reported() {
    let ended = emulate(SMALL, &["--node", "client=true"]);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("no datagram of client entered the network; send to {server}"), "{ended:?}");
}

#[test]
fn failures_of_simulated_clients_are_counted_by_kind() {
    // The demonstration server has no such path.
    let program = format!("server={CONCHE} serve --demo --bind {{bind}}");
    let text = SMALL.replace("exchanges = 3", "exchanges = 3\npath = \"missing\"");
    let ended = emulate(&text, &["--node", &program, "--json"]);
    let report = report(&ended);
    let counts = ["requests", "failed", "error_responses", "resets", "unanswered", "open"];
    let counts = counts.map(|count| report["traffic"][0][count].as_u64());
    assert_eq!(counts, [6, 6, 6, 0, 0, 0].map(Some), "{report}");
}

#[test]
fn a_server_that_does_not_listen_is_no_usage_error() {
    let ended = emulate(SMALL, &["--node", "server=true {bind}; sleep 1000"]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("the program of server does not listen at 127."), "{ended:?}");
}

/// Programs that write the process numbers of a child and their own to a file.
fn sleepers(directory: &TempDir) -> (PathBuf, String) {
    let file = directory.path().join("pids");
    let program = format!("client=sleep 1000 & echo $! $$ >> {}; wait", file.display());
    (file, program)
}

fn is_running(pid: &str) -> bool {
    // A process that has ended is a zombie until it is waited for.
    let state = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().expect("there is a ps");
    let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

#[test]
fn no_program_remains_after_any_signal() {
    for (signal, status) in [("INT", Some(130)), ("TERM", Some(130)), ("KILL", None)] {
        let (directory, file) = scenario(SMALL);
        let (pids, program) = sleepers(&directory);
        let mut command = command(&file, &["--node", &program]);
        let process = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
        let text = || fs::read_to_string(&pids).unwrap_or_default();
        while text().lines().count() < 2 {
            std::thread::sleep(Duration::from_millis(20));
        }
        let pids: Vec<String> = text().split_whitespace().map(str::to_owned).collect();
        assert!(pids.len() == 4 && pids.iter().all(|pid| is_running(pid)), "{pids:?}");
        process.signal(signal);
        assert_eq!(process.status(), status, "{signal}");
        let began = Instant::now();
        while let Some(pid) = pids.iter().find(|pid| is_running(pid)) {
            assert!(began.elapsed() < Duration::from_secs(60), "{pid} runs after {signal}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn daemons_end_with_the_run() {
    for (signal, status) in [(None, Some(0)), (Some("INT"), Some(130)), (Some("TERM"), Some(130)), (Some("KILL"), None)]
    {
        let (directory, file) = scenario(SMALL);
        let pids = directory.path().join("pids");
        let stay = if signal.is_some() { "wait" } else { "true" };
        // A daemon has a session of its own, and its parent has ended.
        let daemon = "sh -c 'setsid sh -c \"echo \\$\\$ >> $0; exec sleep 1000 >/dev/null 2>&1\" &'";
        let daemon = daemon.replace("$0", &pids.display().to_string());
        let waiting = format!("until test -s {}; do sleep 0.02; done; sleep 1000 & {stay}", pids.display());
        let mut command = command(&file, &["--node", &format!("client[0]={daemon}; {waiting}")]);
        let process = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
        let text = || fs::read_to_string(&pids).unwrap_or_default();
        while !text().ends_with('\n') {
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Some(signal) = signal {
            assert!(is_running(text().trim()));
            process.signal(signal);
        }
        assert_eq!(process.status(), status, "{signal:?}");
        let began = Instant::now();
        // Only the watchdog, which runs on, is left to end it.
        while signal == Some("KILL") && is_running(text().trim()) && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!is_running(text().trim()), "{signal:?}");
    }
}

#[test]
fn output_without_line_breaks_is_broken() {
    let ended = emulate(SMALL, &["--node", "client[0]=head -c 200000 /dev/zero | tr '\\0' x"]);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let lines = ended.stdout.lines().filter_map(|line| line.strip_prefix("client.0 | "));
    assert_eq!(lines.map(str::len).collect::<Vec<_>>(), [65_536, 65_536, 65_536, 3_392]);
}

/// One client behind a NAT.
fn behind_nat(timeout: &str) -> String {
    let nat = format!("[[nats]]\nname = \"home\"\nat = \"hub\"\ninside = \"client\"\ntimeout = \"{timeout}\"\n\n");
    SMALL.replace("[[traffic]]", &format!("{nat}[[traffic]]")).replace("count = 2", "count = 1")
}

/// Returns sources of three requests at a server program, and the row of its datagrams; the
/// server sends a datagram to the first source after the second request.
fn sources(timeout: &str) -> (Vec<SocketAddr>, serde_json::Value) {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    server.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    // A request a second, whatever the answers.
    let traffic = "sender = \"unaware\"\nconfirmable = false\npace = { every = { interval = \"1s\", spread = false } }";
    let (_directory, file) = scenario(&behind_nat(timeout).replace("exchanges = 3\nresponse = \"20B\"", traffic));
    let program = format!("server={}", server.local_addr().expect("it is bound"));
    let arguments = ["--json", "--set", "duration=4s", "--node", &program];
    let command = command(&file, &arguments).stdout(Stdio::piped()).spawn();
    let mut process = Process(command.expect("it starts"));
    let mut sources = Vec::new();
    while sources.len() < 3 {
        sources.push(server.recv_from(&mut [0; 100]).expect("a request").1);
        if sources.len() == 2 {
            server.send_to(&[0x70, 0x00, 0x12, 0x34], sources[0]).expect("loopback");
        }
    }
    let mut text = String::new();
    process.0.stdout.take().expect("it is piped").read_to_string(&mut text).expect("text");
    let report: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a report");
    (sources, row(&report, "server to client").clone())
}

#[test]
fn a_server_program_sees_a_port_for_each_mapping_and_reaches_the_latest_only() {
    let (sources, datagrams) = self::sources("60s");
    assert!(sources.iter().all(|source| *source == sources[0]), "{sources:?}");
    assert_eq!(["sent", "other_drops"].map(|count| datagrams[count].as_u64()), [Some(1), Some(0)], "{datagrams}");
    let (sources, datagrams) = self::sources("500ms");
    assert!(sources.iter().all(|source| source.ip() == sources[0].ip()), "the NAT's address: {sources:?}");
    let ports: BTreeSet<u16> = sources.iter().map(SocketAddr::port).collect();
    assert_eq!(ports.len(), 3, "{sources:?}");
    assert_eq!(["sent", "other_drops"].map(|count| datagrams[count].as_u64()), [Some(1), Some(1)], "{datagrams}");
}

#[test]
#[cfg(target_os = "linux")]
fn programs_in_namespaces_are_inside_nats() {
    let text = behind_nat("60s");
    let client = format!("client={CONCHE} get -q coap://{{server}}/; echo");
    let Some(ended) = emulate_in_namespaces(&text, &[&client]) else { return };
    assert_eq!((ended.status, ended.stderr.matches(" | ...").count()), (Some(0), 1), "{ended:?}");
    let server = format!("server={CONCHE} serve --demo --bind {{bind}}");
    let Some(ended) = emulate_in_namespaces(&text, &[&server]) else { return };
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("the program of server is outside the NATs of the scenario"), "{ended:?}");
}

/// Runs programs in namespaces; `None` where the system allows none, unless
/// `CONCHE_REQUIRE_TOOLS` is set.
#[cfg(target_os = "linux")]
fn emulate_in_namespaces(text: &str, nodes: &[&str]) -> Option<Ended> {
    let arguments = nodes.iter().flat_map(|node| ["--node", node]);
    let ended = emulate(text, &["--gate", "namespaces", "--json"].into_iter().chain(arguments).collect::<Vec<_>>());
    if ended.status == Some(2) && ended.stderr.contains("use --gate udp, which needs no privileges") {
        assert!(std::env::var_os("CONCHE_REQUIRE_TOOLS").is_none(), "{ended:?}");
        eprintln!("skipped: {}", ended.stderr);
        return None;
    }
    Some(ended)
}

#[test]
#[cfg(target_os = "linux")]
fn programs_in_namespaces_have_addresses_and_names() {
    let client = format!(
        "client={CONCHE} get -q coap://{{server}}/; echo; {CONCHE} get -q 'coap://[fd00::4]/'; echo; {CONCHE} get -q \
         coap://server/; echo"
    );
    let Some(ended) = emulate_in_namespaces(SMALL, &[&client]) else { return };
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let report = report(&ended);
    assert_eq!((&report["end"], &report["undelivered"]), (&"programs".into(), &0.into()), "{report}");
    assert_eq!(ended.stderr.matches(" | ...").count(), 6, "{ended:?}");
    // Three requests of each client pass 40 ms of links.
    let path = row(&report, "client to server");
    assert!(path["sent"].as_u64() >= Some(6) && path["delay_p50_ms"].as_f64() > Some(39.9), "{report}");
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "needs iputils-ping"]
fn simulated_nodes_and_routers_answer_pings() {
    // A packet of another size than CoAP's, to the far end and to a router.
    let pings = "ping -n -c 2 -s 120 server && ping -n -c 2 10.0.0.4 && ping -n -c 2 -s 0 hub";
    let Some(ended) = emulate_in_namespaces(SMALL, &[&format!("client[0]={pings}")]) else { return };
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert_eq!(ended.stderr.matches("2 packets transmitted, 2 received, 0% packet loss").count(), 3, "{ended:?}");
    let report = report(&ended);
    assert_eq!(report["undelivered"], 0, "{report}");
    for (path, delay_ms) in [("client to server", 40.0), ("server to client", 40.0), ("client to hub", 10.0)] {
        assert!(row(&report, path)["delay_p50_ms"].as_f64() >= Some(delay_ms - 0.1), "{report}");
    }
    assert_eq!(
        (&row(&report, "client to hub")["sent"], &row(&report, "hub to client")["sent"]),
        (&2.into(), &2.into())
    );
}

#[test]
#[cfg(target_os = "linux")]
fn servers_in_namespaces_are_awaited_and_failures_reported() {
    let server = format!("server={CONCHE} serve --demo --bind {{bind}}");
    let client = format!("client[1]={CONCHE} get -q coap://server/test && exit 23");
    let Some(ended) = emulate_in_namespaces(SMALL, &[&server, &client]) else { return };
    assert_eq!(ended.status, Some(23), "{ended:?}");
    assert!(ended.stderr.contains("client.1 | hello"), "{ended:?}");
    let ended = emulate(SMALL, &["--gate", "namespaces", "--node", "client=external"]);
    assert!(ended.status == Some(2) && ended.stderr.contains("use --gate udp"), "{ended:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_remains_of_killed_namespaces() {
    if emulate_in_namespaces(SMALL, &["client=true"]).is_none() {
        return;
    }
    let (directory, file) = scenario(SMALL);
    let (started, temporary) = (directory.path().join("started"), directory.path().join("tmp"));
    fs::create_dir(&temporary).expect("a directory");
    // A process outside the group of the program, with arguments of its own.
    let seconds = format!("1000.{}", std::process::id());
    let program = format!("client=setsid sleep {seconds} & echo >> {}; wait", started.display());
    let mut command = command(&file, &["--gate", "namespaces", "--node", &program]);
    let command = command.env("TMPDIR", &temporary).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Process(command.spawn().expect("it starts"));
    let is_running = || {
        let all = Command::new("ps").args(["-eo", "stat=,args="]).output().expect("there is a ps");
        let all = String::from_utf8_lossy(&all.stdout).into_owned();
        all.lines().any(|line| line.contains(&format!("sleep {seconds}")) && !line.starts_with('Z'))
    };
    let is_empty = || fs::read_dir(&temporary).is_ok_and(|mut entries| entries.next().is_none());
    while fs::read_to_string(&started).unwrap_or_default().lines().count() < 2 || !is_running() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!is_empty(), "it has a socket there");
    process.signal("KILL");
    assert_eq!(process.status(), None);
    let began = Instant::now();
    while is_running() || !is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "a program or a file remains");
        std::thread::sleep(Duration::from_millis(20));
    }
}
