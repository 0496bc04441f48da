//! Test credentials of secured loads, for the generator and the servers.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::load::Protection;

const KEY: &str = "conche bench key";

const IDENTITY: &str = "bench";

/// Sockets with their own OSCORE keys.
const SOCKETS: u8 = 16;

/// Distinguishes servers' sender IDs from clients'.
const SERVERS: u8 = 0x80;

/// Credentials of one measurement.
pub struct Credentials {
    protection: Protection,
    directory: PathBuf,
}

impl Credentials {
    /// Writes the credentials. OSCORE contexts are new, so both ends start at sequence number 0.
    pub fn write(protection: Protection, below: &Path) -> Result<Self> {
        let directory = below.join("credentials");
        let credentials = Self { protection, directory };
        credentials
            .all()
            .with_context(|| format!("cannot write credentials to {}", credentials.directory.display()))?;
        Ok(credentials)
    }

    /// Additional arguments of a server.
    pub fn of_server(&self) -> Vec<String> {
        match self.protection {
            Protection::Plain => Vec::new(),
            Protection::Psk => ["psk", KEY].map(str::to_owned).into(),
            Protection::Oscore => vec!["oscore".to_owned(), text(&self.directory.join("servers"))],
        }
    }

    /// Arguments of `conche get` that open a session.
    pub fn of_session(&self) -> Vec<String> {
        match self.protection {
            Protection::Psk => {
                let [identity, option] = [IDENTITY, "--psk-key-file"].map(str::to_owned);
                vec!["--psk-identity".to_owned(), identity, option, text(&self.directory.join("key"))]
            }
            Protection::Plain | Protection::Oscore => Vec::new(),
        }
    }

    /// Arguments of `conche bench`.
    pub fn of_generator(&self) -> Vec<String> {
        match self.protection {
            Protection::Plain | Protection::Psk => self.of_session(),
            Protection::Oscore => {
                let file = |socket| text(&self.directory.join("clients").join(name(socket)));
                (0..SOCKETS).flat_map(|socket| ["--oscore".to_owned(), file(socket)]).collect()
            }
        }
    }

    fn all(&self) -> std::io::Result<()> {
        if self.directory.exists() {
            fs::remove_dir_all(&self.directory)?;
        }
        fs::create_dir_all(&self.directory)?;
        match self.protection {
            Protection::Plain => Ok(()),
            Protection::Psk => write(&self.directory.join("key"), KEY),
            Protection::Oscore => (0..SOCKETS).try_for_each(|socket| {
                ["clients", "servers"].into_iter().try_for_each(|end| {
                    let directory = self.directory.join(end).join(name(socket));
                    fs::create_dir_all(&directory)?;
                    write(&directory.join("secret.json"), &secret(socket, end == "clients"))
                })
            }),
        }
    }
}

fn name(socket: u8) -> String {
    format!("{socket:02x}")
}

/// A context in aiocoap's format, which conche reads too.
fn secret(socket: u8, is_client: bool) -> String {
    let (client, server) = (name(socket), name(SERVERS | socket));
    let [sender, recipient] = if is_client { [client, server] } else { [server, client] };
    let items = serde_json::json!({
        "secret_hex": "0102030405060708090a0b0c0d0e0f10",
        "salt_hex": "9e7ca92223786340",
        "sender-id_hex": sender,
        "recipient-id_hex": recipient,
    });
    // Programs that parse it with a pattern expect a space after each colon.
    format!("{items:#}\n")
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    fs::File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_pair_have_each_others_names_and_no_two_ends_the_same() {
        let mut names = Vec::new();
        for socket in 0..SOCKETS {
            let [client, server] = [true, false].map(|is_client| -> serde_json::Value {
                serde_json::from_str(&secret(socket, is_client)).expect("JSON")
            });
            assert_eq!(client["sender-id_hex"], server["recipient-id_hex"]);
            assert_eq!(client["recipient-id_hex"], server["sender-id_hex"]);
            names.extend([client, server].map(|end| end["sender-id_hex"].to_string()));
        }
        // RFC 8613 §3.3: with one secret, each name has to be one end's alone.
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 2 * usize::from(SOCKETS));
    }

    #[test]
    fn writing_credentials_removes_stored_sequence_numbers() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let written = || Credentials::write(Protection::Oscore, directory.path()).expect("they can be written");
        let numbers = directory.path().join("credentials/clients/00/sequence.json");
        assert_eq!(written().of_generator().len(), 2 * usize::from(SOCKETS));
        fs::write(&numbers, "{}").expect("it can be written");
        written();
        assert!(!numbers.exists());
    }
}
