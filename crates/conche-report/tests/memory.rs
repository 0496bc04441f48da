//! Results in memory have the page of their directory.

use conche_lab::Controllers;
use conche_lab::campaign::RunOptions;
use conche_lab::directory::{Output, ResultDirectory};
use conche_lab::experiment::Experiment;
use conche_lab::results::Program;
use conche_lab::scenario::{Effort, FileError};
use conche_report::{Results, page};

const SCENARIO: &str = include_str!("../../../scenarios/examples/half-and-half.toml");

#[test]
fn results_in_memory_have_the_page_of_their_directory() {
    let controllers = Controllers::new();
    let effort = Effort { quick: true, ..Effort::default() };
    let experiment = Experiment::read(SCENARIO, &|_| Err(FileError::NotFound), &controllers).expect("a scenario");
    let mut adjusted = experiment.clone();
    adjusted.adjust(&effort).expect("valid options");
    let directory = tempfile::tempdir().expect("a directory");
    let output = Output {
        directory: directory.path(),
        program: Program::default(),
        effort: &effort,
        part: None,
        plan: None,
        jobs: None,
        exchanges: false,
        series: None,
        overwrites: false,
    };
    let (stored, _) = ResultDirectory::open(output, std::slice::from_ref(&adjusted)).expect("a directory of results");
    let options = RunOptions { store: Some(stored.store()), ..RunOptions::default() };
    let (measured, samples) = adjusted.measure_with_samples(options, &|_| {}).expect("results");
    stored.save(&adjusted, &measured).expect("written");
    stored.close().expect("written");

    let read = Results::read(directory.path(), &controllers).expect("results");
    let in_memory = Results::of(read.manifest.clone(), experiment, &measured.values, &samples);
    assert!(!samples.is_empty() && page(&[in_memory]) == page(&[read]), "the pages differ");
}
