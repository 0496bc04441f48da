//! The files that `-o DIR` writes, and campaigns that resume from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use tempfile::TempDir;

/// Twelve runs of a few milliseconds.
const SCENARIO: &str = r#"
schema = 1
name = "small"
title = "Some clients"
replications = 2
seed = 1
duration = "60s"

nodes = [{ name = "client", count = 2 }, { name = "hub" }, { name = "server" }]
phases = [{ name = "first", lasts = "20s" }, { name = "rest", lasts = "40s" }]
mixes = [{ name = "both", schemes = ["mine", "plain"] }]

[[links]]
name = "access"
between = ["client", "hub"]

[[links]]
name = "uplink"
between = ["hub", "server"]
wire = { rate = "30kbit/s", delay = "200ms", jitter = { uniform = ["0ms", "40ms"] }, loss = "10%" }

[endpoint]
max_retransmit = 4
nstart = 1
timeout_cap = "60s"
token_length = 2

[[traffic]]
name = "gets"
from = "client"
to = "server"

[[sweep]]
name = "clients"
path = "nodes.client.count"
values = [2, 3]

[[values]]
column = "throughput"
metric = "throughput"

[[values]]
column = "time_median_s"
metric = "exchange-time"
statistic = { percentile = 50 }

[[values]]
column = "done_{}"
metric = { done = { stretches = 2 } }
statistic = "sum"

[[schemes]]
name = "mine"
controller = "cocoa"

[[schemes]]
name = "plain"
controller = "default"
"#;

struct Campaign(TempDir);

impl Campaign {
    fn new() -> Self {
        Self::of(SCENARIO)
    }

    fn of(scenario: &str) -> Self {
        let campaign = Self(TempDir::new().expect("a temporary directory"));
        fs::write(campaign.path("scenario.toml"), scenario).expect("it can be written");
        campaign
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(cargo_bin("conche"));
        command.arg("run").arg(self.path("scenario.toml")).arg("-o").arg(self.path("results"));
        command.args(args).output().expect("it starts")
    }

    fn conche(&self, args: &[&str]) -> Output {
        let output = Command::new(cargo_bin("conche")).current_dir(self.0.path()).args(args).output();
        output.expect("it starts")
    }

    fn succeeds(&self, args: &[&str]) -> Output {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        output
    }

    fn file(&self, name: &str) -> String {
        let path = self.path("results").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn manifest(&self) -> Value {
        serde_json::from_str(&self.file("manifest.json")).expect("JSON")
    }

    /// Sorted: runs end in any order.
    fn journal(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.file("runs.ndjson").lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

#[test]
fn a_manifest_records_the_runs_and_the_program() {
    let campaign = Campaign::new();
    let output = campaign.succeeds(&["--json", "-j", "2"]);
    let manifest = campaign.manifest();
    let scenario = &manifest["scenarios"][0];
    assert_eq!((&manifest["schema"], &manifest["state"]), (&1.into(), &"complete".into()));
    assert_eq!(manifest["threads"], 2);
    assert!(manifest["command"].as_array().is_some_and(|command| command.contains(&"-o".into())), "{manifest}");
    assert_eq!(manifest["program"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(manifest["program"]["sha256"].as_str().is_some_and(|hash| hash.len() == 64), "{manifest}");
    let times = [&manifest["started"], &manifest["finished"]].map(|time| time.as_str().expect("a time"));
    assert!(times[0].ends_with('Z') && times[0] <= times[1], "{times:?}");
    assert_eq!((&scenario["name"], &scenario["seed"], &scenario["runs"]), (&"small".into(), &1.into(), &12.into()));
    assert_eq!(campaign.file("scenarios/small.toml"), SCENARIO);
    assert_eq!(campaign.file("figures.ndjson").as_bytes(), output.stdout, "the rows that --json prints");
    assert!(campaign.file("small.txt").contains("Some clients"));
    assert_eq!(campaign.journal().len(), 12);
    assert!(fs::read(campaign.path("results/runs.parquet")).is_ok_and(|file| file.ends_with(b"PAR1")));
    assert!(!campaign.path("results/exchanges.parquet").exists(), "it was not asked for");
}

#[test]
fn a_campaign_killed_anywhere_resumes_to_identical_values() {
    let whole = Campaign::new();
    let figures = whole.succeeds(&["--json", "-j", "1"]).stdout;
    let (journal, runs) = (whole.file("runs.ndjson"), fs::read(whole.path("results/runs.parquet")).expect("runs"));
    let line = journal.lines().next().expect("a line").len() + 1;
    let interrupted = Campaign::new();
    interrupted.succeeds(&["-j", "2", "--quiet"]);
    let lengths = [0, 1, line - 1, line, line + line / 2, journal.len() / 2, journal.len() - 1, journal.len()];
    for (length, threads) in lengths.into_iter().zip(["2", "1"].into_iter().cycle()) {
        fs::write(interrupted.path("results/runs.ndjson"), &journal.as_bytes()[..length]).expect("it can be written");
        let output = interrupted.succeeds(&["--json", "-j", threads]);
        assert!(output.stdout == figures, "{length} bytes, {threads} threads");
        let kept = journal[..length].lines().count() - usize::from(length > 0 && !journal[..length].ends_with('\n'));
        let message = stderr(&output);
        assert_eq!(message.contains("its last line is cut off"), length > 0 && !journal[..length].ends_with('\n'));
        assert_eq!(message.contains(&format!("small: {kept} of 12 runs taken from")), kept > 0, "{message}");
        assert_eq!(interrupted.manifest()["scenarios"][0]["from_journal"], kept);
        assert_eq!(interrupted.journal(), whole.journal(), "each run is there once");
        assert!(fs::read(interrupted.path("results/runs.parquet")).expect("runs") == runs, "{length} bytes");
        assert_eq!(interrupted.file("figures.ndjson").as_bytes(), figures);
    }
}

#[test]
fn more_replications_take_those_that_are_there() {
    let campaign = Campaign::new();
    campaign.succeeds(&["--quiet"]);
    let output = campaign.succeeds(&["--json", "--runs", "3"]);
    assert!(stderr(&output).contains("12 of 18 runs taken from"), "{}", stderr(&output));
    let anew = Campaign::new();
    assert!(output.stdout == anew.succeeds(&["--json", "--runs", "3"]).stdout);
    let other = campaign.succeeds(&["--seed", "9"]);
    assert!(!stderr(&other).contains("taken"), "another seed, other runs: {}", stderr(&other));
}

#[test]
fn a_run_that_fails_is_named_and_the_rest_is_there() {
    // With this seed a third of the runs do not end in time.
    let scenario = SCENARIO
        .replace("duration = \"60s\"", "time_limit = \"40s\"")
        .replace("phases = [{ name = \"first\", lasts = \"20s\" }, { name = \"rest\", lasts = \"40s\" }]\n", "")
        .replace("to = \"server\"\n\n[[sweep]]", "to = \"server\"\nexchanges = 20\n\n[[sweep]]")
        .replace("metric = { done = { stretches = 2 } }", "metric = { done = { stretches = 1 } }");
    let campaign = Campaign::of(&scenario);
    let output = campaign.run(&["--json"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let manifest = campaign.manifest();
    let failures = manifest["failures"].as_array().expect("a list");
    assert!((1..12).contains(&failures.len()), "some fail, and not all: {manifest}");
    assert_eq!(manifest["state"], "failed");
    assert!(message.contains(&format!("{} of 12 runs failed", failures.len())), "{message}");
    let first = failures[0]["cell"].as_str().expect("a name");
    assert!(message.contains(&format!("small: {first}, replication ")), "{message}");
    assert_eq!(campaign.journal().len(), 12 - failures.len());
    let figures = campaign.file("figures.ndjson");
    assert!(figures.lines().count() > 3 && figures.contains("\"runs\":2"), "{figures}");
    let again = campaign.run(&["--json"]);
    assert_eq!(again.stdout, output.stdout, "what failed fails again, and the rest is taken");
}

#[test]
fn an_unusable_results_directory_is_refused_with_a_remedy() {
    let campaign = Campaign::new();
    campaign.succeeds(&["--quiet"]);
    let journal = campaign.file("runs.ndjson");
    fs::write(campaign.path("scenario.toml"), SCENARIO.replace("seed = 1", "seed = 2")).expect("it can be written");
    let output = campaign.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(
        message.contains("another scenario small") && message.contains("or begin anew with --overwrite"),
        "{message}"
    );
    assert_eq!(campaign.file("runs.ndjson"), journal, "nothing is touched");
    campaign.succeeds(&["--overwrite", "--quiet"]);
    assert_eq!(campaign.journal().len(), 12);
    assert_ne!(campaign.file("runs.ndjson"), journal);

    let file = campaign.path("scenario.toml");
    let mut command = Command::new(cargo_bin("conche"));
    let output = command.arg("run").arg(&file).arg("-o").arg(file.join("results")).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    for part in ["scenario.toml/results", "name a directory that can be made or written to", "Not a directory"] {
        assert!(message.contains(part), "{message}");
    }
    fs::remove_file(campaign.path("results/small.txt")).expect("it is there");
    fs::create_dir(campaign.path("results/small.txt")).expect("it can be made");
    let output = campaign.run(&["--stats"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("results/small.txt: make it a file that can be written to"), "{message}");
    assert!(!message.contains("12 runs"), "nothing has run: {message}");
}

#[test]
fn repeated_runs_write_identical_files() {
    let campaign = Campaign::new();
    campaign.succeeds(&["--quiet", "--only", "clients=2", "--runs", "2", "-j", "1"]);
    let other = Campaign::new();
    other.succeeds(&["--series=500ms", "--exchanges", "--only", "clients=2", "--runs", "2", "-j", "2"]);
    for name in ["figures.ndjson", "small.txt", "runs.parquet", "scenarios/small.toml"] {
        let [one, other] = [&campaign, &other].map(|of| fs::read(of.path("results").join(name)).expect("a file"));
        assert!(one == other, "{name}");
    }
    let first = campaign.file("small.txt").lines().next().expect("a line").to_owned();
    assert_eq!(first, format!("conche {} --runs 2 --only clients=2", env!("CARGO_PKG_VERSION")));
    let taken = other.succeeds(&["--series=500ms", "--only", "clients=2", "--runs", "2"]);
    assert!(stderr(&taken).contains("6 of 6 runs taken from"), "{}", stderr(&taken));
    let again = other.succeeds(&["--series", "--only", "clients=2", "--runs", "2"]);
    assert!(!stderr(&again).contains("taken from"), "another interval: {}", stderr(&again));
    assert!(fs::read(other.path("results/series.parquet")).is_ok_and(|file| file.ends_with(b"PAR1")));
    let wrong = campaign.run(&["--series=0s"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
}

#[test]
fn exchanges_are_kept_when_they_are_asked_for_and_runs_without_them_are_run_again() {
    let campaign = Campaign::new();
    campaign.succeeds(&["--quiet"]);
    let output = campaign.succeeds(&["--exchanges"]);
    assert!(!stderr(&output).contains("taken from"), "{}", stderr(&output));
    let output = campaign.succeeds(&["--exchanges"]);
    assert!(stderr(&output).contains("12 of 12 runs taken from"), "{}", stderr(&output));
    assert!(fs::read(campaign.path("results/exchanges.parquet")).is_ok_and(|file| file.ends_with(b"PAR1")));
    let journal = campaign.file("runs.ndjson");
    for which in ["slowest", "median", "most-copies"] {
        assert_eq!(journal.matches(&format!("{{\"which\":\"{which}\",")).count(), 16, "one of each scheme in each run");
    }
}

/// `CONCHE_PYTHON` names a Python with pyarrow.
fn python(directory: &Path, script: &str) {
    let python = std::env::var("CONCHE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script =
        format!("import json, pathlib, sys\nimport pyarrow.parquet as pq\nd = pathlib.Path(sys.argv[1])\n{script}");
    let output = Command::new(python).arg("-c").arg(script).arg(directory).output().expect("a Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const CHECK: &str = "
runs = pq.read_table(d / 'runs.parquet').to_pylist()
figures = [json.loads(line) for line in open(d / 'figures.ndjson')]
journal = [json.loads(line) for line in open(d / 'runs.ndjson')]
def of(row, column):
    return [run for run in runs if (run['row'], run['column']) == (row, column)]
for figure in figures:
    found = of(figure['row'], figure['column'])
    assert len(found) == 2 and len({run['seed'] for run in found}) == 2, figure
    assert all(run['unit'] == figure['unit'] and run['scenario'] == 'small' for run in found), figure
    values = [run['value'] for run in found]
    if figure['column'] == 'throughput':
        assert abs(sum(values) / 2 - figure['measured']) < 1e-6, figure
    if figure['column'].startswith('done_'):
        assert sum(values) == figure['measured'], figure
assert {run['phase'] for run in runs} == {None, 'first', 'rest'}
assert {run['axis.clients'] for run in runs} == {2, 3}
assert {(run['mix'], run['scheme']) for run in runs} == {(None, 'mine'), (None, 'plain'), ('both', 'mine'), ('both', 'plain')}
assert {(run['seed'], run['replication']) for run in runs} == {(line['seed'], line['replication']) for line in journal}

exchanges = pq.ParquetFile(d / 'exchanges.parquet')
assert exchanges.metadata.num_row_groups == 12, exchanges.metadata
rows = exchanges.read().to_pylist()
keys = ['scenario', 'axis.clients', 'mix', 'scheme', 'replication', 'seed']
def whole(run):
    return tuple(run[key] for key in keys)
for run in runs:
    if run['column'] == 'throughput' and run['phase'] is None:
        answered = [row for row in rows if whole(row) == whole(run) and row['outcome'] == 'answered']
        assert abs(len(answered) / 60 - run['value']) < 1e-9, (run, len(answered))
assert {row['outcome'] for row in rows} <= {'answered', 'failed'}
assert all(0 <= row['start_s'] <= row['end_s'] <= 60 and row['transmissions'] >= 1 for row in rows)
assert any(row['transmissions'] > 1 for row in rows) and any(row['rtt_s'] for row in rows)
assert {row['client'] for row in rows} == {f'client[{n}]' for n in range(3)} and {row['server'] for row in rows} == {'server'}
for name in ['runs', 'exchanges', 'series']:
    metadata = pq.read_metadata(d / f'{name}.parquet').metadata
    [scenario] = json.loads(metadata[b'conche.scenarios'])
    assert (scenario['name'], scenario['seed']) == ('small', 1) and metadata[b'conche.options'] == b'', metadata

series = pq.read_table(d / 'series.parquet').to_pylist()
assert len({whole(row) for row in series if row['quantity'] == 'rto_s'}) == 8 * 2, 'of each scheme in each run'
of_paths, of_links = [{row['quantity'] for row in series if (row['peer'] is None) == links} for links in [False, True]]
assert of_paths == {'rto_s', 'srtt_s', 'outstanding'} and of_links == {'queue_packets', 'queue_bytes', 'drops'}
assert {row['subject'] for row in series if row['peer'] == 'server'} == {f'client[{n}]' for n in range(3)}
last, drops = {}, {}
for row in series:
    key = (whole(row), row['subject'], row['quantity'])
    before = last.get(key)
    assert before is None or (before['time_s'] < row['time_s'] and before['value'] != row['value']), (before, row)
    assert row['time_s'] == round(row['time_s']) and 0 <= row['time_s'] <= 60 and row['value'] >= 0, row
    last[key] = row
assert any(key[2] == 'drops' and row['value'] > 0 and row['subject'].startswith('uplink') for key, row in last.items())
";

#[test]
#[ignore = "needs pyarrow"]
fn tables_are_read_by_pyarrow_and_agree_with_the_figures() {
    let campaign = Campaign::new();
    campaign.succeeds(&["--quiet", "--exchanges", "--series"]);
    python(&campaign.path("results"), CHECK);
}

#[test]
#[ignore = "needs pyarrow"]
fn tables_of_a_campaign_that_was_killed_are_read_as_well() {
    let campaign = Campaign::new();
    campaign.succeeds(&["--quiet", "--exchanges", "--series"]);
    let journal = campaign.file("runs.ndjson");
    let half = journal.lines().take(5).map(|line| line.len() + 1).sum::<usize>();
    fs::write(campaign.path("results/runs.ndjson"), &journal.as_bytes()[..half + 40]).expect("it can be written");
    let exchanges = campaign.path("results/exchanges.parquet");
    let file = fs::read(&exchanges).expect("exchanges");
    fs::write(&exchanges, &file[..file.len() - 9]).expect("it can be written");
    let output = campaign.succeeds(&["--exchanges", "--series"]);
    assert!(stderr(&output).contains("small: 5 of 12 runs taken from"), "{}", stderr(&output));
    python(&campaign.path("results"), CHECK);
}

/// Returns tshark's values of these fields, a line for each packet.
fn dissected(file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-Y", "coap && !_ws.malformed", "-T", "fields"]);
    let output = command.args(fields.iter().flat_map(|field| ["-e", *field])).output();
    let output = output.expect("tshark must be installed: apt-get install tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

const TRACED: [&str; 7] = ["--json", "--only", "clients=3", "--only", "scheme=plain", "--trace", "pcapng"];

#[test]
fn a_trace_of_the_first_run_has_no_effect_on_results() {
    let campaign = Campaign::new();
    let output = campaign.succeeds(&TRACED);
    assert!(stderr(&output).contains(" records of plain/3, replication 0, seed "), "{}", stderr(&output));
    assert!(output.stdout == Campaign::new().succeeds(&TRACED[..5]).stdout, "the same results");
    let trace = || fs::read(campaign.path("results/trace.pcapng")).expect("a trace");
    let all = trace();
    assert!(all.starts_with(&0x0a0d_0d0a_u32.to_le_bytes()), "a section header");

    campaign.succeeds(&[&TRACED[..], &["--trace-node", "client[1]"]].concat());
    assert!(trace().len() < all.len() / 2, "{} of {}", trace().len(), all.len());

    let untouched = Campaign::new();
    let unknown = untouched.run(&[&TRACED[..], &["--trace-node", "client[7]"]].concat());
    assert_eq!(unknown.status.code(), Some(2));
    assert!(!untouched.path("results").exists(), "refused before anything is written");
    let message = stderr(&unknown);
    assert!(message.contains("--trace-node: `client[7]` exceeds the group; its 3 nodes"), "{message}");
    let unknown = campaign.run(&["--trace", "qlogs"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("pcapng, qlog"), "{}", stderr(&unknown));
}

const COUNTED: &str = r#"
[[values]]
column = "copies"
metric = "copies"

[[values]]
column = "repeated_percent"
metric = "retransmission-share"
"#;

#[test]
fn the_event_log_of_a_run_has_its_messages_and_retransmissions() {
    let campaign = Campaign::of(&format!("{SCENARIO}{COUNTED}"));
    let logged = ["--json", "--runs", "1", "--only", "clients=3", "--only", "scheme=plain", "--trace", "qlog"];
    let output = campaign.succeeds(&logged);
    let figures: Vec<Value> = String::from_utf8(output.stdout.clone())
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let figure = |column: &str| {
        let value = figures.iter().find(|figure| figure["column"] == column);
        value.and_then(|figure| figure["measured"].as_f64()).unwrap_or_else(|| panic!("{column} in {figures:?}"))
    };
    let records = |campaign: &Campaign| super::recording::records(&campaign.path("results/trace.sqlog"));
    let all = records(&campaign);
    let header = &all[0]["trace"];
    assert_eq!(header["vantage_point"]["type"], "unknown");
    assert_eq!(header["common_fields"]["reference_time"].get("wall_clock_time"), None, "virtual time");
    let events = &all[1..];
    assert!(stderr(&output).contains(&format!("has {} records of plain/3", events.len())), "{}", stderr(&output));
    let times: Vec<f64> = events.iter().map(|event| event["time"].as_f64().expect("milliseconds")).collect();
    assert!(times.is_sorted() && times.iter().all(|time| (0.0..=60_000.0).contains(time)));
    let sent: Vec<&Value> = events.iter().filter(|event| event["name"] == "coap:message_sent").collect();
    let requests = sent.iter().filter(|event| event["data"]["peer"] == "server");
    let copies = requests.clone().count() as f64;
    assert!((copies - figure("copies")).abs() < 0.5, "{copies} {}", figure("copies"));
    let retransmissions = requests.filter(|event| event["data"]["attempt"].as_u64() > Some(0)).count();
    assert!(retransmissions > 0, "a tenth is lost");
    let percent = 100.0 * retransmissions as f64 / copies;
    assert!((percent - figure("repeated_percent")).abs() < 1e-5, "{percent} {}", figure("repeated_percent"));
    for name in ["coap:message_received", "coap:message_dropped", "coap:exchange_updated", "recovery:metrics_updated"] {
        assert!(events.iter().any(|event| event["name"] == name), "{name}");
    }

    campaign.succeeds(&[&logged[..], &["--trace-node", "client[1]"]].concat());
    let one = records(&campaign);
    let of_the_node: Vec<&Value> = events.iter().filter(|event| event["group_id"] == "client[1]").collect();
    assert!(!of_the_node.is_empty());
    assert_eq!(one[1..].iter().collect::<Vec<_>>(), of_the_node);
}

#[test]
#[ignore = "needs tshark"]
fn wireshark_reads_the_traced_packets() {
    let campaign = Campaign::new();
    campaign.succeeds(&TRACED);
    let fields = ["frame.time_epoch", "frame.interface_name", "ip.src", "ip.dst", "frame.comment"];
    let packets = dissected(&campaign.path("results/trace.pcapng"), &fields);
    let times: Vec<f64> = packets.iter().map(|packet| packet[0].parse().expect("seconds")).collect();
    assert!(times.is_sorted() && times.iter().all(|time| (0.0..=60.0).contains(time)), "{times:?}");
    for client in 0..3 {
        let (name, address) = (format!("client[{client}]"), format!("10.0.0.{}", client + 1));
        let sent = packets.iter().filter(|packet| packet[1] == name && packet[2] == address).count();
        assert!(sent > 5, "{name} sent {sent}");
    }
    assert!(packets.iter().any(|packet| packet[4].contains("lost on uplink")), "{packets:?}");

    campaign.succeeds(&[&TRACED[..], &["--trace-node", "client[1]"]].concat());
    let packets = dissected(&campaign.path("results/trace.pcapng"), &fields);
    assert!(packets.len() > 10 && packets.iter().all(|packet| packet[2..4].contains(&"10.0.0.2".to_owned())));
    assert!(packets.iter().any(|packet| packet[2] == "10.0.0.5" && packet[1] == "client[1]"), "responses on arrival");
}

const TABLES: [&str; 6] =
    ["figures.ndjson", "small.txt", "runs.parquet", "exchanges.parquet", "series.parquet", "runs.ndjson"];

fn tables(directory: &Path) -> Vec<Vec<u8>> {
    TABLES.map(|name| fs::read(directory.join(name)).expect("a file")).into()
}

#[test]
fn merged_parts_are_the_bytes_of_the_whole() {
    let campaign = Campaign::new();
    let options = ["--exchanges", "--series=500ms"];
    campaign.succeeds(&[&options[..], &["-j", "1"]].concat());
    let whole = tables(&campaign.path("results"));
    for count in [1, 2, 5, 20] {
        let parts: Vec<String> = (1..=count).map(|number| format!("part{number}of{count}")).collect();
        // The last parts first: the order has no effect.
        for (number, part) in parts.iter().enumerate().rev() {
            let shard = format!("{}/{count}", number + 1);
            let output = campaign
                .conche(&[&["run", "scenario.toml", "--shard", &shard, "-o", part, "-j", "2"], &options[..]].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(output.stdout.is_empty() && stderr(&output).contains("`conche merge`"), "{}", stderr(&output));
        }
        let parts: Vec<&str> = parts.iter().rev().map(String::as_str).collect();
        let merged = format!("merged{count}");
        let output = campaign.conche(&[&["merge", "-o", &merged], &parts[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let merged = tables(&campaign.path(&merged));
        for (name, (one, other)) in TABLES.into_iter().zip(whole.iter().zip(&merged)) {
            assert!(one == other, "{name}, {count} parts");
        }
    }
    let manifest = fs::read_to_string(campaign.path("part1of2/manifest.json")).expect("a manifest");
    assert!(manifest.contains("\"state\": \"partial\"") && manifest.contains("\"shard\": \"1/2\""), "{manifest}");
}

#[test]
fn runs_of_a_plan_are_run_by_their_ids() {
    let campaign = Campaign::new();
    campaign.succeeds(&["--quiet"]);
    let plan = campaign.conche(&["plan", "run", "scenario.toml"]);
    let lines: Vec<&str> = std::str::from_utf8(&plan.stdout).expect("text").lines().collect();
    assert_eq!(lines.len(), 12, "{lines:?}");
    fs::write(campaign.path("ids"), lines[..5].join("\n")).expect("it can be written");
    let output = campaign.conche(&["run", "scenario.toml", "--ids", "ids", "-o", "some"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rest = campaign.conche(&["--json", "plan", "run", "scenario.toml", "-o", "some"]);
    let rest = std::str::from_utf8(&rest.stdout).expect("text");
    assert_eq!(rest.lines().count(), 7, "{rest}");
    let incomplete = campaign.conche(&["merge", "some", "-o", "merged"]);
    assert_eq!(incomplete.status.code(), Some(2));
    assert!(stderr(&incomplete).contains("7 of 12 runs are in no part, such as small: "), "{}", stderr(&incomplete));
    fs::write(campaign.path("rest"), rest).expect("it can be written");
    let output = campaign.conche(&["run", "scenario.toml", "--ids", "rest", "-o", "others"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = campaign.conche(&["merge", "some", "others", "-o", "merged", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(output.stdout, campaign.file("figures.ndjson").as_bytes());
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let campaign = Campaign::new();
    for (args, part) in [(&["--shard", "1/2"][..], "one"), (&["--shard", "2/2", "--runs", "3"], "other")] {
        let output = campaign.conche(&[&["run", "scenario.toml", "-o", part], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let cases = [
        (&["merge", "one", "other", "-o", "merged"][..], "with other options: `` and `--runs 3`"),
        (&["merge", "nothing", "-o", "merged"], "is no result directory"),
        (&["run", "scenario.toml", "--shard", "1/2"], "keep them with --output DIR"),
        (&["run", "scenario.toml", "--shard", "3/2", "-o", "x"], "from 1/8 to 8/8"),
        (
            &["run", "scenario.toml", "--ids", "scenario.toml", "-o", "x"],
            "scenario.toml, line 2: `schema` is no ID of a run",
        ),
        (&["run", "scenario.toml", "--ids", "missing", "-o", "x"], "cannot read missing"),
    ];
    for (args, problem) in cases {
        let output = campaign.conche(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(problem), "{args:?}: {}", stderr(&output));
    }
    let plan = campaign.conche(&["plan", "run", "scenario.toml", "--seed", "9"]);
    fs::write(campaign.path("ids"), plan.stdout).expect("it can be written");
    let output = campaign.conche(&["run", "scenario.toml", "--ids", "ids", "-o", "x"]);
    assert!(stderr(&output).contains("use the other options of `conche plan` here"), "{}", stderr(&output));
}

#[test]
fn a_merged_comparison_is_that_of_the_whole() {
    let primary = "metric = \"throughput\"";
    let campaign = Campaign::of(&SCENARIO.replace(primary, &format!("{primary}\nprimary = true")));
    let compare = ["compare", "scenario.toml", "--controllers", "default,cocoa", "--runs", "2"];
    let run = |args: &[&str]| {
        let output = campaign.conche(&[&compare[..], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        output
    };
    let whole = run(&["-o", "whole"]);
    run(&["--shard", "1/2", "-o", "one"]);
    run(&["--shard", "2/2", "-o", "two"]);
    let merged = campaign.conche(&["merge", "one", "two", "-o", "merged"]);
    assert_eq!(merged.stdout, whole.stdout, "{}", stderr(&merged));
    for name in ["comparison.ndjson", "comparison.txt", "figures.ndjson", "runs.parquet", "runs.ndjson"] {
        let [one, other] = ["whole", "merged"].map(|of| fs::read(campaign.path(of).join(name)).expect("a file"));
        assert!(one == other, "{name}");
    }
}
