//! What a directory holds already, and whether that goes together with what is to be run.

use std::fs;
use std::io;
use std::path::Path;

use crate::manifest::Manifest;
use crate::origin::{Origin, Program};
use crate::store::{JOURNAL, MANIFEST, WRITTEN};

/// Refuses a directory whose results are of something else; a message that says of what.
pub(crate) fn check(directory: &Path, program: &Program, origins: &[Origin]) -> Result<(), String> {
    let text = match fs::read_to_string(directory.join(MANIFEST)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let has_runs = directory.join(JOURNAL).exists();
            return if has_runs { Err(format!("it holds a {JOURNAL} without a {MANIFEST}")) } else { Ok(()) };
        }
        Err(error) => return Err(format!("its {MANIFEST} cannot be read: {error}")),
    };
    let manifest = Manifest::from_json(&text).map_err(|error| format!("its {MANIFEST} {error}"))?;
    let there: Vec<&str> = manifest.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    let here: Vec<&str> = origins.iter().map(|origin| origin.name.as_str()).collect();
    if there != here {
        return Err(format!("it holds results of {}, not of {}", there.join(", "), here.join(", ")));
    }
    for origin in origins {
        let files = origin.files.iter().map(|(name, text)| (Origin::beside(name), text));
        for (file, text) in [(origin.file(), &origin.text)].into_iter().chain(files) {
            if fs::read_to_string(directory.join(&file)).ok().as_ref() != Some(text) {
                return Err(format!(
                    "it holds results of another scenario {}: its {file} is not what is to be run",
                    origin.name
                ));
            }
        }
    }
    let other = &manifest.program;
    if program.sha256.is_none() || other.sha256 != program.sha256 {
        return Err(format!("it holds results of another build of conche, {other}; this is {program}"));
    }
    Ok(())
}

/// Removes what this crate writes, but for the journal, and nothing else.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    WRITTEN.iter().try_for_each(|name| match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}
