//! OSCORE keys: from files of libcoap or aiocoap, or from an EDHOC key exchange.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use conche::client::ClientRole;
use conche::oscore::{Keys, OpenError};
use conche::server::ServerRole;
use conche::{Builder, Uri};

use super::file::{Found, Keying};
use super::{Asking, core_dump, edhoc, wrong};
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
    /// Agree on such keys with the server first (EDHOC), with the private key and the credentials in this file, which only its owner may
    /// read: `conche keygen --edhoc` makes it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "oscore")]
    edhoc: Option<PathBuf>,
    /// The server that is expected, if the file of --edhoc has several peers: the subject of its
    /// credential, or its key ID in hexadecimal digits.
    #[arg(long, value_name = "NAME", requires = "edhoc")]
    edhoc_peer: Option<String>,
    /// Have the request bring the last message of EDHOC, which saves a round trip where the server understands that (RFC 9668).
    #[arg(long, requires = "edhoc")]
    edhoc_combined: bool,
}

impl Protecting {
    /// Configures a client for this URI.
    pub fn of(&self, builder: Builder<ClientRole>, uri: &str, global: &Global) -> anyhow::Result<Builder<ClientRole>> {
        // The command reports an invalid URI later, where it uses it.
        let Ok(uri) = uri.parse::<Uri>() else { return Ok(builder) };
        if uri.is_secured() && self.edhoc.is_some() {
            bail!(wrong(
                "--edhoc is for coap://: over coaps:// no keys are agreed on but those of the session; --oscore FILE protects there, too"
            ));
        }
        // The file's OSCORE keys apply even if arguments authenticate the session: they protect end
        // to end.
        let is_given = self.oscore.is_some() || self.edhoc.is_some();
        let asks_file = self.asking.asks_file(&uri) || !is_given;
        let found = if asks_file { self.asking.find(&uri, global)? } else { Found::default() };
        let builder = self.asking.with(builder, &uri, &found, global)?;
        let of_file = found.entry.as_ref().and_then(|entry| entry.keying.as_ref()).filter(|_| !is_given);
        Ok(match (&self.oscore, &self.edhoc, of_file) {
            (Some(file), ..) | (_, _, Some(Keying::Oscore(file))) => builder.oscore(open(file)?),
            (_, Some(file), _) => {
                let party = edhoc::toward(file, self.edhoc_peer.as_deref())?;
                builder.edhoc(party.combined(self.edhoc_combined))
            }
            (.., Some(Keying::Edhoc { file, peer })) => builder.edhoc(edhoc::toward(file, peer.as_deref())?),
            (None, None, None) => builder,
        })
    }
}

/// Configures a server with the keys of these files.
pub fn serve(files: &[PathBuf], builder: Builder<ServerRole>) -> anyhow::Result<Builder<ServerRole>> {
    files.iter().try_fold(builder, |builder, file| Ok(builder.oscore(open(file)?)))
}

fn open(file: &Path) -> anyhow::Result<Keys> {
    core_dump::disable();
    Keys::open(file).map_err(|error| if is_of_the_machine(&error) { anyhow!(error) } else { wrong(error) })
}

/// Whether the error has a cause other than the credentials, such as I/O.
pub fn is_of_the_machine(error: &OpenError) -> bool {
    matches!(error, OpenError::Io { .. } | OpenError::InUse { .. })
}
