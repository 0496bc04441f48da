//! What each run gave, of the runs that the directory's results come from.

use std::collections::HashMap;
use std::path::Path;

use conche_lab::campaign::seed_of;
use conche_lab::metrics::Sample;
use conche_lab::metrics::statistic::in_run;
use conche_lab::results::Figure;
use conche_lab::scenario::Statistic;
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
    sample: Written,
}

#[derive(Deserialize)]
struct Place {
    row: String,
    column: String,
}

/// A sample as it is written, where what is not finite is `null`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Written {
    One(Option<f64>),
    Ratio(f64, f64),
    Each(Vec<u64>, f64),
    OfFlows(Vec<Option<f64>>),
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
        for Outcome { figures, sample } in line.outcome {
            let sample = Sample::from(sample);
            for place in &figures {
                let statistic = statistic(study, &place.column);
                for (label, value) in in_run(statistic, &sample) {
                    study.runs.add(&place.row, place.column.replace("{}", label), line.replication, value);
                }
            }
        }
        Ok(())
    })
}

/// What is made of a column's samples.
fn statistic(study: &Study, column: &str) -> Statistic {
    let sections = study.experiment.as_ref().map(|experiment| experiment.document().sections());
    let mut values = sections.into_iter().flatten().flat_map(|section| &section.values);
    values.find(|value| value.column == column).map_or(Statistic::Mean, |value| value.statistic)
}

impl From<Written> for Sample {
    fn from(written: Written) -> Self {
        match written {
            Written::One(number) => number.map_or(Self::None, Self::One),
            Written::Ratio(above, below) => Self::Ratio(above, below),
            Written::Each(values, per) => Self::Each(values, per),
            Written::OfFlows(values) => Self::OfFlows(values),
            Written::Labelled(numbers) => {
                Self::Labelled(numbers.into_iter().filter_map(|(label, number)| Some((label, number?))).collect())
            }
            Written::None => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_reads_as_it_was_written() {
        for sample in [
            Sample::One(1.5),
            Sample::Ratio(6.0, 11.0),
            Sample::Each(vec![1, 2], 1e3),
            Sample::OfFlows(vec![Some(2.0), None]),
            Sample::Labelled(vec![("60s".to_owned(), 3.0)]),
            Sample::None,
        ] {
            let json = serde_json::to_string(&sample).expect("numbers");
            let written: Written = serde_json::from_str(&json).expect("what was written");
            assert_eq!(Sample::from(written), sample, "{json}");
        }
    }
}
