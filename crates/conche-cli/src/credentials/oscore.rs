//! Keys that protect requests and responses from end to end, from files of libcoap or aiocoap.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use conche::Builder;
use conche::Uri;
use conche::client::ClientRole;
use conche::oscore::{Keys, OpenError};
use conche::server::ServerRole;

use super::file::Found;
use super::{Asking, wrong};
use crate::Global;

/// The arguments of whoever asks for resources.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct Protecting {
    #[command(flatten)]
    asking: Asking,
    /// Protect the request and its response from end to end (OSCORE) with the credentials in this file of libcoap's form or directory of
    /// aiocoap's, which only its owner may read. How many numbers are used is kept beside it: never copy it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
    oscore: Option<PathBuf>,
}

impl Protecting {
    /// A client with these, for this URI.
    pub fn of(&self, builder: Builder<ClientRole>, uri: &str, global: &Global) -> anyhow::Result<Builder<ClientRole>> {
        // What is no URI is told where it is used.
        let Ok(uri) = uri.parse::<Uri>() else { return Ok(builder) };
        let asks_file = self.asking.asks_file(&uri) || !uri.is_secured() && self.oscore.is_none();
        let found = if asks_file { self.asking.find(&uri, global)? } else { Found::default() };
        let builder = self.asking.with(builder, &uri, &found, global)?;
        let of_file = found.entry.as_ref().and_then(|entry| entry.oscore.as_ref());
        Ok(match self.oscore.as_ref().or(of_file) {
            Some(file) => builder.oscore(open(file)?),
            None => builder,
        })
    }
}

/// A server with the keys of all these.
pub fn serve(files: &[PathBuf], builder: Builder<ServerRole>) -> anyhow::Result<Builder<ServerRole>> {
    files.iter().try_fold(builder, |builder, file| Ok(builder.oscore(open(file)?)))
}

fn open(file: &Path) -> anyhow::Result<Keys> {
    Keys::open(file).map_err(|error| if is_of_the_machine(&error) { anyhow!(error) } else { wrong(error) })
}

/// The credentials may be right, but they cannot be used now.
pub fn is_of_the_machine(error: &OpenError) -> bool {
    matches!(error, OpenError::Io { .. } | OpenError::InUse { .. })
}
