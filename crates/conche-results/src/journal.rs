//! The journal of finished runs, which are not repeated. One call writes a line, so a killed
//! process truncates only the last.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::origin::{CellId, Origin};
use crate::sample::{Kept, Sample, Timeline, samples};

/// The identity of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Scenario.
    pub scenario: String,
    /// See [`Origin::settings`].
    pub settings: String,
    /// Cell.
    pub cell: CellId,
    /// Replication, from 0.
    pub replication: u32,
    /// Seed.
    pub seed: u64,
}

/// The journal file.
#[derive(Debug)]
pub struct Journal {
    known: HashMap<Run, Place>,
    file: Mutex<Appended>,
}

#[derive(Debug)]
struct Appended {
    file: File,
    problem: Option<io::Error>,
}

#[derive(Debug)]
struct Place {
    at: u64,
    bytes: usize,
    exchanges: Option<Vec<u64>>,
    series: Option<Vec<u64>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) exchanges: Option<Vec<u64>>,
    pub(crate) series: Option<Vec<u64>>,
}

pub(crate) const FILE: &str = "runs.ndjson";

const KIND: &str = "run";

/// A line of the journal. Missing keys are empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Line<'a> {
    /// Schema version.
    pub schema: u32,
    /// `run`.
    pub kind: Cow<'a, str>,
    /// Scenario.
    pub scenario: Cow<'a, str>,
    /// See [`Origin::settings`].
    pub settings: Cow<'a, str>,
    /// Cell.
    pub cell: Cow<'a, CellId>,
    /// Replication, from 0.
    pub replication: u32,
    /// Seed.
    pub seed: u64,
    /// Simulated events.
    pub events: u64,
    /// Position of its exchanges, if kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<Vec<u64>>,
    /// Position of its time series, and their interval in nanoseconds, if kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Vec<u64>>,
    /// Timelines of some exchanges.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub timelines: Cow<'a, [Timeline]>,
    /// Samples.
    pub outcome: Cow<'a, [Kept]>,
}

impl Line<'_> {
    /// Its file name.
    pub const FILE: &'static str = FILE;
}

/// No JSON string contains it: quotation marks are escaped.
const OUTCOME: &str = ",\"outcome\":";

fn head(line: &str) -> Option<(Run, Places)> {
    let (head, _) = line.split_once(OUTCOME)?;
    let line: Line<'_> = serde_json::from_str(&format!("{head}}}")).ok()?;
    let run = Run {
        scenario: line.scenario.into_owned(),
        settings: line.settings.into_owned(),
        cell: line.cell.into_owned(),
        replication: line.replication,
        seed: line.seed,
    };
    let places = Places { exchanges: line.exchanges, series: line.series };
    (line.schema == SCHEMA && line.kind == KIND).then_some((run, places))
}

impl Journal {
    /// Opens or creates a journal; returns notes about unused lines. Fails if another process has
    /// it open.
    pub(crate) fn open(path: &Path, origins: &[Origin], anew: bool) -> io::Result<(Self, Vec<String>)> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => io::ErrorKind::ResourceBusy.into(),
            std::fs::TryLockError::Error(error) => error,
        })?;
        if anew {
            file.set_len(0)?;
        }
        let (mut known, mut unread, mut other, mut at) = (HashMap::new(), 0_u64, 0_u64, 0);
        let mut notes = Vec::new();
        let mut reader = BufReader::new(&mut file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let bytes = reader.read_until(b'\n', &mut line)?;
            if bytes == 0 {
                break;
            }
            if !line.ends_with(b"\n") {
                notes.push("its last line is cut off: the run is not over, and is run again".to_owned());
                break;
            }
            match std::str::from_utf8(&line).ok().and_then(head) {
                Some((run, Places { exchanges, series })) => {
                    let is_wanted = |origin: &Origin| origin.name == run.scenario && origin.settings == run.settings;
                    if origins.iter().any(is_wanted) {
                        // The last line counts.
                        known.insert(run, Place { at, bytes, exchanges, series });
                    } else {
                        other += 1;
                    }
                }
                None => unread += 1,
            }
            at += bytes as u64;
        }
        file.set_len(at)?;
        if unread > 0 {
            notes.push(format!("{} not read: {} no run of schema {SCHEMA}", lines(unread), is(unread)));
        }
        if other > 0 {
            notes.push(format!("{} not used: {} of other settings, such as --quick", lines(other), is(other)));
        }
        Ok((Self { known, file: Mutex::new(Appended { file, problem: None }) }, notes))
    }

    fn lock(&self) -> MutexGuard<'_, Appended> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn samples(&self, run: &Run) -> Option<Vec<Sample>> {
        let place = self.known.get(run)?;
        let mut line = vec![0; place.bytes];
        let file = &mut self.lock().file;
        file.seek(SeekFrom::Start(place.at)).and_then(|_| file.read_exact(&mut line)).ok()?;
        let (_, outcome) = std::str::from_utf8(&line).ok()?.split_once(OUTCOME)?;
        samples(outcome)
    }

    pub(crate) fn exchanges(&self, run: &Run) -> Option<&[u64]> {
        self.known.get(run)?.exchanges.as_deref()
    }

    pub(crate) fn series(&self, run: &Run) -> Option<&[u64]> {
        self.known.get(run)?.series.as_deref()
    }

    /// Adds a run; has no effect after an error ([`Journal::problem`]).
    pub(crate) fn add(&self, run: &Run, events: u64, places: Places, timelines: &[Timeline], outcome: &[Kept]) {
        let line = Line {
            schema: SCHEMA,
            kind: KIND.into(),
            scenario: run.scenario.as_str().into(),
            settings: run.settings.as_str().into(),
            cell: Cow::Borrowed(&run.cell),
            replication: run.replication,
            seed: run.seed,
            events,
            exchanges: places.exchanges,
            series: places.series,
            timelines: timelines.into(),
            outcome: outcome.into(),
        };
        let text = serde_json::to_vec(&line).map_err(io::Error::from).map(|mut text| {
            text.push(b'\n');
            text
        });
        let Appended { file, problem } = &mut *self.lock();
        if problem.is_none() {
            *problem = text.and_then(|text| file.write_all(&text)).err();
        }
    }

    pub(crate) fn problem(&self) -> Option<io::Error> {
        self.lock().problem.take()
    }
}

fn lines(number: u64) -> String {
    if number == 1 { "1 line is".to_owned() } else { format!("{number} lines are") }
}

fn is(number: u64) -> &'static str {
    if number == 1 { "it is" } else { "they are" }
}

#[cfg(test)]
mod tests;
