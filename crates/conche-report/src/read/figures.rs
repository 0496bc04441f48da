//! Reads measured values: the lines of `--json`.

use std::path::Path;

use conche_lab::scenario::Unit;
use conche_lab::stats::Interval;
use conche_lab::value::{MeasuredValue, SCHEMA};
use serde::Deserialize;

use super::{ReadError, lines, parsed};

pub(super) const FILE: &str = "figures.ndjson";

/// A line. A value that is not a number, such as the mean of nothing, is null.
#[derive(Deserialize)]
struct Line {
    schema: u32,
    paper: String,
    item: String,
    row: String,
    column: String,
    unit: Unit,
    published: Option<f64>,
    measured: Option<f64>,
    ci95: Option<(Option<f64>, Option<f64>)>,
    runs: u32,
}

/// Reads all lines; none if the file does not exist yet.
pub(super) fn read(file: &Path) -> Result<Vec<MeasuredValue>, ReadError> {
    let mut figures = Vec::new();
    if !file.exists() {
        return Ok(figures);
    }
    lines(file, |number, text| {
        let line: Line = parsed(file, number, text)?;
        if line.schema != SCHEMA {
            return Err(ReadError::Schema { file: file.to_owned(), found: line.schema, known: SCHEMA });
        }
        let interval = |(low, high): (Option<f64>, Option<f64>)| Some(Interval { low: low?, high: high? });
        figures.push(MeasuredValue {
            paper: line.paper,
            item: line.item,
            row: line.row,
            column: line.column,
            unit: line.unit,
            published: line.published,
            measured: line.measured.unwrap_or(f64::NAN),
            ci95: line.ci95.and_then(interval),
            runs: line.runs,
        });
        Ok(())
    })?;
    Ok(figures)
}
