//! The journal of finished runs, which are not repeated. One call writes a line, so a killed
//! process truncates only the last.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::origin::CellId;
use crate::run::{Run, RunId};
use crate::sample::{Kept, Sample, Timeline, samples};

/// The journal file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    file: File,
    bytes: u64,
    known: HashMap<RunId, Place>,
    problem: Option<io::Error>,
}

#[derive(Clone, Debug)]
struct Place {
    at: u64,
    bytes: usize,
    tables: Places,
}

/// Positions of a run's rows, if kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// ID.
    pub id: RunId,
    /// Scenario.
    pub scenario: Cow<'a, str>,
    /// See [`Origin::settings`](crate::Origin::settings).
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

fn head(line: &str) -> Option<(RunId, Places)> {
    /// What opening a journal needs: it may have a million lines.
    #[derive(Deserialize)]
    struct Head<'a> {
        schema: u32,
        #[serde(borrow)]
        kind: Cow<'a, str>,
        id: RunId,
        exchanges: Option<Vec<u64>>,
        series: Option<Vec<u64>>,
    }
    let (head, _) = line.split_once(OUTCOME)?;
    let head = format!("{head}}}");
    let Head { schema, kind, id, exchanges, series } = serde_json::from_str(&head).ok()?;
    (schema == SCHEMA && kind == KIND).then_some((id, Places { exchanges, series }))
}

/// Returns the line with other positions of its rows.
fn with_places(line: &str, places: &Places) -> Option<String> {
    let (head, outcome) = line.split_once(OUTCOME)?;
    let line: Line<'_> = serde_json::from_str(&format!("{head}}}")).ok()?;
    let Places { exchanges, series } = places.clone();
    let head = serde_json::to_string(&Line { exchanges, series, ..line }).ok()?;
    Some(format!("{}{OUTCOME}{outcome}", head.split_once(OUTCOME)?.0))
}

fn for_each_line(file: impl Read, mut each: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut reader, mut line, mut at) = (BufReader::new(file), Vec::new(), 0);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        each(at, &line)?;
        at += line.len() as u64;
    }
}

impl Journal {
    /// Opens or creates a journal; returns notes about lines that are no runs. Fails if another
    /// process has it open.
    pub(crate) fn open(path: &Path, anew: bool) -> io::Result<(Self, Vec<String>)> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => io::ErrorKind::ResourceBusy.into(),
            std::fs::TryLockError::Error(error) => error,
        })?;
        if anew {
            file.set_len(0)?;
        }
        let (mut known, mut unread, mut end) = (HashMap::new(), 0_u64, 0);
        let mut notes = Vec::new();
        for_each_line(&mut file, |at, line| {
            if !line.ends_with(b"\n") {
                notes.push("its last line is cut off: the run is not over, and is run again".to_owned());
                return Ok(());
            }
            match std::str::from_utf8(line).ok().and_then(head) {
                // The last line counts.
                Some((id, tables)) => drop(known.insert(id, Place { at, bytes: line.len(), tables })),
                None => unread += 1,
            }
            end = at + line.len() as u64;
            Ok(())
        })?;
        file.set_len(end)?;
        if unread > 0 {
            notes.push(format!("{} not read: {} no run of schema {SCHEMA}", lines(unread), is(unread)));
        }
        let lines = Mutex::new(Lines { file, bytes: end, known, problem: None });
        Ok((Self { path: path.to_owned(), lines }, notes))
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many runs it has that are not among these.
    pub(crate) fn others(&self, runs: &HashSet<RunId>) -> usize {
        self.lock().known.keys().filter(|id| !runs.contains(id)).count()
    }

    pub(crate) fn has(&self, id: RunId) -> bool {
        self.lock().known.contains_key(&id)
    }

    pub(crate) fn samples(&self, id: RunId) -> Option<Vec<Sample>> {
        let mut lines = self.lock();
        let Place { at, bytes, .. } = lines.known.get(&id)?.clone();
        let line = read(&mut lines.file, at, bytes).ok()?;
        drop(lines);
        let (_, outcome) = std::str::from_utf8(&line).ok()?.split_once(OUTCOME)?;
        samples(outcome)
    }

    pub(crate) fn places(&self, id: RunId) -> Option<Places> {
        self.lock().known.get(&id).map(|place| place.tables.clone())
    }

    /// Adds a run; has no effect after an error ([`Journal::problem`]).
    pub(crate) fn add(&self, run: &Run, events: u64, places: Places, timelines: &[Timeline], outcome: &[Kept]) {
        let line = Line {
            schema: SCHEMA,
            kind: KIND.into(),
            id: run.id,
            scenario: run.scenario.as_str().into(),
            settings: run.settings.as_str().into(),
            cell: Cow::Borrowed(&run.cell),
            replication: run.replication,
            seed: run.seed,
            events,
            exchanges: places.exchanges.clone(),
            series: places.series.clone(),
            timelines: timelines.into(),
            outcome: outcome.into(),
        };
        let text = serde_json::to_vec(&line).map_err(io::Error::from).map(|mut text| {
            text.push(b'\n');
            text
        });
        self.lock().append(run.id, places, text);
    }

    /// Adds the run of a line of another journal, its rows at new positions.
    pub(crate) fn add_line(&self, id: RunId, line: &str, places: Places) {
        let text = with_places(line, &places).ok_or_else(|| io::ErrorKind::InvalidData.into());
        self.lock().append(id, places, text.map(String::into_bytes));
    }

    pub(crate) fn problem(&self) -> Option<io::Error> {
        self.lock().problem.take()
    }

    /// Returns its runs: first these in this order, then the others in the file's.
    pub(crate) fn in_order(&self, first: &[RunId]) -> Vec<RunId> {
        let Lines { known, .. } = &*self.lock();
        let is_first: HashSet<&RunId> = first.iter().collect();
        let mut others: Vec<(&RunId, u64)> =
            known.iter().filter(|(id, _)| !is_first.contains(id)).map(|(id, place)| (id, place.at)).collect();
        others.sort_unstable_by_key(|(_, at)| *at);
        let first = first.iter().filter(|id| known.contains_key(id));
        first.chain(others.into_iter().map(|(id, _)| id)).copied().collect()
    }

    /// Writes the runs to a new file in this order, with the positions that `places` returns;
    /// [`Journal::replace`] puts it in place.
    pub(crate) fn write_in_order(&self, order: &[RunId], places: impl Fn(RunId, &Places) -> Places) -> io::Result<()> {
        let Lines { file, known, .. } = &mut *self.lock();
        let mut new = BufWriter::new(File::create(new_file(&self.path))?);
        for id in order {
            let Some(Place { at, bytes, tables }) = known.get(id) else { continue };
            let line = read(file, *at, *bytes)?;
            let moved = places(*id, tables);
            if moved == *tables {
                new.write_all(&line)?;
                continue;
            }
            let text = std::str::from_utf8(&line).ok().and_then(|line| with_places(line, &moved));
            new.write_all(text.ok_or(io::ErrorKind::InvalidData)?.as_bytes())?;
        }
        new.flush()
    }

    pub(crate) fn replace(&self) -> io::Result<()> {
        std::fs::rename(new_file(&self.path), &self.path)
    }

    /// Calls `each` with the runs of a journal and their lines.
    pub(crate) fn read(path: &Path, mut each: impl FnMut(RunId, &str, Places) -> io::Result<()>) -> io::Result<()> {
        for_each_line(File::open(path)?, |_, line| {
            let whole = std::str::from_utf8(line).ok().filter(|line| line.ends_with('\n'));
            let Some((line, (id, places))) = whole.and_then(|line| Some((line, head(line)?))) else { return Ok(()) };
            each(id, line, places)
        })
    }
}

impl Lines {
    fn append(&mut self, id: RunId, tables: Places, text: io::Result<Vec<u8>>) {
        if self.problem.is_some() {
            return;
        }
        match text.and_then(|text| self.file.write_all(&text).map(|()| text.len())) {
            Ok(bytes) => {
                self.known.insert(id, Place { at: self.bytes, bytes, tables });
                self.bytes += bytes as u64;
            }
            Err(error) => self.problem = Some(error),
        }
    }
}

pub(crate) fn new_file(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn read(file: &mut File, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut line = vec![0; bytes];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut line)?;
    Ok(line)
}

fn lines(number: u64) -> String {
    if number == 1 { "1 line is".to_owned() } else { format!("{number} lines are") }
}

fn is(number: u64) -> &'static str {
    if number == 1 { "it is" } else { "they are" }
}

#[cfg(test)]
mod tests;
