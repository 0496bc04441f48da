//! Fits the free parameters of ETFA'14's network to its two baseline tables in one search.
//!
//! `cargo run --release -p conche-lab --example fit [SEED]` takes some minutes and prints
//! each improvement. Its rounded result are the parameters marked [fitted] in scenarios/etfa14.toml
//! and scenarios/commag16.toml. A seed gives the same values on any machine and number of threads.
//!
//! - Objective: the mean of |ln(measured / published)| over the scenario's `[[fitted]]` values.
//! - Search: log-uniform draws from the ranges below, then changes of the best set, in steps that
//!   shrink without improvement.
//! - Sets that leave a mote without a path are rejected.

use std::error::Error;
use std::path::PathBuf;

use conche_lab::campaign::RunOptions;
use conche_lab::experiment::Experiment;
use conche_lab::papers::{Closeness, ETFA14, Provenance};
use conche_lab::scenario::{Controllers, Effort, FileError};
use conche_netsim::rng::{Entity, Purpose, Stream, Streams};
use toml::{Table, Value};

/// A parameter: path in the scenario, range, and unit.
type Parameter = (&'static str, [f64; 2], &'static str);

/// The fitted parameters. Rate: from one that explains most of an exchange's duration to the line's
/// nominal speed. Fades: from the time between two frames of a packet to several retransmissions of
/// a request.
const PARAMETERS: [Parameter; 3] = [
    ("links.slip.wire.rate", [1_000.0, 92_160.0], "bit/s"),
    ("radios.flocklab.medium.sinr.fading.mean_good", [500.0, 60_000.0], "ms"),
    ("radios.flocklab.medium.sinr.fading.mean_bad", [50.0, 6_000.0], "ms"),
];

const PART: &str = "baseline";
const DRAWS: u32 = 100;
const STEPS: u32 = 100;
/// Replications of a candidate, which limit run time.
const RUNS: u32 = 3;
/// Longest and shortest step of a parameter's logarithm.
const STEP: [f64; 2] = [0.6, 0.05];
const SHORTER: f64 = 0.95;

type Set = [f64; PARAMETERS.len()];

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(1), |seed| seed.parse())?;
    let experiment = part_of(&ETFA14)?;
    println!("seed of the search {seed}, of the scenario {}", experiment.document().scenario().seed);
    let mut stream = Streams::new(seed).stream(Entity::Run, Purpose::named("calibration"));
    let mut best: Option<(f64, Set)> = None;
    for _ in 0..DRAWS {
        keep(&mut best, &experiment, draw(&mut stream));
    }
    let mut step = STEP[0];
    for _ in 0..STEPS {
        let Some((_, near)) = best else { return Err("no set gives every mote a path".into()) };
        if !keep(&mut best, &experiment, changed(&mut stream, near, step)) {
            step = (step * SHORTER).max(STEP[1]);
        }
    }
    let (_, set) = best.ok_or("no set was drawn")?;
    let rounded = set.map(two_digits);
    let closeness = closeness(&experiment, rounded, None)?;
    println!("rounded, with all replications, {} of {} values within 15 %:", closeness.within, closeness.values);
    show(closeness.mean_log_ratio().unwrap_or(f64::NAN), rounded);
    Ok(())
}

fn part_of(paper: &conche_lab::papers::Paper) -> Result<Experiment, Box<dyn Error>> {
    let mut scenario: Table = paper.scenario.parse()?;
    for key in ["claims", "tables", "quick"] {
        scenario.remove(key);
    }
    let parts = scenario.get_mut("parts").and_then(Value::as_array_mut).ok_or("the scenario has no parts")?;
    parts.retain(|part| part.get("name").and_then(Value::as_str) == Some(PART));
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/");
    let file = |name: &str| {
        let path = PathBuf::from(format!("{beside}{name}"));
        std::fs::read_to_string(&path).map_err(|error| FileError::Unreadable { path, error })
    };
    Ok(Experiment::read(&toml::to_string(&scenario)?, &file, &Controllers::new())?)
}

fn keep(best: &mut Option<(f64, Set)>, experiment: &Experiment, set: Set) -> bool {
    let Ok(closeness) = closeness(experiment, set, Some(RUNS)) else { return false };
    let Some(mean) = closeness.mean_log_ratio() else { return false };
    let is_better = best.is_none_or(|(least, _)| mean < least);
    if is_better {
        show(mean, set);
        *best = Some((mean, set));
    }
    is_better
}

fn closeness(experiment: &Experiment, set: Set, runs: Option<u32>) -> Result<Closeness, Box<dyn Error>> {
    let with = |experiment: Experiment, (&(path, _, unit), value): (&Parameter, f64)| {
        experiment.with(path, format!("{value:.0}{unit}"))
    };
    let mut experiment = PARAMETERS.iter().zip(set).try_fold(experiment.clone(), with)?;
    experiment.adjust(&Effort { runs, ..Effort::default() })?;
    let values = experiment.measure(RunOptions::default(), &|_| {})?.values;
    Ok(Closeness::of(&experiment, &values, Provenance::Fitted))
}

fn draw(stream: &mut Stream) -> Set {
    PARAMETERS.map(|(_, [least, most], _)| least * (most / least).powf(stream.unit()))
}

fn changed(stream: &mut Stream, mut set: Set, step: f64) -> Set {
    for (value, (_, [least, most], _)) in set.iter_mut().zip(PARAMETERS) {
        *value = (*value * (step * (2.0 * stream.unit() - 1.0)).exp()).clamp(least, most);
    }
    set
}

fn two_digits(value: f64) -> f64 {
    let digit = 10_f64.powf(value.log10().floor() - 1.0);
    (value / digit).round() * digit
}

fn show(mean: f64, set: Set) {
    let of = |(&(path, _, unit), value): (&Parameter, f64)| format!("{path} = {value:.0}{unit}");
    let all: Vec<String> = PARAMETERS.iter().zip(set).map(of).collect();
    println!("{mean:.3}  {}", all.join(", "));
}
