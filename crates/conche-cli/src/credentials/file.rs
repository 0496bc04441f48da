//! `conche.toml`: credentials by URI.
//!
//! The file names trusted parties, so it is never read from the working directory.

use std::env;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use conche::Uri;
use conche::cc::parameters::nearest;
use serde::Deserialize;
use toml::Spanned;

use super::pattern::{Pattern, PatternError};
use super::{Authentication, CertificateFiles, read_trusted, usage_error};
use crate::error::{Unreadable, UsageError};
use crate::show;

/// Path below the settings directory.
const DEFAULT: &str = "conche/conche.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    credentials: Vec<RawEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawEntry {
    uri: Spanned<String>,
    psk_identity: Option<String>,
    psk_key_file: Option<PathBuf>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    oscore: Option<PathBuf>,
    edhoc: Option<PathBuf>,
    edhoc_peer: Option<String>,
}

const KEYS: [&str; 9] = ["uri", "psk-identity", "psk-key-file", "ca", "cert", "key", "oscore", "edhoc", "edhoc-peer"];

#[derive(Debug)]
pub struct Entry {
    pattern: Pattern,
    text: String,
    line: usize,
    key: Option<(String, PathBuf)>,
    ca: Option<PathBuf>,
    pub own: CertificateFiles,
    pub keying: Option<OscoreKeys>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum OscoreKeys {
    Oscore(PathBuf),
    Edhoc {
        file: PathBuf,
        /// Expected peer, by subject or key ID.
        peer: Option<String>,
    },
}

#[derive(Debug, Default)]
pub struct ConfigCredentials {
    pub file: Option<PathBuf>,
    pub entry: Option<Entry>,
    unreadable: Option<PathBuf>,
}

impl Entry {
    pub fn proof(&self) -> Option<Authentication<'_>> {
        match (&self.key, &self.ca) {
            (Some((identity, file)), _) => Some(Authentication::Key { identity, file }),
            (None, Some(file)) => Some(Authentication::Roots { file }),
            (None, None) => None,
        }
    }
}

impl ConfigCredentials {
    /// Looks up a URI in this file, or in the user's default file, which may be absent.
    pub fn of(uri: &Uri, file: Option<&Path>) -> anyhow::Result<Self> {
        let (file, bytes) = match (file, own_file()) {
            (Some(file), _) => (file.to_owned(), read_trusted(file, WHY)?),
            (None, None) => return Ok(Self::default()),
            (None, Some(file)) => match read_trusted(&file, WHY) {
                Ok(bytes) => (file, bytes),
                // Containers often run as a user who cannot read HOME.
                Err(error) => match open_error(&error) {
                    Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(Self::default()),
                    Some(io::ErrorKind::PermissionDenied) => {
                        return Ok(Self { unreadable: Some(file), ..Self::default() });
                    }
                    _ => return Err(error),
                },
            },
        };
        let name = file.display();
        let text = String::from_utf8(bytes).map_err(|_| usage_error(format!("{name} is no text in UTF-8")))?;
        let entries =
            entries(&text, file.parent().unwrap_or(Path::new(""))).map_err(|EntryFault { problem, span }| {
                let report = show::place(&file, &text, span, &problem.to_string());
                UsageError(format!("{name} does not say which credentials are for whom\n{report}"))
            })?;
        let for_it = entries.into_iter().filter(|entry| entry.pattern.matches(uri));
        // Unique: equally specific patterns for a URI are equal.
        let entry = for_it.max_by(|a, b| a.pattern.cmp_specificity(&b.pattern));
        Ok(Self { file: Some(file), entry, unreadable: None })
    }

    /// Returns the text for `-v`.
    pub fn note(&self) -> Option<String> {
        if let Some(file) = &self.unreadable {
            return Some(format!("* {} is not used: permission denied", file.display()));
        }
        let (Some(file), Some(entry)) = (&self.file, &self.entry) else { return None };
        Some(format!("* credentials for {} from line {} of {}", show::escape(&entry.text), entry.line, file.display()))
    }
}

const WHY: &str = "says whose keys and certificates are trusted, and others than its owner may read or change it";

fn open_error(error: &anyhow::Error) -> Option<io::ErrorKind> {
    error.downcast_ref::<Unreadable>().map(|unreadable| unreadable.source.kind())
}

/// Returns the user's default file (XDG Base Directory Specification 0.8), ignoring relative paths.
fn own_file() -> Option<PathBuf> {
    let directory = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let settings = match cfg!(windows) {
        true => directory("APPDATA"),
        false => directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config"))),
    };
    Some(settings?.join(DEFAULT))
}

#[derive(Debug)]
struct EntryFault {
    problem: EntryError,
    span: Range<usize>,
}

/// Why an entry is refused.
#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error("{}", with_suggestion(.0))]
    Syntax(String),
    #[error("line {0} has credentials for the same URIs")]
    Twice(usize),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error("psk-identity and psk-key-file go together")]
    HalfKey,
    #[error("cert and key go together")]
    HalfCertificate,
    #[error("the keys of OSCORE are in a file (oscore) or agreed on (edhoc)")]
    OscoreAndEdhoc,
    #[error("edhoc-peer goes with edhoc")]
    PeerWithoutEdhoc,
    #[error("a server is known by a key (psk-identity) or by a certificate (ca): give one of them")]
    KeyAndCertificate,
    #[error("cert needs ca: the CA certificates that authenticate the server")]
    CertificateWithoutRoots,
    #[error("edhoc is for coap://, as a coaps:// session has keys of its own")]
    EdhocOverDtls,
    #[error("coaps:// needs a pre-shared key (psk-identity with psk-key-file), or CA certificates (ca)")]
    NoDtlsCredentials,
    #[error("coap:// uses no DTLS credentials: write coaps://, or only oscore or edhoc")]
    DtlsCredentialsForCoap,
    #[error("there are no credentials: give oscore or edhoc for coap://")]
    NoCredentials,
}

/// Relative paths start at `directory`.
fn entries(text: &str, directory: &Path) -> Result<Vec<Entry>, EntryFault> {
    let document: Document = toml::from_str(text).map_err(|error| EntryFault {
        problem: EntryError::Syntax(error.message().to_owned()),
        span: error.span().unwrap_or(0..0),
    })?;
    let mut entries: Vec<Entry> = Vec::new();
    for written in document.credentials {
        let span = written.uri.span();
        let at = |problem| EntryFault { problem, span: span.clone() };
        let line = 1 + text[..span.start].matches('\n').count();
        let entry = written.entry(line, directory).map_err(at)?;
        if let Some(before) = entries.iter().find(|before| before.pattern == entry.pattern) {
            return Err(at(EntryError::Twice(before.line)));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn with_suggestion(message: &str) -> String {
    let name = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    match name.and_then(|name| nearest(name, KEYS.into_iter())) {
        Some(known) => format!("{message}; did you mean `{known}`?"),
        None => message.to_owned(),
    }
}

impl RawEntry {
    fn entry(self, line: usize, directory: &Path) -> Result<Entry, EntryError> {
        let text = self.uri.into_inner();
        let pattern = Pattern::read(&text)?;
        let beside = |path: Option<PathBuf>| path.map(|path| directory.join(path));
        let key = match (self.psk_identity, beside(self.psk_key_file)) {
            (Some(identity), Some(file)) => Some((identity, file)),
            (None, None) => None,
            _ => return Err(EntryError::HalfKey),
        };
        if self.cert.is_some() != self.key.is_some() {
            return Err(EntryError::HalfCertificate);
        }
        let (ca, own) = (beside(self.ca), CertificateFiles { cert: beside(self.cert), key: beside(self.key) });
        let keying = match (beside(self.oscore), beside(self.edhoc)) {
            (Some(_), Some(_)) => return Err(EntryError::OscoreAndEdhoc),
            (_, None) if self.edhoc_peer.is_some() => return Err(EntryError::PeerWithoutEdhoc),
            (oscore, edhoc) => {
                let edhoc = edhoc.map(|file| OscoreKeys::Edhoc { file, peer: self.edhoc_peer });
                oscore.map(OscoreKeys::Oscore).or(edhoc)
            }
        };
        Err(match (&key, &ca, pattern.is_secured()) {
            (Some(_), Some(_), _) => EntryError::KeyAndCertificate,
            (_, None, _) if own.cert.is_some() => EntryError::CertificateWithoutRoots,
            (_, _, true) if matches!(keying, Some(OscoreKeys::Edhoc { .. })) => EntryError::EdhocOverDtls,
            (None, None, true) => EntryError::NoDtlsCredentials,
            (Some(_), _, false) | (_, Some(_), false) => EntryError::DtlsCredentialsForCoap,
            (None, None, false) if keying.is_none() => EntryError::NoCredentials,
            _ => return Ok(Entry { pattern, text, line, key, ca, own, keying }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_errors_point_to_the_fault() {
        let psk = "psk-identity = \"a\"\npsk-key-file = \"b\"\n";
        for (text, expected, place) in [
            (
                "[[credentials]]\nuri = \"coaps://a\"\npsk_identity = \"a\"\n",
                "did you mean `psk-identity`?",
                "psk_identity",
            ),
            ("[[credential]]\nuri = \"coaps://a\"\n", "expected `credentials`", "credential"),
            ("[[credentials]]\noscore = \"a\"\n", "missing field `uri`", ""),
            ("[[credentials]]\nuri = 7\n", "expected a string", "7"),
            ("[[credentials]]\nuri = \"coaps://a*\"\n", "in a host a * stands for", "\"coaps://a*\""),
            ("[[credentials]]\nuri = \"coaps://a\"\n", "coaps:// needs", "\"coaps://a\""),
            ("[[credentials]]\nuri = \"coap://a\"\n", "give oscore or edhoc", "\"coap://a\""),
            ("[[credentials]]\nuri = \"coap://a\"\noscore = \"a\"\nedhoc = \"b\"\n", "agreed on", "\"coap://a\""),
            ("[[credentials]]\nuri = \"coap://a\"\nedhoc-peer = \"a\"\n", "goes with edhoc", "\"coap://a\""),
            (
                &format!("[[credentials]]\nuri = \"coaps://a\"\n{psk}edhoc = \"c\"\n"),
                "edhoc is for coap://",
                "\"coaps://a\"",
            ),
            ("[[credentials]]\nuri = \"coaps://a\"\ncert = \"a\"\n", "cert and key", "\"coaps://a\""),
            ("[[credentials]]\nuri = \"coaps://a\"\ncert = \"a\"\nkey = \"b\"\n", "cert needs ca", "\"coaps://a\""),
            ("[[credentials]]\nuri = \"coap://a\"\noscore = \"a\"\nca = \"b\"\n", "write coaps://", "\"coap://a\""),
            (&format!("[[credentials]]\nuri = \"coaps://a\"\n{psk}ca = \"c\"\n"), "give one of them", "\"coaps://a\""),
            (
                &format!(
                    "[[credentials]]\nuri = \"coaps://a\"\n{psk}[[credentials]]\nuri = \"coaps://A:5684/*\"\n{psk}"
                ),
                "line 2 has credentials for the same URIs",
                "\"coaps://A:5684/*\"",
            ),
        ] {
            let EntryFault { problem, span } = entries(text, Path::new("")).expect_err(expected);
            assert!(problem.to_string().contains(expected), "{problem}");
            assert!(place.is_empty() || &text[span.clone()] == place, "{expected}: {span:?}");
        }
    }

    #[test]
    fn files_are_named_from_where_the_file_stands() {
        let text = "[[credentials]]\nuri = \"coaps://a\"\nca = \"ca.pem\"\noscore = \"/b\"\n";
        let [entry] = <[Entry; 1]>::try_from(entries(text, Path::new("/etc/x")).expect("right")).expect("one");
        assert_eq!(
            (entry.ca.as_deref(), entry.keying),
            (Some(Path::new("/etc/x/ca.pem")), Some(OscoreKeys::Oscore("/b".into())))
        );
    }
}
