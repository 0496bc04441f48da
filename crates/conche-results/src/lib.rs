//! Results of experiments on disk. `docs/results.md` describes the files.

#![forbid(unsafe_code)]

pub mod comparison;
mod journal;
mod manifest;
mod origin;
mod run;
mod run_table;
mod sample;
mod series;
mod store;
mod tables;
mod verdict;

pub use journal::Line;
pub use manifest::{Failure, Finished, Manifest, ManifestError, Near, Scenario, Score, State};
pub use origin::{Axis, AxisValue, Build, CellId, Labels, Origin, Program, executable, fingerprint};
pub use run::{CellHash, NoRunId, Run, RunId};
pub use sample::{Kept, Made, Sample, Timeline, Which};
pub use series::{SeriesPoint, read_series};
pub use store::{Begin, PreviousError, RunTables, Store, StoreError, stored_runs};
pub use tables::{ExchangeRow, ExchangeRows, RowOf, RunRow, RunRows, SeriesRow, SeriesRows};
pub use verdict::Verdict;

/// Schema version of manifest and journal.
pub const SCHEMA: u32 = 1;
