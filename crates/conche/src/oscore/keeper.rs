//! [`Keeper`]: the credentials of one pair of ends, and the file that tells how far they are used.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::senders::SenderInUse;
use super::{Context, Credentials, NumberStore, OpenError, ReplayWindow, Start, access, aiocoap, libcoap, sequence};
use crate::files;

/// Bytes of a file with credentials at most.
const MOST_BYTES: usize = 65_536;

/// Credentials, where they are used up to, and the lock that says that they are used here. Its functions wait for the disk.
#[derive(Debug)]
pub struct Keeper {
    credentials: Credentials,
    /// `sequence.json`, or what has its part.
    pub(super) file: PathBuf,
    /// Held until this is dropped.
    _lock: File,
    is_started: bool,
    /// Its keys are agreed on anew after each start, and there is nothing to keep.
    is_anew: bool,
    /// From the start on.
    sender: Option<SenderInUse>,
}

impl Keeper {
    /// Reads a configuration file of libcoap, or a directory of aiocoap, and locks what it names: one pair of ends. A file of
    /// several recipients is refused, as this end would have one key, and so one row of numbers, for all of them.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: among others if another user can read the secret, or can write the numbers or
    /// replace their file; if another program uses the same credentials; or if the numbers are
    /// lost.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        // Behind two links there are the same numbers.
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
        Self::new(path, credentials, is_anew, (beside(".sequence.json"), &beside(".lock")))
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
        Self::new(directory, credentials, false, (directory.join("sequence.json"), &directory.join("lock")))
    }

    fn new(
        path: &Path,
        credentials: Credentials,
        is_anew: bool,
        (file, lock): (PathBuf, &Path),
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
        // A lock with text in it shows that there were numbers. All is read behind the lock: of
        // several programs that begin with new credentials, it may not be the one that created the
        // lock which holds it.
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

    /// What the file says.
    #[must_use]
    pub const fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// A context that goes on where the last one ended. That the credentials are in use is on the disk before: whatever happens
    /// from now on, the next start knows.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: the file cannot be written, is lost, or does not say how far numbers are used; there was a context already, or another one of
    /// this program protects with the same keys, whatever file they are from.
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

    /// Where the last context ended, for whoever writes that the credentials are in use before they are.
    pub(super) fn begin(&mut self) -> Result<Start, OpenError> {
        let start = self.read()?;
        self.is_started = true;
        Ok(start)
    }

    /// Where the last context ended, if there is none now.
    fn read(&self) -> Result<Start, OpenError> {
        if self.is_started {
            return Err(OpenError::InUse { file: self.file.clone() });
        }
        if self.is_anew {
            return Ok(Start::Anew);
        }
        let text = files::read_up_to(&self.file, sequence::MOST_BYTES).map_err(OpenError::io(&self.file))?;
        if text.is_empty() {
            return Err(OpenError::wrong(&self.file, None, "it is empty or gone: the numbers used so far are lost"));
        }
        sequence::parse(&self.file, &text)
    }

    /// Writes that numbers below this may have been used, as
    /// [`Contexts::poll_reserve`](conche_proto::oscore::Contexts::poll_reserve) asks for it.
    ///
    /// # Errors
    ///
    /// It is not on the disk.
    pub fn reserve(&self, up_to: u64) -> io::Result<()> {
        if self.is_anew { Ok(()) } else { files::replace(&self.file, sequence::in_use(up_to).as_bytes()) }
    }

    /// Writes what the context has used and received, when it will not be used any more: the next start needs no Echo.
    ///
    /// # Errors
    ///
    /// It is not on the disk. Then the next start goes on with what was reserved.
    pub fn close(self, context: &Context) -> io::Result<()> {
        self.finish(context.next_number(), context.window())
    }
}

/// One file says all: what is reserved takes the place of what was closed.
impl NumberStore for Keeper {
    fn kept(&self) -> io::Result<Start> {
        self.read().map_err(io::Error::other)
    }

    fn reserve(&self, up_to: u64) -> io::Result<()> {
        Self::reserve(self, up_to)
    }

    fn finish(&self, next: u64, window: Option<ReplayWindow>) -> io::Result<()> {
        if self.is_anew { Ok(()) } else { files::replace(&self.file, sequence::at_rest(next, window).as_bytes()) }
    }
}

/// Reads a file, which may hold a secret; returns nothing if it does not exist.
fn read(file: &Path) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let text = Zeroizing::new(files::read_up_to(file, MOST_BYTES + 1).map_err(OpenError::io(file))?);
    if text.len() > MOST_BYTES {
        return Err(OpenError::wrong(file, None, format!("it has more than {MOST_BYTES} bytes")));
    }
    Ok(text)
}

/// Opens the file to lock, and creates it if it is not there.
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
