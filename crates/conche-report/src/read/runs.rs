//! Values and timelines of single runs.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use conche_lab::campaign::seed_of;
use conche_lab::metrics::statistic::in_run;
use conche_lab::scenario::Statistic;
use conche_lab::value::MeasuredValue;
use conche_results::{CellId, Kept, Line, SCHEMA, Sample, Timeline, Which};

use super::{ReadError, Study, lines, parsed};
use crate::titles::definition;
use crate::values::{main_columns, scheme_values};

/// Against excessive reading time.
const MOST_REPLICATIONS: u32 = 1 << 16;

/// The values of single runs, by row and column.
#[derive(Clone, Debug, Default)]
pub struct Runs(HashMap<String, HashMap<String, Vec<(u32, f64)>>>);

/// The timeline of an exchange in a cell.
#[derive(Clone, Debug)]
pub(crate) struct CellTimeline {
    pub(crate) cell: CellId,
    pub(crate) replication: u32,
    pub(crate) of: Timeline,
}

impl Runs {
    /// Returns values with their replications; empty if unknown.
    #[must_use]
    pub fn of(&self, value: &MeasuredValue) -> &[(u32, f64)] {
        let known = self.0.get(&value.row).and_then(|columns| columns.get(&value.column));
        let all = known.map_or(&[] as &[_], Vec::as_slice);
        // An earlier call may have had more.
        &all[..all.partition_point(|(replication, _)| *replication < value.runs)]
    }

    fn add(&mut self, row: &str, column: String, replication: u32, value: f64) {
        let values = self.0.entry(row.to_owned()).or_default().entry(column).or_default();
        // Duplicates of a run are equal.
        if let Some(place) =
            values.binary_search_by_key(&replication, |(of, _)| *of).err().filter(|_| value.is_finite())
        {
            values.insert(place, (replication, value));
        }
    }
}

/// Of larger samples, quantiles are kept.
const MOST_OF_A_RUN: usize = 512;

/// Pooled samples of the drawn column, by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    pub(crate) column: Option<String>,
    of: HashMap<String, BTreeMap<u32, RunSample>>,
}

#[derive(Clone, Debug)]
struct RunSample {
    count: usize,
    values: Vec<f64>,
}

impl Samples {
    /// Returns number and weighted values of all runs.
    pub(crate) fn of(&self, value: &MeasuredValue) -> (usize, Vec<(f64, f64)>) {
        let runs = || self.of.get(&value.row).into_iter().flat_map(|runs| runs.range(..value.runs));
        let weighted = |run: &RunSample| {
            let weight = run.count as f64 / run.values.len() as f64;
            run.values.iter().map(|value| (*value, weight)).collect::<Vec<_>>()
        };
        (runs().map(|(_, run)| run.count).sum(), runs().flat_map(|(_, run)| weighted(run)).collect())
    }

    fn add(&mut self, row: &str, replication: u32, values: &[u64], base: f64) {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let count = sorted.len();
        if count > MOST_OF_A_RUN {
            // The extremes stay.
            sorted = (0..MOST_OF_A_RUN).map(|of| sorted[of * (count - 1) / (MOST_OF_A_RUN - 1)]).collect();
        }
        let values: Vec<f64> = sorted.into_iter().map(|value| value as f64 / base).collect();
        if !values.is_empty() && values.iter().all(|value| value.is_finite()) {
            self.of.entry(row.to_owned()).or_default().insert(replication, RunSample { count, values });
        }
    }
}

/// Returns the first main column with a sample.
fn sampled(study: &Study) -> Option<String> {
    let cells = scheme_values(study);
    let has_many = |column: &&str| definition(study, "", column).is_some_and(|value| value.metric.has_many());
    main_columns(study, &cells).into_iter().find(has_many).map(str::to_owned)
}

pub(super) fn read(file: &Path, studies: &mut [Study]) -> Result<(), ReadError> {
    if !file.exists() {
        return Ok(());
    }
    for study in &mut *studies {
        study.samples.column = sampled(study);
    }
    lines(file, |number, text| {
        let line: Line<'_> = parsed(file, number, text)?;
        if line.schema != SCHEMA {
            return Err(ReadError::Schema { file: file.to_owned(), found: line.schema, known: SCHEMA });
        }
        // Other options' runs do not count.
        let is_of = |study: &&mut Study| study.about.name == line.scenario && study.about.settings == line.settings;
        let Some(study) = studies.iter_mut().find(is_of) else { return Ok(()) };
        if line.replication >= MOST_REPLICATIONS {
            let problem = format!("replication {}: the limit is {MOST_REPLICATIONS}", line.replication);
            return Err(ReadError::Line { file: file.to_owned(), line: number, problem });
        }
        if study.about.seed.is_some_and(|seed| seed_of(seed, line.replication) != line.seed) {
            return Ok(());
        }
        let cell = label(&line.cell);
        for Kept { values, sample, .. } in line.outcome.iter() {
            for made in values {
                if !study.cells.contains_key(&made.row) {
                    study.cells.insert(made.row.clone(), cell.clone());
                }
                if let Sample::Each(each, base) = sample
                    && study.samples.column.as_deref() == Some(made.column.as_str())
                {
                    study.samples.add(&made.row, line.replication, each, *base);
                }
                let statistic = statistic(study, &made.column);
                for (label, value) in in_run(statistic, sample) {
                    study.runs.add(&made.row, made.column.replace("{}", label), line.replication, value);
                }
            }
        }
        for of in line.timelines.iter() {
            let timeline =
                CellTimeline { cell: line.cell.clone().into_owned(), replication: line.replication, of: of.clone() };
            show(&mut study.timelines, timeline);
        }
        Ok(())
    })
}

fn statistic(study: &Study, column: &str) -> Statistic {
    let sections = study.experiment.as_ref().map(|experiment| experiment.document().sections());
    let mut values = sections.into_iter().flatten().flat_map(|section| &section.values);
    values.find(|value| value.column == column).map_or(Statistic::Mean, |value| value.statistic)
}

/// Keeps, per cell and scheme, all replications' slowest exchange and the one with most
/// transmissions, and the first's median one, independent of the order of lines.
fn show(known: &mut Vec<CellTimeline>, new: CellTimeline) {
    let is_like = |other: &&mut CellTimeline| {
        other.of.which == new.of.which && other.of.scheme == new.of.scheme && other.cell == new.cell
    };
    let Some(other) = known.iter_mut().find(is_like) else { return known.push(new) };
    let weight = |timeline: &CellTimeline| match timeline.of.which {
        Which::Median => (0, 0.0),
        Which::Slowest => (0, timeline.of.lasted_s),
        Which::MostCopies => (timeline.of.copies.len(), timeline.of.lasted_s),
    };
    let ((copies, lasted), (known_copies, known_lasted)) = (weight(&new), weight(other));
    let order = copies.cmp(&known_copies).then(lasted.total_cmp(&known_lasted));
    if order.then(other.replication.cmp(&new.replication)).is_gt() {
        *other = new;
    }
}

pub(crate) fn label(cell: &CellId) -> String {
    let axes = cell.axes.iter().map(|(axis, point)| format!("{axis} {point}"));
    let mix = cell.mix.iter().map(|mix| format!("mix {mix}"));
    let words: Vec<String> = cell.part.iter().cloned().chain(axes).chain(mix).collect();
    words.join(" · ")
}
