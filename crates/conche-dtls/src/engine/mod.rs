//! [`Engine`]: one association's handshake and records, with checked bounds. [`Engines`] creates
//! them; [`Sessions`](crate::Sessions) does the rest.

mod client_hello;
mod dimpl;

use std::panic::{AssertUnwindSafe, catch_unwind};

use conche_proto::Instant;

use crate::config::ConfigError;
use crate::credentials::ClientCredentials;
use crate::secret::Secret;
use crate::x509::CertificateError;
pub use dimpl::{Dimpl, DimplEngines};

/// An association with a peer; the caller times retransmissions.
pub trait Engine {
    /// Handles a record.
    ///
    /// # Errors
    ///
    /// The association has ended.
    fn receive(&mut self, record: &[u8]) -> Result<(), Failure>;

    /// Retransmits the unanswered flight, or the last one to a peer that retransmits its own.
    ///
    /// # Errors
    ///
    /// The association has ended.
    fn repeat(&mut self) -> Result<(), Failure>;

    /// Returns the next action; call it until [`Step::Wait`].
    ///
    /// # Errors
    ///
    /// The association has ended.
    fn poll(&mut self, buffer: &mut [u8]) -> Result<Step, Failure>;

    /// Protects plaintext for [`poll`](Engine::poll).
    ///
    /// # Errors
    ///
    /// The association has ended.
    fn send(&mut self, plaintext: &[u8]) -> Result<(), Failure>;

    /// Sends a close_notify if the association is open.
    fn close(&mut self);

    /// Returns the identity of a client's key, once sent; `None` for a server.
    fn identity(&self) -> Option<&[u8]>;

    /// Whether the client's key must be [set](Engine::set_key) before its ClientKeyExchange is
    /// [received](Engine::receive).
    fn wants_key(&self) -> bool {
        false
    }

    /// Sets the key of the identity in the ClientKeyExchange; `None` if it is unknown.
    fn set_key(&mut self, _identity: &[u8], _key: Option<Secret>) {}
}

/// Creates engines.
pub trait Engines {
    /// The engine type.
    type Engine: Engine;

    /// Creates a client's engine; its first poll sends the ClientHello.
    ///
    /// # Errors
    ///
    /// The credentials are invalid.
    fn connect(&mut self, now: Instant, credentials: &ClientCredentials) -> Result<Self::Engine, ConfigError>;

    /// Creates a server's engine for a client with a valid cookie. Feed it the ClientHello first.
    ///
    /// # Errors
    ///
    /// The two sides share no cipher suite, or the ClientHello is not understood.
    fn accept(&mut self, now: Instant, opening: &Opening<'_>) -> Result<Self::Engine, Failure>;
}

/// A ClientHello with a valid cookie.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Opening<'a> {
    /// Record sequence number, repeated by the answer's first (RFC 6347 §4.2.1).
    pub sequence: u64,
    /// Message number: the ClientHellos answered before without state.
    pub number: u16,
    /// Version, random and session ID.
    pub opening: &'a [u8],
    /// The cookie.
    pub cookie: &'a [u8],
    /// Cipher suites, two bytes each.
    pub suites: &'a [u8],
    /// Compression methods.
    pub compression: &'a [u8],
}

/// An action or event of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the datagram in the buffer.
    Transmit(usize),
    /// The peer's certificate is in the buffer, unverified.
    Certificate(usize),
    /// The handshake is complete.
    Connected,
    /// Plaintext from the peer is in the buffer.
    Data(usize),
    /// The peer closed the association and got an answer.
    Closed,
    /// Nothing until the next input. The datagrams before are one flight or retransmission.
    Wait,
}

/// Why an association failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The peer did not answer in time.
    #[error("the peer did not answer in time")]
    Silence,
    /// The peer ended it with this alert (RFC 5246 §7.2).
    #[error("the peer ended it with alert {0}")]
    Alert(u8),
    /// The two sides share no cipher suite.
    #[error("there is no cipher suite in common")]
    Suite,
    /// The peer uses another version than DTLS 1.2.
    #[error("the peer speaks another version than DTLS 1.2")]
    Version,
    /// The peer has another key or unknown identity, indistinguishably (RFC 4279 §5.3).
    #[error("the peer's key is not the one of its identity, or there is no such identity")]
    Credentials,
    /// The lookup of the peer's key took too long.
    #[error("the lookup of the peer's key took too long")]
    Lookup,
    /// The peer's certificate is not trusted.
    #[error("the peer's certificate is refused: {0}")]
    Certificate(CertificateError),
    /// The peer presented no required certificate, or one that cannot be verified.
    #[error("the peer presented no certificate that can be verified")]
    NoCertificate,
    /// The peer violated the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// A handshake of another host needed its place.
    #[error("a handshake of another host needed its place")]
    Displaced,
    /// The engine's queue is full.
    #[error("more is on its way than is kept")]
    Full,
    /// Code panicked on this peer's input: a defect; other sessions continue.
    #[error("internal error: the code that handles this peer's input panicked")]
    Panicked,
}

impl Failure {
    /// Returns the alert; `None` if the peer would learn nothing.
    pub(crate) fn alert(&self) -> Option<u8> {
        use crate::wire::alert;
        match self {
            Self::Silence | Self::Alert(_) => None,
            Self::Version => Some(alert::PROTOCOL_VERSION),
            Self::Credentials => Some(alert::DECRYPT_ERROR),
            Self::Certificate(_) => Some(alert::BAD_CERTIFICATE),
            // RFC 5246 §7.4.6.
            Self::NoCertificate | Self::Suite | Self::Protocol(_) => Some(alert::HANDSHAKE_FAILURE),
            Self::Displaced | Self::Full | Self::Panicked | Self::Lookup => Some(alert::INTERNAL_ERROR),
        }
    }
}

/// Confines an engine's panic to its association.
///
/// Engines parse peers' input with other crates' code. A panicked engine is dropped; later calls
/// fail with [`Failure::Panicked`].
#[derive(Debug)]
pub(crate) struct PanicGuard<E>(Option<E>);

impl<E: Engine> PanicGuard<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self(Some(engine))
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut E) -> Result<T, Failure>) -> Result<T, Failure> {
        let engine = self.0.as_mut().ok_or(Failure::Panicked)?;
        let result = catch_panic(|| call(engine));
        if result.as_ref().is_err_and(|failure| *failure == Failure::Panicked) {
            let broken = self.0.take();
            // Dropping may panic, too.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(broken)));
        }
        result
    }
}

pub(crate) fn catch_panic<T>(serve: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or(Err(Failure::Panicked))
}

impl<E: Engine> Engine for PanicGuard<E> {
    fn receive(&mut self, record: &[u8]) -> Result<(), Failure> {
        self.call(|engine| engine.receive(record))
    }

    fn repeat(&mut self) -> Result<(), Failure> {
        self.call(Engine::repeat)
    }

    fn poll(&mut self, buffer: &mut [u8]) -> Result<Step, Failure> {
        self.call(|engine| engine.poll(buffer))
    }

    fn send(&mut self, plaintext: &[u8]) -> Result<(), Failure> {
        self.call(|engine| engine.send(plaintext))
    }

    /// Closes; after a panic the next [`poll`](Engine::poll) fails, without a close_notify.
    fn close(&mut self) {
        let _ = self.call(|engine| {
            engine.close();
            Ok(())
        });
    }

    fn identity(&self) -> Option<&[u8]> {
        self.0.as_ref()?.identity()
    }

    fn wants_key(&self) -> bool {
        self.0.as_ref().is_some_and(Engine::wants_key)
    }

    fn set_key(&mut self, identity: &[u8], key: Option<Secret>) {
        if let Some(engine) = &mut self.0 {
            engine.set_key(identity, key);
        }
    }
}
