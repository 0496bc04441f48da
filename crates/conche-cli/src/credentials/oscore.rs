//! Keys that protect requests and responses from end to end: from files of libcoap or aiocoap, or agreed on.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use conche::Builder;
use conche::client::ClientRole;
use conche::oscore::{Keys, OpenError};
use conche::server::ServerRole;

use super::{edhoc, wrong};

/// The argument of whoever asks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct Protecting {
    /// Protect the request and its response from end to end (OSCORE) with the credentials in this file of libcoap's form or directory of
    /// aiocoap's, which only its owner may read. How many numbers are used is kept beside it: never copy it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
    oscore: Option<PathBuf>,
    /// Agree on such keys with the server first (EDHOC), with the private key and the credentials in this file, which only its owner may
    /// read: `conche keygen --edhoc` makes it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "oscore")]
    edhoc: Option<PathBuf>,
    /// Have the request bring the last message of EDHOC, which saves a round trip where the server understands that (RFC 9668).
    #[arg(long, requires = "edhoc")]
    edhoc_combined: bool,
}

impl Protecting {
    /// A client with these.
    pub fn of(&self, builder: Builder<ClientRole>) -> anyhow::Result<Builder<ClientRole>> {
        Ok(match (&self.oscore, &self.edhoc) {
            (Some(file), _) => builder.oscore(open(file)?),
            (None, Some(file)) => builder.edhoc(edhoc::open(file)?.combined(self.edhoc_combined)),
            (None, None) => builder,
        })
    }
}

/// A server with the keys of all these.
pub fn serve(files: &[PathBuf], builder: Builder<ServerRole>) -> anyhow::Result<Builder<ServerRole>> {
    files.iter().try_fold(builder, |builder, file| Ok(builder.oscore(open(file)?)))
}

fn open(file: &Path) -> anyhow::Result<Keys> {
    Keys::open(file).map_err(|error| match error {
        OpenError::Io { .. } | OpenError::InUse { .. } => anyhow!(error),
        _ => wrong(error),
    })
}
