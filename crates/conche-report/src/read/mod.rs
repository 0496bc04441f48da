//! Results from a directory.
//!
//! | file | what it holds |
//! |---|---|
//! | `manifest` | what was run, when, and by which program |
//! | `figures` | the measured values, a line each |
//! | `runs` | what each run gave |
//! | `comparison` | controllers compared, if they were |

mod comparison;
mod figures;
mod manifest;
mod runs;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Component, Path, PathBuf};

use conche_lab::experiment::Experiment;
use conche_lab::papers;
use conche_lab::results::Figure;
use conche_results::comparison::Row;
use conche_results::{Line, Manifest, Scenario};

pub use runs::Runs;
pub(crate) use runs::{Shown, label};

/// What cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A directory without results.
    #[error("{} is no result directory: it has no {missing}; `conche reproduce -o DIR` and `conche run -o DIR` write one", directory.display())]
    NoResults {
        /// The directory.
        directory: PathBuf,
        /// The file that every result directory has.
        missing: &'static str,
    },
    /// A file that is there and cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line that is not what it must be.
    #[error("{}, line {line}: {problem}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Which line, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A file of another version.
    #[error("{} has schema {found}; this conche reads schema {known}", file.display())]
    Schema {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The version that is known.
        known: u32,
    },
    /// A scenario that is no longer valid.
    #[error("{}: {problem}", file.display())]
    Scenario {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        problem: String,
    },
}

/// What a directory holds.
#[derive(Debug)]
pub struct Results {
    /// Where it is.
    pub directory: PathBuf,
    /// What was run.
    pub manifest: Manifest,
    /// Each experiment.
    pub studies: Vec<Study>,
    /// Controllers compared, as `conche compare` has written it; empty if it was another command.
    pub comparison: Vec<Row>,
}

/// One experiment with its results.
pub struct Study {
    /// Its name, title, extent and seed.
    pub about: Scenario,
    /// The scenario, which knows tables, claims and figures; `None` of one that the directory does not have.
    pub experiment: Option<Experiment>,
    /// The measured values, in their order.
    pub figures: Vec<Figure>,
    /// What each run gave.
    pub runs: Runs,
    /// Exchanges that runs kept copy by copy, by cells and schemes.
    pub(crate) timelines: Vec<Shown>,
}

impl std::fmt::Debug for Study {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Study").field("about", &self.about).field("figures", &self.figures).finish_non_exhaustive()
    }
}

impl Results {
    /// Reads a directory that `conche reproduce -o`, `conche run -o` or `conche compare -o` has written.
    ///
    /// # Errors
    /// If it is none, or a file in it is not what it must be; the error names file and line.
    pub fn read(directory: &Path) -> Result<Self, ReadError> {
        let manifest = manifest::read(directory)?;
        let mut figures = figures::read(&directory.join(figures::FILE))?;
        let mut studies = Vec::new();
        for about in &manifest.scenarios {
            let experiment = experiment(directory, about)?;
            let own = figures.extract_if(.., |figure| figure.paper == about.name).collect();
            studies.push(Study {
                about: about.clone(),
                experiment,
                figures: own,
                runs: Runs::default(),
                timelines: Vec::new(),
            });
        }
        // What no entry of the manifest tells of is shown all the same.
        while let Some(first) = figures.first() {
            let name = first.paper.clone();
            let own = figures.extract_if(.., |figure| figure.paper == name).collect();
            let about = Scenario { name: name.clone(), ..Scenario::default() };
            let experiment = papers::Paper::by_name(&name).map(papers::Paper::experiment);
            studies.push(Study { about, experiment, figures: own, runs: Runs::default(), timelines: Vec::new() });
        }
        runs::read(&directory.join(Line::FILE), &mut studies)?;
        let comparison = comparison::read(&directory.join(Row::FILE))?;
        Ok(Self { directory: directory.to_owned(), manifest, studies, comparison })
    }
}

/// The scenario as it was run; that of a paper, if the directory has no copy.
fn experiment(directory: &Path, about: &Scenario) -> Result<Option<Experiment>, ReadError> {
    let Some(file) = &about.file else {
        return Ok(papers::Paper::by_name(&about.name).map(papers::Paper::experiment));
    };
    let path = directory.join(file);
    if !is_below(file) {
        return Err(ReadError::Scenario { file: path, problem: "is not below the result directory".to_owned() });
    }
    let unreadable = |source| ReadError::Unreadable { file: path.clone(), source };
    let text = std::fs::read_to_string(&path).map_err(unreadable)?;
    let beside = |name: &str| {
        let file = path.parent().unwrap_or(directory).join(name);
        if !is_below(name) {
            return Err(format!("{} is not below the result directory", file.display()));
        }
        std::fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))
    };
    let read = Experiment::read(&text, &beside);
    read.map(Some).map_err(|error| ReadError::Scenario { file: path.clone(), problem: error.to_string() })
}

/// Whether a path leads to where it begins or below: what others have written names no other files of this machine.
fn is_below(path: &str) -> bool {
    Path::new(path).components().all(|component| matches!(component, Component::Normal(_)))
}

/// Gives each line of a file, with its number. A last line that does not end is left out: it is being written.
fn lines(file: &Path, mut each: impl FnMut(usize, &str) -> Result<(), ReadError>) -> Result<(), ReadError> {
    let unreadable = |source| ReadError::Unreadable { file: file.to_owned(), source };
    let mut reader = BufReader::new(File::open(file).map_err(unreadable)?);
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        reader.read_line(&mut line).map_err(unreadable)?;
        if !line.ends_with('\n') {
            break;
        }
        if !line.trim().is_empty() {
            each(number, line.trim_end())?;
        }
    }
    Ok(())
}

/// A line as what it must be, of the version that is known.
fn parsed<'a, T: serde::Deserialize<'a>>(file: &Path, line: usize, text: &'a str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|error| ReadError::Line {
        file: file.to_owned(),
        line,
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
