//! Checks and runs a scenario.

use std::ops::Range;
use std::time::Instant;

use conche_lab::Controllers;
use conche_lab::campaign::{Completion, RunOptions, Watch};
use conche_lab::experiment::Experiment;
use conche_lab::papers::{Summary, paper_file};
use conche_lab::results::{Finished, Manifest, Program};
use conche_lab::scenario::{Effort, ScenarioError};
use conche_lab::value::write_json;
use conche_report::{Results, page};
use serde::Serialize;

/// A problem of a scenario or of the options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Problem, with the expected form.
    pub message: String,
    /// Place in the scenario's text, if known.
    pub place: Option<Place>,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
    /// Start in UTF-16 code units, as JavaScript counts.
    pub start: usize,
    /// End in UTF-16 code units.
    pub end: usize,
}

/// The results of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Name of the scenario.
    pub name: String,
    /// Report in HTML.
    pub page: String,
    /// Values in JSON lines, the bytes that `conche run --json` prints.
    pub values: String,
    /// Number of runs, including failed ones.
    pub runs: u64,
    /// Number of simulated events.
    pub events: u64,
}

impl Problem {
    fn new(error: &ScenarioError, text: &str) -> Self {
        Self { message: error.to_string(), place: error.span().map(|span| Place::new(text, span)) }
    }
}

impl Place {
    fn new(text: &str, Range { start, end }: Range<usize>) -> Self {
        let before = text.get(..start).unwrap_or(text);
        let within = text.get(start..end).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let units = |text: &str| text.encode_utf16().count();
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            start: units(before),
            end: units(before) + units(within),
        }
    }
}

/// Checks a scenario with these options; `None` if it can run.
#[must_use]
pub fn check(scenario: &str, effort: &Effort) -> Option<Problem> {
    read(scenario, effort).err()
}

/// Runs a scenario with these options, and draws its report.
///
/// # Errors
/// If it is invalid or cannot run.
pub fn run(scenario: &str, effort: &Effort, watch: Watch<'_>) -> Result<Outcome, Problem> {
    let (experiment, adjusted) = read(scenario, effort)?;
    let unplaced = |message: String| Problem { message, place: None };
    let command = format!("conche run {}.toml {effort}", experiment.name());
    let command = command.split_whitespace().map(str::to_owned).collect();
    let program = Program { version: env!("CARGO_PKG_VERSION").to_owned(), ..Program::default() };
    let began = Instant::now();
    let mut manifest = Manifest::new(program, command, 1, &[adjusted.origin()]);
    let measured = adjusted.measure_with_samples(RunOptions::default(), watch);
    let (measured, samples) = measured.map_err(|error| unplaced(error.to_string()))?;
    // WebAssembly has no CPU time, and one thread.
    let cpu = began.elapsed();
    let Completion { runs, reused, failures, cost } = &measured.completion;
    let score = Some(Summary::new(&adjusted, &measured.values).score());
    let from_journal = *reused;
    let finished =
        Finished { runs: *runs, from_journal, failures, events: cost.events, cpu, score, ..Finished::default() };
    manifest.finish(adjusted.name(), &finished);
    manifest.end();
    let mut values = Vec::new();
    write_json(&measured.values, &mut values).map_err(|error| unplaced(error.to_string()))?;
    Ok(Outcome {
        name: experiment.name().to_owned(),
        runs: *runs,
        events: cost.events,
        values: String::from_utf8_lossy(&values).into_owned(),
        page: page(&[Results::of(manifest, experiment, &measured.values, &samples)]),
    })
}

/// Returns the experiment without and with the options.
fn read(scenario: &str, effort: &Effort) -> Result<(Experiment, Experiment), Problem> {
    let problem = |error: ScenarioError| Problem::new(&error, scenario);
    let experiment = Experiment::read(scenario, &paper_file, &Controllers::new()).map_err(problem)?;
    let mut adjusted = experiment.clone();
    // Controllers and values set by the options have no place in the text.
    adjusted.adjust(effort).map_err(problem)?;
    adjusted.check().map_err(problem)?;
    Ok((experiment, adjusted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = include_str!("../../../scenarios/examples/failing-link.toml");

    #[test]
    fn a_problem_has_the_place_that_the_reader_reports() {
        assert_eq!(check(SCENARIO, &Effort::default()), None);
        let wrong = SCENARIO.replacen("seed = ", "# é\u{1f980}\nsede = ", 1);
        let problem = check(&wrong, &Effort::default()).expect("an unknown key");
        let place = problem.place.expect("a place");
        let before = wrong.find("sede").expect("the key");
        let units: Vec<u16> = wrong.encode_utf16().collect();
        assert_eq!(place.line, wrong[..before].lines().count() + 1);
        assert_eq!(place.column, 1);
        assert_eq!(String::from_utf16_lossy(&units[place.start..place.end]), "sede");
        assert!(problem.message.contains("seed"), "{problem:?}");
    }

    #[test]
    fn a_problem_of_the_options_has_no_place() {
        let effort = Effort { controllers: vec!["coco".to_owned()], ..Effort::default() };
        let problem = check(SCENARIO, &effort).expect("an unknown controller");
        assert_eq!(problem.place, None);
        assert!(problem.message.contains("coco"), "{problem:?}");
    }
}
