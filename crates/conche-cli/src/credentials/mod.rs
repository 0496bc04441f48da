//! Credentials of clients and servers, from arguments, the environment and files.

mod core_dump;
mod edhoc;
mod file;
mod keys;
mod oscore;
mod pattern;
mod typed_arg;

pub use oscore::{Protecting, is_of_the_machine};

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use clap::ValueHint;
use conche::client::ClientRole;
use conche::security::{KeyLog, OwnCertificate, Roots, Secret};
use conche::server::ServerRole;
use conche::{Builder, Uri};
use conche_bench::ClientCredentials;
use zeroize::Zeroizing;

use crate::Global;
use crate::error::UsageError;
use crate::show;
use file::{Found, Keying};
use typed_arg::TypedArg;

/// Maximum size of a file of keys, certificates or credentials.
const LARGEST: u64 = 1 << 20;

/// The arguments of whoever asks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct Asking {
    /// The identity by which the server knows our pre-shared key, for coaps. What is typed goes before a --ca of the environment.
    #[arg(short = 'u', long, value_name = "IDENTITY", env = "CONCHE_PSK_IDENTITY", requires = "psk_key_file", value_parser = typed_arg::text())]
    psk_identity: Option<TypedArg<String>>,
    /// The file that holds our pre-shared key, which only its owner may read: a line of text, or of bytes if it begins with 0x.
    #[arg(long, value_name = "FILE", env = "CONCHE_PSK_KEY_FILE", requires = "psk_identity", value_parser = typed_arg::path(), value_hint = ValueHint::FilePath)]
    psk_key_file: Option<TypedArg<PathBuf>>,
    /// Believe servers whose certificate one of those in this file (PEM) vouches for. Those that stand between may be in it, too.
    /// It goes not with a pre-shared key; what is typed goes before a key of the environment.
    #[arg(long, value_name = "FILE", env = "CONCHE_CA", value_parser = typed_arg::path(), value_hint = ValueHint::FilePath)]
    ca: Option<TypedArg<PathBuf>>,
    #[command(flatten)]
    own: Own,
    /// Take credentials that are neither typed nor in the environment from this file, by the URI; by default from
    /// conche/conche.toml in $XDG_CONFIG_HOME or ~/.config, if there is one. Only its owner may read it.
    #[arg(long, value_name = "FILE", env = "CONCHE_CONFIG", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
}

/// How the ends authenticate each other.
#[derive(Clone, Copy)]
enum Proof<'a> {
    Key { identity: &'a str, file: &'a Path },
    Roots { file: &'a Path },
}

/// Credentials read from their files.
enum Loaded {
    Key { identity: String, key: Secret },
    Certificates { roots: Roots, own: Option<OwnCertificate> },
}

/// Credentials of a load test.
pub struct ForLoad {
    pub sessions: Option<ClientCredentials>,
    pub oscore: Vec<PathBuf>,
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
#[command(next_help_heading = "Security")]
pub struct Answering {
    /// Answer clients that have a pre-shared key of this file, which only its owner may read, over DTLS: a line IDENTITY:KEY for each,
    /// the key as text, or as bytes if it begins with 0x. An identity with a colon has a key of bytes.
    #[arg(long, value_name = "FILE", env = "CONCHE_PSK_KEYS")]
    psk_keys: Option<PathBuf>,
    #[command(flatten)]
    own: Own,
    /// Answer only those clients without a pre-shared key whose certificate one of those in this file (PEM) vouches for.
    #[arg(long, value_name = "FILE", requires = "cert")]
    client_ca: Option<PathBuf>,
    /// Answer requests that are protected from end to end (OSCORE) with the credentials in this file of libcoap's form or directory of
    /// aiocoap's, which only its owner may read; may be given several times. Over coap other requests are answered with 4.01. How many
    /// numbers are used is kept beside it: never copy it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    oscore: Vec<PathBuf>,
    /// Agree on keys of OSCORE with clients that this file knows (EDHOC), which only its owner may read: `conche keygen --edhoc` makes it. Over
    /// coap other requests are answered with 4.01.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    edhoc: Option<PathBuf>,
}

impl Asking {
    /// Configures a client for this URI.
    pub fn of(&self, builder: Builder<ClientRole>, uri: &str, global: &Global) -> anyhow::Result<Builder<ClientRole>> {
        // The command reports an invalid URI later, where it uses it.
        let Ok(uri) = uri.parse::<Uri>() else { return Ok(builder) };
        let found = if self.asks_file(&uri) { self.find(&uri, global)? } else { Found::default() };
        self.with(builder, &uri, &found, global)
    }

    /// Whether neither arguments nor environment hold credentials for the server of this URI.
    fn asks_file(&self, uri: &Uri) -> bool {
        let has_key = self.psk_identity.is_some() && self.psk_key_file.is_some();
        uri.is_secured() && !has_key && self.ca.is_none() && self.own.cert.is_none()
    }

    fn find(&self, uri: &Uri, global: &Global) -> anyhow::Result<Found> {
        let found = Found::of(uri, self.config.as_deref())?;
        if global.verbose > 0
            && let Some(note) = found.note()
        {
            show::note(note);
        }
        Ok(found)
    }

    /// Configures a client with these credentials, or else with those from the file.
    fn with(
        &self,
        builder: Builder<ClientRole>,
        uri: &Uri,
        found: &Found,
        global: &Global,
    ) -> anyhow::Result<Builder<ClientRole>> {
        if !uri.is_secured() {
            self.report_unused(uri, global)?;
            return Ok(builder);
        }
        let builder = match self.shown(uri, found, global)? {
            Loaded::Key { identity, key } => {
                let context = || unusable(&identity);
                builder.psk(identity.as_str(), key).map_err(wrong).with_context(context)?
            }
            Loaded::Certificates { roots, own: None } => builder.roots(roots),
            Loaded::Certificates { roots, own: Some(own) } => builder.roots(roots).certificate(own),
        };
        Ok(match key_log()? {
            Some(log) => builder.key_log(log),
            None => builder,
        })
    }

    /// Returns the credentials for a load test, which opens its own sessions. `oscore` are the
    /// files from the command line.
    pub fn for_load(&self, uri: &Uri, oscore: &[PathBuf], global: &Global) -> anyhow::Result<ForLoad> {
        let asks_file = self.asks_file(uri) || oscore.is_empty();
        let found = if asks_file { self.find(uri, global)? } else { Found::default() };
        let oscore = match found.entry.as_ref().and_then(|entry| entry.keying.as_ref()) {
            Some(Keying::Oscore(file)) if oscore.is_empty() => vec![file.clone()],
            Some(Keying::Edhoc { .. }) if oscore.is_empty() => bail!(wrong(
                "a load takes keys of OSCORE from files: conche.toml has edhoc for this URI; give --oscore FILE"
            )),
            _ => oscore.to_vec(),
        };
        let Some(name) = uri.server_name() else {
            self.report_unused(uri, global)?;
            return Ok(ForLoad { sessions: None, oscore });
        };
        let sessions = match self.shown(uri, &found, global)? {
            Loaded::Key { identity, key } => {
                ClientCredentials::psk(identity.as_str(), key).map_err(wrong).with_context(|| unusable(&identity))?
            }
            Loaded::Certificates { roots, own } => {
                let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let trust = roots.trust(since_1970).map_err(wrong)?;
                ClientCredentials::certificate(own, trust, &*name).map_err(wrong)?
            }
        };
        Ok(ForLoad { sessions: Some(sessions), oscore })
    }

    /// Returns the client's credentials and the means to authenticate the server of this URI.
    fn shown(&self, uri: &Uri, found: &Found, global: &Global) -> anyhow::Result<Loaded> {
        let (proof, own) = match &found.entry {
            Some(entry) if self.asks_file(uri) => (entry.proof(), &entry.own),
            _ => (self.proof()?, &self.own),
        };
        Ok(match (proof, own.read()?) {
            (Some(Proof::Key { identity, file }), None) => {
                Loaded::Key { identity: identity.to_owned(), key: keys::one(file, identity, global)? }
            }
            (Some(Proof::Roots { file }), own) => Loaded::Certificates { roots: roots_of(file)?, own },
            (_, Some(_)) => {
                bail!(wrong("--cert is for a server that shows a certificate itself: say with --ca whom to believe"))
            }
            (None, None) => bail!(wrong(nothing_to_show(found))),
        })
    }

    /// Returns the key or the trusted certificates. The command line overrides the environment;
    /// both from the same source are an error.
    fn proof(&self) -> anyhow::Result<Option<Proof<'_>>> {
        let key = self.psk_identity.as_ref().zip(self.psk_key_file.as_ref());
        let roots = self.ca.as_ref();
        if let (Some((identity, file)), Some(roots)) = (key, roots)
            && (identity.is_typed || file.is_typed) == roots.is_typed
        {
            bail!(wrong(match roots.is_typed {
                true =>
                    "--ca goes not with --psk-identity and --psk-key-file: a server is known by a key or by a certificate",
                false => {
                    "CONCHE_CA goes not with CONCHE_PSK_IDENTITY and CONCHE_PSK_KEY_FILE: unset what is not for this \
                     server, or give what is on the command line"
                }
            }));
        }
        Ok(match (key, roots) {
            (key, Some(roots)) if key.is_none() || roots.is_typed => Some(Proof::Roots { file: &roots.value }),
            (Some((identity, file)), _) => Some(Proof::Key { identity: &identity.value, file: &file.value }),
            _ => None,
        })
    }

    /// Reports credentials that the URI does not use. Credentials from the command line are an
    /// error, as the user expects protection.
    fn report_unused(&self, uri: &Uri, global: &Global) -> anyhow::Result<()> {
        let given = [
            ("--psk-identity", self.psk_identity.as_ref().map(|given| given.is_typed)),
            ("--psk-key-file", self.psk_key_file.as_ref().map(|given| given.is_typed)),
            ("--ca", self.ca.as_ref().map(|given| given.is_typed)),
            ("--cert", self.own.cert.as_ref().map(|_| true)),
        ];
        if let Some((option, _)) = given.iter().find(|(_, is_typed)| *is_typed == Some(true)) {
            let secured = uri.as_str().replacen("coap://", "coaps://", 1);
            bail!(wrong(format!("{option} is not used with coap://, which protects nothing: write {secured}")));
        }
        if !global.quiet && given.iter().any(|(_, is_typed)| is_typed.is_some()) {
            show::note("* the credentials of the environment are not used: they are for coaps://");
        }
        Ok(())
    }
}

fn unusable(identity: &str) -> String {
    format!("the pre-shared key of {identity:?} cannot be used")
}

fn nothing_to_show(found: &Found) -> String {
    let needed = "coaps:// needs a pre-shared key (-u with --psk-key-file), or certificates to believe (--ca)";
    match &found.file {
        Some(file) => format!("{needed}; {} has none for this URI", file.display()),
        None => needed.to_owned(),
    }
}

impl Answering {
    /// Whether clients have to open a session.
    pub fn has_sessions(&self) -> bool {
        self.psk_keys.is_some() || self.own.cert.is_some()
    }

    /// Configures a server.
    pub fn of(&self, builder: Builder<ServerRole>, global: &Global) -> anyhow::Result<Builder<ServerRole>> {
        let mut builder = oscore::serve(&self.oscore, builder)?;
        // Requests in a session are protected already.
        if let Some(file) = &self.edhoc {
            builder = builder.edhoc(edhoc::open(file)?);
        }
        if (!self.oscore.is_empty() || self.edhoc.is_some()) && !self.has_sessions() {
            builder = builder.secured_only();
        }
        if let Some(file) = &self.psk_keys {
            let keys = keys::all(file, global)?;
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
        let context = || format!("{} and {} cannot be used", certificate.display(), key.display());
        read.map(Some).map_err(wrong).with_context(context)
    }
}

/// Opens the log of session secrets for decrypting captures, if SSLKEYLOGFILE is set.
fn key_log() -> anyhow::Result<Option<KeyLog>> {
    let Some(path) = std::env::var_os("SSLKEYLOGFILE").filter(|path| !path.is_empty()) else { return Ok(None) };
    let mut options = fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let context = || format!("{}, which SSLKEYLOGFILE names, cannot be written", Path::new(&path).display());
    let file = options.open(&path).with_context(context)?;
    Ok(Some(KeyLog::new(move |line| {
        // A failed write to the log must not end the session.
        let _ = writeln!(&file, "{line}");
    })))
}

fn roots_of(file: &Path) -> anyhow::Result<Roots> {
    Roots::from_pem(&read(file)?).map_err(wrong).with_context(|| format!("{} cannot be used", file.display()))
}

/// Reads a file that only its owner may read. Turns core dumps off first.
fn read_secret(path: &Path) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    core_dump::disable();
    read_private(path, "holds a secret that others than its owner may read").map(Zeroizing::new)
}

/// Reads a file that only its owner may access; otherwise the error states `why`.
fn read_private(path: &Path, why: &str) -> anyhow::Result<Vec<u8>> {
    let file = open(path)?;
    check_mode(&file, path, why)?;
    read_all(file, path)
}

/// Reads a file of trusted parties, which must also belong to the current user or to root: under
/// `sudo`, HOME may belong to another user.
fn read_trusted(path: &Path, why: &str) -> anyhow::Result<Vec<u8>> {
    let file = open(path)?;
    check_mode(&file, path, why)?;
    check_owner(&file, path)?;
    read_all(file, path)
}

#[cfg(unix)]
fn check_mode(file: &File, path: &Path, why: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let context = || format!("{} cannot be read", path.display());
    let metadata = file.metadata().with_context(context)?;
    // A directory gets its own error, without advice to change its mode.
    if metadata.is_dir() {
        bail!(wrong(format!("{} is a directory: name a file", path.display())));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        let path = path.display();
        bail!(wrong(format!("{path} {why}: run chmod 600 {path}")));
    }
    Ok(())
}

#[cfg(unix)]
fn check_owner(file: &File, path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let context = || format!("{} cannot be read", path.display());
    let owner = file.metadata().with_context(context)?.uid();
    if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
        let path = path.display();
        bail!(wrong(format!(
            "{path} says whom to believe, and belongs to somebody else: make a copy, and name it with --config"
        )));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_mode(_: &File, _: &Path, _: &str) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &File, _: &Path) -> anyhow::Result<()> {
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_all(open(path)?, path)
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| format!("{} cannot be read", path.display()))
}

fn read_all(file: File, path: &Path) -> anyhow::Result<Vec<u8>> {
    let context = || format!("{} cannot be read", path.display());
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).with_context(context)?;
    if bytes.len() as u64 > LARGEST {
        bail!(wrong(format!("{} has more than 1 MiB: it holds no keys or certificates", path.display())));
    }
    Ok(bytes)
}

/// Returns an error about the user's input.
fn wrong(problem: impl std::fmt::Display) -> anyhow::Error {
    UsageError::of(problem).into()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_read_a_key_leaves_no_core_dump() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("key");
        fs::write(&file, "0x00").expect("it can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&file, mode).expect("it is ours");
        assert_eq!(*read_secret(&file).expect("only its owner may read it"), *b"0x00");
        assert!(!nix::sys::prctl::get_dumpable().expect("Linux tells"));
    }
}
