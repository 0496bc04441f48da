//! Valid and invalid result directories.

use std::fs;
use std::path::Path;

use conche_lab::scenario::MAX_REPLICATIONS;
use conche_results::Which;

use super::*;

const MANIFEST: &str = r#"{"schema":1,"state":"complete","command":["conche","run","small.toml","-o","d"],
    "scenarios":[{"name":"small","title":"A","extent":"2 replications","seed":1,"settings":"s"}]}"#;
const FIGURE: &str = r#"{"schema":1,"scenario":"small","item":"grid","row":"a/2","column":"fct_s","unit":"s","published":null,"measured":1.5,"ci95":[1,2],"runs":2}"#;

fn read(files: &[(&str, &str)]) -> Result<Results, Box<str>> {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("written");
    }
    let shown = format!("{}/", directory.path().display());
    Results::read(directory.path(), &Controllers::new()).map_err(|error| error.to_string().replace(&shown, "").into())
}

fn run(replication: u32, value: &str) -> String {
    let seed = conche_lab::campaign::seed_of(1, replication);
    format!(
        r#"{{"schema":1,"kind":"run","scenario":"small","settings":"s","replication":{replication},"seed":{seed},"outcome":[{{"figures":[{{"item":"grid","row":"a/2","column":"fct_s"}}],"sample":{value}}}]}}"#
    )
}

#[test]
fn figures_and_runs_come_with_the_experiment_that_they_are_of() {
    let value = format!("{FIGURE}\n");
    let runs = [run(1, r#"{"each":[[3000,5000],1000.0]}"#), run(0, r#"{"one":1.5}"#), run(2, r#"{"one":9}"#)]
        .join("\n")
        + "\n{\"torn";
    let results =
        read(&[("manifest.json", MANIFEST), ("figures.ndjson", &value), ("runs.ndjson", &runs)]).expect("results");
    let [study] = &results.studies[..] else { panic!("one experiment") };
    assert_eq!((study.values.len(), study.about.extent.as_str()), (1, "2 replications"));
    assert_eq!(study.runs.of(&study.values[0]), [(0, 1.5), (1, 4.0)], "the figure is of two runs");
}

#[test]
fn runs_of_other_settings_or_another_seed_are_left_out() {
    let [own, other] = [1, 2].map(|seed| format!("\"seed\":{}", conche_lab::campaign::seed_of(seed, 0)));
    let one = run(0, r#"{"one":1}"#);
    let others = [one.replace(r#""settings":"s""#, r#""settings":"quick""#), one.replace(&own, &other)];
    let value = format!("{FIGURE}\n");
    for other in others {
        let runs = format!("{other}\n");
        let read = read(&[("manifest.json", MANIFEST), ("figures.ndjson", &value), ("runs.ndjson", &runs)]);
        let results = read.expect("results");
        assert_eq!(results.studies[0].runs.of(&results.studies[0].values[0]), []);
    }
}

#[test]
fn replications_up_to_the_maximum_are_read_and_others_are_refused() {
    let value = format!("{FIGURE}\n");
    let read = |last| {
        let runs = [last, 0].map(|replication| run(replication, r#"{"one":1}"#)).join("\n") + "\n";
        read(&[("manifest.json", MANIFEST), ("figures.ndjson", &value), ("runs.ndjson", &runs)])
    };
    let results = read(MAX_REPLICATIONS - 1).expect("results");
    let mut kept: Vec<u32> = results.studies[0].kept.iter().map(|(_, replication)| *replication).collect();
    kept.sort_unstable();
    assert_eq!(kept, [0, MAX_REPLICATIONS - 1]);
    let problem = read(MAX_REPLICATIONS).expect_err("too many");
    assert!(problem.contains("line 1") && problem.contains("at most 1048576"), "{problem}");
}

/// In any replication.
fn timeline(replication: u32, which: &str, lasted_s: f64, copies: &str) -> String {
    let of = format!(
        r#"{{"which":"{which}","scheme":"a","traffic":"t","client":0,"server":1,"start_s":1.5,"lasted_s":{lasted_s},"is_answered":true,"copies":{copies}}}"#
    );
    run(replication, r#""none""#).replace(r#","outcome""#, &format!(r#","timelines":[{of}],"outcome""#))
}

#[test]
fn of_all_replications_the_slowest_exchange_is_shown_and_the_one_with_most_copies() {
    let lines = [
        timeline(1, "median", 5.0, "[[0,2]]"),
        timeline(0, "median", 3.0, "[[0,2]]"),
        timeline(0, "slowest", 3.0, "[[0,2]]"),
        timeline(1, "slowest", 4.0, "[[0,2]]"),
        timeline(1, "most-copies", 2.0, "[[0,2],[2,4]]"),
        timeline(2, "most-copies", 9.0, "[[0,2]]"),
    ];
    let mut reversed = lines.clone();
    reversed.reverse();
    for lines in [lines, reversed] {
        let runs = lines.join("\n") + "\n";
        let results = read(&[("manifest.json", MANIFEST), ("runs.ndjson", &runs)]).expect("results");
        let mut shown: Vec<_> = results.studies[0].timelines.iter().map(|of| (of.of.which, of.replication)).collect();
        shown.sort_unstable();
        assert_eq!(shown, [(Which::Slowest, 1), (Which::Median, 0), (Which::MostCopies, 1)]);
    }
}

#[test]
fn figures_that_the_manifest_does_not_tell_of_are_read_all_the_same() {
    let values = format!("{FIGURE}\n{}\n", FIGURE.replace("small", "other"));
    let results = read(&[("manifest.json", MANIFEST), ("figures.ndjson", &values)]).expect("results");
    let names: Vec<&str> = results.studies.iter().map(|study| study.about.name.as_str()).collect();
    assert_eq!(names, ["small", "other"]);
}

#[test]
fn unreadable_results_are_named_with_their_line() {
    let wrong = format!("{FIGURE}\n{}\n", FIGURE.replace("\"s\"", "\"furlong\""));
    let newer = format!("{}\n", FIGURE.replace("\"schema\":1", "\"schema\":7"));
    let below = MANIFEST.replace("\"seed\":1", "\"seed\":1,\"file\":\"../small.toml\"");
    for (files, expected) in [
        (vec![], "has no manifest.json; `conche reproduce -o DIR` and `conche run -o DIR` write one"),
        (vec![("manifest.json", "{\n\"schema\":1,\n}")], "manifest.json, line 3: "),
        (vec![("manifest.json", "{\"schema\":9}")], "manifest.json has schema 9; this conche reads schema 1"),
        (
            vec![("manifest.json", MANIFEST), ("figures.ndjson", &wrong)],
            "figures.ndjson, line 2: unknown variant `furlong`",
        ),
        (
            vec![("manifest.json", MANIFEST), ("figures.ndjson", &newer)],
            "figures.ndjson has schema 7; this conche reads schema 1",
        ),
        (
            vec![("manifest.json", MANIFEST), ("runs.ndjson", "{}\n")],
            "runs.ndjson has schema 0; this conche reads schema 1",
        ),
        (vec![("manifest.json", &below)], "../small.toml: is not below the result directory"),
    ] {
        let error = read(&files).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
    assert!(
        Results::read(Path::new("/no/such/place"), &Controllers::new())
            .is_err_and(|error| error.to_string().contains("no result directory"))
    );
}
