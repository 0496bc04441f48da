//! `conche report`: the page of a directory, and the error for a directory without results.

use std::fs;

use crate::common::{Ended, conche, run};

fn report(arguments: &[&str]) -> Ended {
    run(conche().arg("report").args(arguments))
}

#[test]
fn a_report_is_written_beside_the_results_or_to_the_given_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_string_lossy().into_owned();
    fs::write(directory.path().join("manifest.json"), r#"{"schema":1,"state":"complete"}"#).expect("written");
    let elsewhere = directory.path().join("elsewhere.html");
    for arguments in [vec![path.as_str()], vec![path.as_str(), path.as_str(), "-o", &elsewhere.to_string_lossy()]] {
        assert_eq!(report(&arguments).status, Some(0));
    }
    for file in [directory.path().join("report.html"), elsewhere] {
        assert!(fs::read_to_string(file).expect("a page").starts_with("<!doctype html>"));
    }
}

#[test]
fn a_directory_without_results_is_a_mistake_of_usage_and_a_broken_line_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_string_lossy().into_owned();
    let told = |status: i32| {
        let ended = report(&[&path]);
        assert_eq!(ended.status, Some(status), "{}", ended.stderr);
        ended.stderr
    };
    assert!(told(2).contains("is no result directory: it has no manifest.json"));
    fs::write(directory.path().join("manifest.json"), r#"{"schema":1}"#).expect("written");
    fs::write(directory.path().join("figures.ndjson"), "{\"schema\":1}\n").expect("written");
    assert!(told(1).contains("figures.ndjson, line 1: missing field `scenario`"));
}
