//! [`PathStore`]: a file that keeps what is known of paths while no program runs.
//!
//! What it says was true once, and it may be anybody's: nothing in it is an error. It is replaced as a whole, by a
//! file beside it that takes its name, so that whoever reads it sees the old one or the new one. Of several programs the last that
//! writes wins.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conche_proto::cc::group::Group;
use conche_proto::{Instant, PathKey};
use thiserror::Error;
use tokio::sync::OnceCell;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tracing::warn;

use super::sharing::is_link_local;
use super::text::{self, Learnt, Unknown};
use crate::files;

/// A file system that does not answer for so long is gone; what it would have said is not waited for.
const LONGEST_READ: Duration = Duration::from_secs(2);

/// A file that keeps what is known of paths, for all endpoints of a client or server. A clone is the same store.
#[derive(Clone, Debug)]
pub(crate) struct PathStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: PathBuf,
    read: OnceCell<()>,
    known: Mutex<Known>,
    /// Held by who writes, for the time of that.
    writing: Mutex<Writing>,
}

#[derive(Debug, Default)]
struct Known {
    paths: HashMap<PathKey, Learnt>,
    /// Something is not in the file yet.
    is_new: bool,
}

#[derive(Debug, Default)]
struct Writing {
    /// The last attempt failed, which was told.
    failing: bool,
}

/// Why a file is not used.
#[derive(Debug, Error)]
enum Unusable {
    #[error(transparent)]
    Unknown(#[from] Unknown),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl PathStore {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self(Arc::new(Shared { file, read: OnceCell::new(), known: Mutex::default(), writing: Mutex::default() }))
    }

    /// Reads the file, unless that was done, and tells what is known of up to `most` paths. `now` is what the endpoint's clock shows.
    pub(crate) async fn recall(&self, now: Instant, most: usize) -> Vec<(PathKey, Group)> {
        let read = self.0.read.get_or_init(async || {
            let store = self.clone();
            // A runtime that ends has nobody left who would use it.
            let _ = spawn_blocking(move || store.read(most)).await;
        });
        if timeout(LONGEST_READ, read).await.is_err() {
            warn!(file = %self.0.file.display(), "what is known of paths is not read in time; all paths begin anew");
        }
        let wall = seconds_since_1970();
        let known = self.known();
        let recalled = known.paths.iter().filter_map(|(key, learnt)| {
            let Learnt { srtt, rttvar, copies, .. } = *learnt;
            Some((*key, Group::remembered(now - learnt.age(wall)?, (srtt, rttvar), copies)))
        });
        recalled.collect()
    }

    /// Takes in what an endpoint knows, by its clock, which shows `now`. It is not in the file before [`write`](Self::write).
    pub(crate) fn learn<'a>(&self, now: Instant, paths: impl Iterator<Item = (PathKey, &'a Group)>) {
        let wall = seconds_since_1970();
        let mut known = self.known();
        for (key, group) in paths.filter(|(key, _)| !is_link_local(*key)) {
            let Some((srtt, rttvar, copies)) = group.to_store() else { continue };
            let learnt = Learnt { heard: wall.saturating_sub((now - group.heard()).as_secs()), srtt, rttvar, copies };
            let older = known.paths.get(&key).is_none_or(|known| known.heard <= learnt.heard && *known != learnt);
            if older {
                known.paths.insert(key, learnt);
                known.is_new = true;
            }
        }
    }

    /// Forgets a path.
    pub(crate) fn forget(&self, key: PathKey) {
        let mut known = self.known();
        known.is_new |= known.paths.remove(&key).is_some();
    }

    /// Has the file say what is known of the `most` youngest paths, from another thread.
    pub(crate) fn write(&self, most: usize) -> JoinHandle<()> {
        let store = self.clone();
        spawn_blocking(move || store.write_now(most))
    }

    fn write_now(&self, most: usize) {
        let mut writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(paths) = self.take_new(most) else { return };
        let written = replace(&self.0.file, text::write(&paths).as_bytes());
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

    /// The youngest paths, if there is something new of any; the others are forgotten.
    fn take_new(&self, most: usize) -> Option<Vec<(PathKey, Learnt)>> {
        let now = seconds_since_1970();
        let mut known = self.known();
        if !std::mem::take(&mut known.is_new) {
            return None;
        }
        // A clock that was set back makes the youngest those of the future, which nobody would read.
        known.paths.retain(|_, learnt| learnt.age(now).is_some());
        let mut paths: Vec<_> = known.paths.iter().map(|(key, learnt)| (*key, *learnt)).collect();
        paths.sort_unstable_by_key(|(key, learnt)| (Reverse(learnt.heard), *key));
        if paths.len() > most {
            paths.truncate(most);
            known.paths = paths.iter().copied().collect();
        }
        Some(paths)
    }

    /// Takes in what the file says.
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
        let text::Read { paths, wrong } = read;
        if wrong > 0 {
            warn!(file = %file.display(), wrong, "lines of what is known of paths are not right; they are left out");
        }
        let mut known = self.known();
        // Younger ones stand first.
        known.paths.extend(paths.into_iter().rev());
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Before 1970 a computer has no idea of the time; then all that was kept is of the future.
fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What a file says that is ours or not there.
fn read(path: &Path, most: usize) -> Result<text::Read, Unusable> {
    let bytes = text::most_bytes(most);
    let mut begin = files::read_up_to(path, bytes.saturating_add(1))?;
    if begin.is_empty() {
        return Ok(text::Read::default());
    }
    if begin.len() > bytes {
        text::recognise(&begin)?;
        warn!(file = %path.display(), bytes, "more is kept of paths than is read; the youngest are");
        // Of a line that is cut off the rest would be taken for another value.
        let whole = begin.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        begin.truncate(whole);
    }
    Ok(text::parse(&begin, seconds_since_1970(), most)?)
}

/// Puts a file in the place of another one, if that is ours, is empty or is not there.
fn replace(path: &Path, text: &[u8]) -> Result<(), Unusable> {
    let begin = files::read_up_to(path, text::HEAD_BYTES)?;
    if !begin.is_empty() {
        text::recognise(&begin)?;
    }
    Ok(files::replace(path, text)?)
}

#[cfg(test)]
mod tests;
