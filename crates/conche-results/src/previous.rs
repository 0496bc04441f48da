//! Checks whether earlier results in a directory can be continued.

use std::fs;
use std::io;
use std::path::Path;

use crate::file_names::{JOURNAL, MANIFEST, WRITTEN};
use crate::manifest::{Manifest, ManifestError};
use crate::origin::{Origin, Program};

/// Why the results in a directory cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum PreviousError {
    /// The directory has runs, but no manifest.
    #[error("it holds a {JOURNAL} without a {MANIFEST}")]
    NoManifest,
    /// The manifest cannot be opened.
    #[error("its {MANIFEST} cannot be read: {0}")]
    Unreadable(io::Error),
    /// The manifest is invalid.
    #[error("its {MANIFEST} {0}")]
    Manifest(#[from] ManifestError),
    /// The results are of other scenarios.
    #[error("it holds results of {there}, not of {here}")]
    OtherScenarios {
        /// Names in the directory.
        there: String,
        /// Names of the scenarios to run.
        here: String,
    },
    /// The scenario, or a file that it names, has changed.
    #[error("it holds results of another scenario {scenario}: its {file} is not what is to be run")]
    OtherText {
        /// The scenario's name.
        scenario: String,
        /// The file that differs.
        file: String,
    },
    /// Another build of conche wrote the results.
    #[error("it holds results of another build of conche, {there}; this is {here}")]
    OtherBuild {
        /// The build that wrote the results.
        there: Box<Program>,
        /// This build.
        here: Box<Program>,
    },
}

/// Returns an error if the directory's results cannot be continued by this program with these
/// scenarios.
pub(crate) fn check(directory: &Path, program: &Program, origins: &[Origin]) -> Result<(), PreviousError> {
    let text = match fs::read_to_string(directory.join(MANIFEST)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let has_runs = directory.join(JOURNAL).exists();
            return if has_runs { Err(PreviousError::NoManifest) } else { Ok(()) };
        }
        Err(error) => return Err(PreviousError::Unreadable(error)),
    };
    let manifest = Manifest::from_json(&text)?;
    let there: Vec<&str> = manifest.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    let here: Vec<&str> = origins.iter().map(|origin| origin.name.as_str()).collect();
    if there != here {
        let [there, here] = [there, here].map(|names| names.join(", "));
        return Err(PreviousError::OtherScenarios { there, here });
    }
    for origin in origins {
        let files = origin.files.iter().map(|(name, text)| (Origin::beside(name), text));
        for (file, text) in [(origin.file(), &origin.text)].into_iter().chain(files) {
            if fs::read_to_string(directory.join(&file)).ok().as_ref() != Some(text) {
                return Err(PreviousError::OtherText { scenario: origin.name.clone(), file });
            }
        }
    }
    let there = manifest.program;
    if program.sha256.is_none() || there.sha256 != program.sha256 {
        return Err(PreviousError::OtherBuild { there: Box::new(there), here: Box::new(program.clone()) });
    }
    Ok(())
}

/// Removes all files that this crate writes, except the journal.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    WRITTEN.iter().try_for_each(|name| match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}
