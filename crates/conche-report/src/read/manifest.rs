//! Reads the manifest: experiments, time and program.

use std::io::ErrorKind;
use std::path::Path;

use conche_results::{Manifest, ManifestError};

use super::ReadError;

pub(super) fn read(directory: &Path) -> Result<Manifest, ReadError> {
    let file = directory.join(Manifest::FILE);
    let text = std::fs::read_to_string(&file).map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            ReadError::NoResults { directory: directory.to_owned(), missing: Manifest::FILE }
        }
        _ => ReadError::Unreadable { file: file.clone(), source },
    })?;
    Manifest::from_json(&text).map_err(|error| match error {
        ManifestError::Schema(found) => ReadError::Schema { file, found, known: conche_results::SCHEMA },
        ManifestError::Json(error) => ReadError::Line { file, line: error.line(), problem: error.to_string() },
    })
}
