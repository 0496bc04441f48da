//! Keys of EDHOC, with which two ends agree on those of OSCORE: a file of ours, in TOML.

use std::path::Path;

use anyhow::Context;
use conche::edhoc::{Credential, Own, Party, PrivateKey};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{read_secret, wrong};
use crate::request::option::hexadecimal;

/// What a file holds, as hexadecimal digits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    /// Of a key on P-256. It is wiped when it has been read.
    private_key: String,
    /// The CWT Claims Set of its public key.
    credential: String,
    /// Those of whom this end knows.
    #[serde(default)]
    peers: Vec<String>,
}

/// Who this end is, and whom it knows, of a file that nobody else may read.
pub fn open(file: &Path) -> anyhow::Result<Party> {
    let bytes = read_secret(file)?;
    party(&bytes).map_err(wrong).with_context(|| format!("{} cannot be used", file.display()))
}

fn party(bytes: &[u8]) -> Result<Party, String> {
    let text =
        str::from_utf8(bytes).map_err(|_| "it is no text in UTF-8: private_key, credential and peers were expected")?;
    // What toml shows of the line could be the secret.
    let mut contents: Contents = toml::from_str(text).map_err(|error| {
        format!(
            "{}: private_key, credential and peers were expected, as conche keygen --edhoc writes them",
            error.message()
        )
    })?;
    let bytes = |what: &str, digits: &str| {
        hexadecimal(digits).ok_or_else(|| format!("{what} must be pairs of hexadecimal digits"))
    };
    let digits = Zeroizing::new(std::mem::take(&mut contents.private_key));
    let key = Zeroizing::new(bytes("private_key", &digits)?);
    let key = key.first_chunk().filter(|first| first.len() == key.len());
    let key = Zeroizing::new(*key.ok_or("private_key must have 32 bytes, which is 64 digits")?);
    let key = PrivateKey::new(&key).ok_or("private_key is none of P-256: conche keygen --edhoc makes one")?;
    let credential =
        |what: &str, digits: &str| Credential::parse(&bytes(what, digits)?).map_err(|error| format!("{what}: {error}"));
    let own = Own::new(key, credential("credential", &contents.credential)?).map_err(|error| error.to_string())?;
    if contents.peers.is_empty() {
        return Err("peers is empty: it is to have the credential of each end that may be believed".to_owned());
    }
    contents.peers.iter().try_fold(Party::new(own), |party, peer| {
        party.with_peer(credential("a credential of peers", peer)?).map_err(|error| error.to_string())
    })
}
