//! Reads comparisons: the lines of `conche compare --json`.

use std::path::Path;

use conche_results::comparison::{Row, RowError};

use super::{ReadError, lines};

/// Reads all lines; none if the file does not exist.
pub(super) fn read(file: &Path) -> Result<Vec<Row>, ReadError> {
    let mut rows = Vec::new();
    if !file.exists() {
        return Ok(rows);
    }
    lines(file, |line, text| {
        let wrong = |error: RowError| ReadError::Line { file: file.to_owned(), line, problem: error.to_string() };
        rows.push(Row::from_json(text).map_err(wrong)?);
        Ok(())
    })?;
    Ok(rows)
}
