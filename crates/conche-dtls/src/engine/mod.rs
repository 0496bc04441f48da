//! [`Engine`]: the handshake and the records of one association. [`Engines`] makes them.
//!
//! Everything else is [`Sessions`](crate::Sessions)' own: cookies, bounds, who is who. What an engine is fed are single
//! records whose bounds have been checked; what it wants it says when it is polled.

mod client_hello;
mod dimpl;
mod fence;
mod provider;

use conche_proto::Instant;

pub use self::dimpl::{Dimpl, DimplEngines};
pub(crate) use self::fence::{Fence, catch_panic};
pub(crate) use self::provider::sign;

use crate::config::ConfigError;
use crate::credentials::ClientCredentials;
use crate::x509::CertificateError;

/// One association with one peer. It knows no time: whoever has it says when a flight is to be repeated.
pub trait Engine {
    /// Takes a record.
    ///
    /// # Errors
    ///
    /// The association is at an end.
    fn receive(&mut self, record: &[u8]) -> Result<(), Failure>;

    /// Repeats the flight that waits for its answer. If none does, the last flight may answer once more a peer that repeats its own.
    ///
    /// # Errors
    ///
    /// The association is at an end.
    fn repeat(&mut self) -> Result<(), Failure>;

    /// What it wants. Poll until it answers [`Step::Wait`].
    ///
    /// # Errors
    ///
    /// The association is at an end.
    fn poll(&mut self, buffer: &mut [u8]) -> Result<Step, Failure>;

    /// Protects plaintext; [`poll`](Engine::poll) has the datagram.
    ///
    /// # Errors
    ///
    /// The association is at an end.
    fn send(&mut self, plaintext: &[u8]) -> Result<(), Failure>;

    /// Says goodbye, if there is a peer to say it to.
    fn close(&mut self);

    /// The identity whose key a client has used, as soon as it has named one. A server has none.
    fn identity(&self) -> Option<&[u8]>;
}

/// Makes engines.
pub trait Engines {
    /// What it makes.
    type Engine: Engine;

    /// A client's, whose ClientHello leaves with the first poll.
    ///
    /// # Errors
    ///
    /// The credentials cannot be used.
    fn connect(&mut self, now: Instant, credentials: &ClientCredentials) -> Result<Self::Engine, ConfigError>;

    /// A server's, for a client that has shown a valid cookie in the record that is going to be fed next.
    ///
    /// # Errors
    ///
    /// There is no cipher suite in common, or the hello is not understood.
    fn accept(&mut self, now: Instant, opening: &Opening<'_>) -> Result<Self::Engine, Failure>;
}

/// What begins a ClientHello that has shown a valid cookie.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Opening<'a> {
    /// The number of the record that it came in. The first record of the answer has the same (RFC 6347 §4.2.1).
    pub sequence: u64,
    /// Which handshake message of the client it is: as many hellos have been answered without a trace.
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

/// What an engine wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the datagram at the front of the buffer.
    Transmit(usize),
    /// The peer's certificate is at the front of the buffer. It has not been verified.
    Certificate(usize),
    /// The handshake is done.
    Connected,
    /// Plaintext of the peer is at the front of the buffer.
    Data(usize),
    /// The peer has said goodbye, and been answered.
    Closed,
    /// Nothing, until something comes. What is sent by then is one flight, or a copy of one.
    Wait,
}

/// Why an association has ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The peer did not answer in time.
    #[error("the peer did not answer in time")]
    Silence,
    /// The peer ended it with this alert (RFC 5246 §7.2).
    #[error("the peer ended it with alert {0}")]
    Alert(u8),
    /// There is no cipher suite in common.
    #[error("there is no cipher suite in common")]
    Suite,
    /// The peer speaks another version than DTLS 1.2.
    #[error("the peer speaks another version than DTLS 1.2")]
    Version,
    /// The peer has another key, or none that is known: which of them is not told (RFC 4279 §5.3).
    #[error("the peer's key is not the one of its identity, or there is no such identity")]
    Credentials,
    /// The peer's certificate is not believed.
    #[error("the peer's certificate is refused: {0}")]
    Certificate(CertificateError),
    /// The peer had to show a certificate, and did not, or not one of the kind that can be verified.
    #[error("the peer has shown no certificate that can be verified")]
    NoCertificate,
    /// What the peer said makes no sense.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// More is on its way than the engine keeps.
    #[error("more is on its way than is kept")]
    Full,
    /// The code that handles this peer's input panicked: a defect. Other sessions are not affected.
    #[error("internal error: the code that handles this peer's input panicked")]
    Panicked,
}

impl Failure {
    /// The alert that tells the peer; `None` if it would learn nothing.
    pub(crate) fn alert(&self) -> Option<u8> {
        use crate::wire::alert;
        match self {
            Self::Silence | Self::Alert(_) => None,
            Self::Version => Some(alert::PROTOCOL_VERSION),
            Self::Credentials => Some(alert::DECRYPT_ERROR),
            Self::Certificate(_) => Some(alert::BAD_CERTIFICATE),
            // RFC 5246 §7.4.6.
            Self::NoCertificate | Self::Suite | Self::Protocol(_) => Some(alert::HANDSHAKE_FAILURE),
            Self::Full | Self::Panicked => Some(alert::INTERNAL_ERROR),
        }
    }
}
