//! OSCORE (RFC 8613): end-to-end protection of requests and responses, through any intermediary.
//!
//! Both ends share a master secret, and each has its own ID: together these are [`Credentials`].
//! [`Keys`] are one end's credentials for one peer, with their number store:
//!
//! ```
//! use conche::oscore::{Credentials, EndId, Identity, Keys};
//! use conche::server::get;
//! use conche::{Client, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A secret of this run alone, which both ends know.
//! let secret = *b"16 random bytes.";
//! let [client_id, server_id] = [b"c", b"s"].map(|id| EndId::new(id).expect("no more than 7 bytes"));
//!
//! let keys = Keys::for_this_run(Credentials::new(secret, server_id, client_id))?;
//! let greet = async |who: Identity| format!("hello, {who}");
//! let server = Server::builder().oscore(keys).route("/hello", get(greet)).bind("127.0.0.1:0").await?;
//!
//! let keys = Keys::for_this_run(Credentials::new(secret, client_id, server_id))?;
//! let client = Client::builder().oscore(keys).build()?;
//! let uri = format!("coap://{}/hello", server.local_addr());
//! assert_eq!(client.get(&uri).await?.text()?, "hello, 63");
//!
//! // Without the keys there is no answer.
//! assert_eq!(Client::new().get(&uri).await?.code(), conche::Code::UNAUTHORIZED);
//! # Ok(())
//! # }
//! ```
//!
//! OSCORE protects the request's method, path, query, other options and payload, and the whole
//! response. Addresses, the URI's host and port, and the sizes and times of messages remain
//! visible. Block-wise transfer and observation happen inside the protection. Q-Block and multicast
//! requests are not supported.
//!
//! # Sequence numbers
//!
//! No sequence number may protect two messages: that breaks the protection of both. The
//! [`NumberStore`] of [`Keys`] therefore reserves numbers before their use, and must be persistent
//! for credentials that outlive the program. After a restart, a server requires its first client to
//! prove freshness by Echo (appendix B.1.2), which [`Client`](crate::Client) does automatically.
//!
//! Keys are leased to one socket at a time: for a client, the first that needed them. A server with
//! keys has one [worker](crate::server::ServerBuilder::workers). A dropped client returns its keys
//! some time later: requests of the next client wait up to two seconds for them, then fail with
//! [`KeysError::InUse`].
//!
//! # Files
//!
//! [`Keys::open`] reads libcoap's coap_oscore_conf(5) file, or aiocoap's directory with
//! `settings.json` and `secret.json`, and stores sequence numbers beside them.
//!
//! Programs with their own endpoint use a [`Keeper`]. It records in `sequence.json`, in aiocoap's
//! format, each range of numbers before its use and, at an orderly end, the exact state, which
//! saves the next start a round trip. A lock file beside it keeps other programs from using the
//! same numbers. Copies cannot be detected: move credentials, never copy them or restore them from
//! a backup.
//!
//! On Unix, credentials are refused if another user can read the master secret, or owns or may
//! write one of these files or their directory, or if the secret's file has a hard link. They are
//! also refused if `sequence.json` is missing beside its lock: the numbers used so far are lost.
//!
//! ```
//! use conche::oscore::Keeper;
//!
//! # #[cfg(unix)]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use std::io::Write as _;
//! # let directory = tempfile::tempdir()?;
//! let path = directory.path().join("light.conf");
//! # let mut options = std::fs::OpenOptions::new();
//! # std::os::unix::fs::OpenOptionsExt::mode(options.create_new(true).write(true), 0o600);
//! # options.open(&path)?.write_all(b"\
//! # master_secret,hex,\"0102030405060708090a0b0c0d0e0f10\"\n\
//! # sender_id,ascii,\"client\"\n\
//! # recipient_id,ascii,\"server\"\n")?;
//! // master_secret,hex,"0102030405060708090a0b0c0d0e0f10"
//! // sender_id,ascii,"client"
//! // recipient_id,ascii,"server"
//! let mut keeper = Keeper::open(&path)?;
//! let context = keeper.start()?;
//! assert_eq!(context.next_number(), 0);
//! // Before 256 numbers are used.
//! keeper.reserve(256)?;
//! keeper.close(&context)?;
//! # Ok(())
//! # }
//! # #[cfg(not(unix))]
//! # fn main() {}
//! ```

mod access;
mod aiocoap;
mod keeper;
mod keys;
mod libcoap;
mod sequence;

use std::io;
use std::path::{Path, PathBuf};

pub use conche_proto::oscore::{
    Aead, Context, Credentials, CredentialsError, EndId, Hkdf, InsertError, ProtectError, ReplayWindow, Secret, Start,
};
use thiserror::Error;

pub use aiocoap::{Reference, read_map};
pub use keeper::Keeper;
pub(crate) use keys::Lease;
pub use keys::{Identity, Keys, KeysError, NumberStore};

/// Reason why credentials cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file cannot be read or written.
    #[error("{}: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The cause.
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
    /// A file has several hard links, each of which would have its own numbers.
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
    /// A program uses the same credentials.
    #[error("{}: these credentials are in use already", file.display())]
    InUse {
        /// The lock file, or the file with the numbers.
        file: PathBuf,
    },
    /// Credentials in use by this program have the same master secret, salt, ID context and sender
    /// ID.
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
        error: CredentialsError,
    },
}

impl OpenError {
    fn io(file: &Path) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Io { file: file.to_owned(), error }
    }

    fn wrong(file: &Path, line: Option<usize>, what: impl Into<String>) -> Self {
        Self::Wrong { file: file.to_owned(), line, what: what.into() }
    }
}

#[cfg(test)]
mod tests;
