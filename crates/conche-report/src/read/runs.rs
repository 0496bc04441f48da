//! What each run gave, of the runs that the directory's results come from.

use std::collections::HashMap;
use std::path::Path;

use conche_lab::campaign::seed_of;
use conche_lab::metrics::Statistic;
use conche_lab::results::Figure;
use serde::Deserialize;

use super::{ReadError, Study, lines, parsed};

pub(super) const FILE: &str = "runs.ndjson";

/// The version of the lines that is known.
const SCHEMA: u32 = 1;

/// More would only take time to read.
const MOST_REPLICATIONS: u32 = 1 << 16;

/// The values of single runs, by row and column.
#[derive(Clone, Debug, Default)]
pub struct Runs(HashMap<String, HashMap<String, Vec<(u32, f64)>>>);

#[derive(Deserialize)]
struct Line {
    schema: u32,
    scenario: String,
    settings: String,
    seed: u64,
    replication: u32,
    #[serde(default)]
    outcome: Vec<Outcome>,
}

/// What is measured of a run. Of a model of its own it has no sample, and is left out.
#[derive(Deserialize)]
struct Outcome {
    #[serde(default)]
    figures: Vec<Place>,
    #[serde(default)]
    sample: Sample,
}

#[derive(Deserialize)]
struct Place {
    row: String,
    column: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sample {
    One(Option<f64>),
    Each(Vec<u64>, f64),
    Labelled(Vec<(String, Option<f64>)>),
    #[default]
    None,
}

impl Runs {
    /// The value in each replication that a figure is made of, with the replication's number; empty if they are not known.
    #[must_use]
    pub fn of(&self, figure: &Figure) -> &[(u32, f64)] {
        let known = self.0.get(&figure.row).and_then(|columns| columns.get(&figure.column));
        let all = known.map_or(&[] as &[_], Vec::as_slice);
        // An earlier invocation may have had more replications.
        &all[..all.partition_point(|(replication, _)| *replication < figure.runs)]
    }

    fn add(&mut self, row: &str, column: String, replication: u32, value: f64) {
        let values = self.0.entry(row.to_owned()).or_default().entry(column).or_default();
        // Of two of one run the first counts; they are alike.
        if let Err(place) = values.binary_search_by_key(&replication, |(of, _)| *of) {
            values.insert(place, (replication, value));
        }
    }
}

/// Reads what the runs of these studies gave, if that is there.
pub(super) fn read(file: &Path, studies: &mut [Study]) -> Result<(), ReadError> {
    if !file.exists() {
        return Ok(());
    }
    lines(file, |number, text| {
        let line: Line = parsed(file, number, text)?;
        if line.schema != SCHEMA {
            return Err(ReadError::Schema { file: file.to_owned(), found: line.schema, known: SCHEMA });
        }
        // Runs of earlier invocations with other options are none of these results.
        let is_of = |study: &&mut Study| {
            study.about.name == line.scenario && study.about.settings.as_deref() == Some(line.settings.as_str())
        };
        let Some(study) = studies.iter_mut().find(is_of) else { return Ok(()) };
        if line.replication >= MOST_REPLICATIONS {
            let problem = format!("replication {}; nobody runs as many", line.replication);
            return Err(ReadError::Line { file: file.to_owned(), line: number, problem });
        }
        // Nor are those of another seed.
        if study.about.seed.is_some_and(|seed| seed_of(seed, line.replication) != line.seed) {
            return Ok(());
        }
        for outcome in line.outcome {
            for place in &outcome.figures {
                let statistic = statistic(study, &place.column);
                for (label, value) in outcome.sample.numbers(statistic) {
                    study.runs.add(&place.row, place.column.replace("{}", label), line.replication, value);
                }
            }
        }
        Ok(())
    })
}

/// What is made of a column's samples.
fn statistic(study: &Study, column: &str) -> Statistic {
    let sections = study.experiment.as_ref().map(conche_lab::composed::Composed::document).map(|it| it.sections());
    let mut values = sections.into_iter().flatten().flat_map(|section| &section.values);
    values.find(|value| value.column == column).map_or(Statistic::Mean, |value| value.statistic)
}

impl Sample {
    /// Its finite numbers with their labels; of what is measured of each flow or exchange, the run's own statistic.
    fn numbers(&self, statistic: Statistic) -> Vec<(&str, f64)> {
        match self {
            Self::One(number) => number.iter().map(|number| ("", *number)).collect(),
            Self::Each(values, per) => of_each(values, statistic).map(|value| ("", value / per)).into_iter().collect(),
            Self::Labelled(numbers) => {
                numbers.iter().filter_map(|(label, number)| Some((label.as_str(), (*number)?))).collect()
            }
            Self::None => Vec::new(),
        }
    }
}

fn of_each(values: &[u64], statistic: Statistic) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let share = match statistic {
        Statistic::Median => 0.5,
        Statistic::Percentile(percent) => percent / 100.0,
        _ => return Some(values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64),
    };
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let place = share.clamp(0.0, 1.0) * last as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the last place")]
    let below = place.floor() as usize;
    let (low, high) = (sorted[below] as f64, sorted[(below + 1).min(last)] as f64);
    Some(low + (high - low) * place.fract())
}
