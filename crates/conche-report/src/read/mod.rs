//! Reads results from a directory.

mod runs;
mod series;

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Component, Path, PathBuf};

use conche_lab::experiment::{Experiment, RunSamples};
use conche_lab::papers;
use conche_lab::scenario::{Controllers, FileError, Unit};
use conche_lab::stats::Interval;
use conche_lab::value::{MeasuredValue, Position, SCHEMA};
use conche_results::comparison::{Row, RowError};
use conche_results::{Manifest, ManifestError, Scenario};
use serde::Deserialize;

use crate::study::Study;

/// Errors of reading results.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The directory has no results.
    #[error("{} is no result directory: it has no {missing}; `conche reproduce -o DIR` and `conche run -o DIR` write one", directory.display())]
    NoResults {
        /// Directory.
        directory: PathBuf,
        /// File that every result directory has.
        missing: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Unreadable {
        /// File.
        file: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("{}, line {line}: {problem}", file.display())]
    Line {
        /// File.
        file: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Problem.
        problem: String,
    },
    /// A file has another schema version.
    #[error("{} has schema {found}; this conche reads schema {known}", file.display())]
    Schema {
        /// File.
        file: PathBuf,
        /// Version of the file.
        found: u32,
        /// Supported version.
        known: u32,
    },
    /// A scenario is no longer valid.
    #[error("{}: {problem}", file.display())]
    Scenario {
        /// File.
        file: PathBuf,
        /// Problem and its place.
        problem: String,
    },
}

/// The contents of a directory.
#[derive(Debug)]
pub struct Results {
    /// Path.
    pub directory: PathBuf,
    /// Manifest.
    pub manifest: Manifest,
    /// Experiments.
    pub studies: Vec<Study>,
    /// Comparison by `conche compare`.
    pub comparison: Vec<Row>,
}

impl Results {
    /// Reads a directory that `conche reproduce -o`, `conche run -o` or `conche compare -o` has
    /// written; its scenarios can name `controllers`.
    ///
    /// # Errors
    /// If it has no results or an invalid file; the error names file and line.
    pub fn read(directory: &Path, controllers: &Controllers) -> Result<Self, ReadError> {
        let manifest = read_manifest(directory)?;
        let mut values = read_values(&directory.join(VALUES))?;
        let mut studies = Vec::new();
        for about in &manifest.scenarios {
            let experiment = experiment(directory, about, controllers)?;
            let own = values.extract_if(.., |value| value.scenario == about.name).collect();
            studies.push(Study::new(about.clone(), experiment, own));
        }
        while let Some(first) = values.first() {
            let name = first.scenario.clone();
            let own = values.extract_if(.., |value| value.scenario == name).collect();
            let about = Scenario { name: name.clone(), ..Scenario::default() };
            let experiment = papers::Paper::by_name(&name).map(|paper| paper.experiment(controllers));
            studies.push(Study::new(about, experiment, own));
        }
        runs::read(directory, &mut studies)?;
        let comparison = read_comparison(&directory.join(Row::FILE))?;
        Ok(Self { directory: directory.to_owned(), manifest, studies, comparison })
    }

    /// Creates the results of an experiment without a directory. The page equals the page of the
    /// directory that [`Results::read`] reads; `experiment` is without the options it was run with.
    #[must_use]
    pub fn of(manifest: Manifest, experiment: Experiment, values: &[MeasuredValue], runs: &[RunSamples]) -> Self {
        let about = manifest.scenarios.iter().find(|about| about.name == experiment.name());
        let values = values.iter().map(MeasuredValue::rounded).collect();
        let mut study = Study::new(about.cloned().unwrap_or_default(), Some(experiment), values);
        runs::begin(&mut study);
        runs.iter().for_each(|run| runs::add(&mut study, &run.cell, run.replication, &run.samples));
        Self { directory: PathBuf::new(), manifest, studies: vec![study], comparison: Vec::new() }
    }
}

/// Reads the manifest, and the scenarios without the options that they were run with.
///
/// # Errors
/// If a file is missing or invalid.
pub fn read_experiments(directory: &Path, controllers: &Controllers) -> Result<(Manifest, Vec<Experiment>), ReadError> {
    let manifest = read_manifest(directory)?;
    let read = manifest.scenarios.iter().filter_map(|about| experiment(directory, about, controllers).transpose());
    let experiments = read.collect::<Result<_, _>>()?;
    Ok((manifest, experiments))
}

/// Reads the scenario as run; the built-in one for a paper without a copy.
fn experiment(directory: &Path, about: &Scenario, controllers: &Controllers) -> Result<Option<Experiment>, ReadError> {
    let Some(file) = &about.file else {
        return Ok(papers::Paper::by_name(&about.name).map(|paper| paper.experiment(controllers)));
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
            return Err(FileError::Outside(file));
        }
        std::fs::read_to_string(&file).map_err(|error| FileError::Unreadable { path: file, error })
    };
    let read = Experiment::read(&text, &beside, controllers);
    read.map(Some).map_err(|error| ReadError::Scenario { file: path.clone(), problem: error.to_string() })
}

/// Rejects other files of this machine, which a foreign manifest might name.
fn is_below(path: &str) -> bool {
    Path::new(path).components().all(|component| matches!(component, Component::Normal(_)))
}

/// Reads numbered lines. An unterminated last one is still being written.
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

fn parsed<'a, T: serde::Deserialize<'a>>(file: &Path, line: usize, text: &'a str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|error| ReadError::Line {
        file: file.to_owned(),
        line,
        problem: error.to_string(),
    })
}

fn read_comparison(file: &Path) -> Result<Vec<Row>, ReadError> {
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

const VALUES: &str = "figures.ndjson";

/// A mean of nothing is null.
#[derive(Deserialize)]
struct ValueLine {
    schema: u32,
    scenario: String,
    item: String,
    row: String,
    column: String,
    unit: Unit,
    published: Option<f64>,
    measured: Option<f64>,
    ci95: Option<(Option<f64>, Option<f64>)>,
    runs: u32,
    #[serde(flatten)]
    position: Position,
}

fn read_values(file: &Path) -> Result<Vec<MeasuredValue>, ReadError> {
    let mut values = Vec::new();
    if !file.exists() {
        return Ok(values);
    }
    lines(file, |number, text| {
        let line: ValueLine = parsed(file, number, text)?;
        if line.schema != SCHEMA {
            return Err(ReadError::Schema { file: file.to_owned(), found: line.schema, known: SCHEMA });
        }
        let interval = |(low, high): (Option<f64>, Option<f64>)| Some(Interval { low: low?, high: high? });
        values.push(MeasuredValue {
            scenario: line.scenario,
            item: line.item,
            row: line.row,
            column: line.column,
            unit: line.unit,
            published: line.published,
            measured: line.measured.unwrap_or(f64::NAN),
            ci95: line.ci95.and_then(interval),
            runs: line.runs,
            position: line.position,
        });
        Ok(())
    })?;
    Ok(values)
}

fn read_manifest(directory: &Path) -> Result<Manifest, ReadError> {
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

#[cfg(test)]
mod tests;
