//! An experiment with its results.

use std::collections::{BTreeMap, HashMap, HashSet};

use conche_lab::experiment::Experiment;
use conche_lab::value::MeasuredValue;
use conche_results::{CellId, Scenario, Timeline};

use crate::series::RunSeries;

/// One experiment with its results.
pub struct Study {
    /// Name, title, extent and seed.
    pub about: Scenario,
    /// Scenario, if the directory has it.
    pub experiment: Option<Experiment>,
    /// Measured values, in order.
    pub values: Vec<MeasuredValue>,
    /// Values of each run.
    pub runs: Runs,
    /// Timelines of exchanges, by cell and scheme.
    pub(crate) timelines: Vec<CellTimeline>,
    /// Samples of one column, by row and column of their values.
    pub(crate) samples: Samples,
    /// Cell and replication of each run that the journal has.
    pub(crate) kept: HashSet<(CellId, u32)>,
    /// Time series of the first replication.
    pub(crate) series: Vec<RunSeries>,
    /// Timeline names of rows.
    pub(crate) cells: HashMap<String, String>,
}

impl Study {
    pub(crate) fn new(about: Scenario, experiment: Option<Experiment>, values: Vec<MeasuredValue>) -> Self {
        Self {
            about,
            experiment,
            values,
            runs: Runs::default(),
            timelines: Vec::new(),
            samples: Samples::default(),
            kept: HashSet::new(),
            series: Vec::new(),
            cells: HashMap::new(),
        }
    }

    pub(crate) fn sections(&self) -> &[conche_lab::scenario::Scenario] {
        self.experiment.as_ref().map(|experiment| experiment.document().sections()).unwrap_or_default()
    }
}

impl std::fmt::Debug for Study {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Study").field("about", &self.about).field("values", &self.values).finish_non_exhaustive()
    }
}

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

    pub(crate) fn add(&mut self, row: &str, column: String, replication: u32, value: f64) {
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

    pub(crate) fn add(&mut self, row: &str, replication: u32, values: &[u64], base: f64) {
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

pub(crate) fn label(cell: &CellId) -> String {
    let axes = cell.axes.iter().map(|(axis, point)| format!("{axis} {point}"));
    let mix = cell.mix.iter().map(|mix| format!("mix {mix}"));
    let words: Vec<String> = cell.part.iter().cloned().chain(axes).chain(mix).collect();
    words.join(" · ")
}
