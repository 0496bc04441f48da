//! Credentials of OSCORE (RFC 8613) in files, and what has to outlive the program beside them.
//!
//! Two formats are read as they are: the configuration file of libcoap, coap_oscore_conf(5), and the directory of
//! aiocoap, with `settings.json` and `secret.json`. Whatever holds a master secret is refused if others can read it.
//!
//! A number protects one message only, whatever happens to the program or the power. So [`Keeper::start`] writes that the
//! credentials are in use before it hands out a context, [`Keeper::reserve`] writes how far numbers may be used before
//! they are, and [`Keeper::close`] writes what was used at an orderly end, which saves the next start a round trip. All
//! that is in `sequence.json`, in the format of aiocoap. A lock file beside it keeps a second program from using the same
//! numbers. What no file can know is whether somebody copied it: credentials are moved, never copied, and not restored
//! from a backup.
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
//! let mut keepers = Keeper::open(&path)?;
//! let mut keeper = keepers.remove(0);
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

mod aiocoap;
mod error;
mod keeper;
mod libcoap;
mod sequence;

pub use conche_proto::oscore::{
    Aead, Context, Credentials, CredentialsError, EndId, Hkdf, ReplayWindow, Secret, Start,
};

pub use aiocoap::{Reference, read_map};
pub use error::OpenError;
pub use keeper::Keeper;

#[cfg(test)]
mod tests;
