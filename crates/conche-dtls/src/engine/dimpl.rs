//! [`Dimpl`]: DTLS 1.2 by the crate `dimpl`.
//!
//! For DTLS 1.3, dimpl has no pre-shared keys, and its server keeps state before verifying a
//! cookie. It has no renegotiation, resumption or raw public keys (RFC 7250), requires extended
//! master secrets (RFC 7627), and sends and returns single certificates.
//!
//! Its server must send a HelloVerifyRequest before the ClientHello with a cookie, which has
//! message_seq 1 and is part of the transcript. [`DimplEngines::accept`] therefore feeds it a
//! ClientHello without a cookie for each one answered, and discards its answers.
//!
//! Its retransmission timeout is fixed at creation. Its clock therefore stands still until a
//! retransmission is due, then advances to its next timer. A peer's retransmission makes it
//! retransmit once, and once more after each advance. Timeouts double in its own time, which ends
//! after 57 retransmissions: at 60 s each, almost an hour.

use core::cell::RefCell;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant as Clock;

use conche_proto::Instant;
use dimpl::crypto::{CryptoProvider, Dtls12CipherSuite, HashAlgorithm, HmacProvider, rust_crypto};
use dimpl::{
    Config as Settings, ConfigBuilder, CryptoError, Dtls, DtlsCertificate, Error, Output, PskResolver, SecurityError,
};
use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};
use zeroize::Zeroizing;

use super::client_hello::{self, Rewriter};
use super::{Engine, Engines, Failure, Opening, Step};
use crate::config::{Config, ConfigError};
use crate::cookie::COOKIE;
use crate::credentials::{ClientCredentials, KeyLog, Keys, ServerCertificate, ServerCredentials, ServerKeys, is_key};
use crate::secret::Secret;
use crate::wire::{self, RECORD_HEADER, content, message};
use crate::x509::OwnCertificate;

const PSK_SUITE: u16 = 0xc0a8;
/// Maximum datagrams in a flight, and early records: enough for a certificate in small fragments.
const QUEUE: usize = 128;
/// In dimpl's time; doubles with each retransmission.
const TICK: Duration = Duration::from_nanos(1);
/// Later timers of dimpl are off, such as a whole handshake's; its maximum is ten years.
const NEVER: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);
/// With a public private key; rejected by servers that request a certificate.
const PLACEHOLDER_CERTIFICATE: &[u8] = &[0x30, 0x00];
/// The number 1 as an ECDSA key on P-256 (SEC1).
const PLACEHOLDER_KEY: &[u8] = &[
    0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 1, 0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// Creates [`Dimpl`]s.
#[derive(Debug)]
pub struct DimplEngines {
    /// An arbitrary value.
    base: Clock,
    config: Config,
    seeds: Option<ChaCha12Rng>,
    psk: Option<(Arc<Settings>, Arc<Resolver>)>,
    certificate: Option<ServerCertificate>,
    /// dimpl takes up to milliseconds to check new settings.
    last: Option<(Wanted, Arc<Settings>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Key { identity: Vec<u8>, key: Secret },
    Certificate(Role),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server { asks_clients: bool },
}

impl DimplEngines {
    /// Creates engines for these credentials.
    ///
    /// # Errors
    ///
    /// dimpl rejects them.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let mut engines = Self {
            base: Clock::now(),
            config: config.clone(),
            seeds: config.seed.map(ChaCha12Rng::seed_from_u64),
            psk: None,
            certificate: None,
            last: None,
        };
        let ServerCredentials { psk, certificate } = config.server.clone().unwrap_or_default();
        if let Some(keys) = &psk {
            engines.psk = Some(engines.with_keys(keys)?);
        }
        if let Some(certificate) = certificate {
            engines.made(Wanted::Certificate(Role::Server { asks_clients: certificate.clients.is_some() }))?;
            engines.certificate = Some(certificate);
        }
        Ok(engines)
    }

    fn with_keys(&mut self, keys: &ServerKeys) -> Result<(Arc<Settings>, Arc<Resolver>), ConfigError> {
        let resolver = Arc::new(Resolver::new(keys.keys()));
        let builder = self.settings().with_crypto_provider(for_keys());
        let settings = built(builder.with_psk_server(keys.hint().map(<[u8]>::to_vec), Arc::clone(&resolver) as _))?;
        Ok((settings, resolver))
    }

    fn made(&mut self, wanted: Wanted) -> Result<Arc<Settings>, ConfigError> {
        // A seed serves one association.
        if let (Some((last, settings)), None) = (&self.last, &self.seeds)
            && *last == wanted
        {
            return Ok(Arc::clone(settings));
        }
        let settings = built(match wanted.clone() {
            Wanted::Key { identity, key } => {
                let resolver = Arc::new(Resolver::new(Some(Arc::new(move |_: &[u8]| Some(key.clone())))));
                let builder = self.settings().with_crypto_provider(for_client(for_keys()));
                builder.with_psk_client(identity, resolver)
            }
            Wanted::Certificate(Role::Client) => {
                let provider = for_client(for_certificates());
                self.settings().with_crypto_provider(provider).require_client_certificate(false)
            }
            Wanted::Certificate(Role::Server { asks_clients }) => {
                let builder = self.settings().with_crypto_provider(for_certificates());
                builder.require_client_certificate(asks_clients)
            }
        })?;
        self.last = Some((wanted, Arc::clone(&settings)));
        Ok(settings)
    }

    fn settings(&mut self) -> ConfigBuilder {
        let builder = Settings::builder()
            .dtls13_cipher_suites(&[])
            .mtu(self.config.mtu)
            .max_queue_rx(QUEUE)
            .max_queue_tx(QUEUE)
            .flight_start_rto(TICK)
            .flight_retries(usize::MAX)
            .handshake_timeout(2 * NEVER);
        match &mut self.seeds {
            Some(seeds) => builder.dangerously_set_rng_seed(seeds.next_u64()),
            None => builder,
        }
    }

    fn clock(&self, now: Instant) -> Clock {
        // Half a thousand years after its base, the clock stops.
        self.base.checked_add(Duration::from_nanos(now.as_nanos())).unwrap_or(self.base)
    }

    fn association(&self, dtls: Dtls, clock: Clock) -> Dimpl {
        let key_log = self.config.key_log.clone();
        let rewriter = Rewriter::default();
        Dimpl {
            dtls,
            rewriter,
            clock,
            due: None,
            shift: 0,
            cookie: None,
            resolver: None,
            found: None,
            identity: None,
            key_log,
        }
    }
}

impl Engines for DimplEngines {
    type Engine = Dimpl;

    fn connect(&mut self, now: Instant, credentials: &ClientCredentials) -> Result<Dimpl, ConfigError> {
        let clock = self.clock(now);
        let dtls = match credentials {
            ClientCredentials::Psk { identity, key } => {
                let (identity, key) = (identity.clone(), key.clone());
                let settings = self.made(Wanted::Key { identity, key })?;
                Dtls::new_12_psk(settings, clock)
            }
            ClientCredentials::Certificate { own, .. } => {
                let settings = self.made(Wanted::Certificate(Role::Client))?;
                Dtls::new_12(settings, shown(own.as_ref()), clock)
            }
        };
        let mut engine = self.association(dtls, clock);
        engine.dtls.set_active(true);
        engine.dtls.handle_timeout(clock).map_err(|error| ConfigError::Engine(error.to_string()))?;
        Ok(engine)
    }

    fn accept(&mut self, now: Instant, opening: &Opening<'_>) -> Result<Dimpl, Failure> {
        let offered = |suite: u16| opening.suites.as_chunks().0.iter().position(|each| *each == suite.to_be_bytes());
        let broken = |error: ConfigError| Failure::Protocol(error.to_string());
        let of_keys = self.psk.as_ref().and(offered(PSK_SUITE));
        let of_certificates = CERTIFICATE_SUITES.iter().filter_map(|suite| offered(suite.as_u16())).min();
        let of_certificates = self.certificate.as_ref().and(of_certificates);
        let clock = self.clock(now);
        let with_keys = match (of_keys, of_certificates) {
            (None, None) => return Err(Failure::Suite),
            (Some(_), None) => true,
            (keys, certificates) => keys.is_some_and(|keys| Some(keys) < certificates),
        };
        let (dtls, resolver) = if with_keys {
            let keys = self.config.server.as_ref().and_then(|server| server.psk.clone());
            if let (Some(keys), true) = (keys, self.seeds.is_some()) {
                self.psk = Some(self.with_keys(&keys).map_err(broken)?);
            }
            let Some((settings, resolver)) = &self.psk else { return Err(Failure::Suite) };
            (Dtls::new_12_psk(Arc::clone(settings), clock), Some(Arc::clone(resolver)))
        } else {
            let Some(certificate) = self.certificate.clone() else { return Err(Failure::Suite) };
            let role = Role::Server { asks_clients: certificate.clients.is_some() };
            let settings = self.made(Wanted::Certificate(role)).map_err(broken)?;
            (Dtls::new_12(settings, shown(Some(&certificate.own)), clock), None)
        };
        let cookie = opening.cookie.try_into().ok();
        // dimpl numbers records from 0, and has used one per HelloVerifyRequest.
        let shift = opening.sequence.wrapping_sub(u64::from(opening.number));
        let mut engine = Dimpl { shift, cookie, resolver, ..self.association(dtls, clock) };
        engine.dtls.handle_timeout(clock).map_err(failure)?;
        engine.replay_cookie_exchange(opening)?;
        Ok(engine)
    }
}

const CERTIFICATE_SUITES: [Dtls12CipherSuite; 3] = [
    Dtls12CipherSuite::ECDHE_ECDSA_AES128_GCM_SHA256,
    Dtls12CipherSuite::ECDHE_ECDSA_AES256_GCM_SHA384,
    Dtls12CipherSuite::ECDHE_ECDSA_CHACHA20_POLY1305_SHA256,
];

/// One association of dimpl.
pub struct Dimpl {
    dtls: Dtls,
    rewriter: Rewriter,
    clock: Clock,
    due: Option<Clock>,
    shift: u64,
    cookie: Option<[u8; COOKIE]>,
    resolver: Option<Arc<Resolver>>,
    /// The result of a deferred lookup.
    found: Option<FoundKey>,
    identity: Option<Vec<u8>>,
    key_log: Option<KeyLog>,
}

impl core::fmt::Debug for Dimpl {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Dimpl").field("client", &self.dtls.is_active()).finish_non_exhaustive()
    }
}

impl Engine for Dimpl {
    fn receive(&mut self, record: &[u8]) -> Result<(), Failure> {
        // An earlier association may have panicked after its lookup.
        if let Some(resolver) = &self.resolver {
            resolver.begin(self.found.clone());
        }
        let dtls = &mut self.dtls;
        let (fed, master) = with_hooks(self.cookie, self.key_log.is_some(), || dtls.handle_packet(record));
        if let (Some(log), Some(master)) = (&self.key_log, master) {
            log.write(&master.random, &master.secret[..]);
        }
        if let Some(identity) = self.resolver.as_ref().and_then(|resolver| resolver.asked()) {
            self.identity = Some(identity);
            (self.resolver, self.found) = (None, None);
        }
        fed.map_err(failure)
    }

    fn repeat(&mut self) -> Result<(), Failure> {
        let Some(due) = self.due.take() else { return Ok(()) };
        self.clock = due;
        self.dtls.handle_timeout(due).map_err(failure)
    }

    fn poll(&mut self, buffer: &mut [u8]) -> Result<Step, Failure> {
        loop {
            if let Some(len) = self.rewriter.next(buffer) {
                return Ok(Step::Transmit(len));
            }
            let step = match self.dtls.poll_output(buffer) {
                Output::Packet(datagram) if self.rewriter.takes(datagram) => continue,
                Output::Packet(datagram) => Step::Transmit(datagram.len()),
                Output::Connected => {
                    self.cookie = None;
                    Step::Connected
                }
                Output::PeerCert(certificate) => Step::Certificate(certificate.len()),
                Output::ApplicationData(plaintext) => Step::Data(plaintext.len()),
                Output::CloseNotify => Step::Closed,
                Output::Timeout(at) => {
                    self.due = Some(at).filter(|at| at.saturating_duration_since(self.clock) < NEVER);
                    Step::Wait
                }
                Output::BufferTooSmall { needed } => {
                    return Err(Failure::Protocol(format!("a record of {needed} bytes, more than the buffer holds")));
                }
                // SRTP keys, if the peer offers SRTP.
                _ => continue,
            };
            if let Step::Transmit(len) = step {
                renumber(&mut buffer[..len], self.shift);
            }
            return Ok(step);
        }
    }

    fn send(&mut self, plaintext: &[u8]) -> Result<(), Failure> {
        self.dtls.send_application_data(plaintext).map(drop).map_err(failure)
    }

    fn close(&mut self) {
        // A closed session sends nothing.
        let _closed = self.dtls.close();
    }

    fn identity(&self) -> Option<&[u8]> {
        self.identity.as_deref()
    }

    fn wants_key(&self) -> bool {
        self.found.is_none() && self.resolver.as_ref().is_some_and(|resolver| resolver.is_deferred())
    }

    fn set_key(&mut self, identity: &[u8], key: Option<Secret>) {
        self.found = Some(FoundKey { identity: identity.to_vec(), key });
    }
}

impl Dimpl {
    /// Requests a cookie as often as the client was asked; discards the requests.
    fn replay_cookie_exchange(&mut self, opening: &Opening<'_>) -> Result<(), Failure> {
        let mut body = opening.opening.to_vec();
        body.push(0);
        let suites = u16::try_from(opening.suites.len()).map_err(|_| Failure::Suite)?;
        body.extend(suites.to_be_bytes());
        body.extend(opening.suites);
        body.push(u8::try_from(opening.compression.len()).map_err(|_| Failure::Suite)?);
        body.extend(opening.compression);
        let mut buffer = vec![0; RECORD_HEADER + 2 * body.len() + 256];
        for number in 0..opening.number {
            let mut fragment = wire::handshake_header(message::CLIENT_HELLO, number, body.len()).to_vec();
            fragment.extend(&body);
            let mut record = vec![0; RECORD_HEADER + fragment.len()];
            wire::write_record(&mut record, content::HANDSHAKE, wire::DTLS_1_2, u64::from(number), &fragment);
            self.dtls.handle_packet(&record).map_err(failure)?;
            while !matches!(self.dtls.poll_output(&mut buffer), Output::Timeout(_)) {}
        }
        Ok(())
    }
}

/// Shifts sequence numbers in epoch 0, which no key or hash covers.
fn renumber(datagram: &mut [u8], shift: u64) {
    let mut at = 0;
    while let Some(header) = datagram.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<RECORD_HEADER>()) {
        let [_, _, _, e0, e1, s0, s1, s2, s3, s4, s5, l0, l1] = *header;
        if [e0, e1] == [0, 0] && shift != 0 {
            let number = u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]).wrapping_add(shift);
            let [_, _, number @ ..] = number.to_be_bytes();
            header[5..11].copy_from_slice(&number);
        }
        at += RECORD_HEADER + usize::from(u16::from_be_bytes([l0, l1]));
    }
}

fn shown(own: Option<&OwnCertificate>) -> DtlsCertificate {
    let (certificate, key) =
        own.map_or((PLACEHOLDER_CERTIFICATE, PLACEHOLDER_KEY), |own| (own.certificate(), own.key().expose()));
    DtlsCertificate { certificate: certificate.to_vec(), private_key: key.to_vec() }
}

fn built(builder: ConfigBuilder) -> Result<Arc<Settings>, ConfigError> {
    builder.build().map(Arc::new).map_err(|error| ConfigError::Engine(error.to_string()))
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Timeout(_) => Failure::Silence,
        Error::SecurityError(error) => match error {
            SecurityError::FatalAlert { description } => Failure::Alert(description),
            SecurityError::NoMutuallyAcceptableCipherSuite | SecurityError::NoCommonKeyExchangeGroup => Failure::Suite,
            SecurityError::UnsupportedClientVersion(_) | SecurityError::UnsupportedServerVersion(_) => Failure::Version,
            SecurityError::ClientFinishedVerificationFailed | SecurityError::ServerFinishedVerificationFailed => {
                Failure::Credentials
            }
            error => Failure::Protocol(error.to_string()),
        },
        // The placeholder, or a certificate of an unsupported kind.
        Error::CryptoError(
            CryptoError::CertificateParseFailed
            | CryptoError::UnsupportedPublicKeyAlgorithm
            | CryptoError::UnsupportedEcCurve
            | CryptoError::MissingEcCurveParameter
            | CryptoError::InvalidEcCurveParameter
            | CryptoError::InvalidSubjectPublicKey,
        ) => Failure::NoCertificate,
        // During a handshake, an undecryptable record is a Finished under other keys.
        Error::CryptoError(_) => Failure::Credentials,
        Error::CertificateError(_) => Failure::NoCertificate,
        Error::ReceiveQueueFull | Error::TransmitQueueFull | Error::TransmitHistoryFull => Failure::Full,
        error => Failure::Protocol(error.to_string()),
    }
}

/// Keeps the last identity, which dimpl does not report.
struct Resolver(Mutex<Asked>);

struct Asked {
    /// `None` if lookups are deferred.
    keys: Option<Arc<dyn Keys>>,
    found: Option<FoundKey>,
    last: Option<Vec<u8>>,
}

#[derive(Clone)]
struct FoundKey {
    identity: Vec<u8>,
    key: Option<Secret>,
}

impl Resolver {
    fn new(keys: Option<Arc<dyn Keys>>) -> Self {
        Self(Mutex::new(Asked { keys, found: None, last: None }))
    }

    /// Forgets earlier associations.
    fn begin(&self, found: Option<FoundKey>) {
        let mut asked = self.lock();
        (asked.found, asked.last) = (found, None);
    }

    /// Takes the last identity looked up.
    fn asked(&self) -> Option<Vec<u8>> {
        let mut asked = self.lock();
        asked.found = None;
        asked.last.take()
    }

    fn is_deferred(&self) -> bool {
        self.lock().keys.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl core::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Resolver")
    }
}

impl PskResolver for Resolver {
    fn resolve(&self, identity: &[u8]) -> Option<Vec<u8>> {
        let mut asked = self.lock();
        asked.last = Some(identity.to_vec());
        let key = match &asked.keys {
            Some(keys) => keys.key(identity)?,
            None => asked.found.take().filter(|found| found.identity == identity)?.key?,
        };
        is_key(&key).then(|| key.expose().to_vec())
    }
}

/// Hashed first with the master secret.
const EXPANSION: &[u8] = b"key expansion";

pub(super) struct Master {
    pub(super) random: [u8; 32],
    pub(super) secret: Zeroizing<[u8; 48]>,
}

thread_local! {
    static STATE: RefCell<HookState> =
        const { RefCell::new(HookState { cookie: None, records_master: false, recorded: None }) };
}

struct HookState {
    cookie: Option<[u8; COOKIE]>,
    records_master: bool,
    recorded: Option<Master>,
}

pub(super) fn with_hooks<T>(
    cookie: Option<[u8; COOKIE]>,
    records_master: bool,
    feed: impl FnOnce() -> T,
) -> (T, Option<Master>) {
    struct Fed;

    impl Drop for Fed {
        fn drop(&mut self) {
            STATE.set(HookState { cookie: None, records_master: false, recorded: None });
        }
    }

    STATE.set(HookState { cookie, records_master, recorded: None });
    let _fed = Fed;
    let fed = feed();
    (fed, STATE.with_borrow_mut(|state| state.recorded.take()))
}

/// RustCrypto's HMAC, with hooks for cookies and key logs.
///
/// dimpl verifies cookies, with a key per association, by `hmac_sha256`, and uses that for nothing
/// else. It returns the cookie already verified by
/// [`CookieVerifier`](crate::cookie::CookieVerifier). `hmac` expands keys from the master secret
/// (RFC 5246 §6.3), which dimpl does not export, and records it for key logs.
#[derive(Debug)]
struct HookedHmac;

impl HmacProvider for HookedHmac {
    fn hmac_sha256(&self, key: &[u8], data: &[u8]) -> Result<[u8; 32], CryptoError> {
        if let Some(cookie) = STATE.with_borrow(|state| state.cookie) {
            return Ok(cookie);
        }
        let mut out = [0; 32];
        self.hmac(HashAlgorithm::SHA256, key, data, &mut out)?;
        Ok(out)
    }

    fn hmac(&self, hash: HashAlgorithm, key: &[u8], data: &[u8], out: &mut [u8]) -> Result<usize, CryptoError> {
        STATE.with_borrow_mut(|state| {
            if state.records_master {
                state.recorded = state.recorded.take().or_else(|| master(key, data));
            }
        });
        rust_crypto::default_provider().hmac_provider.hmac(hash, key, data, out)
    }
}

fn master(key: &[u8], data: &[u8]) -> Option<Master> {
    let (_server, client) = data.strip_prefix(EXPANSION)?.split_at_checked(32)?;
    Some(Master { random: client.try_into().ok()?, secret: Zeroizing::new(key.try_into().ok()?) })
}

pub(super) fn for_certificates() -> CryptoProvider {
    CryptoProvider { hmac_provider: &HookedHmac, ..rust_crypto::default_provider() }
}

/// One cipher suite, and no curves to list needlessly.
pub(super) fn for_keys() -> CryptoProvider {
    let all = for_certificates();
    let suites = all.cipher_suites;
    let of_keys = suites.iter().position(|suite| suite.suite().is_psk());
    let suites = of_keys.map_or(suites, |at| &suites[at..=at]);
    CryptoProvider { cipher_suites: suites, kx_groups: &[], ..all }
}

pub(super) fn for_client(provider: CryptoProvider) -> CryptoProvider {
    CryptoProvider { hash_provider: client_hello::hashes(), key_provider: client_hello::keys(), ..provider }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deferred_key_serves_one_handshake_and_the_identity_that_was_looked_up() {
        let found = || Some(FoundKey { identity: b"lamp".to_vec(), key: Some(Secret::new(*b"sesame")) });
        let resolver = Resolver::new(None);
        resolver.begin(found());
        assert_eq!(resolver.resolve(b"door"), None);
        resolver.begin(found());
        assert_eq!(resolver.resolve(b"lamp"), Some(b"sesame".to_vec()));
        assert_eq!(resolver.asked(), Some(b"lamp".to_vec()));
        resolver.begin(None);
        assert_eq!(resolver.resolve(b"lamp"), None);
    }
}
