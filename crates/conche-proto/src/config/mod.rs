//! How an endpoint is configured: the RFC's parameters, the safety envelope, and a bound for everything that can grow.
//!
//! All of it is checked in one place, [`EndpointConfig::validate_with`], which every endpoint passes before it exists.

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

use conche_cc::Controller;
use thiserror::Error;

use crate::codec::{BlockSize, OptionNumber, Token};

/// All settings of an [`Endpoint`](crate::Endpoint).
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// RFC 7252 §4.8.
    pub transmission: TransmissionParameters,
    /// What holds around every controller.
    pub envelope: Envelope,
    /// Bounds of memory.
    pub limits: Limits,
    /// How long a request may wait behind others for its turn before it fails with
    /// [`Failure::QueueExpired`](crate::Failure::QueueExpired).
    pub queue_lifetime: Duration,
    /// How long, from its submission, a request may wait whose turn has come, and that the controller or PROBING_RATE
    /// holds back until a certain time, or that waits for its turn on its [path](crate::Endpoint::share_paths): a pause that somebody
    /// decided on is no queue that stands still. Those behind it have `queue_lifetime`. `None`, the
    /// default: `queue_lifetime` and EXCHANGE_LIFETIME of these parameters (307 s).
    pub longest_pause: Option<Duration>,
    /// How long to wait for a separate response after the request was acknowledged. `None`, the default: EXCHANGE_LIFETIME
    /// of these parameters (247 s).
    pub response_timeout: Option<Duration>,
    /// How long a response may take and still be piggybacked; then an Empty ACK goes out (RFC 7252 §5.2.2). It must stay
    /// well below the peers' ACK_TIMEOUT.
    pub separate_after: Duration,
    /// Bytes of the random tokens of requests, 0 to 8. Below 4 is unsafe on the Internet (RFC 7252 §5.3.1); 0 serves
    /// simulations of papers that sent none, and works only with one request at a time to each peer.
    ///
    /// More than 8, up to `longest_token`, are for servers that know RFC 8974. Whether a server does is found out by a
    /// Confirmable request (§2.2.2): if it is rejected with a Reset or answered with 4.00, the endpoint sends it once more with 8
    /// bytes, and does so at once for the next half hour. Non-confirmable requests, and requests to groups, have 8 bytes as
    /// long as nothing is known.
    pub token_length: usize,
    /// The longest token of peers that is accepted, in bytes: 8 to 65 804 (RFC 8974 §2.1), and never more than half of
    /// [`Limits::message_bytes`]. With 8, the default, a message with a longer one is malformed (RFC 7252 §3). With more a request
    /// is refused with 4.00 if its token is longer than that but leaves room for an answer.
    ///
    /// A long token counts as several requests in [`Limits::incoming`], and as several observers in [`Limits::observers`]: one
    /// for each 128 bytes begun, and one. So whatever peers send, their tokens take no more memory than 128 bytes for each of
    /// these places.
    pub longest_token: usize,
    /// Bytes counted for each datagram beyond its UDP payload, by byte-counting controllers and PROBING_RATE.
    pub datagram_overhead: u32,
    /// The largest blocks that bodies are cut into (RFC 7959 §2.2). With the default, 1024 bytes, only what does not fit into
    /// a message is cut. A smaller size applies to every body and is asked for in advance (early negotiation, §2.4); what
    /// a peer asks for and what fits into [`Limits::message_bytes`] may make blocks smaller still.
    pub block_size: BlockSize,
    /// Bodies go with Q-Block1 and Q-Block2 (RFC 9177) where the peer knows these options, and with Block1 and Block2
    /// where it does not; requests that use them are served. Default: neither.
    pub q_block: Option<QBlock>,
    /// How long a peer may take for the blocks of one body, at most. What has not been used for EXCHANGE_LIFETIME is
    /// dropped before.
    pub transfer_lifetime: Duration,
    /// Critical options that the application understands beyond those of RFC 7252 and RFC 7959.
    pub known_options: Vec<OptionNumber>,
    /// How many requests of one source are answered (RFC 7252 §4.7). Default: all.
    pub response_limit: Option<ResponseLimit>,
    /// The proof that a source address is not forged (RFC 9175 §2.4, item 3; RFC 7252 §11.3).
    /// Without it, each datagram of a source is answered with at most three times its bytes of UDP
    /// payload.
    ///
    /// Default: [`SourceValidation::Ping`]. Does not apply to group requests, see [`Multicast`],
    /// nor to datagrams that the transport has [validated](crate::Datagram::validated).
    pub source_validation: SourceValidation,
    /// When an observer is checked by a Confirmable message, and whether the first notification is
    /// Confirmable if the round-trip time to the client is unknown. Default: `Some` of
    /// [`ObserverChecks::default`]. With `None`, for simulations of servers that do neither, an
    /// observer is checked by notifications only: at least each fifth, and one that follows the
    /// last proof after more than 12 h.
    pub observer_checks: Option<ObserverChecks>,
    /// How requests to groups of which we are a member are answered (RFC 7252 §8). Default: not at all.
    pub multicast: Option<Multicast>,
    /// What a request that cannot be taken in is told to wait, in the Max-Age of a 5.03 (RFC 7252 §5.9.3.4), in whole
    /// seconds.
    pub retry_after: Duration,
    /// Congestion state of a peer is kept at least this long after its last use (255 s: draft-ietf-core-cocoa-03 §4).
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

/// How many requests of one source are answered. What exceeds it is dropped as if it had been lost, so that a client
/// that keeps to RFC 7252 backs off. Nobody but the application knows how much is too much: there is no default.
///
/// A source that keeps to its limit is never refused because of others. The table takes 64 KiB and
/// holds the 4096 sources that asked last; beyond, the ones closest to a full allowance get it back
/// early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimit {
    /// Requests a second on average; 0 counts as 1.
    pub per_second: u32,
    /// Requests at once after a silence; 0 counts as 1.
    pub burst: u32,
}

impl EndpointConfig {
    /// Checks everything that does not depend on a controller, and answers what is legal but deserves attention.
    ///
    /// `controller_measures_rtt` as in [`TransmissionParameters::validate`].
    ///
    /// # Errors
    /// The first setting with which no endpoint can work, and what would be right.
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

    /// The longest token of a request that is not refused, in bytes: what is left of a message has room for an answer.
    #[inline]
    pub(crate) fn longest_accepted_token(&self) -> usize {
        match self.longest_token {
            ..=Token::MAX_LENGTH => self.longest_token,
            longer => longer.min(self.limits.message_bytes / 2),
        }
    }

    /// The longest token that is understood, in bytes: one that a message without anything else can have.
    pub(crate) fn longest_echoed_token(&self) -> usize {
        match self.longest_token {
            ..=Token::MAX_LENGTH => self.longest_token,
            _ => self.limits.message_bytes.saturating_sub(4 + 2),
        }
    }

    /// Returns the length of the longest token that the endpoint generates, in bytes.
    pub(crate) fn longest_own_token(&self) -> usize {
        self.token_length.max(Token::MAX_LENGTH)
    }

    /// Checks everything, with the controller that arms the timers.
    ///
    /// # Errors
    /// As [`validate`](Self::validate), and as [`TransmissionParameters::validate_with`].
    pub fn validate_with<C: Controller>(&self, controller: &C) -> Result<Vec<ParameterWarning>, ConfigError> {
        self.transmission.agree_with(controller)?;
        self.validate(controller.measures_rtt())
    }
}

/// A configuration with which no endpoint can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The transmission parameters contradict RFC 7252, each other or the controller.
    #[error(transparent)]
    Transmission(#[from] ParameterError),
    /// A bound is too small to work with, or larger than what can be counted.
    #[error("the limit {limit} is {given}: it must be between {least} and {most}")]
    Limit {
        /// Its name in [`Limits`].
        limit: &'static str,
        /// What was given.
        given: usize,
        /// The least that works.
        least: usize,
        /// The most that can be counted.
        most: usize,
    },
    /// Tokens of requests are longer than those that are accepted.
    #[error(
        "token_length is {given}: it must be at most {most}, the lesser of longest_token and half of message_bytes"
    )]
    TokenLength {
        /// What was given.
        given: usize,
        /// The longest that works.
        most: usize,
    },
    /// No message can have such a token, or RFC 7252 demands longer ones.
    #[error("longest_token is {given}: it must be between 8 (RFC 7252 §3) and 65804 bytes (RFC 8974 §2.1)")]
    LongestToken {
        /// What was given.
        given: usize,
    },
    /// Nothing could ever wait.
    #[error("{setting} is 0: it must be longer")]
    NoTime {
        /// The setting's name in [`EndpointConfig`].
        setting: &'static str,
    },
    /// Peers would repeat every request that is not answered at once.
    #[error(
        "separate_after is {separate_after:?}: it must stay below ack_timeout, which is {ack_timeout:?}, \
         or peers repeat what is being answered"
    )]
    LateAcknowledgement {
        /// What was given.
        separate_after: Duration,
        /// What it must stay below.
        ack_timeout: Duration,
    },
    /// No timeout could satisfy both.
    #[error(
        "the envelope's timeout_floor is {floor:?}, its timeout_cap {cap:?}: the cap must be at least 1 ms and the floor"
    )]
    Envelope {
        /// The shortest first timeout.
        floor: Duration,
        /// The longest timeout.
        cap: Duration,
    },
    /// What is missing would be asked for before its sender had the chance to go on (RFC 9177 §7.2).
    #[error("non_receive_timeout is {given:?}: it must be {least:?} at least, 1.5 times ack_timeout and a second")]
    NonReceiveTimeout {
        /// What was given.
        given: Duration,
        /// The shortest that works.
        least: Duration,
    },
    /// An observer would be checked less often than RFC 7641 demands.
    #[error("observer_checks.every is {given:?}: it must be at most 24 h (RFC 7641 §4.5)")]
    ObserverChecks {
        /// The given time.
        given: Duration,
    },
    /// An endpoint tells 256 controllers apart.
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
