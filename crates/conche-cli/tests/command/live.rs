//! The live view: `conche run --live` and `conche emulate --live`, over HTTP.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{Process, conche, run};

/// Two clients, 40 ms each way.
const SMALL: &str = r#"
schema = 1
name = "small"
title = "Two clients"
replications = 1
seed = 1
time_limit = "10min"
schemes = [{ name = "default", controller = "default" }, { name = "cocoa", controller = "cocoa" }]
nodes = [{ name = "client", count = 2 }, { name = "hub" }, { name = "server" }]

[[links]]
name = "access"
between = ["client", "hub"]
wire = { delay = "10ms" }

[[links]]
name = "core"
between = ["hub", "server"]
wire = { rate = "1Mbit/s", delay = "30ms", queue = "2500B" }

[[traffic]]
name = "gets"
from = "client"
to = "server"
exchanges = 3
path = "test"
response = "20B"
"#;

const CONCHE: &str = env!("CARGO_BIN_EXE_conche");

/// Number of `core>` among the links.
const CORE: usize = 4;

/// A run with a page.
struct Live {
    process: Process,
    address: SocketAddr,
    _directory: TempDir,
}

fn scenario(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("scenario.toml");
    fs::write(&file, text).expect("it can be written");
    (directory, file)
}

impl Live {
    fn start(command: &str, text: &str, arguments: &[&str]) -> Self {
        let (directory, file) = scenario(text);
        let mut of = conche();
        of.arg(command).arg(&file).args(["--live", "--json"]).args(arguments);
        let mut process = Process(of.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"));
        let mut stdout = BufReader::new(process.0.stdout.take().expect("it is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it announces the page");
        process.0.stdout = Some(stdout.into_inner());
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let address = line["live"].as_str().and_then(|url| url.strip_prefix("http://")?.strip_suffix('/'));
        let address = address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("an address: {line}"));
        Self { process, address, _directory: directory }
    }

    fn request(&self, request: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let host = headers.iter().all(|(name, _)| *name != "Host").then(|| format!("Host: {}\r\n", self.address));
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (host, length) = (host.unwrap_or_default(), body.len());
        let head =
            format!("{request} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("a head: {answer}"));
        assert!(head.to_lowercase().contains("content-security-policy: default-src 'self'"), "{head}");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("a status: {head}")), body.to_owned())
    }

    fn network(&self) -> Value {
        let (status, body) = self.request("GET /network", &[], "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn control(&self, control: &Value) -> (u16, String) {
        self.request("POST /control", &[("Content-Type", "application/json")], &control.to_string())
    }

    fn accept(&self, control: &Value) {
        assert_eq!(self.control(control), (204, String::new()), "{control}");
    }

    fn refuse(&self, status: u16, control: &Value) -> String {
        let (was, body) = self.control(control);
        assert_eq!(was, status, "{control}: {body}");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        body["error"].as_str().expect("text").to_owned()
    }

    fn events(&self) -> Events {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).expect("it reads");
        Events(BufReader::new(stream).lines())
    }
}

/// The frames of an event stream.
struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    /// Returns the status of the answer.
    fn status(&mut self) -> u16 {
        let line = self.0.next().expect("an answer").expect("text");
        line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("a status: {line}"))
    }

    fn next(&mut self) -> Option<Value> {
        self.0.by_ref().map_while(Result::ok).find_map(|line| {
            // A hexadecimal size precedes each chunk.
            line.strip_prefix("data: ").map(|frame| serde_json::from_str(frame).expect("JSON"))
        })
    }

    fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            frames.push(self.next().unwrap_or_else(|| panic!("a frame after {frames:?}")));
            if frames.last().is_some_and(&is_wanted) {
                return frames;
            }
        }
    }
}

fn is_ended(frame: &Value) -> bool {
    frame["state"] == "ended"
}

fn messages<'a>(frames: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = frames.iter().flat_map(|frame| frame["messages"].as_array().expect("messages"));
    all.filter(move |message| message["kind"] == kind)
}

#[test]
fn a_page_reads_the_network_and_steps_from_message_to_message() {
    let live = Live::start("run", SMALL, &["--only", "scheme=cocoa"]);
    let network = live.network();
    assert_eq!((&network["scenario"], &network["cell"]), (&json!("small"), &json!("cocoa")));
    assert_eq!((&network["scheme"], &network["limit_s"]), (&json!("cocoa"), &json!(600.0)));
    let server = json!({ "name": "server", "group": "server", "role": "server", "is_program": false });
    assert_eq!(network["nodes"][3], server);
    assert_eq!((&network["nodes"][1]["group"], &network["nodes"][2]["role"]), (&json!("client"), &json!("router")));
    let core = json!({
        "name": "core>", "group": "core>", "from": 2, "to": 3, "is_radio": false, "can_change": true,
        "rate": "1Mbit/s", "delay": "30ms", "loss": "0%", "queue": "2500B",
    });
    assert_eq!(network["links"][CORE], core);
    assert_eq!(network["paths"], json!([{ "from": 0, "to": 3 }, { "from": 1, "to": 3 }]));

    let mut events = live.events();
    let first = events.next().expect("the history");
    assert_eq!((&first["n"], &first["t"], &first["state"]), (&json!(0), &json!(0.0), &json!("paused")));
    live.accept(&json!({ "action": "step" }));
    let mut stepped = events.until(|frame| frame["state"] == "paused");
    let sent: Vec<&Value> = messages(&stepped, "sent").collect();
    assert!(sent[0]["text"].as_str().is_some_and(|text| text.starts_with("CON GET [0x") && text.ends_with("] /test")));
    assert_eq!((&sent[0]["to"], &sent[0]["is_retransmission"]), (&json!(3), &json!(false)));
    assert_eq!(messages(&stepped, "delivered").count(), 0, "a step ends before the next event: {stepped:?}");
    // The second client's only, whatever the first one does.
    live.accept(&json!({ "action": "step", "nodes": [1] }));
    let second = events.until(|frame| frame["state"] == "paused");
    let last = second.iter().flat_map(|frame| frame["messages"].as_array().into_iter().flatten()).next_back();
    assert!(last.is_some_and(|last| last["from"] == 1 || last["to"] == 1), "{second:?}");
    stepped.extend(second);
    // A second page gets the history, in the same order.
    let mut late = live.events();
    let all = late.until(|frame| frame["n"] == stepped.last().expect("a frame")["n"]);
    assert_eq!(all[0], first);
    assert_eq!(all[1..], stepped);
}

#[test]
fn a_run_at_full_speed_ends_and_ctrl_c_ends_the_command() {
    let live = Live::start("run", SMALL, &["--seed", "5", "--only", "scheme=cocoa"]);
    let mut events = live.events();
    live.accept(&json!({ "action": "speed", "value": null }));
    live.accept(&json!({ "action": "play" }));
    let frames = events.until(is_ended);
    // Six exchanges of a request and a response.
    assert_eq!((messages(&frames, "sent").count(), messages(&frames, "delivered").count()), (12, 12), "{frames:?}");
    let last = frames.last().expect("a frame");
    assert_eq!(last["links"][CORE], json!([0, 0, 6, 0, 0, 0, true]));
    assert_eq!((&last["paths"][0][2], &last["paths"][0][3], &last["speed"]), (&json!(0), &json!(3), &Value::Null));
    assert!(last["paths"][0][1].as_f64().is_some_and(|srtt| (0.08..0.09).contains(&srtt)), "{last}");
    assert!(live.refuse(409, &json!({ "action": "play" })).contains("the run has ended"));
    live.process.signal("INT");
    assert_eq!(events.next(), None, "the stream ends");
    assert_eq!(live.process.status(), Some(0));
}

#[test]
fn a_paused_run_changes_nothing_and_ends_at_a_signal() {
    let live = Live::start("run", SMALL, &[]);
    let mut events = live.events();
    assert_eq!(events.next().expect("a frame")["t"], 0.0);
    live.accept(&json!({ "action": "pause" }));
    assert_eq!(events.next().expect("a frame")["t"], 0.0);
    live.process.signal("TERM");
    assert_eq!(events.next(), None);
    assert_eq!(live.process.status(), Some(0));
}

#[test]
fn a_changed_link_delays_and_drops_what_follows() {
    let live = Live::start("run", SMALL, &[]);
    let mut events = live.events();
    live.accept(&json!({ "action": "link", "link": CORE, "both": true, "delay": "1500ms", "rate": "30kbit/s" }));
    live.accept(&json!({ "action": "link", "link": 0, "group": true, "loss": "2%" }));
    live.accept(&json!({ "action": "link", "link": 3, "up": false }));
    live.accept(&json!({ "action": "speed", "value": null }));
    live.accept(&json!({ "action": "play" }));
    let frames = events.until(is_ended);
    let changed: Vec<&Value> = frames.iter().flat_map(|frame| frame["changed"].as_array().expect("changes")).collect();
    let mut links: Vec<_> = changed.iter().map(|link| link["link"].as_u64()).collect();
    links.sort_unstable();
    assert_eq!(links, [Some(0), Some(2), Some(4), Some(5)], "{changed:?}");
    let of = |number: usize| changed.iter().find(|link| link["link"] == number).expect("a change");
    assert_eq!((&of(CORE)["rate"], &of(CORE)["delay"]), (&json!("30kbit/s"), &json!("1.5s")));
    assert_eq!((&of(2)["loss"], &of(2)["delay"]), (&json!("2%"), &json!("10ms")));
    let first = messages(&frames, "delivered").next().expect("a request")["at"].as_f64().expect("a time");
    let sent = messages(&frames, "sent").next().expect("a request")["at"].as_f64().expect("a time");
    assert!(first - sent > 1.5, "{first} {sent}");
    let by = |kind, name: &'static str| messages(&frames, kind).filter(move |message| message[name].is_number());
    assert!(by("sent", "rto_s").all(|sent| sent["to"] == 3) && by("sent", "rto_s").any(|sent| sent["attempt"] == 2));
    assert!(by("delivered", "rto_s").any(|message| message["to"] == 0));
    let down: Vec<&Value> = messages(&frames, "dropped").filter(|dropped| dropped["reason"] == "link down").collect();
    assert!(!down.is_empty() && down.iter().all(|dropped| dropped["link"] == 3), "{down:?}");
    assert!(messages(&frames, "sent").any(|sent| sent["is_retransmission"] == true));
    let last = frames.last().expect("a frame");
    assert!(last["links"][3][6] == false && last["links"][3][5].as_u64() > Some(3), "{last}");
    assert!(last["paths"][1][4].as_u64() >= Some(4), "client[1] has no responses: {last}");
}

#[test]
fn a_wrong_control_is_refused_with_what_would_be_right() {
    let live = Live::start("run", SMALL, &[]);
    let link = |key: &str, value: Value| json!({ "action": "link", "link": CORE, key: value });
    let rate = live.refuse(400, &link("rate", json!("15")));
    assert_eq!(rate, "rate: `15` is not a data rate: a bare number has no unit; write it as in \"30kbit/s\"");
    let zero = live.refuse(400, &link("rate", json!("0bit/s")));
    assert!(zero.contains("it is zero") && zero.contains("or \"none\" for a link without transmission time"), "{zero}");
    assert!(
        live.refuse(400, &link("rate", json!(" "))).contains("it is empty; write a data rate as in \"30kbit/s\", or")
    );
    assert!(live.refuse(400, &link("delay", Value::Null)).contains("expected a time as in \"400ms\""));
    assert!(live.refuse(400, &link("loss", json!("20"))).contains("has no unit; write it as in \"20%\""));
    assert!(live.refuse(400, &link("loss", json!("-3%"))).contains("it is negative"));
    assert!(live.refuse(400, &json!({ "action": "link", "link": CORE })).contains("the change is empty"));
    assert!(live.refuse(400, &json!({ "action": "link", "link": "x", "up": true })).contains("link: its number"));
    assert!(live.refuse(400, &json!({ "action": "step", "nodes": "x" })).contains("nodes: a list of their numbers"));
    assert!(live.refuse(400, &json!({ "action": "step", "nodes": [4] })).contains("nodes: there are 4"));
    assert!(live.refuse(400, &json!("play")).contains("a control is a JSON object"));
    assert!(live.refuse(400, &link("loss", json!("101%"))).contains("it is above 100%"));
    assert!(live.refuse(400, &link("delay", json!(3))).contains("the bare number 3 has no unit"));
    assert!(live.refuse(400, &link("queue", json!("3kB"))).contains("unknown field `queue`"));
    assert!(live.refuse(400, &json!({ "action": "link", "link": 6 })).contains("there are 6, counted from 0"));
    assert!(live.refuse(400, &json!({ "action": "jump" })).contains("unknown variant `jump`"));
    assert!(live.refuse(400, &json!({ "action": "speed", "value": 0 })).contains("from 0.1 to 1000"));
    assert!(live.refuse(413, &json!({ "action": " ".repeat(4096) })).contains("at most 4096 bytes"));
    assert_eq!(live.events().until(|_| true).len(), 1);
    assert!(live.request("POST /control", &[("Content-Type", "application/json")], "{").0 == 400);
}

#[test]
fn pages_of_other_origins_reach_nothing() {
    let live = Live::start("run", SMALL, &[]);
    let json = ("Content-Type", "application/json");
    let port = live.address.port();
    let step = r#"{"action":"step"}"#;
    let foreign = format!("live.example:{port}");
    for path in ["GET /", "GET /network", "GET /events"] {
        assert_eq!(live.request(path, &[("Host", &foreign)], "").0, 421, "{path}");
        assert_eq!(live.request(path, &[("Host", "127.0.0.1")], "").0, 421, "{path}");
        assert_eq!(live.request(path, &[("Origin", "http://live.example")], "").0, 403, "{path}");
    }
    assert_eq!(live.request("GET /network", &[("Sec-Fetch-Site", "cross-site")], "").0, 403);
    let link = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")];
    assert_eq!(live.request("GET /", &link, "").0, 200);
    assert_eq!(live.request("GET /network", &link, "").0, 403);
    assert_eq!(live.request("POST /control", &[("Host", &foreign), json], step).0, 421);
    assert_eq!(live.request("POST /control", &[("Origin", "null"), json], step).0, 403);
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"] {
        assert_eq!(live.request("POST /control", &[("Content-Type", content_type)], step).0, 415, "{content_type}");
    }
    assert_eq!(live.request("GET /control", &[], "").0, 405);
    assert_eq!(live.request("POST /network", &[json], step).0, 405);
    assert_eq!(live.request("GET /../Cargo.toml", &[], "").0, 404);
    let own = format!("http://localhost:{port}");
    let host = format!("LOCALHOST:{port}");
    assert_eq!(live.request("POST /control", &[("Origin", &own), ("Host", &host), json], step).0, 204);
    let (status, page) = live.request("GET /", &[], "");
    assert!(status == 200 && page.contains("<!doctype html>"), "{page}");
}

#[test]
fn sixteen_pages_can_be_open() {
    let live = Live::start("run", SMALL, &[]);
    let mut pages: Vec<Events> = (0..16).map(|_| live.events()).collect();
    pages.iter_mut().for_each(|page| assert_eq!(page.status(), 200));
    assert_eq!(live.events().status(), 503);
}

#[test]
fn a_connection_beyond_64_waits_until_another_one_ends() {
    let live = Live::start("run", SMALL, &[]);
    let idle: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(live.address).expect("it listens")).collect();
    let mut next = TcpStream::connect(live.address).expect("it listens");
    write!(next, "GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", live.address).expect("it is sent");
    next.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    assert!(next.read(&mut [0; 1]).is_err(), "no place is free");
    drop(idle);
    next.set_read_timeout(None).expect("no timeout");
    let mut answer = String::new();
    next.read_to_string(&mut answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[test]
fn an_emulation_shows_its_programs_and_has_no_pause() {
    let directory = tempfile::tempdir().expect("a directory");
    let end = directory.path().join("end");
    let program = format!(
        "client[0]={CONCHE} get -q coap://{{server}}/test; while [ ! -e {} ]; do sleep 0.01; done",
        end.display()
    );
    let mut live = Live::start("emulate", SMALL, &["--max-lateness", "1h", "--node", &program]);
    let network = live.network();
    assert_eq!((&network["is_simulation"], &network["nodes"][0]["is_program"]), (&json!(false), &json!(true)));
    assert_eq!(network["paths"], json!([{ "from": 0, "to": 3 }, { "from": 1, "to": 3 }]));
    let mut events = live.events();
    let mut frames = events.until(|frame| frame["t"].as_f64() > Some(0.0));
    for control in [json!({ "action": "pause" }), json!({ "action": "step" }), json!({ "action": "speed", "value": 2 })]
    {
        assert!(live.refuse(409, &control).contains("an emulation has no pause, step or speed"));
    }
    live.accept(&json!({ "action": "link", "link": CORE, "loss": "1.5%" }));
    fs::write(&end, "").expect("it can be written");
    frames.extend(events.until(is_ended));
    assert_eq!(frames[0]["t"], 0.0, "a frame before programs start");
    assert_eq!(events.next(), None);
    let of_program = |kind| messages(&frames, kind).filter(|message| message["from"] == 0).count();
    assert!(of_program("sent") > 0 && messages(&frames, "delivered").any(|message| message["to"] == 0), "{frames:?}");
    assert!(frames.iter().any(|frame| frame["changed"][0]["loss"] == "1.5%"));
    let last = frames.last().expect("a frame");
    assert!(last["lateness_ms"].as_f64().is_some());
    // client[1] is simulated: only its path has a state.
    assert_eq!((&last["paths"][0][0], &last["paths"][0][1]), (&Value::Null, &Value::Null), "{last}");
    assert!(last["paths"][0][3].as_u64() > Some(0) && last["paths"][1][0].as_f64().is_some(), "{last}");
    let mut report = String::new();
    live.process.0.stdout.take().expect("it is piped").read_to_string(&mut report).expect("text");
    assert_eq!(live.process.status(), Some(0));
    let report: Value = serde_json::from_str(report.lines().last().expect("a report")).expect("JSON");
    assert_eq!(report["end"], "programs");
    let changes = &report["live_changes"];
    assert_eq!((&changes["count"], &changes["first"][0]["links"]), (&json!(1), &json!(["core>"])), "{report}");
    assert!(changes["first"][0]["loss"] == "1.5%" && changes["first"][0]["at_s"].as_f64().is_some(), "{report}");
}

#[test]
fn programs_start_once_a_page_is_open() {
    let directory = tempfile::tempdir().expect("a directory");
    let started = directory.path().join("started");
    let program = format!("client[0]=touch {}", started.display());
    let live = Live::start("emulate", SMALL, &["--max-lateness", "1h", "--node", &program]);
    // The page itself is not enough: it may not draw yet.
    assert_eq!(live.request("GET /", &[], "").0, 200);
    assert!(live.refuse(409, &json!({ "action": "link", "link": CORE, "loss": "1%" })).contains("has not begun"));
    assert!(!started.exists());
    let frames = live.events().until(is_ended);
    assert!(started.exists() && frames[0]["t"] == 0.0, "{frames:?}");
    assert_eq!(live.process.status(), Some(0));
}

#[test]
fn ctrl_c_ends_an_emulation_that_waits_for_a_page() {
    let live = Live::start("emulate", SMALL, &["--node", "client[0]=true"]);
    live.process.signal("INT");
    assert_eq!(live.process.status(), Some(130));
}

#[test]
fn an_emulation_that_fails_ends_its_page() {
    let live = Live::start("emulate", SMALL, &["--node", "server=echo {bind}"]);
    assert_eq!(live.events().until(is_ended).last().expect("a frame")["state"], "ended");
    assert_eq!(live.process.status(), Some(1));
}

#[test]
fn the_address_is_data_that_names_the_cell() {
    let (_directory, file) = scenario(SMALL);
    let mut of = conche();
    of.args(["run", "-q"]).arg(&file).arg("--live").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process(of.spawn().expect("it starts"));
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().expect("it is piped")).read_line(&mut line).expect("an address");
    assert!(line.starts_with("live view of small (default, 1 of 2 cells) at http://127.0.0.1:"), "{line}");
    assert!(line.ends_with("/ (paused: press Play; Ctrl-C ends it)\n"), "{line}");
    process.signal("INT");
    assert_eq!(process.status(), Some(0));
}

#[test]
fn runs_without_a_view_are_refused_with_a_reason() {
    let refused = |text: &str, command: &[&str], arguments: &[&str]| {
        let (_directory, file) = scenario(text);
        let ended = run(conche().args(command).arg(&file).args(arguments));
        assert_eq!(ended.status, Some(2), "{ended:?}");
        ended.stderr
    };
    let beyond = refused(SMALL, &["run"], &["--live=0.0.0.0:8080"]);
    assert!(beyond.contains("an address of this machine with a port was expected, as in 127.0.0.1:8080"), "{beyond}");
    assert!(refused(SMALL, &["run"], &["--live", "-o", "results"]).contains("cannot be used with"));
    assert!(refused(SMALL, &["run"], &["--live", "--jobs", "2"]).contains("cannot be used with"));
    assert!(refused(SMALL, &["plan", "run"], &["--live"]).contains("--live shows one run, and has no plan"));
    let many = refused(SMALL, &["run"], &["--live", "--set", "nodes.client.count=2000"]);
    assert!(many.contains("has 2002 nodes, and the view shows at most 2000"), "{many}");
    let one_by_one = refused(&SMALL.replace("seed = 1", "seed = 1\none_by_one = true"), &["run"], &["--live"]);
    assert!(one_by_one.contains("one_by_one: flows that run one by one have a clock each"), "{one_by_one}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = taken.local_addr().expect("it is bound");
    let (_directory, file) = scenario(SMALL);
    let ended = run(Command::new(CONCHE).arg("run").arg(&file).arg(format!("--live={address}")));
    assert!(
        ended.status != Some(0) && ended.stderr.contains("write another port, or none for a free one"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("--live") && !ended.stderr.contains("--bind"), "{ended:?}");
    let separated = refused(SMALL, &["run", "--live", "8080"], &[]);
    assert!(separated.contains("the address follows `=`: write --live=8080"), "{separated}");
    let scheme = refused(SMALL, &["run"], &["--live", "--only", "scheme=cocoa:weak_k=1"]);
    assert!(scheme.contains("for other controllers, write --controllers cocoa:weak_k=1"), "{scheme}");
}
