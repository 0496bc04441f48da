//! Values and timelines of single runs.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;

use conche_lab::campaign::seeds;
use conche_lab::metrics::statistic::in_run;
use conche_lab::scenario::{MAX_REPLICATIONS, Statistic};
use conche_results::{CellId, Kept, Line, SCHEMA, Sample, Which};

use super::{ReadError, lines, parsed, series};
use crate::study::{CellTimeline, Study, label};
use crate::titles::definition;
use crate::values::{main_columns, scheme_values};

/// Seeds of replications, computed once each.
struct Seeds {
    known: Vec<u64>,
    rest: Box<dyn Iterator<Item = u64>>,
}

impl Seeds {
    fn new(seed: u64) -> Self {
        Self { known: Vec::new(), rest: Box::new(seeds(seed)) }
    }

    /// Returns the seed of a replication below [`MAX_REPLICATIONS`].
    fn of(&mut self, replication: u32) -> Option<u64> {
        let replication = replication as usize;
        let missing = (replication + 1).saturating_sub(self.known.len());
        self.known.extend(self.rest.by_ref().take(missing));
        self.known.get(replication).copied()
    }
}

/// Returns the first main column with a sample.
fn sampled(study: &Study) -> Option<String> {
    let cells = scheme_values(study);
    let has_many = |column: &&str| definition(study, "", column).is_some_and(|value| value.metric.has_many());
    main_columns(study, &cells).into_iter().find(has_many).map(str::to_owned)
}

pub(super) fn read(directory: &Path, studies: &mut [Study]) -> Result<(), ReadError> {
    let file = &directory.join(Line::FILE);
    if !file.exists() {
        return Ok(());
    }
    studies.iter_mut().for_each(begin);
    let mut known: HashMap<u64, Seeds> = HashMap::new();
    lines(file, |number, text| {
        let line: Line<'_> = parsed(file, number, text)?;
        if line.schema != SCHEMA {
            return Err(ReadError::Schema { file: file.to_owned(), found: line.schema, known: SCHEMA });
        }
        // Other options' runs do not count.
        let is_of = |study: &&mut Study| study.about.name == line.scenario && study.about.settings == line.settings;
        let Some(study) = studies.iter_mut().find(is_of) else { return Ok(()) };
        if line.replication >= MAX_REPLICATIONS {
            let problem = format!("replication {}: a cell has at most {MAX_REPLICATIONS}", line.replication);
            return Err(ReadError::Line { file: file.to_owned(), line: number, problem });
        }
        let mut expected = |seed| known.entry(seed).or_insert_with(|| Seeds::new(seed)).of(line.replication);
        if study.about.seed.is_some_and(|seed| expected(seed) != Some(line.seed)) {
            return Ok(());
        }
        add(study, &line.cell, line.replication, &line.outcome);
        if let Some(place) = line.series.as_deref().filter(|_| line.replication == 0) {
            // A later line of a run counts.
            study.series.retain(|known| known.cell != *line.cell);
            match series::read(directory, line.id, place, &line.cell) {
                Ok(run) => study.series.push(run),
                // The report does without a file that was removed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    let problem = format!("series.parquet does not have its time series: {error}");
                    return Err(ReadError::Line { file: file.to_owned(), line: number, problem });
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

/// Selects the column whose samples are kept, before any is added.
pub(super) fn begin(study: &mut Study) {
    study.samples.column = sampled(study);
}

/// Adds the samples of a run.
pub(super) fn add(study: &mut Study, cell: &CellId, replication: u32, samples: &[Kept]) {
    let name = label(cell);
    for Kept { values, sample, .. } in samples {
        for made in values {
            if !study.cells.contains_key(&made.row) {
                study.cells.insert(made.row.clone(), name.clone());
            }
            if let Sample::Each(each, base) = sample
                && study.samples.column.as_deref() == Some(made.column.as_str())
            {
                study.samples.add(&made.row, replication, each, *base);
            }
            let statistic = statistic(study, &made.column);
            for (label, value) in in_run(statistic, sample) {
                study.runs.add(&made.row, made.column.replace("{}", label), replication, value);
            }
        }
    }
    study.kept.insert((cell.clone(), replication));
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
