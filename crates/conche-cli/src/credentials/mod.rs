//! Credentials of clients and servers, from arguments, the environment and files.

mod edhoc;
mod file;
mod keys;
mod pattern;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, anyhow, bail};
use clap::builder::{PathBufValueParser, StringValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, Command, ValueHint};
use conche::client::ClientRole;
use conche::oscore::{Keys, OpenError};
use conche::security::{KeyLog, OwnCertificate, Roots, Secret};
use conche::server::ServerRole;
use conche::{Builder, Uri};
use conche_bench::ClientCredentials;
use zeroize::Zeroizing;

use crate::Global;
use crate::error::{UsageError, unreadable};
use crate::show;
use file::{ConfigCredentials, OscoreKeys};

/// Maximum size of a credentials file.
const LARGEST: u64 = 1 << 20;

/// Credentials of a client.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct ClientSecurity {
    /// Identity of the pre-shared key.
    ///
    /// For coaps. Overrides CONCHE_CA.
    #[arg(short = 'u', long, value_name = "IDENTITY", env = "CONCHE_PSK_IDENTITY", requires = "psk_key_file", value_parser = FromSource(StringValueParser::new()))]
    psk_identity: Option<TypedArg<String>>,
    /// File with the pre-shared key.
    ///
    /// A line of text, or 0x and hexadecimal digits. Only its owner may have access to the file.
    #[arg(long, value_name = "FILE", env = "CONCHE_PSK_KEY_FILE", requires = "psk_identity", value_parser = FromSource(PathBufValueParser::new()), value_hint = ValueHint::FilePath)]
    psk_key_file: Option<TypedArg<PathBuf>>,
    /// PEM file of trusted CA certificates.
    ///
    /// May include intermediate certificates. Overrides CONCHE_PSK_IDENTITY and
    /// CONCHE_PSK_KEY_FILE. Cannot be combined with --psk-identity.
    #[arg(long, value_name = "FILE", env = "CONCHE_CA", value_parser = FromSource(PathBufValueParser::new()), value_hint = ValueHint::FilePath)]
    ca: Option<TypedArg<PathBuf>>,
    #[command(flatten)]
    own: CertificateFiles,
    /// TOML file of credentials by URI.
    ///
    /// Used for credentials that are neither on the command line nor in the environment. Default:
    /// conche/conche.toml in $XDG_CONFIG_HOME or ~/.config, if present. Only its owner may have
    /// access to the file.
    #[arg(long, value_name = "FILE", env = "CONCHE_CONFIG", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
}

#[derive(Clone, Copy)]
enum Authentication<'a> {
    Key { identity: &'a str, file: &'a Path },
    Roots { file: &'a Path },
}

enum LoadedCredentials {
    Key { identity: String, key: Secret },
    Certificates { roots: Roots, own: Option<OwnCertificate> },
}

pub struct LoadSecurity {
    pub sessions: Option<ClientCredentials>,
    pub oscore: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct CertificateFiles {
    /// PEM file of the own certificate, with an ECDSA key.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file of the private key of --cert.
    ///
    /// Only its owner may have access to the file.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// Credentials of a server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct ServerSecurity {
    /// File of IDENTITY:KEY lines.
    ///
    /// Accepts DTLS clients with these pre-shared keys. A key is text, or 0x and hexadecimal
    /// digits. An identity with a colon needs a hexadecimal key. Only its owner may have access to
    /// the file.
    #[arg(long, value_name = "FILE", env = "CONCHE_PSK_KEYS")]
    psk_keys: Option<PathBuf>,
    #[command(flatten)]
    own: CertificateFiles,
    /// PEM file of the CAs that issue clients' certificates.
    ///
    /// Clients without a pre-shared key must present a certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    client_ca: Option<PathBuf>,
    /// OSCORE credentials of a client; repeatable.
    ///
    /// A file in libcoap's format or a directory in aiocoap's; only its owner may have access. Over
    /// coap, unprotected requests get 4.01. The sender sequence number is stored beside the file:
    /// do not copy either. The line `rfc8613_b_2,bool,true` of libcoap's format derives new keys
    /// after each start (RFC 8613 appendix B.2).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    oscore: Vec<PathBuf>,
    /// EDHOC credentials of `conche keygen --edhoc`.
    ///
    /// The clients in this file derive OSCORE keys by EDHOC. Over coap, unprotected requests get
    /// 4.01. Only its owner may have access to the file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    edhoc: Option<PathBuf>,
}

/// Credentials of a client, with OSCORE.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct RequestSecurity {
    #[command(flatten)]
    session: ClientSecurity,
    /// OSCORE credentials, which protect end to end.
    ///
    /// A file in libcoap's format or a directory in aiocoap's; only its owner may have access. The
    /// sender sequence number is stored beside the file: do not copy either. The line
    /// `rfc8613_b_2,bool,true` of libcoap's format derives new keys after each start (RFC 8613
    /// appendix B.2).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    oscore: Option<PathBuf>,
    /// EDHOC credentials, from which OSCORE keys are derived.
    ///
    /// A file of `conche keygen --edhoc`; only its owner may have access.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "oscore")]
    edhoc: Option<PathBuf>,
    /// Expected server, if --edhoc has several peers.
    ///
    /// Subject or key ID (hexadecimal) of its credential.
    #[arg(long, value_name = "NAME", requires = "edhoc")]
    edhoc_peer: Option<String>,
    /// Send EDHOC message_3 with the request (RFC 9668).
    ///
    /// Saves a round trip if the server supports it.
    #[arg(long, requires = "edhoc")]
    edhoc_combined: bool,
}

impl ClientSecurity {
    pub fn of(&self, builder: Builder<ClientRole>, uri: &str, global: &Global) -> anyhow::Result<Builder<ClientRole>> {
        // The request reports an invalid URI later.
        let Ok(uri) = uri.parse::<Uri>() else { return Ok(builder) };
        let found =
            if self.needs_config(&uri) { self.find_in_config(&uri, global)? } else { ConfigCredentials::default() };
        self.with(builder, &uri, &found, global)
    }

    fn needs_config(&self, uri: &Uri) -> bool {
        let has_key = self.psk_identity.is_some() && self.psk_key_file.is_some();
        uri.is_secured() && !has_key && self.ca.is_none() && self.own.cert.is_none()
    }

    fn find_in_config(&self, uri: &Uri, global: &Global) -> anyhow::Result<ConfigCredentials> {
        let found = ConfigCredentials::of(uri, self.config.as_deref())?;
        if global.verbose > 0
            && let Some(note) = found.note()
        {
            show::note(note);
        }
        Ok(found)
    }

    fn with(
        &self,
        builder: Builder<ClientRole>,
        uri: &Uri,
        found: &ConfigCredentials,
        global: &Global,
    ) -> anyhow::Result<Builder<ClientRole>> {
        if !uri.is_secured() {
            self.report_unused(uri, global)?;
            return Ok(builder);
        }
        let builder = match self.load(uri, found, global)? {
            LoadedCredentials::Key { identity, key } => {
                let context = || unusable(&identity);
                builder.psk(identity.as_str(), key).map_err(usage_error).with_context(context)?
            }
            LoadedCredentials::Certificates { roots, own: None } => builder.roots(roots),
            LoadedCredentials::Certificates { roots, own: Some(own) } => builder.roots(roots).certificate(own),
        };
        Ok(match key_log()? {
            Some(log) => builder.key_log(log),
            None => builder,
        })
    }

    /// Returns credentials for a load test, which opens its own sessions.
    pub fn for_load(&self, uri: &Uri, oscore: &[PathBuf], global: &Global) -> anyhow::Result<LoadSecurity> {
        let needs_config = self.needs_config(uri) || oscore.is_empty();
        let found = if needs_config { self.find_in_config(uri, global)? } else { ConfigCredentials::default() };
        let oscore = match found.entry.as_ref().and_then(|entry| entry.keying.as_ref()) {
            Some(OscoreKeys::Oscore(file)) if oscore.is_empty() => vec![file.clone()],
            Some(OscoreKeys::Edhoc { .. }) if oscore.is_empty() => bail!(usage_error(
                "conche.toml has edhoc for this URI, and `bench` needs OSCORE credentials in a file: give --oscore FILE"
            )),
            _ => oscore.to_vec(),
        };
        let Some(name) = uri.server_name() else {
            self.report_unused(uri, global)?;
            return Ok(LoadSecurity { sessions: None, oscore });
        };
        let sessions = match self.load(uri, &found, global)? {
            LoadedCredentials::Key { identity, key } => ClientCredentials::psk(identity.as_str(), key)
                .map_err(usage_error)
                .with_context(|| unusable(&identity))?,
            LoadedCredentials::Certificates { roots, own } => {
                let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let trust = roots.trust(since_1970).map_err(usage_error)?;
                ClientCredentials::certificate(own, trust, &*name).map_err(usage_error)?
            }
        };
        Ok(LoadSecurity { sessions: Some(sessions), oscore })
    }

    fn load(&self, uri: &Uri, found: &ConfigCredentials, global: &Global) -> anyhow::Result<LoadedCredentials> {
        let (proof, own) = match &found.entry {
            Some(entry) if self.needs_config(uri) => (entry.proof(), &entry.own),
            _ => (self.proof()?, &self.own),
        };
        Ok(match (proof, own.read()?) {
            (Some(Authentication::Key { identity, file }), None) => {
                LoadedCredentials::Key { identity: identity.to_owned(), key: keys::one(file, identity, global)? }
            }
            (Some(Authentication::Roots { file }), own) => {
                LoadedCredentials::Certificates { roots: roots_of(file)?, own }
            }
            (_, Some(_)) => {
                bail!(usage_error("--cert needs --ca: the CA certificates that authenticate the server"))
            }
            (None, None) => bail!(usage_error(missing_credentials(found))),
        })
    }

    /// Returns the key or the trusted certificates. The command line overrides the environment;
    /// both from the same source are an error.
    fn proof(&self) -> anyhow::Result<Option<Authentication<'_>>> {
        let key = self.psk_identity.as_ref().zip(self.psk_key_file.as_ref());
        let roots = self.ca.as_ref();
        if let (Some((identity, file)), Some(roots)) = (key, roots)
            && (identity.is_typed || file.is_typed) == roots.is_typed
        {
            bail!(usage_error(match roots.is_typed {
                true =>
                    "--ca cannot be combined with --psk-identity and --psk-key-file: a server has a key or a certificate",
                false => {
                    "CONCHE_CA cannot be combined with CONCHE_PSK_IDENTITY and CONCHE_PSK_KEY_FILE: unset one of them, or \
                     override it on the command line"
                }
            }));
        }
        Ok(match (key, roots) {
            (key, Some(roots)) if key.is_none() || roots.is_typed => Some(Authentication::Roots { file: &roots.value }),
            (Some((identity, file)), _) => Some(Authentication::Key { identity: &identity.value, file: &file.value }),
            _ => None,
        })
    }

    /// Reports credentials that the URI does not use, on the command line as an error: the user
    /// expects protection.
    fn report_unused(&self, uri: &Uri, global: &Global) -> anyhow::Result<()> {
        let given = [
            ("--psk-identity", self.psk_identity.as_ref().map(|given| given.is_typed)),
            ("--psk-key-file", self.psk_key_file.as_ref().map(|given| given.is_typed)),
            ("--ca", self.ca.as_ref().map(|given| given.is_typed)),
            ("--cert", self.own.cert.as_ref().map(|_| true)),
        ];
        if let Some((option, _)) = given.iter().find(|(_, is_typed)| *is_typed == Some(true)) {
            let secured = uri.as_str().replacen("coap://", "coaps://", 1);
            bail!(usage_error(format!("{option} is not used with coap://, which protects nothing: write {secured}")));
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

fn missing_credentials(found: &ConfigCredentials) -> String {
    let needed = "coaps:// needs a pre-shared key (-u with --psk-key-file), or CA certificates (--ca)";
    match &found.file {
        Some(file) => format!("{needed}; {} has none for this URI", file.display()),
        None => needed.to_owned(),
    }
}

impl RequestSecurity {
    pub fn of(&self, builder: Builder<ClientRole>, uri: &str, global: &Global) -> anyhow::Result<Builder<ClientRole>> {
        let Ok(uri) = uri.parse::<Uri>() else { return Ok(builder) };
        if uri.is_secured() && self.edhoc.is_some() {
            bail!(usage_error(
                "--edhoc is for coap://, as a coaps:// session has keys of its own; --oscore FILE works with both"
            ));
        }
        // The file's OSCORE keys protect end to end, beside any session.
        let is_given = self.oscore.is_some() || self.edhoc.is_some();
        let needs_config = self.session.needs_config(&uri) || !is_given;
        let found =
            if needs_config { self.session.find_in_config(&uri, global)? } else { ConfigCredentials::default() };
        let builder = self.session.with(builder, &uri, &found, global)?;
        let of_file = found.entry.as_ref().and_then(|entry| entry.keying.as_ref()).filter(|_| !is_given);
        Ok(match (&self.oscore, &self.edhoc, of_file) {
            (Some(file), ..) | (_, _, Some(OscoreKeys::Oscore(file))) => builder.oscore(open_keys(file)?),
            (_, Some(file), _) => {
                let party = edhoc::toward(file, self.edhoc_peer.as_deref())?;
                builder.edhoc(party.combined(self.edhoc_combined))
            }
            (.., Some(OscoreKeys::Edhoc { file, peer })) => builder.edhoc(edhoc::toward(file, peer.as_deref())?),
            (None, None, None) => builder,
        })
    }
}

impl ServerSecurity {
    pub fn has_sessions(&self) -> bool {
        self.psk_keys.is_some() || self.own.cert.is_some()
    }

    pub fn of(&self, builder: Builder<ServerRole>, global: &Global) -> anyhow::Result<Builder<ServerRole>> {
        let mut builder =
            self.oscore.iter().try_fold(builder, |builder, file| anyhow::Ok(builder.oscore(open_keys(file)?)))?;
        // Requests in a session are already protected.
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

impl CertificateFiles {
    fn read(&self) -> anyhow::Result<Option<OwnCertificate>> {
        let (Some(certificate), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let read = OwnCertificate::from_pem(&read(certificate)?, &read_secret(key)?);
        let context = || format!("{} and {} cannot be used", certificate.display(), key.display());
        read.map(Some).map_err(usage_error).with_context(context)
    }
}

fn key_log() -> anyhow::Result<Option<KeyLog>> {
    let Some(path) = std::env::var_os("SSLKEYLOGFILE").filter(|path| !path.is_empty()) else { return Ok(None) };
    let mut options = fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let context = || format!("{}, which SSLKEYLOGFILE names, cannot be written", Path::new(&path).display());
    let file = options.open(&path).with_context(context)?;
    Ok(Some(KeyLog::new(move |line| {
        // A failed log write must not end the session.
        let _ = writeln!(&file, "{line}");
    })))
}

fn roots_of(file: &Path) -> anyhow::Result<Roots> {
    Roots::from_pem(&read(file)?).map_err(usage_error).with_context(|| format!("{} cannot be used", file.display()))
}

fn open_keys(file: &Path) -> anyhow::Result<Keys> {
    disable_core_dumps();
    Keys::open(file).map_err(|error| if is_not_about_credentials(&error) { anyhow!(error) } else { usage_error(error) })
}

/// Whether the cause is neither the credentials nor the file's name.
pub fn is_not_about_credentials(error: &OpenError) -> bool {
    use io::ErrorKind as Kind;
    match error {
        OpenError::Io { error, .. } => !matches!(
            error.kind(),
            Kind::NotFound | Kind::PermissionDenied | Kind::IsADirectory | Kind::NotADirectory | Kind::InvalidData
        ),
        OpenError::InUse { .. } => true,
        _ => false,
    }
}

/// Turns off core dumps. On Linux, this also keeps the user's other processes from reading the
/// memory.
fn disable_core_dumps() {
    // An error leaves the system's setting.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_dumpable(false);
    #[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
}

/// Reads a private file, with core dumps turned off.
fn read_secret(path: &Path) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    disable_core_dumps();
    read_private(path, "holds a secret that others than its owner may read").map(Zeroizing::new)
}

fn read_private(path: &Path, why: &str) -> anyhow::Result<Vec<u8>> {
    let file = open(path)?;
    check_mode(&file, path, why)?;
    read_all(file, path)
}

/// Reads a file of trusted parties, which must also belong to the current user or root: under
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
    let metadata = file.metadata().map_err(unreadable(path))?;
    // Without advice to change its mode.
    if metadata.is_dir() {
        bail!(usage_error(format!("{} is a directory: name a file", path.display())));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        let path = path.display();
        bail!(usage_error(format!("{path} {why}: run chmod 600 {path}")));
    }
    Ok(())
}

#[cfg(unix)]
fn check_owner(file: &File, path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let owner = file.metadata().map_err(unreadable(path))?.uid();
    if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
        let path = path.display();
        bail!(usage_error(format!(
            "{path} names trusted parties, and belongs to another user: copy it, and give --config COPY"
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
    Ok(File::open(path).map_err(unreadable(path))?)
}

fn read_all(file: File, path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable(path))?;
    if bytes.len() as u64 > LARGEST {
        bail!(usage_error(format!("{} has more than 1 MiB: it holds no keys or certificates", path.display())));
    }
    Ok(bytes)
}

fn usage_error(problem: impl std::fmt::Display) -> anyhow::Error {
    UsageError::of(problem).into()
}

#[derive(Clone, Debug)]
struct TypedArg<T> {
    value: T,
    is_typed: bool,
}

/// Records the source of the value.
#[derive(Clone, Debug)]
struct FromSource<P>(P);

impl<P> TypedValueParser for FromSource<P>
where
    P: TypedValueParser,
    P::Value: Send + Sync + Clone,
{
    type Value = TypedArg<P::Value>;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, clap::Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<Self::Value, clap::Error> {
        let value = self.0.parse_ref(command, arg, value)?;
        Ok(TypedArg { value, is_typed: source == ValueSource::CommandLine })
    }
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
