//! Credentials of secured loads, written where the generator and the servers read them. They keep nothing secret.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::load::Protection;

/// The pre-shared key.
const KEY: &str = "conche bench key";

/// The identity that it is known by.
const IDENTITY: &str = "bench";

/// Sockets that have keys of OSCORE, each its own.
const SOCKETS: u8 = 16;

/// What the names of servers have that those of clients do not.
const SERVERS: u8 = 0x80;

/// The credentials of one measurement.
pub struct Credentials {
    protection: Protection,
    /// Where they are.
    directory: PathBuf,
}

impl Credentials {
    /// Writes them below this directory. Those for OSCORE have never been used: both ends begin to count anew.
    pub fn write(protection: Protection, below: &Path) -> Result<Self> {
        let directory = below.join("credentials");
        let credentials = Self { protection, directory };
        credentials
            .all()
            .with_context(|| format!("cannot write credentials to {}", credentials.directory.display()))?;
        Ok(credentials)
    }

    /// What a server takes behind its other arguments.
    pub fn of_server(&self) -> Vec<String> {
        match self.protection {
            Protection::Plain => Vec::new(),
            Protection::Psk => ["psk", KEY].map(str::to_owned).into(),
            Protection::Oscore => vec!["oscore".to_owned(), text(&self.directory.join("servers"))],
        }
    }

    /// What `conche get` takes to open a session.
    pub fn of_session(&self) -> Vec<String> {
        match self.protection {
            Protection::Psk => {
                let [identity, option] = [IDENTITY, "--psk-key-file"].map(str::to_owned);
                vec!["--psk-identity".to_owned(), identity, option, text(&self.directory.join("key"))]
            }
            Protection::Plain | Protection::Oscore => Vec::new(),
        }
    }

    /// What `conche bench` takes.
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

/// In the form of aiocoap, which conche reads as well.
fn secret(socket: u8, is_client: bool) -> String {
    // Each end tells its contexts apart by the name that the other one has in them.
    let (client, server) = (name(socket), name(SERVERS | socket));
    let [sender, recipient] = if is_client { [client, server] } else { [server, client] };
    let items = serde_json::json!({
        "secret_hex": "0102030405060708090a0b0c0d0e0f10",
        "salt_hex": "9e7ca92223786340",
        "sender-id_hex": sender,
        "recipient-id_hex": recipient,
    });
    // The programs that read it by a pattern expect a blank behind each colon.
    format!("{items:#}\n")
}

/// Writes a file that nobody else may read.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    fs::File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;

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
    fn what_was_counted_before_is_gone() {
        let directory = Project::find().expect("a checkout").target().join("bench-peers-test");
        let written = || Credentials::write(Protection::Oscore, &directory).expect("they can be written");
        let numbers = directory.join("credentials/clients/00/sequence.json");
        assert_eq!(written().of_generator().len(), 2 * usize::from(SOCKETS));
        fs::write(&numbers, "{}").expect("it can be written");
        written();
        assert!(!numbers.exists());
    }
}
