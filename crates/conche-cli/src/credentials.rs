//! Who we are to others over `coaps`, and whom we believe: arguments and files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use conche::Builder;
use conche::client::ClientRole;
use conche::security::{KeyLog, OwnCertificate, Roots, Secret};
use conche::server::ServerRole;

use crate::exit::UsageError;

/// The largest file of keys or certificates.
const LARGEST: u64 = 1 << 20;

/// The arguments of whoever asks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security (coaps)")]
pub struct Asking {
    /// The identity by which the server knows our pre-shared key.
    #[arg(short = 'u', long, value_name = "IDENTITY", env = "CONCHE_PSK_IDENTITY", requires = "psk_key_file")]
    psk_identity: Option<String>,
    /// The file that holds our pre-shared key, which only its owner may read: text, or bytes if it begins with 0x.
    #[arg(long, value_name = "FILE", env = "CONCHE_PSK_KEY_FILE", requires = "psk_identity")]
    psk_key_file: Option<PathBuf>,
    /// Believe servers whose certificate one of those in this file (PEM) vouches for. Those that stand between may be in it, too.
    #[arg(long, value_name = "FILE", env = "CONCHE_CA")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    own: Own,
}

/// A certificate with its key.
#[derive(Debug, clap::Args)]
struct Own {
    /// Our certificate (PEM), on a key of ECDSA.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key of our certificate (PEM), which only its owner may read.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// The arguments of whoever answers.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security (coaps)")]
pub struct Answering {
    /// Answer clients that have a pre-shared key of this file, which only its owner may read, over DTLS: a line IDENTITY:KEY for each,
    /// the key as text, or as bytes if it begins with 0x.
    #[arg(long, value_name = "FILE", env = "CONCHE_PSK_KEYS")]
    psk_keys: Option<PathBuf>,
    #[command(flatten)]
    own: Own,
    /// Answer only those clients without a pre-shared key whose certificate one of those in this file (PEM) vouches for.
    #[arg(long, value_name = "FILE", requires = "cert")]
    client_ca: Option<PathBuf>,
}

impl Asking {
    /// A client with these.
    pub fn of(&self, builder: Builder<ClientRole>) -> anyhow::Result<Builder<ClientRole>> {
        let mut builder = builder;
        if let (Some(identity), Some(file)) = (&self.psk_identity, &self.psk_key_file) {
            let told = || format!("the pre-shared key of {identity:?} cannot be used");
            builder = builder.psk(identity.as_bytes(), key_of(file)?).map_err(wrong).with_context(told)?;
        }
        if let Some(file) = &self.ca {
            builder = builder.roots(roots_of(file)?);
        }
        if let Some(own) = self.own.read()? {
            builder = builder.certificate(own);
        }
        Ok(match key_log()? {
            Some(log) => builder.key_log(log),
            None => builder,
        })
    }
}

impl Answering {
    /// There is something that clients have to know or show.
    pub fn is_some(&self) -> bool {
        self.psk_keys.is_some() || self.own.cert.is_some()
    }

    /// A server with these.
    pub fn of(&self, builder: Builder<ServerRole>) -> anyhow::Result<Builder<ServerRole>> {
        let mut builder = builder;
        if let Some(file) = &self.psk_keys {
            let keys = keys_of(file)?;
            builder = builder.psk(move |identity: &[u8]| {
                keys.iter().find(|(known, _)| known == identity).map(|(_, key)| key.clone())
            });
        }
        if let Some(own) = self.own.read()? {
            builder = builder.certificate(own);
        }
        if let Some(file) = &self.client_ca {
            builder = builder.client_roots(roots_of(file)?);
        }
        Ok(match key_log()? {
            Some(log) => builder.key_log(log),
            None => builder,
        })
    }
}

impl Own {
    fn read(&self) -> anyhow::Result<Option<OwnCertificate>> {
        let (Some(certificate), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let read = OwnCertificate::from_pem(&read(certificate)?, &read_secret(key)?);
        let told = || format!("{} and {} cannot be used", certificate.display(), key.display());
        read.map(Some).map_err(wrong).with_context(told)
    }
}

/// Where secrets of sessions are to be written for whoever reads captures, as the variable SSLKEYLOGFILE says.
fn key_log() -> anyhow::Result<Option<KeyLog>> {
    let Some(path) = std::env::var_os("SSLKEYLOGFILE").filter(|path| !path.is_empty()) else { return Ok(None) };
    let mut options = fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let told = || format!("{}, which SSLKEYLOGFILE names, cannot be written", Path::new(&path).display());
    let file = options.open(&path).with_context(told)?;
    Ok(Some(KeyLog::new(move |line| {
        // A session is worth more than its line in a log.
        let _ = writeln!(&file, "{line}");
    })))
}

fn roots_of(file: &Path) -> anyhow::Result<Roots> {
    Roots::from_pem(&read(file)?).map_err(wrong).with_context(|| format!("{} cannot be used", file.display()))
}

/// The key that a file holds.
fn key_of(file: &Path) -> anyhow::Result<Secret> {
    let text = read_secret(file)?;
    key(text.trim_ascii_end()).map_err(|problem| wrong(format!("{}: {problem}", file.display())))
}

/// Identities with their keys.
fn keys_of(file: &Path) -> anyhow::Result<Vec<(Vec<u8>, Secret)>> {
    let text = read_secret(file)?;
    let mut keys = Vec::new();
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let place = || format!("{}, line {number}", file.display());
        let Some(colon) = line.iter().position(|byte| *byte == b':').filter(|colon| *colon > 0) else {
            bail!(wrong(format!("{}: IDENTITY:KEY was expected", place())));
        };
        let key = key(&line[colon + 1..]).map_err(|problem| wrong(format!("{}: {problem}", place())))?;
        keys.push((line[..colon].to_vec(), key));
    }
    if keys.is_empty() {
        bail!(wrong(format!("{} holds no key: write a line IDENTITY:KEY for each client", file.display())));
    }
    Ok(keys)
}

fn key(text: &[u8]) -> Result<Secret, String> {
    let bytes = match text.strip_prefix(b"0x") {
        None => text.to_vec(),
        Some(digits) => from_hex(digits).ok_or("what follows 0x must be pairs of hexadecimal digits")?,
    };
    match bytes.len() {
        1..=512 => Ok(Secret::new(bytes)),
        bytes => Err(format!("the key has {bytes} bytes: 1 to 512 are possible")),
    }
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?));
    pairs.collect()
}

/// What a file holds that nobody but its owner may read.
fn read_secret(path: &Path) -> anyhow::Result<Vec<u8>> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let told = || format!("{} cannot be read", path.display());
        let mode = fs::metadata(path).with_context(told)?.permissions().mode();
        if mode & 0o077 != 0 {
            let path = path.display();
            bail!(wrong(format!("{path} holds a secret that others than its owner may read: run chmod 600 {path}")));
        }
    }
    read(path)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let told = || format!("{} cannot be read", path.display());
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)).with_context(told)?;
    if bytes.len() as u64 > LARGEST {
        bail!(wrong(format!("{} has more than 1 MiB: it holds no keys or certificates", path.display())));
    }
    Ok(bytes)
}

/// Something is wrong with what was given.
fn wrong(problem: impl ToString) -> anyhow::Error {
    UsageError(problem.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_text_or_bytes_in_hexadecimal() {
        assert_eq!(key(b"sesame").expect("text").expose(), b"sesame");
        assert_eq!(key(b"0x00fF").expect("bytes").expose(), [0, 255]);
        for wrong in [&b"0x0"[..], b"0xzz", b"", b"0x"] {
            assert!(key(wrong).is_err(), "{wrong:?}");
        }
    }
}
