//! [`Config`]: limits and timeouts of sessions.

use core::time::Duration;

use conche_proto::config::ResponseLimit;

use crate::credentials::{KeyLog, ServerCredentials};
use crate::secret::CredentialsError;
use crate::x509::Trust;

/// Limits and timeouts of sessions; handshake timers follow RFC 6347.
#[derive(Clone, Debug)]
pub struct Config {
    /// Credentials of a server; `None` for clients only.
    pub server: Option<ServerCredentials>,
    /// Maximum handshake datagram in bytes, at least 64; by default 1280.
    ///
    /// A stateless server needs a ClientHello's first datagram to include the compression methods:
    /// 99 bytes with a pre-shared key, 103 with certificates.
    pub mtu: usize,
    /// Minimum retransmission timeout of a flight, used on an unmeasured path; by default one
    /// second (RFC 6347 §4.2.4.1).
    ///
    /// Doubles with each retransmission up to a minute, plus a random part of up to half, against
    /// synchronised clients. A fast path does not shorten it: signing takes time.
    pub flight_timeout: Duration,
    /// Maximum duration of a handshake; by default 93 seconds, MAX_TRANSMIT_WAIT (RFC 7252 §4.8.2).
    pub handshake_timeout: Duration,
    /// Maximum time of a [deferred](crate::ServerKeys::deferred) key lookup; by default 10 seconds.
    pub lookup_timeout: Duration,
    /// Maximum open sessions; by default 10 000. A further one closes the idlest of the largest
    /// host in the largest group of sources.
    pub max_sessions: usize,
    /// Maximum open sessions per pre-shared key identity; a further one closes the idlest. `None`
    /// by default: clients may share a key.
    pub max_sessions_per_identity: Option<usize>,
    /// Maximum concurrent handshakes. A group of sources may hold as many as remain free for
    /// others; its competing hosts share them.
    pub max_handshakes: usize,
    /// Unfinished handshakes that a host may begin; by default 128 at once and 16 a second. Excess
    /// ClientHellos are dropped. A handshake costs a server about 0.2 ms of CPU time with a
    /// pre-shared key, 0.5 ms with a certificate.
    pub unfinished_per_host: ResponseLimit,
    /// Likewise for a group of sources; by default 512 at once and 128 a second.
    pub unfinished_per_group: ResponseLimit,
    /// Maximum handshake message from a peer in bytes, which limits its certificate.
    pub max_message: usize,
    /// Receives sessions' secrets, to decrypt captures.
    pub key_log: Option<KeyLog>,
    /// Makes handshakes reproducible, except for keys; for simulations and tests only.
    pub seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            server: None,
            mtu: 1280,
            flight_timeout: Duration::from_secs(1),
            handshake_timeout: Duration::from_secs(93),
            lookup_timeout: Duration::from_secs(10),
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
    pub(crate) fn trusted_clients(&self) -> Option<&Trust> {
        self.server.as_ref()?.certificate.as_ref()?.clients.as_ref()
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        if !(64..=65_507).contains(&self.mtu) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        for time in [self.flight_timeout, self.handshake_timeout, self.lookup_timeout] {
            if time.is_zero() || time > YEAR {
                return Err(ConfigError::Time(time));
            }
        }
        if self.max_sessions == 0 || self.max_handshakes == 0 || self.max_sessions_per_identity == Some(0) {
            return Err(ConfigError::NoSessions);
        }
        // A flight fits the engine's queue; a message must fit the poll buffer.
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

/// Why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The MTU is out of range.
    #[error("an MTU of {0} bytes: it must be between 64 and 65507")]
    Mtu(usize),
    /// A time is out of range.
    #[error("a time of {0:?}: it must be more than nothing and at most a year")]
    Time(Duration),
    /// No session would be possible.
    #[error("max_sessions, max_sessions_per_identity and max_handshakes must be 1 at least")]
    NoSessions,
    /// The maximum message size is out of range.
    #[error("a largest handshake message of {0} bytes: it must be between 64 and 16384")]
    Message(usize),
    /// The credentials are invalid.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The engine rejects the configuration.
    #[error("the engine refuses: {0}")]
    Engine(String),
}
