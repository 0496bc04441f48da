//! DTLS 1.2 sessions (RFC 6347) without I/O.
//!
//! [`Sessions`] holds all sessions of one socket in either role. A driver calls
//! [`handle`](Sessions::handle) for each datagram, then [`poll`](Sessions::poll) until
//! [`Output::Wait`].
//!
//! ```text
//! in:   datagram  ->  wire (records)  ->  cookie (address)   ->  engine (handshake, protection)  ->  plaintext
//! out:  plaintext ->  engine  ->  datagram
//! ```
//!
//! State and computation that attackers can cause are bounded. A ClientHello from an unverified
//! address costs two hashes; a cookie begins one handshake. Handshakes are bounded in total, per
//! group of sources, in time and in message length; unfinished ones also per second, host and
//! group. Sessions are bounded in total ([`Config::max_sessions`]).
//!
//! A server looks up pre-shared keys by a function, or the caller does while the handshake waits:
//! [`ServerKeys::deferred`].
//!
//! ```
//! use conche_dtls::{BUFFER, ClientCredentials, Config, Output, Secret, ServerCredentials, ServerKeys, Sessions};
//! use conche_proto::Instant;
//!
//! let key = || Secret::new(*b"sesame");
//! let psk = ServerKeys::new(move |identity: &[u8]| (identity == b"lamp").then(key));
//! let server = Config { server: Some(ServerCredentials { psk: Some(psk), ..Default::default() }), ..Default::default() };
//! let now = Instant::from_millis(0);
//! // Seeds come from the system in earnest.
//! let mut server = Sessions::new(now, server, [1; 32])?;
//! let mut client = Sessions::new(now, Config::default(), [2; 32])?;
//!
//! let asked = client.connect(now, "server", &ClientCredentials::psk(*b"lamp", key())?, None)?;
//! let mut buffer = vec![0; BUFFER];
//! let mut read: Vec<u8> = Vec::new();
//! while read.is_empty() {
//!     loop {
//!         match client.poll(now, &mut buffer) {
//!             Output::Transmit { len, .. } => server.handle(now, "client", &buffer[..len]),
//!             Output::Established { session, .. } => client.send(session, b"on")?,
//!             Output::Wait(_) => break,
//!             other => panic!("{other:?}"),
//!         }
//!     }
//!     loop {
//!         match server.poll(now, &mut buffer) {
//!             Output::Transmit { len, .. } => client.handle(now, "server", &buffer[..len]),
//!             Output::Received { len, .. } => read.extend(&buffer[..len]),
//!             Output::Established { .. } => {}
//!             Output::Wait(_) => break,
//!             other => panic!("{other:?}"),
//!         }
//!     }
//! }
//! assert_eq!(read, b"on");
//! # let _ = asked;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod cookie;
mod credentials;
pub mod engine;
mod secret;
mod sessions;
mod wire;
mod x509;

pub use config::{Config, ConfigError};
pub use credentials::{ClientCredentials, Identity, KeyLog, Keys, ServerCertificate, ServerCredentials, ServerKeys};
pub use engine::Failure;
pub use secret::{CredentialsError, Secret};
pub use sessions::{ConnectError, Ended, Output, Progress, Role, SendError, SessionId, Sessions, Stats};
pub use x509::{CertificateError, CertificateNames, OwnCertificate, Trust};

/// Bytes of the poll buffer: a record's plaintext of 2^14 (RFC 5246 §6.2.1) and its protection.
pub const BUFFER: usize = (1 << 14) + 2048;
