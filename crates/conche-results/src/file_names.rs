//! Names of the files in a directory of results.

use crate::comparison::Row;
use crate::manifest::Manifest;

pub(crate) const MANIFEST: &str = Manifest::FILE;
pub(crate) const JOURNAL: &str = crate::journal::FILE;
pub(crate) const FIGURES: &str = "figures.ndjson";
pub(crate) const RUNS: &str = "runs.parquet";
pub(crate) const EXCHANGES: &str = "exchanges.parquet";
pub(crate) const COMPARISON: &str = Row::FILE;
pub(crate) const BOARD: &str = "comparison.txt";
/// Everything but the journal, scenarios and their tables of text.
pub(crate) const WRITTEN: [&str; 6] = [MANIFEST, FIGURES, RUNS, EXCHANGES, COMPARISON, BOARD];
