//! EDHOC credentials, from a TOML file that `conche keygen --edhoc` writes.

use std::path::Path;

use anyhow::Context;
use conche::edhoc::{Credential, CredentialError, OwnCredential, Party, PrivateKey};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{read_secret, usage_error};
use crate::hexadecimal::decode;

/// File contents, in hexadecimal.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    /// P-256 private key, wiped after reading.
    private_key: String,
    /// CWT Claims Set of the public key.
    credential: String,
    /// Credentials of accepted peers.
    #[serde(default)]
    peers: Vec<String>,
}

pub fn open(file: &Path) -> anyhow::Result<Party> {
    let bytes = read_secret(file)?;
    party(&bytes).map(|(party, _)| party).map_err(usage_error).with_context(|| cannot_be_used(file))
}

/// Reads a client's credential, and that of the expected server: the peer with the subject or key
/// ID (in hexadecimal) `server`, or the only peer.
pub fn toward(file: &Path, server: Option<&str>) -> anyhow::Result<Party> {
    let bytes = read_secret(file)?;
    let read = party(&bytes).and_then(|(party, peers)| {
        let is_expected = |peer: &&Credential| match server {
            Some(name) => peer.subject() == Some(name) || decode(name).is_some_and(|kid| kid == peer.kid()),
            None => true,
        };
        let mut expected = peers.iter().filter(is_expected);
        match (expected.next(), expected.next(), server) {
            (Some(peer), None, _) => Ok(party.expecting(peer.kid())?),
            (None, _, Some(name)) => Err(PartyError::UnknownPeer(name.to_owned())),
            (_, _, Some(name)) => Err(PartyError::AmbiguousPeer(name.to_owned())),
            (.., None) => Err(PartyError::SeveralPeers(peers.len())),
        }
    });
    read.map_err(usage_error).with_context(|| cannot_be_used(file))
}

/// No text quotes a secret.
#[derive(Debug, thiserror::Error)]
enum PartyError {
    #[error("it is no text in UTF-8: private_key, credential and peers were expected")]
    Utf8,
    #[error("{0}: private_key, credential and peers were expected, as conche keygen --edhoc writes them")]
    Syntax(String),
    #[error("{0} must be pairs of hexadecimal digits")]
    Digits(&'static str),
    #[error("private_key must have 32 bytes, which is 64 digits")]
    KeyLength,
    #[error("private_key is none of P-256: conche keygen --edhoc makes one")]
    Key,
    #[error("{what}: {error}")]
    Credential { what: &'static str, error: CredentialError },
    #[error(transparent)]
    Party(#[from] CredentialError),
    #[error("peers is empty: list the credential of each trusted peer")]
    NoPeers,
    #[error("none of its peers is {0:?}")]
    UnknownPeer(String),
    #[error("several of its peers are {0:?}: give a key ID")]
    AmbiguousPeer(String),
    #[error("it has {0} peers: say which one the server is, with --edhoc-peer or edhoc-peer, by its subject or key ID")]
    SeveralPeers(usize),
}

fn cannot_be_used(file: &Path) -> String {
    format!("{} cannot be used", file.display())
}

fn party(bytes: &[u8]) -> Result<(Party, Vec<Credential>), PartyError> {
    let text = str::from_utf8(bytes).map_err(|_| PartyError::Utf8)?;
    // The full TOML error could quote the secret.
    let mut contents: Contents =
        toml::from_str(text).map_err(|error| PartyError::Syntax(error.message().to_owned()))?;
    let bytes = |what: &'static str, digits: &str| decode(digits).ok_or(PartyError::Digits(what));
    let digits = Zeroizing::new(std::mem::take(&mut contents.private_key));
    let key = Zeroizing::new(bytes("private_key", &digits)?);
    let key = key.first_chunk().filter(|first| first.len() == key.len());
    let key = Zeroizing::new(*key.ok_or(PartyError::KeyLength)?);
    let key = PrivateKey::new(&key).ok_or(PartyError::Key)?;
    let credential = |what: &'static str, digits: &str| {
        Credential::parse(&bytes(what, digits)?).map_err(|error| PartyError::Credential { what, error })
    };
    let own = OwnCredential::new(key, credential("credential", &contents.credential)?)?;
    if contents.peers.is_empty() {
        return Err(PartyError::NoPeers);
    }
    let peers = contents.peers.iter().map(|peer| credential("a credential of peers", peer));
    let peers: Vec<_> = peers.collect::<Result<_, _>>()?;
    let party = peers.iter().try_fold(Party::new(own), |party, peer| party.with_peer(peer.clone()));
    Ok((party?, peers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use conche::edhoc::generate;

    #[test]
    fn a_client_with_several_edhoc_peers_must_name_the_expected_one() {
        let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let credential = |kid: &[u8], name: &str| {
            let key = generate().expect("there is randomness");
            let credential = Credential::of(&key, kid, name).expect("short");
            (digits(&*key.to_bytes()), digits(credential.as_slice()))
        };
        let ((key, own), (_, hall), (_, lamp)) =
            (credential(b"\x01", "me"), credential(b"\x02", "hall"), credential(b"\x0a\x0b", "lamp"));
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("me.toml");
        let write = |peers: &[&String]| {
            let text = format!("private_key = \"{key}\"\ncredential = \"{own}\"\npeers = {peers:?}\n");
            std::fs::write(&file, text).expect("it can be written");
            #[cfg(unix)]
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("it is ours");
        };
        write(&[&hall]);
        assert!(toward(&file, None).is_ok() && toward(&file, Some("hall")).is_ok());
        write(&[&hall, &lamp]);
        assert!(open(&file).is_ok() && toward(&file, Some("hall")).is_ok() && toward(&file, Some("0A0b")).is_ok());
        for (server, problem) in [(None, "it has 2 peers"), (Some("bell"), "none of its peers is \"bell\"")] {
            let error = format!("{:#}", toward(&file, server).expect_err("no peer is named"));
            assert!(error.contains(problem), "{error}");
        }
    }
}
