//! `conche reproduce`, `conche run` and `conche controllers`.

use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use tempfile::TempDir;

/// A scenario of a few milliseconds: two clients, one scheme.
const SMALL: &str = r#"
schema = 1
name = "small"
title = "Two clients"
replications = 2
seed = 1
time_limit = "1h"

nodes = [{ name = "client", count = 2 }, { name = "hub" }, { name = "server" }]

[[links]]
name = "access"
between = ["client", "hub"]

[[links]]
name = "uplink"
from = "hub"
to = "server"
wire = { rate = "60kbit/s", delay = "213ms", jitter = { uniform = ["0ms", "4ms"] } }

[[links]]
name = "downlink"
from = "server"
to = "hub"
wire = { rate = "30kbit/s", delay = "417ms", queue = "1MB" }

[endpoint]
max_retransmit = 4
nstart = 1
timeout_cap = "60s"
token_length = 0

[[traffic]]
name = "gets"
from = "client"
to = "server"
exchanges = 10
response = "66B"

[[sweep]]
name = "clients"
path = "nodes.client.count"
values = [2]

[[values]]
column = "fct_median_s"
metric = "completion-time"
statistic = { percentile = 50 }

[[schemes]]
name = "mine"
controller = "cocoa"
"#;

struct Files(TempDir);

impl Files {
    fn with_scenario(text: &str) -> Self {
        let files = Self(TempDir::new().expect("a temporary directory"));
        std::fs::write(files.path("scenario.toml"), text).expect("it can be written to");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        let scenario = self.path("scenario.toml");
        conche([&["run", scenario.to_str().expect("a plain path")], args].concat().as_slice())
    }
}

fn conche(args: &[&str]) -> Output {
    Command::cargo_bin("conche").expect("the binary of this package").args(args).output().expect("it starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

#[test]
fn a_scenario_file_runs_and_gives_one_object_a_line() {
    let output = Files::with_scenario(SMALL).run(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let median = lines.iter().find(|line| line["column"] == "fct_median_s").expect("a median");
    assert_eq!((&median["row"], &median["scenario"]), (&"mine/2".into(), &"small".into()));
    let seconds = median["measured"].as_f64().expect("a number");
    assert!((6.5..6.8).contains(&seconds), "ten exchanges of 0.66 s: {seconds} s");
    assert!(output.stderr.is_empty(), "no progress where there is no terminal: {}", stderr(&output));
}

#[test]
fn stats_report_simulated_events_on_standard_error_only() {
    let files = Files::with_scenario(SMALL);
    let (plain, with_stats) = (files.run(&["--json"]), files.run(&["--json", "--stats"]));
    assert_eq!(plain.stdout, with_stats.stdout);
    let line = stderr(&with_stats);
    assert!(line.starts_with("small: 2 runs, ") && line.contains("million a CPU second"), "{line}");
}

#[test]
fn results_depend_on_the_seed_but_not_on_the_threads() {
    let files = Files::with_scenario(&SMALL.replace("replications = 2", "replications = 9"));
    let one = files.run(&["--json", "--jobs", "1", "--runs", "3"]).stdout;
    assert!(one == files.run(&["--json", "--jobs", "2", "--quick"]).stdout, "--quick is 3 replications");
    assert_ne!(one, files.run(&["--json", "--runs", "3", "--seed", "7"]).stdout);
}

#[test]
fn other_controllers_and_an_output_directory_can_be_named() {
    let files = Files::with_scenario(SMALL);
    let results = files.path("results");
    let output =
        files.run(&["--controllers", "mine,linux", "--output", results.to_str().expect("a plain path"), "--runs", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for row in ["mine/2", "linux/2"] {
        assert!(stdout(&output).contains(row), "{}", stdout(&output));
    }
    let text = std::fs::read_to_string(results.join("small.txt")).expect("written");
    assert!(text.ends_with(&stdout(&output)), "the file says what the terminal said");
    assert!(std::fs::read_to_string(results.join("figures.ndjson")).expect("written").contains("linux/2"));
}

#[test]
fn a_value_can_be_set_and_runs_be_chosen_on_the_command_line() {
    let files = Files::with_scenario(SMALL);
    let faster = files.run(&["--json", "--set", "links.downlink.wire.rate=60kbit/s", "--only", "scheme=mine"]);
    assert_eq!(faster.status.code(), Some(0), "{}", stderr(&faster));
    assert_ne!(faster.stdout, files.run(&["--json"]).stdout);
    for (args, expected) in [
        (["--set", "nodes.client.count"], "as in `links.up.wire.rate=30kbit/s`"),
        (["--set", "nodes.nobody.count=2"], "--set nodes.nobody.count=2: nodes.nobody.count: `nodes` has no `nobody`"),
        (
            ["--set", "traffic.gets.exchanges=few"],
            "--set traffic.gets.exchanges=few: traffic.gets.exchanges: invalid type: string \"few\"",
        ),
        (
            ["--set", "nodes.client.count=2"],
            "--set nodes.client.count=2: nodes.client.count: every point of the sweep `clients` sets this value",
        ),
        (["--only", "scheme=nobody"], "scheme: no run has nobody; there are mine"),
        (["--only", "scheme=mine,nobody"], "scheme: no run has nobody; there are mine"),
        (["--only", "scheme=,mine"], "between commas a label is missing"),
    ] {
        let output = files.run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn a_scenario_error_shows_its_place_and_a_remedy() {
    let output = Files::with_scenario(&SMALL.replace("rate = \"30kbit/s\"", "rate = 30000")).run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("write a data rate as in \"30kbit/s\""), "{message}");
    assert!(message.contains("scenario.toml:25"), "{message}");
}

#[test]
fn wrong_names_are_answered_with_the_valid_ones() {
    for (args, expected) in [
        (["reproduce", "anrw81", "--quick", ""], "the papers are: etfa14"),
        (["reproduce", "anrw18", "--controllers", "cacoa"], "cocoa-plus"),
        (["reproduce", "--controllers", "cacoa", ""], "cocoa-plus"),
        (["reproduce", "--full", "--quick", ""], "cannot be used with"),
    ] {
        let args: Vec<&str> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
        let output = conche(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn controllers_are_listed_with_their_bytes_of_state() {
    let output = conche(&["controllers", "--json"]);
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in &lines {
        let (peer, published) = (&line["peer_bytes"], &line["published_peer_bytes"]);
        let within = published.is_null() || peer.as_u64() <= published.as_u64();
        assert!(within, "{}: {peer} bytes, published are {published}", line["name"]);
    }
    let text = stdout(&conche(&["controllers"]));
    for line in &lines {
        let name = line["name"].as_str().expect("a name");
        assert!(text.lines().any(|row| row.split_whitespace().next() == Some(name)), "{name} is missing in\n{text}");
    }
    assert!(lines.len() >= 20, "the whole family");
}

#[test]
fn a_controller_is_a_line_in_a_pipe_and_the_default_is_marked() {
    let text = stdout(&conche(&["controllers"]));
    let rows: Vec<_> = text.lines().skip(3).take_while(|line| line.starts_with(' ')).collect();
    assert_eq!(rows.len(), stdout(&conche(&["controllers", "--json"])).lines().count(), "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    let marked: Vec<_> = rows.iter().filter(|row| row.contains(" * ")).collect();
    assert!(matches!(marked[..], [row] if row.starts_with(" temper * ")), "{marked:?}");
    assert!(text.contains("The name `default` means the algorithm of RFC 7252"), "{text}");
    let json = stdout(&conche(&["controllers", "--json"]));
    assert_eq!(json.matches("\"is_default\":true").count(), 1);
    let one = stdout(&conche(&["controllers", "peak_hopper"]));
    assert!(one.starts_with("peak-hopper: ") && one.contains("Ekström and Ludwig 2003"), "{one}");
}

#[test]
fn a_value_that_no_run_has_is_named_below_the_table() {
    let text = SMALL.replace("wire = { rate = \"60kbit/s\",", "wire = { loss = \"100%\", rate = \"60kbit/s\",");
    let text = text
        + "\n[[values]]\ncolumn = \"rtt_s\"\nmetric = \"round-trip\"\n[[values]]\ncolumn = \"failed\"\nmetric = \"failed\"\n";
    let output = Files::with_scenario(&text).run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = stdout(&output);
    assert!(printed.contains("No run has a value of rtt_s.") && printed.contains("failed"), "{printed}");
}

#[test]
fn reproduce_and_compare_check_all_runs_before_the_first_one() {
    let reproduced = conche(&["reproduce", "anrw18", "--quick", "--set", "traffic.gets.from=server"]);
    let message = stderr(&reproduced);
    assert_eq!(reproduced.status.code(), Some(2), "{message}");
    assert!(message.contains("anrw18: ") && message.contains("a node would ask itself"), "{message}");
    // Seven clients and two hubs do not pair up, which only a network that is built shows.
    let text = SMALL.replace("{ name = \"hub\" }", "{ name = \"hub\", count = 2 }");
    let text = text.replace("statistic = { percentile = 50 }", "statistic = { percentile = 50 }\nprimary = true");
    let text = text.replace("[2]\n", "[2, 7]\n");
    let files = Files::with_scenario(&text);
    let scenario = files.path("scenario.toml").display().to_string();
    let directory = files.path("results");
    for command in [&["run"][..], &["compare", "--controllers", "default,cocoa"]] {
        let output = conche(&[command, &[&scenario, "-o", directory.to_str().expect("a plain path")]].concat());
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {message}");
        assert!(message.contains("do not pair up") && message.contains("scenario.toml:"), "{message}");
        assert!(!directory.exists(), "nothing has begun");
    }
}
