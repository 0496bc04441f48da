//! Finished runs, one a line, that are not run again.
//!
//! A line is written with one call when its run is over, so that whatever ends the process can only cut off the last one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::origin::{CellId, Origin};
use crate::sample::{Kept, Sample, samples};
use crate::timeline::Timeline;

/// Which run it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The name of its scenario.
    pub scenario: String,
    /// What stands for the scenario as it is run; see [`Origin::settings`].
    pub settings: String,
    /// What was run.
    pub cell: CellId,
    /// Which of its replications, counted from 0.
    pub replication: u32,
    /// Where its random numbers come from.
    pub seed: u64,
}

/// The file.
#[derive(Debug)]
pub struct Journal {
    known: HashMap<Run, Place>,
    file: Mutex<Appended>,
}

#[derive(Debug)]
struct Appended {
    file: File,
    /// Why there is nothing added any more.
    problem: Option<io::Error>,
}

/// Where a line is, and what is known of the run's exchanges.
#[derive(Debug)]
struct Place {
    at: u64,
    bytes: usize,
    exchanges: Option<Vec<u64>>,
}

/// The name of the file in a directory of results.
pub(crate) const FILE: &str = "runs.ndjson";

const KIND: &str = "run";

/// A line of the file. What one does not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Line<'a> {
    /// The version of the file.
    pub schema: u32,
    /// `run`.
    pub kind: Cow<'a, str>,
    /// The name of its scenario.
    pub scenario: Cow<'a, str>,
    /// What stands for the scenario as it was run.
    pub settings: Cow<'a, str>,
    /// What was run.
    pub cell: Cow<'a, CellId>,
    /// Which of its replications, counted from 0.
    pub replication: u32,
    /// Where its random numbers come from.
    pub seed: u64,
    /// How many there were.
    pub events: u64,
    /// Where its exchanges are, if they were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<Vec<u64>>,
    /// Some of these, copy by copy.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub timelines: Cow<'a, [Timeline]>,
    /// What was measured.
    pub outcome: Cow<'a, [Kept]>,
}

impl Line<'_> {
    /// The name of the file in a directory of results.
    pub const FILE: &'static str = FILE;
}

/// What stands before the samples of a run. Within a text a quotation mark has a backslash before it.
const OUTCOME: &str = ",\"outcome\":";

/// Which run a line is of, and where its exchanges are; `None` if it is no line of a run.
fn head(line: &str) -> Option<(Run, Option<Vec<u64>>)> {
    let (head, _) = line.split_once(OUTCOME)?;
    let line: Line<'_> = serde_json::from_str(&format!("{head}}}")).ok()?;
    let run = Run {
        scenario: line.scenario.into_owned(),
        settings: line.settings.into_owned(),
        cell: line.cell.into_owned(),
        replication: line.replication,
        seed: line.seed,
    };
    (line.schema == SCHEMA && line.kind == KIND).then_some((run, line.exchanges))
}

impl Journal {
    /// Opens a journal or, if that is wanted or there is none, begins one, and says what of it is of no use for these
    /// scenarios. Nobody else may have it open.
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
                Some((run, exchanges)) => {
                    let is_wanted = |origin: &Origin| origin.name == run.scenario && origin.settings == run.settings;
                    if origins.iter().any(is_wanted) {
                        // Of one that was run twice the last line counts.
                        known.insert(run, Place { at, bytes, exchanges });
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

    /// What a run has given, if it is there.
    pub(crate) fn samples(&self, run: &Run) -> Option<Vec<Sample>> {
        let place = self.known.get(run)?;
        let mut line = vec![0; place.bytes];
        let file = &mut self.lock().file;
        file.seek(SeekFrom::Start(place.at)).and_then(|_| file.read_exact(&mut line)).ok()?;
        let (_, outcome) = std::str::from_utf8(&line).ok()?.split_once(OUTCOME)?;
        samples(outcome)
    }

    /// Where the exchanges of a run are, if it is there and they were kept.
    pub(crate) fn exchanges(&self, run: &Run) -> Option<&[u64]> {
        self.known.get(run)?.exchanges.as_deref()
    }

    /// Adds a run that is over. If that cannot be done, nothing is added from then on; [`Journal::problem`] says why.
    pub(crate) fn add(
        &self,
        run: &Run,
        events: u64,
        exchanges: Option<Vec<u64>>,
        (timelines, outcome): (&[Timeline], &[Kept]),
    ) {
        let line = Line {
            schema: SCHEMA,
            kind: KIND.into(),
            scenario: run.scenario.as_str().into(),
            settings: run.settings.as_str().into(),
            cell: Cow::Borrowed(&run.cell),
            replication: run.replication,
            seed: run.seed,
            events,
            exchanges,
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

    /// Why there is nothing added any more.
    pub(crate) fn problem(&self) -> Option<io::Error> {
        self.lock().problem.take()
    }
}

/// `1 line is`, `2 lines are`.
fn lines(number: u64) -> String {
    if number == 1 { "1 line is".to_owned() } else { format!("{number} lines are") }
}

fn is(number: u64) -> &'static str {
    if number == 1 { "it is" } else { "they are" }
}

#[cfg(test)]
mod tests;
