//! What a directory holds already, and whether that goes together with what is to be run.

use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::SCHEMA;
use crate::origin::{Origin, Program};
use crate::store::{JOURNAL, MANIFEST, WRITTEN};

/// What of an earlier manifest tells whether its runs may be used.
#[derive(Deserialize)]
struct Manifest {
    schema: u32,
    program: Program,
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
struct Scenario {
    name: String,
}

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
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| format!("its {MANIFEST} is none: {error}"))?;
    if manifest.schema != SCHEMA {
        return Err(format!("its {MANIFEST} is of schema {}, this conche's of schema {SCHEMA}", manifest.schema));
    }
    let list = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<_>>().join(", ");
    let (there, here) =
        (list(&mut manifest.scenarios.iter().map(|of| &of.name)), list(&mut origins.iter().map(|of| &of.name)));
    if there != here {
        return Err(format!("it holds results of {there}, not of {here}"));
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
    if manifest.program.sha256.is_none() || manifest.program.sha256 != program.sha256 {
        return Err(format!("it holds results of another build of conche: {}; this is {program}", manifest.program));
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
