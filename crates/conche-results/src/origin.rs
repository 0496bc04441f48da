//! Origin of results: scenarios, cells and program.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A scenario as read, and as run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// Name, which all results carry.
    pub name: String,
    /// One-line title.
    pub title: String,
    /// Amount of work.
    pub extent: String,
    /// Seed.
    pub seed: u64,
    /// Text.
    pub text: String,
    /// Named files, with texts.
    pub files: Vec<(String, String)>,
    /// Fingerprint of all that runs depend on, except cell and seed.
    pub settings: String,
    /// Axes of the sweep.
    pub axes: Vec<Axis>,
    /// Number of runs, if known.
    pub runs: Option<u64>,
    /// Parameters of endpoints, by key; `null` if unknown.
    pub endpoint: serde_json::Value,
}

/// An axis of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// Name.
    pub name: String,
    /// Values of its labels.
    pub labels: Labels,
}

/// The values of an axis' labels, which determine the type of its column.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Labels {
    /// Texts.
    #[default]
    Texts,
    /// Integers, by label.
    Integers(BTreeMap<String, i64>),
    /// Numbers, by label, with their unit as the column's name ends in, such as `s`.
    Numbers(BTreeMap<String, f64>, Option<&'static str>),
}

impl Axis {
    /// Merges the axes of several scenarios by name, and names their columns: the axis' name, with
    /// the unit of its numbers, such as `delay_s`, unless it already ends in it.
    pub fn columns(axes: impl IntoIterator<Item = Self>) -> Vec<(String, Self)> {
        let mut labels: BTreeMap<String, Labels> = BTreeMap::new();
        for Self { name, labels: of_axis } in axes {
            let of_axis = match labels.remove(&name) {
                Some(known) => known.and(of_axis),
                None => of_axis,
            };
            labels.insert(name, of_axis);
        }
        let column = |(name, of_axis): (&String, &Labels)| {
            let (column, labels) = match of_axis.unit().map(|unit| format!("{name}_{unit}")) {
                // Another axis has this name.
                Some(full) if labels.contains_key(&full) => (name.clone(), Labels::Texts),
                // The axis states its unit, as in `delay_s`.
                Some(_) if of_axis.unit().is_some_and(|unit| name.ends_with(&format!("_{unit}"))) => {
                    (name.clone(), of_axis.clone())
                }
                Some(full) => (full, of_axis.clone()),
                None => (name.clone(), of_axis.clone()),
            };
            (column, Self { name: name.clone(), labels })
        };
        labels.iter().map(column).collect()
    }

    /// Returns the value of a label, a text if it is no number of this axis.
    #[must_use]
    pub fn value_of(&self, label: &str) -> AxisValue {
        let value = match &self.labels {
            Labels::Texts => None,
            Labels::Integers(of) => of.get(label).map(|integer| AxisValue::Integer(*integer)),
            Labels::Numbers(of, _) => of.get(label).map(|number| AxisValue::Number(*number)),
        };
        value.unwrap_or_else(|| AxisValue::Text(label.to_owned()))
    }
}

/// A position on an axis, in the base unit of its column.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum AxisValue {
    /// An integer.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Another label.
    Text(String),
}

impl Labels {
    /// Returns the values of both, as texts if they have no common type.
    pub(crate) fn and(self, other: Self) -> Self {
        let numbers = |integers: BTreeMap<String, i64>| integers.into_iter().map(|(label, n)| (label, n as f64));
        match (self, other) {
            (Self::Integers(mut all), Self::Integers(more)) => {
                all.extend(more);
                Self::Integers(all)
            }
            (Self::Numbers(mut all, unit), Self::Numbers(more, other)) if unit == other => {
                all.extend(more);
                Self::Numbers(all, unit)
            }
            (Self::Numbers(mut all, None), Self::Integers(more))
            | (Self::Integers(more), Self::Numbers(mut all, None)) => {
                all.extend(numbers(more));
                Self::Numbers(all, None)
            }
            _ => Self::Texts,
        }
    }

    pub(crate) fn unit(&self) -> Option<&'static str> {
        if let Self::Numbers(_, unit) = self { *unit } else { None }
    }
}

/// The identity of a cell in its scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct CellId {
    /// Part of the scenario.
    pub part: Option<String>,
    /// Swept values, by axis.
    pub axes: BTreeMap<String, String>,
    /// Mix of schemes.
    pub mix: Option<String>,
    /// Schemes.
    pub schemes: Vec<String>,
}

/// The sources that a program was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Version of the package.
    pub version: &'static str,
    /// Commit in hexadecimal; `None` without a repository.
    pub commit: Option<&'static str>,
    /// Whether sources differed from the commit, if known.
    pub is_dirty: Option<bool>,
}

/// The program that produced results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Program {
    /// Version.
    pub version: String,
    /// Commit.
    pub commit: Option<String>,
    /// Whether sources differed from the commit, if known.
    pub dirty: Option<bool>,
    /// SHA-256 of the executable, which may contain its own controllers.
    pub sha256: Option<String>,
}

impl Program {
    /// Returns the running program.
    #[must_use]
    pub fn running(build: Build) -> Self {
        let Build { version, commit, is_dirty } = build;
        Self {
            version: version.to_owned(),
            commit: commit.map(str::to_owned),
            dirty: is_dirty,
            sha256: executable().ok(),
        }
    }
}

/// Returns the SHA-256 of the running executable, in hexadecimal.
///
/// # Errors
/// If it cannot be read.
pub fn executable() -> io::Result<String> {
    std::env::current_exe().and_then(File::open).and_then(digest)
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let commit = self.commit.as_deref().map_or("unknown", |commit| commit.get(..12).unwrap_or(commit));
        let modified = if self.dirty == Some(true) { ", modified" } else { "" };
        write!(f, "{} (commit {commit}{modified})", self.version)
    }
}

/// Returns 16 hexadecimal digits of a SHA-256 of the texts.
#[must_use]
pub fn fingerprint(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    hexadecimal(&hasher.finalize()[..8])
}

pub(crate) fn sha256(text: &[u8]) -> String {
    hexadecimal(&Sha256::digest(text))
}

fn digest(mut file: File) -> io::Result<String> {
    let mut hasher = Hasher(Sha256::new());
    io::copy(&mut file, &mut hasher)?;
    Ok(hexadecimal(&hasher.0.finalize()))
}

struct Hasher(Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_sha256sum() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn fingerprints_depend_on_the_boundaries_of_texts() {
        assert_ne!(fingerprint(&["ab", "c"]), fingerprint(&["a", "bc"]));
        assert_eq!(fingerprint(&["ab", "c"]).len(), 16);
    }

    #[test]
    fn a_program_reports_the_commit_of_its_build() {
        let commit = Some("0123456789abcdef0123456789abcdef01234567");
        let program = Program::running(Build { version: "1.2.3", commit, is_dirty: Some(true) });
        assert_eq!(program.to_string(), "1.2.3 (commit 0123456789ab, modified)");
        assert!(program.sha256.as_ref().is_some_and(|hash| hash.len() == 64), "{program:?}");
        let program = Program::running(Build { version: "1.2.3", commit: None, is_dirty: None });
        assert_eq!(program.to_string(), "1.2.3 (commit unknown)");
    }
}
