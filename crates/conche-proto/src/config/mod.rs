//! Configuration of an endpoint: the parameters of the RFCs, the safety envelope, and limits.
//!
//! [`EndpointConfig::validate_with`] checks all settings, before an endpoint is created.

mod envelope;
mod limits;
mod multicast;
mod observer_checks;
mod q_block;
mod shared;
mod source_validation;
mod transmission;

pub use envelope::Envelope;
pub use limits::Limits;
pub use multicast::Multicast;
pub use observer_checks::ObserverChecks;
pub use q_block::QBlock;
pub use shared::SharedConfig;
pub(crate) use shared::Times;
pub use source_validation::SourceValidation;
pub use transmission::{ParameterError, ParameterWarning, RandomFactor, TransmissionParameters};

use alloc::vec::Vec;
use core::time::Duration;

use thiserror::Error;

use crate::codec::{BlockSize, Body, OptionNumber, Overhead, Token};
use conche_cc::Controller;

/// All settings of an [`Endpoint`](crate::Endpoint).
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Transmission parameters (RFC 7252 §4.8).
    pub transmission: TransmissionParameters,
    /// Bounds for the timeouts of every controller.
    pub envelope: Envelope,
    /// Limits of memory.
    pub limits: Limits,
    /// Maximum time that a request waits behind others. Then it fails with
    /// [`Failure::QueueExpired`](crate::Failure::QueueExpired).
    pub queue_lifetime: Duration,
    /// Maximum wait, from submission, of the request at the head of a queue while the controller or
    /// PROBING_RATE delays it until a certain time, or while it waits for its turn on its
    /// [path](crate::Endpoint::share_paths). `queue_lifetime` applies to the requests behind it.
    /// `None`, the default: the sum of `queue_lifetime` and EXCHANGE_LIFETIME (307 s).
    pub longest_pause: Option<Duration>,
    /// Maximum wait for a separate response after the acknowledgement of the request. `None`, the
    /// default: EXCHANGE_LIFETIME (247 s).
    pub response_timeout: Option<Duration>,
    /// Maximum delay of a piggybacked response; after it, an Empty ACK is sent (RFC 7252 §5.2.2).
    /// It must be well below the peers' ACK_TIMEOUT.
    pub separate_after: Duration,
    /// Length of the random tokens of requests in bytes, 0 to 8. Less than 4 is unsafe on the
    /// Internet (RFC 7252 §5.3.1). 0 serves simulations of papers that sent no tokens, and permits
    /// only one request at a time to each peer.
    ///
    /// Lengths above 8, up to `longest_token`, are for servers that support RFC 8974. A Confirmable
    /// request discovers the support (§2.2.2): if it gets a Reset or 4.00, the endpoint repeats it
    /// with 8 bytes, and uses 8 bytes for the next half hour. Non-confirmable requests and group
    /// requests have 8 bytes while the support is unknown.
    pub token_length: usize,
    /// Maximum length of a peer's token in bytes: 8 to 65 804 (RFC 8974 §2.1), and at most half of
    /// [`Limits::message_bytes`]. With 8, the default, a message with a longer token is malformed
    /// (RFC 7252 §3). With a larger value, a request with a token that is too long is refused with
    /// 4.00 if the token leaves room for an answer.
    ///
    /// A long token counts as several requests in [`Limits::incoming`], and as several observers in
    /// [`Limits::observers`]: 1, plus one for each 128 bytes or part thereof. The tokens of peers
    /// therefore take at most 128 bytes for each of these places.
    pub longest_token: usize,
    /// Bytes counted per datagram in addition to its UDP payload, by byte-counting controllers and
    /// PROBING_RATE.
    pub datagram_overhead: u32,
    /// Maximum block size (RFC 7959 §2.2). With the default, 1024 bytes, only bodies that exceed a
    /// message are split. A smaller size applies to all bodies and is requested in advance (early
    /// negotiation, §2.4). A peer's request and [`Limits::message_bytes`] may reduce the block size
    /// further.
    pub block_size: BlockSize,
    /// Transfer bodies with Q-Block1 and Q-Block2 (RFC 9177) if the peer supports them, otherwise
    /// with Block1 and Block2, and serve requests with these options. Default: disabled.
    pub q_block: Option<QBlock>,
    /// Maximum time for all blocks of one body from a peer. A transfer that is unused for
    /// EXCHANGE_LIFETIME is dropped earlier.
    pub transfer_lifetime: Duration,
    /// Critical options that the application supports in addition to those of RFC 7252 and RFC
    /// 7959.
    pub known_options: Vec<OptionNumber>,
    /// Rate limit for the requests of one source (RFC 7252 §4.7). Default: none.
    pub response_limit: Option<ResponseLimit>,
    /// The proof that a source address is not forged (RFC 9175 §2.4, item 3; RFC 7252 §11.3).
    /// Without the proof, each datagram of a source is answered with at most three times its UDP
    /// payload.
    ///
    /// Default: [`SourceValidation::Ping`]. Does not apply to group requests (see [`Multicast`]),
    /// nor to datagrams that the transport has [validated](crate::Datagram::validated).
    pub source_validation: SourceValidation,
    /// When an observer is checked by a Confirmable message, and whether the first notification to
    /// a client with an unknown RTT is Confirmable. Default: `Some` of [`ObserverChecks::default`].
    /// With `None`, for simulations of servers that do neither, only notifications check an
    /// observer: at least every fifth, and one more than 12 h after the last proof.
    pub observer_checks: Option<ObserverChecks>,
    /// Responses to group requests, as a member of groups (RFC 7252 §8). Default: none.
    pub multicast: Option<Multicast>,
    /// Max-Age of a 5.03 for a request that cannot be accepted (RFC 7252 §5.9.3.4), in whole
    /// seconds.
    pub retry_after: Duration,
    /// Minimum time for which a peer's congestion state is kept after its last use (255 s:
    /// draft-ietf-core-cocoa-03 §4).
    pub idle_lifetime: Duration,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            response_timeout: None,
            transmission: TransmissionParameters::default(),
            envelope: Envelope::default(),
            limits: Limits::default(),
            queue_lifetime: Duration::from_secs(60),
            longest_pause: None,
            separate_after: Duration::from_millis(500),
            token_length: 8,
            longest_token: Token::MAX_LENGTH,
            datagram_overhead: 28,
            block_size: BlockSize::default(),
            q_block: None,
            transfer_lifetime: Duration::from_secs(3_600),
            known_options: Vec::new(),
            response_limit: None,
            source_validation: SourceValidation::Ping,
            observer_checks: Some(ObserverChecks { first: ObserverChecks::FIRST, every: ObserverChecks::EVERY }),
            multicast: None,
            retry_after: Duration::from_secs(2),
            idle_lifetime: Duration::from_secs(255),
        }
    }
}

/// Rate limit for the requests of a source. Requests beyond it are dropped as if lost, so that a
/// client that conforms to RFC 7252 backs off. There is no default, because the right rate depends
/// on the application.
///
/// A source below its limit is never refused because of others. The table takes 64 KiB and holds
/// the 4096 most recent sources; with more sources, those closest to a full allowance get it back
/// early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimit {
    /// Average requests per second; 0 counts as 1.
    pub per_second: u32,
    /// Requests at once after silence; 0 counts as 1.
    pub burst: u32,
}

impl EndpointConfig {
    /// Checks all settings that do not depend on a controller. Returns warnings about legal but
    /// unusual values.
    ///
    /// `controller_measures_rtt` as in [`TransmissionParameters::validate`].
    ///
    /// # Errors
    /// The first invalid setting, with the allowed values.
    pub fn validate(&self, controller_measures_rtt: bool) -> Result<Vec<ParameterWarning>, ConfigError> {
        self.limits.validate()?;
        self.envelope.validate()?;
        if !(Token::MAX_LENGTH..=Token::MAX_EXTENDED_LENGTH).contains(&self.longest_token) {
            return Err(ConfigError::LongestToken { given: self.longest_token });
        }
        let most = self.longest_accepted_token().max(Token::MAX_LENGTH);
        if self.token_length > most {
            return Err(ConfigError::TokenLength { given: self.token_length, most });
        }
        if self.queue_lifetime.is_zero() {
            return Err(ConfigError::NoTime { setting: "queue_lifetime" });
        }
        if self.longest_pause.is_some_and(|pause| pause.is_zero()) {
            return Err(ConfigError::NoTime { setting: "longest_pause" });
        }
        if self.transfer_lifetime.is_zero() {
            return Err(ConfigError::NoTime { setting: "transfer_lifetime" });
        }
        if self.response_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(ConfigError::NoTime { setting: "response_timeout" });
        }
        if let Some(checks) = &self.observer_checks {
            checks.validate()?;
        }
        let ack_timeout = self.transmission.ack_timeout;
        if let Some(q_block) = &self.q_block {
            q_block.validate(ack_timeout.saturating_mul(3) / 2)?;
        }
        if self.separate_after >= ack_timeout {
            return Err(ConfigError::LateAcknowledgement { separate_after: self.separate_after, ack_timeout });
        }
        Ok(self.transmission.validate(controller_measures_rtt)?)
    }

    /// Returns the maximum token length of an accepted request, in bytes: it leaves room for an
    /// answer.
    #[inline]
    pub(crate) fn longest_accepted_token(&self) -> usize {
        match self.longest_token {
            ..=Token::MAX_LENGTH => self.longest_token,
            longer => longer.min(self.limits.message_bytes / 2),
        }
    }

    /// Returns the maximum token length that is decoded, in bytes: that of a message with nothing
    /// but a token.
    pub(crate) fn longest_echoed_token(&self) -> usize {
        match self.longest_token {
            ..=Token::MAX_LENGTH => self.longest_token,
            _ => self.limits.message_bytes.saturating_sub(4 + 2),
        }
    }

    /// Returns the overhead of a message with this token, or with a new one of any length that the
    /// endpoint chooses, whichever is larger.
    pub(crate) fn longest_overhead(&self, token: &Token) -> Overhead {
        Overhead::of(token).max(Overhead::of_token_length(self.longest_own_token()))
    }

    /// Returns whether a message is sent uncut: it fits into a message, and no smaller blocks are
    /// configured.
    pub(crate) fn goes_whole(&self, beside: Overhead, body: &Body) -> bool {
        let smallest_cut = match self.block_size {
            BlockSize::B1024 => usize::MAX,
            size => size.bytes(),
        };
        beside.fits(body, self.limits.message_bytes) && body.len() <= smallest_cut
    }

    /// Returns a body with Max-Age for 5.03 (RFC 7252 §5.9.3.4).
    pub(crate) fn try_later(&self) -> Body {
        let seconds = u32::try_from(self.retry_after.as_secs()).unwrap_or(u32::MAX);
        Body::builder().uint(OptionNumber::MAX_AGE, seconds).build().unwrap_or_default()
    }

    /// Returns the length of the longest token that the endpoint generates, in bytes.
    pub(crate) fn longest_own_token(&self) -> usize {
        self.token_length.max(Token::MAX_LENGTH)
    }

    /// Checks all settings, with the controller that arms the timers.
    ///
    /// # Errors
    /// As for [`validate`](Self::validate) and [`TransmissionParameters::validate_with`].
    pub fn validate_with<C: Controller>(&self, controller: &C) -> Result<Vec<ParameterWarning>, ConfigError> {
        self.transmission.agree_with(controller)?;
        self.validate(controller.measures_rtt())
    }
}

/// An invalid configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The transmission parameters contradict RFC 7252, each other or the controller.
    #[error(transparent)]
    Transmission(#[from] ParameterError),
    /// A limit is out of range.
    #[error("the limit {limit} is {given}: it must be between {least} and {most}")]
    Limit {
        /// Name of the limit in [`Limits`].
        limit: &'static str,
        /// The given value.
        given: usize,
        /// The smallest allowed value.
        least: usize,
        /// The largest allowed value.
        most: usize,
    },
    /// Generated tokens are longer than the accepted ones.
    #[error(
        "token_length is {given}: it must be at most {most}, the lesser of longest_token and half of message_bytes"
    )]
    TokenLength {
        /// The given length.
        given: usize,
        /// The largest allowed length.
        most: usize,
    },
    /// The maximum token length is outside the range of RFC 7252 and RFC 8974.
    #[error("longest_token is {given}: it must be between 8 (RFC 7252 §3) and 65804 bytes (RFC 8974 §2.1)")]
    LongestToken {
        /// The given length.
        given: usize,
    },
    /// A duration is 0.
    #[error("{setting} is 0: it must be longer")]
    NoTime {
        /// The setting's name in [`EndpointConfig`].
        setting: &'static str,
    },
    /// Peers would retransmit every request that is not answered at once.
    #[error(
        "separate_after is {separate_after:?}: it must stay below ack_timeout, which is {ack_timeout:?}, \
         or peers repeat what is being answered"
    )]
    LateAcknowledgement {
        /// The given value.
        separate_after: Duration,
        /// The value that it must stay below.
        ack_timeout: Duration,
    },
    /// The floor of the timeouts exceeds their cap.
    #[error(
        "the envelope's timeout_floor is {floor:?}, its timeout_cap {cap:?}: the cap must be at least 1 ms and the floor"
    )]
    Envelope {
        /// The minimum initial timeout.
        floor: Duration,
        /// The maximum timeout.
        cap: Duration,
    },
    /// Missing blocks would be requested before their sender could continue (RFC 9177 §7.2).
    #[error("non_receive_timeout is {given:?}: it must be {least:?} at least, 1.5 times ack_timeout and a second")]
    NonReceiveTimeout {
        /// The given value.
        given: Duration,
        /// The smallest allowed value.
        least: Duration,
    },
    /// An observer would be checked less often than RFC 7641 requires.
    #[error("observer_checks.every is {given:?}: it must be at most 24 h (RFC 7641 §4.5)")]
    ObserverChecks {
        /// The given time.
        given: Duration,
    },
    /// An endpoint has at most 256 controllers.
    #[error("there are 256 controllers already: no more can be told apart")]
    TooManyControllers,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use conche_cc::AnyController;

    fn refusal(change: impl FnOnce(&mut EndpointConfig)) -> ConfigError {
        let mut config = EndpointConfig::default();
        change(&mut config);
        config.validate(false).expect_err("it must be refused")
    }

    #[test]
    fn the_default_is_legal_without_a_warning() {
        let controller = AnyController::by_name("cocoa").expect("a known name");
        assert_eq!(EndpointConfig::default().validate_with(&controller), Ok(Vec::new()));
    }

    #[test]
    fn every_limit_that_would_make_an_endpoint_deaf_or_dumb_is_refused_by_name() {
        type Change = fn(&mut Limits);
        let zero: [(&str, Change); 6] = [
            ("peers", |limits| limits.peers = 0),
            ("queue_per_peer", |limits| limits.queue_per_peer = 0),
            ("queue", |limits| limits.queue = 0),
            ("exchanges", |limits| limits.exchanges = 0),
            ("incoming", |limits| limits.incoming = 0),
            ("outputs", |limits| limits.outputs = 0),
        ];
        for (name, change) in zero {
            let error = refusal(|config| change(&mut config.limits));
            assert!(matches!(error, ConfigError::Limit { limit, given: 0, least: 1, .. } if limit == name), "{error}");
        }
        let error = refusal(|config| config.limits.message_bytes = 48);
        assert_eq!(error.to_string(), "the limit message_bytes is 48: it must be between 64 and 65535");
    }

    #[test]
    fn times_that_contradict_each_other_are_refused() {
        let seconds = Duration::from_secs;
        assert_eq!(refusal(|config| config.token_length = 9), ConfigError::TokenLength { given: 9, most: 8 });
        let error = refusal(|config| config.queue_lifetime = Duration::ZERO);
        assert_eq!(error, ConfigError::NoTime { setting: "queue_lifetime" });
        let error = refusal(|config| config.separate_after = seconds(2));
        assert!(matches!(error, ConfigError::LateAcknowledgement { .. }));
        let error = refusal(|config| config.q_block = Some(QBlock { max_payloads: 0, ..QBlock::default() }));
        assert_eq!(error.to_string(), "the limit max_payloads is 0: it must be between 1 and 1024");
        let error = refusal(|config| {
            config.transmission.ack_timeout = seconds(3);
            config.q_block = Some(QBlock::default());
        });
        assert!(matches!(error, ConfigError::NonReceiveTimeout { .. }));
        let day = seconds(24 * 60 * 60);
        let rarely = ObserverChecks { every: day + seconds(1), ..ObserverChecks::default() };
        let error = refusal(|config| config.observer_checks = Some(rarely));
        assert_eq!(error, ConfigError::ObserverChecks { given: day + seconds(1) });
        let never = ObserverChecks { first: Duration::ZERO, ..ObserverChecks::default() };
        let error = refusal(|config| config.observer_checks = Some(never));
        assert_eq!(error, ConfigError::NoTime { setting: "observer_checks.first" });
        let error = refusal(|config| config.envelope.timeout_cap = Duration::from_millis(50));
        assert!(matches!(error, ConfigError::Envelope { .. }));
    }
}
