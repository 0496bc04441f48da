//! [`PathStore`]: a file that keeps path state across restarts.
//!
//! Its content may be outdated or foreign, so nothing in it is an error.
//!
//! ```text
//! conche paths 1
//! # path, when it was last heard of (since 1970), ...
//! 192.0.2.7/32 heard=1795383439s srtt=48211us rttvar=3120us
//! 2001:db8:0:1::/64 heard=1795383002s srtt=512004us rttvar=80113us
//! ```
//!
//! The first line holds the format's name and version. Invalid lines are skipped.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conche_proto::cc::path_history::PathHistory;
use conche_proto::{Instant, PathKey};
use thiserror::Error;
use tokio::sync::OnceCell;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tracing::warn;

use super::{is_link_local, key_of, prefix_of};
use crate::files;

const LONGEST_READ: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(crate) struct PathStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: PathBuf,
    read: OnceCell<()>,
    known: Mutex<PathTable>,
    writing: Mutex<WriterState>,
}

#[derive(Debug, Default)]
struct PathTable {
    paths: HashMap<PathKey, StoredPath>,
    is_new: bool,
}

#[derive(Debug, Default)]
struct WriterState {
    /// Whether the last attempt failed, which has been logged.
    failing: bool,
}

#[derive(Debug, Error)]
enum StoreProblem {
    #[error(transparent)]
    Unknown(#[from] Unknown),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl PathStore {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self(Arc::new(Shared { file, read: OnceCell::new(), known: Mutex::default(), writing: Mutex::default() }))
    }

    /// Returns the state of up to `most` paths, by the endpoint's clock `now`.
    pub(crate) async fn recall(&self, now: Instant, most: usize) -> Vec<(PathKey, PathHistory)> {
        let read = self.0.read.get_or_init(async || {
            let store = self.clone();
            // A runtime that shuts down does not need the result.
            let _ = spawn_blocking(move || store.read(most)).await;
        });
        if timeout(LONGEST_READ, read).await.is_err() {
            warn!(file = %self.0.file.display(), "what is known of paths is not read in time; all paths begin anew");
        }
        let wall = seconds_since_1970();
        let known = self.known();
        let recalled = known.paths.iter().filter_map(|(key, stored)| {
            let StoredPath { srtt, rttvar, .. } = *stored;
            Some((*key, PathHistory::remembered(now - stored.age(wall)?, srtt, rttvar)))
        });
        recalled.collect()
    }

    /// By the endpoint's clock `now`.
    pub(crate) fn learn<'a>(&self, now: Instant, paths: impl Iterator<Item = (PathKey, &'a PathHistory)>) {
        let wall = seconds_since_1970();
        let mut known = self.known();
        for (key, group) in paths.filter(|(key, _)| !is_link_local(*key)) {
            let Some((srtt, rttvar)) = group.to_store() else { continue };
            let stored = StoredPath { heard: wall.saturating_sub((now - group.heard()).as_secs()), srtt, rttvar };
            let older = known.paths.get(&key).is_none_or(|known| known.heard <= stored.heard && *known != stored);
            if older {
                known.paths.insert(key, stored);
                known.is_new = true;
            }
        }
    }

    pub(crate) fn forget(&self, key: PathKey) {
        let mut known = self.known();
        known.is_new |= known.paths.remove(&key).is_some();
    }

    /// On another thread.
    pub(crate) fn write(&self, most: usize) -> JoinHandle<()> {
        let store = self.clone();
        spawn_blocking(move || store.write_now(most))
    }

    fn write_now(&self, most: usize) {
        let mut writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(paths) = self.take_new(most) else { return };
        let written = replace(&self.0.file, format_paths(&paths).as_bytes());
        if let Err(error) = &written {
            self.known().is_new = true;
            if !writing.failing {
                warn!(
                    file = %self.0.file.display(), %error,
                    "what is known of paths cannot be kept; nothing is written while this is so"
                );
            }
        }
        writing.failing = written.is_err();
    }

    /// Returns `None` if no path has changed.
    fn take_new(&self, most: usize) -> Option<Vec<(PathKey, StoredPath)>> {
        let now = seconds_since_1970();
        let mut known = self.known();
        if !std::mem::take(&mut known.is_new) {
            return None;
        }
        // After the clock is set back, recent entries lie in the future.
        known.paths.retain(|_, stored| stored.age(now).is_some());
        let mut paths: Vec<_> = known.paths.iter().map(|(key, stored)| (*key, *stored)).collect();
        paths.sort_unstable_by_key(|(key, stored)| (Reverse(stored.heard), *key));
        if paths.len() > most {
            paths.truncate(most);
            known.paths = paths.iter().copied().collect();
        }
        Some(paths)
    }

    fn read(&self, most: usize) {
        let file = &self.0.file;
        let read = match read(file, most) {
            Ok(read) => read,
            Err(error) => {
                return warn!(
                    file = %file.display(), %error,
                    "what is known of paths cannot be read, so all begin anew; nothing is written to this file while this is so"
                );
            }
        };
        let ParsedFile { paths, wrong } = read;
        if wrong > 0 {
            warn!(file = %file.display(), wrong, "lines of what is known of paths are not right; they are left out");
        }
        let mut known = self.known();
        // Most recent first in the file, inserted last.
        known.paths.extend(paths.into_iter().rev());
    }

    fn known(&self) -> MutexGuard<'_, PathTable> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock before 1970 yields 0, which puts all stored state in the future.
fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn read(path: &Path, most: usize) -> Result<ParsedFile, StoreProblem> {
    let bytes = most_bytes(most);
    let mut begin = files::read_up_to(path, bytes.saturating_add(1))?;
    if begin.is_empty() {
        return Ok(ParsedFile::default());
    }
    if begin.len() > bytes {
        recognise(&begin)?;
        warn!(file = %path.display(), bytes, "more is kept of paths than is read; the youngest are");
        // A truncated last line could be read as another value.
        let whole = begin.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        begin.truncate(whole);
    }
    Ok(parse(&begin, seconds_since_1970(), most)?)
}

/// Replaces only a file that is in our format, empty or missing.
fn replace(path: &Path, text: &[u8]) -> Result<(), StoreProblem> {
    let begin = files::read_up_to(path, HEAD_BYTES)?;
    if !begin.is_empty() {
        recognise(&begin)?;
    }
    Ok(files::replace(path, text)?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredPath {
    /// In seconds since 1970.
    pub(super) heard: u64,
    pub(super) srtt: Duration,
    pub(super) rttvar: Duration,
}

impl StoredPath {
    /// Returns `None` if it is in the future or expired.
    pub(super) fn age(&self, now: u64) -> Option<Duration> {
        let age = Duration::from_secs(now.checked_sub(self.heard)?);
        (age <= PathHistory::KEPT).then_some(age)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Unknown {
    #[error("it does not begin with `{FIRST_LINE}`")]
    Foreign,
    #[error("it is of version {0}, and only version {VERSION} is understood")]
    Version(u32),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedFile {
    pub(super) paths: Vec<(PathKey, StoredPath)>,
    pub(super) wrong: usize,
}

const NAME: &str = "conche paths ";
const VERSION: u32 = 1;
const FIRST_LINE: &str = "conche paths 1";
const LEGEND: &str = "# path, when it was last heard of (since 1970), smoothed round-trip time, its variation";

pub(super) const HEAD_BYTES: usize = 64;
const LINE_BYTES: usize = 128;

pub(super) fn most_bytes(paths: usize) -> usize {
    LINE_BYTES.saturating_mul(paths).saturating_add(FIRST_LINE.len() + LEGEND.len() + 2)
}

pub(super) fn recognise(text: &[u8]) -> Result<(), Unknown> {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let version = first.strip_prefix(NAME.as_bytes()).and_then(|version| str::from_utf8(version).ok()?.parse().ok());
    match version {
        Some(VERSION) => Ok(()),
        Some(version) => Err(Unknown::Version(version)),
        None => Err(Unknown::Foreign),
    }
}

/// `now` is in seconds since 1970.
pub(super) fn parse(text: &[u8], now: u64, most: usize) -> Result<ParsedFile, Unknown> {
    recognise(text)?;
    let mut read = ParsedFile::default();
    for line in text.split(|byte| *byte == b'\n').skip(1) {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match str::from_utf8(line).ok().and_then(parse_line).filter(|(_, stored)| stored.heard <= now) {
            Some((_, stored)) if stored.age(now).is_none() => {}
            Some(path) if read.paths.len() < most => read.paths.push(path),
            Some(_) => break,
            None => read.wrong += 1,
        }
    }
    Ok(read)
}

fn parse_line(line: &str) -> Option<(PathKey, StoredPath)> {
    let mut words = line.split(' ');
    let key = key_of(words.next()?.parse().ok()?);
    let mut value = |name: &str, unit: &str| words.next()?.strip_prefix(name)?.strip_suffix(unit);
    let heard = value("heard=", "s")?.parse().ok()?;
    let srtt: u32 = value("srtt=", "us")?.parse().ok()?;
    let rttvar: u32 = value("rttvar=", "us")?.parse().ok()?;
    let micros = |count: u32| Duration::from_micros(count.into());
    let stored = StoredPath { heard, srtt: micros(srtt), rttvar: micros(rttvar) };
    // Earlier versions of conche wrote the mean number of retransmissions as well.
    let is_complete = words.next().is_none_or(|word| word.starts_with("copies=")) && words.next().is_none();
    (is_complete && !is_link_local(key)).then_some((key, stored))
}

pub(super) fn format_paths(paths: &[(PathKey, StoredPath)]) -> String {
    let mut text = format!("{FIRST_LINE}\n{LEGEND}\n");
    for (key, StoredPath { heard, srtt, rttvar }) in paths {
        let Some(prefix) = prefix_of(*key) else { continue };
        let (srtt, rttvar) = (srtt.as_micros(), rttvar.as_micros());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{prefix} heard={heard}s srtt={srtt}us rttvar={rttvar}us");
    }
    text
}

#[cfg(test)]
mod tests;
