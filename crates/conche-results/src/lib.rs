//! What is left of experiments on disk. `docs/results.md` describes the files.
//!
//! | module | what it holds |
//! |---|---|
//! | `origin` | what was run: scenarios and program |
//! | `store` | the directory: opened anew or to go on, filled, closed |
//! | `previous` | what a directory holds already, and whether that goes together with what is to be run |
//! | `file_names` | names of the files |
//! | `manifest` | what `manifest.json` says |
//! | `sample` | what is kept of a run |
//! | [`comparison`] | controllers compared, cell by cell |
//! | `timeline` | some exchanges, copy by copy |
//! | `verdict` | what becomes of what is said in words |
//! | `journal` | finished runs, one a line, that are not run again |
//! | `tables` | the columns of `runs.parquet` and `exchanges.parquet` |
//! | `table` | rows in memory, written as Parquet |
//! | `exchanges` | the file of exchanges, which an interrupted campaign continues |

#![forbid(unsafe_code)]

pub mod comparison;
mod exchanges;
mod file_names;
mod journal;
mod manifest;
mod origin;
mod previous;
mod sample;
mod store;
mod table;
mod tables;
mod timeline;
mod verdict;

pub use journal::{Line, Run};
pub use manifest::{Failure, Finished, Manifest, ManifestError, Near, Scenario, Score, State};
pub use origin::{Build, CellId, Origin, Program, fingerprint};
pub use previous::PreviousError;
pub use sample::{Kept, Made, Sample};
pub use store::{Begin, Store, StoreError};
pub use tables::{ExchangeRow, ExchangeRows, RowOf, RunRow, RunRows};
pub use timeline::{Timeline, Which};
pub use verdict::Verdict;

/// The version of manifest and journal.
pub const SCHEMA: u32 = 1;
