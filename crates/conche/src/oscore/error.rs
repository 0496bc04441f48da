//! [`OpenError`]: why credentials cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::CredentialsError;

/// Why credentials cannot be used: the file, the position and the cause.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file cannot be read or written.
    #[error("{}: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// Other users can read or write the master secret.
    #[error("{0}: others can read the secret in it: chmod 600 {0}", file.display())]
    Exposed {
        /// The file.
        file: PathBuf,
    },
    /// Another user may write the file with the numbers or its lock, or replace files in their
    /// directory.
    #[error("{0}: other users can write it, and so have numbers used twice: chmod go-w {0}", path.display())]
    Writable {
        /// The file or directory.
        path: PathBuf,
    },
    /// A file of the credentials, or their directory, belongs to another user.
    #[error("{0}: it belongs to another user, who could have numbers used twice: copy the credentials of a new pair to a directory of your own", path.display())]
    OtherOwner {
        /// The file or directory.
        path: PathBuf,
    },
    /// A file has several names (hard links), each of which would have its own numbers.
    #[error("{}: it has {names} names (hard links), each with numbers of its own: remove all but one", file.display())]
    Linked {
        /// The file.
        file: PathBuf,
        /// Number of its names.
        names: u64,
    },
    /// The file with the numbers is missing, although the credentials were in use.
    #[error("{0}: it is missing, but {1} shows that these credentials were in use: their numbers would be used twice. Use a new pair of credentials; if these were certainly never used, remove {1}", file.display(), lock.display())]
    LostNumbers {
        /// The file with the numbers.
        file: PathBuf,
        /// The lock beside it.
        lock: PathBuf,
    },
    /// The same credentials, and so the same numbers, are in use by this or another program.
    #[error("{}: these credentials are in use already", file.display())]
    InUse {
        /// The lock file, or the file with the numbers.
        file: PathBuf,
    },
    /// Other credentials in use by this program have the same master secret, salt, ID context and
    /// sender ID.
    #[error("{}: other credentials that are in use have the same secret and sender ID: numbers would be used twice", file.display())]
    SameSender {
        /// The file with the numbers.
        file: PathBuf,
    },
    /// The content is invalid.
    #[error("{}{}: {what}", file.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The line, from 1, if there is one.
        line: Option<usize>,
        /// The problem and the expected content.
        what: String,
    },
    /// The credentials are not safe.
    #[error("{}: {error}", file.display())]
    Credentials {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        error: CredentialsError,
    },
}

impl OpenError {
    pub(super) fn io(file: &Path) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Io { file: file.to_owned(), error }
    }

    pub(super) fn wrong(file: &Path, line: Option<usize>, what: impl Into<String>) -> Self {
        Self::Wrong { file: file.to_owned(), line, what: what.into() }
    }
}
