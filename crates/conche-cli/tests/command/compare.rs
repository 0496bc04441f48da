//! `conche compare`: controllers over all cells.

use std::fs;
use std::path::PathBuf;

use crate::common::{Ended, conche, run};
use serde_json::Value;
use tempfile::TempDir;

/// Runs of a few milliseconds: clients behind a slow uplink. The mix and the part with its own
/// scheme are not compared.
const SCENARIO: &str = r#"
schema = 1
name = "small"
title = "Some clients"
replications = 4
seed = 1
nodes = [{ name = "client", count = 2 }, { name = "hub" }, { name = "server" }]
mixes = [{ name = "both", schemes = ["mine", "cocoa"] }]

[[links]]
name = "access"
between = ["client", "hub"]

[[links]]
name = "uplink"
between = ["hub", "server"]
wire = { rate = "30kbit/s", delay = "200ms", jitter = { uniform = ["0ms", "40ms"] }, loss = "10%" }

[[traffic]]
name = "gets"
from = "client"
to = "server"

[[schemes]]
name = "mine"
controller = "cocoa"
ack_timeout = "5s"

[[schemes]]
name = "cocoa" # not what the program calls so
controller = "default"

[[parts]]
name = "all"
duration = "60s"
sweep = [{ name = "clients", path = "nodes.client.count", values = [2, 3] }]
values = [
    { column = "throughput", metric = "throughput", primary = true },
    { column = "loss", metric = "loss", primary = true },
    { column = "rto", metric = "rto" },
]

[[parts]]
name = "pinned"
duration = "60s"
only_schemes = ["mine", "cocoa"]
row = "{scheme}/pinned"
values = [{ column = "throughput", metric = "throughput", primary = true }]
"#;

struct Files(TempDir);

impl Files {
    fn with(scenario: &str) -> Self {
        let files = Self(TempDir::new().expect("a temporary directory"));
        fs::write(files.path("scenario.toml"), scenario).expect("it can be written");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compare(&self, arguments: &[&str]) -> Ended {
        run(conche().arg("compare").arg(self.path("scenario.toml")).args(arguments))
    }

    fn succeeds(&self, arguments: &[&str]) -> Ended {
        let ended = self.compare(arguments);
        assert_eq!(ended.status, Some(0), "{arguments:?}: {}", ended.stderr);
        ended
    }

    fn keeps(&self, name: &str, arguments: &[&str]) -> Ended {
        let directory = self.path(name).display().to_string();
        self.succeeds(&[arguments, &["-o", &directory]].concat())
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn every_controller_has_a_line_in_every_cell_and_a_place_on_the_board() {
    let files = Files::with(SCENARIO);
    let json = lines(&files.succeeds(&["--json", "--runs", "2"]).stdout);
    let known = lines(&run(conche().args(["controllers", "--json"])).stdout);
    let of = |kind: &str| json.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    let names = |lines: &[&Value], member: &str| -> Vec<String> {
        let mut names: Vec<_> = lines.iter().map(|line| line[member].as_str().expect("a name").to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    assert_eq!(of("cell").len(), 2 * 2 * known.len(), "clients, metrics, controllers");
    assert_eq!(names(&of("controller"), "controller"), names(&known.iter().collect::<Vec<_>>(), "name"));
    assert_eq!(names(&of("cell"), "cell"), ["2", "3"], "neither the mix nor the part that is pinned");
    assert_eq!(names(&of("cell"), "column"), ["loss", "throughput"]);
    assert!(of("cell").iter().all(|line| line["runs"].as_array().is_some_and(|runs| runs.len() == 2)));
    let best = |cell: &str| {
        let ratios = of("cell").into_iter().filter(|of| of["cell"] == cell && of["column"] == "throughput");
        ratios.map(|of| of["ratio"].as_f64().expect("a ratio")).fold(f64::INFINITY, f64::min)
    };
    assert!(["2", "3"].iter().all(|cell| (best(cell) - 1.0).abs() < 1e-9), "somebody is the best of each cell");
    let means: Vec<f64> = of("controller").iter().map(|of| of["mean"].as_f64().expect("a mean")).collect();
    assert!(means.is_sorted(), "of few replications: {means:?}");
    let board = files.succeeds(&["--runs", "2"]).stdout;
    assert!(board.contains("Some clients: 2 replications of 1min, seed 1"), "{board}");
    assert!(
        board.contains("Values in 4 cells") && board.contains("with 2 replications, many intervals include 1"),
        "{board}"
    );
}

#[test]
fn a_name_is_that_of_a_controller_before_that_of_a_scheme() {
    let files = Files::with(SCENARIO);
    let throughput = |name: &str| {
        let json = lines(&files.succeeds(&["--json", "--controllers", &format!("basic,{name}")]).stdout);
        let of =
            json.into_iter().find(|of| of["controller"] == *name && of["column"] == "throughput" && of["cell"] == "3");
        of.expect("it is compared")["runs"].clone()
    };
    assert_ne!(throughput("cocoa"), throughput("default"), "not the scheme of this name, which is the default");
    assert_ne!(throughput("mine"), throughput("cocoa"), "a scheme has its own configuration");
}

#[test]
fn comparisons_are_identical_for_any_thread_count_and_after_a_resume() {
    let files = Files::with(SCENARIO);
    let some = ["--controllers", "default,cocoa,mine", "--full"];
    files.keeps("one", &[&some[..], &["-j", "1"]].concat());
    files.keeps("two", &[&some[..], &["-j", "2"]].concat());
    files.keeps("resumed", &[&some[..2], &["--runs", "2"]].concat());
    let told = files.keeps("resumed", &some).stderr;
    assert!(told.contains("12 of 24 runs taken"), "{told}");
    let comparison = files.file("one/comparison.ndjson");
    for file in ["comparison.ndjson", "figures.ndjson"] {
        for other in ["two", "resumed"] {
            assert_eq!(files.file(&format!("{other}/{file}")), files.file(&format!("one/{file}")), "{other} {file}");
        }
    }
    let printed = files.succeeds(&[&some[..], &["--json"]].concat()).stdout;
    assert_eq!(printed, comparison, "the lines that --json prints");
    assert!(files.file("one/comparison.txt").contains("regret"));
}

#[test]
fn ratios_are_to_the_baseline_if_there_is_one() {
    let files = Files::with(SCENARIO);
    let json = lines(&files.succeeds(&["--json", "--controllers", "default,cocoa", "--baseline", "cocoa"]).stdout);
    let of_baseline: Vec<_> = json.iter().filter(|of| of["kind"] == "cell" && of["controller"] == "cocoa").collect();
    assert!(!of_baseline.is_empty() && of_baseline.iter().all(|of| of["ratio"] == 1.0));
    let controllers = |json: &[Value]| json.iter().filter(|of| of["kind"] == "controller").count();
    assert!(json.iter().all(|of| of["kind"] == "cell" || of["baseline"] == "cocoa"));
    assert_eq!(controllers(&json), 2);
    let some = lines(&files.succeeds(&["--json", "--only", "scheme=default,cocoa,linux"]).stdout);
    assert_eq!(controllers(&some), 3, "none has a gap that was not asked for");
}

#[test]
fn comparison_errors_name_a_remedy() {
    let files = Files::with(SCENARIO);
    let path = files.path("scenario.toml").display().to_string();
    let none = SCENARIO.replace(", primary = true", "");
    let without = Files::with(&none);
    let refused = |ended: Ended, expected: &[&str]| {
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
        expected.iter().for_each(|of| assert!(ended.stderr.contains(of), "{of}: {}", ended.stderr));
    };
    refused(files.compare(&["--controllers", "cocao"]), &["cocao", "did you mean cocoa"]);
    refused(
        files.compare(&["--controllers", "default", "--baseline", "cocoa"]),
        &["`cocoa` is not compared", "default"],
    );
    refused(files.compare(&["--controllers", "default,default"]), &["`default` is there twice"]);
    refused(files.compare(&[&path]), &["two scenarios are called `small`"]);
    refused(
        run(conche().args(["compare", "anrw19"])),
        &["there is no paper or network `anrw19`; did you mean `anrw18`?", "; all of them: networks"],
    );
    refused(run(conche().args(["compare", "nb-iott"])), &["did you mean `nb-iot`?", "the networks are: codel, "]);
    refused(run(conche().args(["reproduce", "nb-iot"])), &["there is no paper `nb-iot`", "it is a network"]);
    refused(run(conche().args(["compare", "none.toml"])), &["cannot read none.toml"]);
    refused(without.compare(&[]), &["none of small is primary", "`primary = true`", "loss, rto, throughput"]);
    let neither = SCENARIO.replace("metric = \"rto\"", "metric = \"rto\", primary = true");
    refused(Files::with(&neither).compare(&[]), &["values.rto", "which is `better`"]);
}

#[test]
fn a_failed_run_leaves_a_reported_gap() {
    // Under the default a lost message takes seconds, longer than the run.
    let scenario = SCENARIO.replace("duration = \"60s\"\nsweep", "time_limit = \"11s\"\nsweep");
    let scenario = scenario.replace("to = \"server\"\n\n[[schemes]]", "to = \"server\"\nexchanges = 5\n\n[[schemes]]");
    let ended = Files::with(&scenario).compare(&["--controllers", "default,cocoa", "--runs", "3"]);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("no value in") && ended.stdout.contains("–"), "{}", ended.stdout);
    assert!(ended.stderr.contains("runs failed"), "{}", ended.stderr);
}

#[test]
fn results_without_a_successful_run_are_an_error_of_compare_and_report() {
    let scenario = SCENARIO.replace("duration = \"60s\"\nsweep", "time_limit = \"1ms\"\nsweep");
    let scenario = scenario.replace("to = \"server\"\n\n[[schemes]]", "to = \"server\"\nexchanges = 5\n\n[[schemes]]");
    let files = Files::with(&scenario);
    let directory = files.path("results").display().to_string();
    let compared = files.compare(&["--controllers", "default,cocoa", "--runs", "1", "-o", &directory]);
    assert_eq!(compared.status, Some(1), "{}", compared.stderr);
    assert!(compared.stderr.contains("conche: all 4 runs failed\n  small: "), "{}", compared.stderr);
    let report = run(conche().args(["report", &directory]));
    assert_eq!(report.status, Some(1), "{}", report.stderr);
    assert!(report.stderr.contains("all 4 runs failed, so there is nothing to report"), "{}", report.stderr);
    assert!(!files.path("results/report.html").exists());
}

#[test]
fn labels_of_one_axis_may_be_in_several_options() {
    let files = Files::with(SCENARIO);
    let only = |options: &[&str]| {
        let arguments = ["--json", "--runs", "1", "--controllers", "default,cocoa"];
        files.succeeds(&[&arguments[..], options].concat()).stdout
    };
    let both = only(&["--only", "clients=2", "--only", "clients=3"]);
    assert_eq!(both, only(&["--only", "clients=2,3"]));
    assert_ne!(both, only(&["--only", "clients=2"]));
}

#[test]
fn a_label_has_to_be_of_one_of_the_scenarios_and_each_of_them_to_have_one() {
    let files = Files::with(SCENARIO);
    let other = SCENARIO.replace("name = \"small\"", "name = \"other\"").replace("values = [2, 3]", "values = [3, 4]");
    fs::write(files.path("other.toml"), other).expect("it can be written");
    let other = files.path("other.toml").display().to_string();
    let only = |labels: &str| {
        files.compare(&[&other, "--json", "--runs", "1", "--controllers", "default,cocoa", "--only", labels])
    };
    let both = only("clients=2,4");
    assert_eq!(both.status, Some(0), "{}", both.stderr);
    for (labels, problem) in [
        ("clients=2,3,5", "clients: no run has 5; there are 2, 3, 4"),
        ("clients=2", "other: clients: no run has 2; there are 3, 4"),
    ] {
        let refused = only(labels);
        assert_eq!((refused.status, refused.stderr.contains(r#""kind":"usage""#)), (Some(2), true), "{labels}");
        assert!(refused.stderr.contains(problem), "{labels}: {}", refused.stderr);
    }
}

#[test]
fn a_network_is_compared_by_its_name_and_ranked_by_its_purpose() {
    let few = ["--runs", "1", "--controllers", "default,cocoa"];
    let json = lines(&run(conche().args(["compare", "leo", "--json"]).args(few)).stdout);
    assert!(!json.is_empty() && json.iter().all(|line| line["purpose"] == "judgement"), "{json:?}");
    let ranking = run(conche().args(["compare", "leo"]).args(few)).stdout;
    assert!(ranking.contains("\n\nNetworks of judgement: values in "), "{ranking}");
    let ended = run(conche().args(["run", "leo", "--runs", "1", "--quick", "--controllers", "default"]));
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
}
