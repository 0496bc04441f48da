//! [`Config`]: bounds and times of sessions.

use core::time::Duration;

use conche_proto::config::ResponseLimit;

use crate::credentials::{CredentialsError, ServerCredentials};
use crate::key_log::KeyLog;
use crate::x509::Trust;

/// Bounds and times of sessions. Those of the handshake's timers are RFC 6347's.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whom a server lets in; `None` for one that only asks others.
    pub server: Option<ServerCredentials>,
    /// Bytes of the largest datagram that a handshake sends; 1280 by default, 64 at least.
    ///
    /// A server that keeps no state answers a ClientHello only if its first datagram reaches to the end of the cipher suites. Ours need
    /// 99 bytes for that with a pre-shared key, and 103 with certificates.
    pub mtu: usize,
    /// How long a flight waits for its answer before it is repeated, if nothing is known of the path: one second (RFC
    /// 6347 §4.2.4.1). It doubles with each repetition up to a minute, and is up to half as long again, so that those who begin together do not go on
    /// together. None is shorter, however fast the path: a peer may need long for a signature.
    pub flight_timeout: Duration,
    /// For how long a handshake may last, and flights are repeated: by default 93 seconds, as long as a CoAP client waits for a message to be
    /// acknowledged (MAX_TRANSMIT_WAIT, RFC 7252 §4.8.2).
    pub handshake_timeout: Duration,
    /// Maximum number of open sessions: 10 000 by default. Beyond it, a new session closes the
    /// idlest session of the host with most sessions, in the group of sources with most sessions.
    pub max_sessions: usize,
    /// Sessions that are open at once of clients that know the key of one identity; for a new one the one of them that was silent for
    /// longest is closed. `None`, the default, for as many as there may be at all: a key may be that of many.
    pub max_sessions_per_identity: Option<usize>,
    /// Handshakes that go on at once. One group of sources has no more than what is free for all others, and in it a host no more than its share
    /// once others of the group want theirs.
    pub max_handshakes: usize,
    /// Unfinished handshakes that the clients of one host may begin: by default 128 at once and 16
    /// a second. A completed handshake does not count. A ClientHello above the limit is dropped,
    /// and its client retransmits it. The limit bounds the CPU time that a host can cause: a
    /// handshake costs a server about 0.2 ms with a pre-shared key and 0.5 ms with a certificate.
    pub unfinished_per_host: ResponseLimit,
    /// The same limit for a group of sources: by default 512 at once and 128 a second.
    pub unfinished_per_group: ResponseLimit,
    /// Bytes of the largest handshake message that a peer may send, which bounds what a certificate takes.
    pub max_message: usize,
    /// Is told the secrets of sessions, so that captures of them can be read.
    pub key_log: Option<KeyLog>,
    /// Makes randomness of handshakes (but for keys) reproducible. For simulations and tests alone.
    pub seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            server: None,
            mtu: 1280,
            flight_timeout: Duration::from_secs(1),
            handshake_timeout: Duration::from_secs(93),
            max_sessions: 10_000,
            max_sessions_per_identity: None,
            max_handshakes: 256,
            unfinished_per_host: ResponseLimit { per_second: 16, burst: 128 },
            unfinished_per_group: ResponseLimit { per_second: 128, burst: 512 },
            max_message: 8192,
            key_log: None,
            seed: None,
        }
    }
}

impl Config {
    /// Whose certificates clients must show, if they are asked for any.
    pub(crate) fn trusted_clients(&self) -> Option<&Trust> {
        self.server.as_ref()?.certificate.as_ref()?.clients.as_ref()
    }

    /// Everything can be used.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        if !(64..=65_507).contains(&self.mtu) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        for time in [self.flight_timeout, self.handshake_timeout] {
            if time.is_zero() || time > YEAR {
                return Err(ConfigError::Time(time));
            }
        }
        if self.max_sessions == 0 || self.max_handshakes == 0 || self.max_sessions_per_identity == Some(0) {
            return Err(ConfigError::NoSessions);
        }
        // A flight takes at most the engine's queue of datagrams; a message has to fit the buffer that is polled into.
        if !(64..=crate::BUFFER).contains(&self.max_message) {
            return Err(ConfigError::Message(self.max_message));
        }
        let nobody = |server: &ServerCredentials| server.psk.is_none() && server.certificate.is_none();
        if self.server.as_ref().is_some_and(nobody) {
            return Err(CredentialsError::None.into());
        }
        Ok(())
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The MTU cannot be used.
    #[error("an MTU of {0} bytes: it must be between 64 and 65507")]
    Mtu(usize),
    /// A time cannot be used.
    #[error("a time of {0:?}: it must be more than nothing and at most a year")]
    Time(Duration),
    /// There could be no session.
    #[error("max_sessions, max_sessions_per_identity and max_handshakes must be 1 at least")]
    NoSessions,
    /// The largest message is out of range.
    #[error("a largest handshake message of {0} bytes: it must be between 64 and 16384")]
    Message(usize),
    /// Credentials cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The engine refuses them.
    #[error("the engine refuses: {0}")]
    Engine(String),
}
