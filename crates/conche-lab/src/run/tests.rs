//! Runs: the same figures whatever the number of threads, and errors that say which run failed.

use std::num::NonZeroUsize;
use std::sync::Mutex;

use super::*;
use crate::campaign::seed_of;
use crate::results::{Figure, write_json};
use crate::scenario::reduced;

fn jobs(number: usize) -> RunOptions {
    RunOptions { jobs: NonZeroUsize::new(number) }
}

fn json(measured: &[Measurements]) -> Vec<u8> {
    let figures: Vec<Figure> = measured.iter().flat_map(|cell| cell.figures("anrw18", "grid")).collect();
    let mut lines = Vec::new();
    write_json(&figures, &mut lines).expect("memory");
    lines
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let scenario = reduced::anrw18(&[10, 60], &["2500", "inf"], &["default", "cocoa"], 3);
    let one = run(&scenario, jobs(1), &|_| {}).expect("runs").0;
    let two = run(&scenario, jobs(2), &|_| {}).expect("runs").0;
    assert_eq!(json(&one), json(&two));
}

#[test]
fn results_are_in_the_order_of_the_scenario() {
    let scenario = reduced::anrw18(&[1, 2], &["inf"], &["cocoa", "default"], 1);
    let measured = run(&scenario, jobs(2), &|_| {}).expect("runs").0;
    let rows: Vec<_> = measured.iter().map(|cell| cell.key.to_string()).collect();
    assert_eq!(
        rows,
        [
            "cocoa/continuous/1/inf",
            "cocoa/continuous/2/inf",
            "cocoa/random/1/inf",
            "cocoa/random/2/inf",
            "default/continuous/1/inf",
            "default/continuous/2/inf",
            "default/random/1/inf",
            "default/random/2/inf",
            "default@default+cocoa/continuous/2/inf",
            "cocoa@default+cocoa/continuous/2/inf",
            "default@default+cocoa/random/2/inf",
            "cocoa@default+cocoa/random/2/inf",
        ]
    );
}

#[test]
fn a_mix_has_the_clients_of_both_halves() {
    let mut scenario = reduced::anrw18(&[60], &["14100"], &["default", "cocoa"], 2);
    scenario.workloads = crate::scenario::NonEmpty::new(vec![scenario.workloads[0].clone()]).expect("one");
    let measured = run(&scenario, jobs(2), &|_| {}).expect("runs").0;
    let halves: Vec<_> = measured.iter().filter(|cell| cell.key.mix.is_some()).collect();
    let exchanges = |cell: &Measurements| -> f64 {
        let counts = cell.values.iter().filter(|value| value.column.starts_with("retransmissions_"));
        counts.map(|value| value.value).sum()
    };
    assert_eq!(halves.len(), 2);
    for half in halves {
        // 30 clients, 50 exchanges, 2 replications.
        assert!((exchanges(half) - 3000.0).abs() < 0.5, "{}: {}", half.key, exchanges(half));
    }
}

#[test]
fn replications_differ_and_seeds_do() {
    let scenario = reduced::anrw18(&[10], &["inf"], &["default"], 2);
    let seeds: Vec<u64> = (0..20).map(|replication| seed_of(scenario.seed, replication)).collect();
    let mut distinct = seeds.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), seeds.len());
    let other = Scenario { seed: scenario.seed + 1, ..scenario.clone() };
    let [first, second] = [&scenario, &other].map(|scenario| run(scenario, jobs(1), &|_| {}).expect("runs").0);
    assert_ne!(json(&first), json(&second));
}

#[test]
fn progress_ends_when_all_work_is_done() {
    let scenario = reduced::anrw18(&[1, 10], &["inf"], &["default"], 2);
    let seen = Mutex::new(Vec::new());
    run(&scenario, jobs(2), &|progress| seen.lock().expect("no panic").push(progress)).expect("runs");
    let seen = seen.into_inner().expect("no panic");
    assert_eq!(seen.len(), 2 * 2 * 2, "one report a run");
    assert!(seen.iter().all(|progress| progress.done <= progress.total));
    assert!(seen.iter().any(|progress| progress.done == progress.total));
}

#[test]
fn a_run_that_fails_names_its_cell() {
    let mut scenario = reduced::anrw18(&[2], &["inf"], &["default"], 1);
    scenario.time_limit = "1s".parse().expect("a time");
    let error = run(&scenario, jobs(1), &|_| {}).expect_err("50 exchanges take 33 s").to_string();
    assert!(error.starts_with("default/continuous/2/inf, replication 0: after 1s of virtual time"), "{error}");
}
