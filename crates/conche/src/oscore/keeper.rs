//! [`Keeper`]: credentials in files, with their sequence numbers.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::keys::SenderInUse;
use super::{Context, Credentials, NumberStore, OpenError, ReplayWindow, Start, access, aiocoap, libcoap, sequence};
use crate::files;

const MAX_BYTES: usize = 65_536;

/// Credentials, their sequence numbers, and a lock that reserves both for this program. All
/// functions block on the disk.
#[derive(Debug)]
pub struct Keeper {
    credentials: Credentials,
    /// `sequence.json`, or its equivalent for libcoap.
    pub(super) file: PathBuf,
    _lock: File,
    is_started: bool,
    /// Whether each start derives new keys (appendix B.2) and stores nothing.
    is_anew: bool,
    sender: Option<SenderInUse>,
}

impl Keeper {
    /// Reads and locks a libcoap configuration file or an aiocoap directory. Refuses several
    /// recipients, which would share one key and one sequence of numbers.
    ///
    /// # Errors
    ///
    /// [`OpenError`], for example if another user can read the secret or replace the numbers, if
    /// another program uses the credentials, or if the numbers are lost.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        // Hard links to a file must share its numbers.
        let path = &fs::canonicalize(path).map_err(OpenError::io(path))?;
        if path.is_dir() {
            return Self::open_directory(path);
        }
        let text = read(path)?;
        access::check_secret(path)?;
        let text = str::from_utf8(&text).map_err(|_| OpenError::wrong(path, None, "it is no text"))?;
        let (credentials, is_anew) = libcoap::parse(path, text)?;
        let beside = |extension: &str| {
            let mut file = path.as_os_str().to_owned();
            file.push(extension);
            PathBuf::from(file)
        };
        Self::new(path, credentials, is_anew, beside(".sequence.json"), &beside(".lock"))
    }

    fn open_directory(directory: &Path) -> Result<Self, OpenError> {
        let mut all = Vec::new();
        for name in aiocoap::FILES {
            let file = directory.join(name);
            let text = read(&file)?;
            if text.is_empty() {
                continue;
            }
            let items = aiocoap::items(&file, &text)?;
            if aiocoap::has_secret(&items) {
                access::check_secret(&file)?;
            }
            all.push(items);
        }
        let credentials = aiocoap::credentials(directory, &all)?;
        Self::new(directory, credentials, false, directory.join("sequence.json"), &directory.join("lock"))
    }

    fn new(
        path: &Path,
        credentials: Credentials,
        is_anew: bool,
        file: PathBuf,
        lock: &Path,
    ) -> Result<Self, OpenError> {
        credentials.check().map_err(|error| OpenError::Credentials { file: path.to_owned(), error })?;
        access::check_directory(file.parent().unwrap_or(Path::new("/")))?;
        for file in [&file, lock] {
            access::check_numbers(file)?;
        }
        let mut opened = open_lock(lock).map_err(OpenError::io(lock))?;
        match opened.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { file: lock.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(OpenError::io(lock)(error)),
        }
        // A non-empty lock shows that numbers were used. Read after locking: of several programs
        // that start with new credentials, another may have created the lock.
        let were_numbers = opened.metadata().map_err(OpenError::io(lock))?.len() > 0;
        if !is_anew && !exists(&file)? {
            if were_numbers {
                return Err(OpenError::LostNumbers { file, lock: lock.to_owned() });
            }
            files::replace(&file, sequence::UNUSED.as_bytes()).map_err(OpenError::io(&file))?;
        }
        if !is_anew && !were_numbers {
            opened.write_all(b"used\n").and_then(|()| opened.sync_all()).map_err(OpenError::io(lock))?;
        }
        Ok(Self { credentials, file, _lock: opened, is_started: false, is_anew, sender: None })
    }

    /// Returns the credentials of the file.
    #[must_use]
    pub const fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Returns a context that continues after the last one. First marks the credentials as in use
    /// in the file, so that the next start detects a crash.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the file cannot be written, is lost or invalid; if a context was already
    /// started; or if other keys of this program have the same sender.
    pub fn start(&mut self) -> Result<Context, OpenError> {
        let start = self.begin()?;
        let next = match start {
            Start::First | Start::Anew => 0,
            Start::Restarted { next } | Start::Resumed { next, .. } => next,
        };
        let context = Context::derive(&self.credentials, start)
            .map_err(|error| OpenError::Credentials { file: self.file.clone(), error })?;
        let same = || OpenError::SameSender { file: self.file.clone() };
        self.sender = Some(SenderInUse::new(&context).ok_or_else(same)?);
        self.reserve(next).map_err(OpenError::io(&self.file))?;
        Ok(context)
    }

    /// The caller must reserve numbers before their use.
    pub(super) fn begin(&mut self) -> Result<Start, OpenError> {
        let start = self.read()?;
        self.is_started = true;
        Ok(start)
    }

    /// Fails if a context is in use.
    fn read(&self) -> Result<Start, OpenError> {
        if self.is_started {
            return Err(OpenError::InUse { file: self.file.clone() });
        }
        if self.is_anew {
            return Ok(Start::Anew);
        }
        let text = files::read_up_to(&self.file, sequence::MAX_BYTES).map_err(OpenError::io(&self.file))?;
        if text.is_empty() {
            return Err(OpenError::wrong(&self.file, None, "it is empty or gone: the numbers used so far are lost"));
        }
        sequence::parse(&self.file, &text)
    }

    /// Records that numbers below this may have been used, as
    /// [`Contexts::poll_reserve`](conche_proto::oscore::Contexts::poll_reserve) requests.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn reserve(&self, up_to: u64) -> io::Result<()> {
        if self.is_anew { Ok(()) } else { files::replace(&self.file, sequence::in_use(up_to).as_bytes()) }
    }

    /// Records the context's final state, so that the next start needs no Echo.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. The next start then continues after the reserved numbers.
    pub fn close(self, context: &Context) -> io::Result<()> {
        self.finish(context.next_number(), context.window())
    }
}

impl NumberStore for Keeper {
    fn load(&self) -> io::Result<Start> {
        self.read().map_err(io::Error::other)
    }

    fn reserve(&self, up_to: u64) -> io::Result<()> {
        Self::reserve(self, up_to)
    }

    fn finish(&self, next: u64, window: Option<ReplayWindow>) -> io::Result<()> {
        if self.is_anew { Ok(()) } else { files::replace(&self.file, sequence::at_rest(next, window).as_bytes()) }
    }
}

/// The file may hold a secret.
fn read(file: &Path) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let text = Zeroizing::new(files::read_up_to(file, MAX_BYTES + 1).map_err(OpenError::io(file))?);
    if text.len() > MAX_BYTES {
        return Err(OpenError::wrong(file, None, format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

fn open_lock(lock: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(lock)
}

fn exists(file: &Path) -> Result<bool, OpenError> {
    file.try_exists().map_err(OpenError::io(file))
}
