//! Results of experiments on disk. `docs/results.md` describes the files.
//!
//! | module | contents |
//! |---|---|
//! | `origin` | the origin of results: scenarios and program |
//! | `store` | the directory: opened or continued, filled, closed |
//! | `previous` | whether earlier results in a directory can be continued |
//! | `file_names` | names of the files |
//! | `manifest` | the contents of `manifest.json` |
//! | `sample` | the samples of a run |
//! | [`comparison`] | comparison of controllers, cell by cell |
//! | `timeline` | selected exchanges, transmission by transmission |
//! | `verdict` | verdicts on claims |
//! | `journal` | finished runs, one per line, which are not repeated |
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

/// Schema version of manifest and journal.
pub const SCHEMA: u32 = 1;
