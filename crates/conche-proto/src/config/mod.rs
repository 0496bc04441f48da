//! Configuration of an endpoint.

mod limits;
mod transmission;

pub use limits::Limits;
pub use transmission::{ParameterError, ParameterWarning, RandomFactor, TransmissionParameters};

use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

use conche_cc::Controller;
use thiserror::Error;

use crate::codec::{BlockSize, Body, OptionNumber, Overhead, Token};
// Targets without atomic pointers have a single endpoint: nothing is shared.
#[cfg(not(target_has_atomic = "ptr"))]
use alloc::boxed::Box as Shared;
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc as Shared;

/// All settings of an [`Endpoint`](crate::Endpoint).
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Transmission parameters (RFC 7252 §4.8).
    pub transmission: TransmissionParameters,
    /// Bounds for the timeouts of every controller.
    pub envelope: Envelope,
    /// Limits of memory.
    pub limits: Limits,
    /// Maximum time of a request behind others before it [fails](crate::Failure::QueueExpired).
    pub queue_lifetime: Duration,
    /// Maximum wait, from submission, at the head of a queue while the controller, PROBING_RATE or
    /// the [path](crate::Endpoint::share_paths) holds a request back. `None`, the default: the sum
    /// of `queue_lifetime` and EXCHANGE_LIFETIME (307 s).
    pub longest_pause: Option<Duration>,
    /// Maximum wait for a separate response after the acknowledgement of the request. `None`, the
    /// default: EXCHANGE_LIFETIME (247 s).
    pub response_timeout: Option<Duration>,
    /// Maximum delay of a piggybacked response; then an Empty ACK is sent (RFC 7252 §5.2.2). It
    /// must be well below the peers' ACK_TIMEOUT.
    pub separate_after: Duration,
    /// Length of the random tokens of requests in bytes, 0 to 8. Less than 4 is unsafe on the
    /// Internet (RFC 7252 §5.3.1). 0 permits one request at a time to each peer.
    ///
    /// More than 8, up to `longest_token`, requires servers with RFC 8974. A Confirmable request
    /// that gets a Reset or 4.00 (§2.2.2) is repeated with 8 bytes, which the endpoint then uses
    /// for half an hour. Non-confirmable and group requests have 8 bytes while the support is
    /// unknown.
    pub token_length: usize,
    /// Maximum length of a peer's token in bytes: 8 to 65 804 (RFC 8974 §2.1), and at most half of
    /// [`Limits::message_bytes`]. With 8, the default, a longer token is malformed (RFC 7252 §3).
    /// Otherwise it gets 4.00 if it leaves room for an answer.
    ///
    /// A long token counts in [`Limits::incoming`] and [`Limits::observers`] as 1, plus one for
    /// each 128 bytes or part thereof.
    pub longest_token: usize,
    /// Bytes per datagram beside its UDP payload, for byte-counting controllers and PROBING_RATE.
    pub datagram_overhead: u32,
    /// Maximum block size (RFC 7959 §2.2). With the default, 1024 bytes, only bodies that exceed a
    /// message are split. A smaller size splits all bodies and is requested in advance (§2.4). A
    /// peer and [`Limits::message_bytes`] may reduce it.
    pub block_size: BlockSize,
    /// Transfer bodies with Q-Block1 and Q-Block2 (RFC 9177) if the peer supports them, and serve
    /// such requests. Default: disabled.
    #[cfg(feature = "q-block")]
    pub q_block: Option<QBlock>,
    /// Maximum time for all blocks of a peer's body. Without use, a transfer is dropped after
    /// EXCHANGE_LIFETIME.
    pub transfer_lifetime: Duration,
    /// Critical options that the application handles, beside those that the endpoint
    /// [recognises](field@crate::codec::OptionSpec::recognised).
    pub known_options: Vec<OptionNumber>,
    /// Rate limit for the requests of one source (RFC 7252 §4.7). Default: none.
    pub response_limit: Option<ResponseLimit>,
    /// The proof that a source address is not forged (RFC 9175 §2.4, item 3; RFC 7252 §11.3).
    /// Without it, a datagram is answered with at most three times its UDP payload.
    ///
    /// Default: [`SourceValidation::Ping`]. Does not apply to group requests (see [`Multicast`]),
    /// nor to datagrams that the transport has [validated](crate::Datagram::validated).
    pub source_validation: SourceValidation,
    /// When a Confirmable message checks an observer, and whether the first notification to a
    /// client with an unknown RTT is Confirmable. Default: `Some` of [`ObserverChecks::default`].
    /// With `None`, for simulations, only notifications check an observer: every fifth, and one
    /// more than 12 h after the last proof.
    pub observer_checks: Option<ObserverChecks>,
    /// Responses to group requests, as a member of groups (RFC 7252 §8). Default: none.
    pub multicast: Option<Multicast>,
    /// Max-Age of a 5.03 for a refused request (RFC 7252 §5.9.3.4), in whole seconds.
    pub retry_after: Duration,
    /// Minimum time for which an unused peer's congestion state is kept (255 s:
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
            #[cfg(feature = "q-block")]
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

/// Rate limit for the requests of a source. Excess requests are dropped as if lost, so that the
/// client backs off.
///
/// A source below its limit is never refused because of others. The table takes 64 KiB for the 4096
/// most recent sources; beyond, those closest to a full allowance regain it early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimit {
    /// Average requests per second; 0 counts as 1.
    pub per_second: u32,
    /// Requests at once after silence; 0 counts as 1.
    pub burst: u32,
}

impl EndpointConfig {
    /// Checks all settings except those that depend on a controller. Returns warnings about unusual
    /// values. `controller_measures_rtt` as in [`TransmissionParameters::validate`].
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
        if let Some((q_block, _)) = self.q_block() {
            q_block.validate(ack_timeout.saturating_mul(3) / 2)?;
        }
        if self.separate_after >= ack_timeout {
            return Err(ConfigError::LateAcknowledgement { separate_after: self.separate_after, ack_timeout });
        }
        Ok(self.transmission.validate(controller_measures_rtt)?)
    }

    /// Returns the maximum token length of an accepted request in bytes.
    #[inline]
    pub(crate) fn longest_accepted_token(&self) -> usize {
        match self.longest_token {
            ..=Token::MAX_LENGTH => self.longest_token,
            longer => longer.min(self.limits.message_bytes / 2),
        }
    }

    /// Returns the maximum token length that is decoded, in bytes.
    pub(crate) fn longest_echoed_token(&self) -> usize {
        match self.longest_token {
            ..=Token::MAX_LENGTH => self.longest_token,
            _ => self.limits.message_bytes.saturating_sub(4 + 2),
        }
    }

    pub(crate) fn longest_overhead(&self, token: &Token) -> Overhead {
        Overhead::of(token).max(Overhead::of_token_length(self.longest_own_token()))
    }

    /// Returns `true` if a message needs no blocks.
    pub(crate) fn goes_whole(&self, overhead: Overhead, body: &Body) -> bool {
        let smallest_cut = match self.block_size {
            BlockSize::B1024 => usize::MAX,
            size => size.bytes(),
        };
        overhead.fits(body, self.limits.message_bytes) && body.len() <= smallest_cut
    }

    /// Returns a body with Max-Age for 5.03 (RFC 7252 §5.9.3.4).
    pub(crate) fn try_later(&self) -> Body {
        let seconds = u32::try_from(self.retry_after.as_secs()).unwrap_or(u32::MAX);
        Body::builder().uint(OptionNumber::MAX_AGE, seconds).build().unwrap_or_default()
    }

    pub(crate) fn longest_own_token(&self) -> usize {
        self.token_length.max(Token::MAX_LENGTH)
    }

    /// Checks all settings, also against the controller that arms the timers.
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
    /// Peers would retransmit every request not answered at once.
    #[error(
        "separate_after is {separate_after:?}: it must stay below ack_timeout, which is {ack_timeout:?}, \
         or peers repeat fingerprint is being answered"
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
    /// Missing blocks would be requested before the sender can continue (RFC 9177 §7.2).
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

/// The minimum timeout: the finest timer of any controller.
const FINEST: Duration = Duration::from_millis(1);

/// Bounds that hold even for a broken controller.
///
/// In addition, retransmissions stay within MAX_TRANSMIT_SPAN, and an unresponsive peer gets
/// Non-confirmable messages only at PROBING_RATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Minimum initial timeout, even after a fast or forged acknowledgement. Default 100 ms.
    pub timeout_floor: Duration,
    /// Maximum timeout. Default 60 s.
    pub timeout_cap: Duration,
    /// No timeout of an exchange is shorter than the previous one; `true` by default. FASOR's
    /// series has shorter ones on purpose.
    pub monotonic_backoff: bool,
}

impl Default for Envelope {
    fn default() -> Self {
        Self {
            timeout_floor: Duration::from_millis(100),
            timeout_cap: Duration::from_secs(60),
            monotonic_backoff: true,
        }
    }
}

impl Envelope {
    /// Creates an envelope without floor and order, for papers that had none.
    #[must_use]
    pub fn open(timeout_cap: Duration) -> Self {
        Self { timeout_floor: Duration::ZERO, timeout_cap, monotonic_backoff: false }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let Self { timeout_floor: floor, timeout_cap: cap, .. } = *self;
        if cap < floor.max(FINEST) { Err(ConfigError::Envelope { floor, cap }) } else { Ok(()) }
    }

    /// Returns the timeout to arm for `wanted`, after the timeout `previous` of this exchange.
    #[must_use]
    #[inline]
    pub fn hold(&self, wanted: Duration, previous: Option<Duration>) -> Duration {
        let least = match previous {
            None => self.timeout_floor,
            Some(previous) if self.monotonic_backoff => previous,
            Some(_) => Duration::ZERO,
        };
        wanted.max(least).max(FINEST).min(self.timeout_cap)
    }
}

/// Responses of a group member to group requests.
///
/// Errors and successes without a payload are not sent, unless the request has No-Response (RFC
/// 7967 §2.1) or the application sets [`Response::even_to_group`](crate::Response::even_to_group).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Multicast {
    /// The period within which each response leaves at a random time (§8.2). `None`, the default:
    /// DEFAULT_LEISURE of the transmission parameters (5 s).
    pub leisure: Option<Duration>,
}

impl Multicast {
    /// Creates the setting with this leisure; see [`leisure_for`](Self::leisure_for).
    #[must_use]
    pub const fn with_leisure(leisure: Duration) -> Self {
        Self { leisure: Some(leisure) }
    }

    /// Returns the shortest leisure at which a group of `members` responds within this rate: S · G
    /// / R of RFC 7252 §8.2; [`Duration::MAX`] for a rate of 0.
    ///
    /// ```
    /// use std::time::Duration;
    /// use conche_proto::config::Multicast;
    ///
    /// // The RFC's example: 100 bytes, 100 members, 8 kbit/s.
    /// assert_eq!(Multicast::leisure_for(100, 100, 1_000), Duration::from_secs(10));
    /// ```
    #[must_use]
    pub fn leisure_for(response_bytes: u32, members: u32, bytes_per_second: u32) -> Duration {
        if bytes_per_second == 0 {
            return Duration::MAX;
        }
        let (bytes, rate) = (u64::from(response_bytes) * u64::from(members), u64::from(bytes_per_second));
        let nanos = (bytes % rate) * 1_000_000_000 / rate;
        // The remainder is below the rate: less than a second.
        Duration::new(bytes / rate, u32::try_from(nanos).unwrap_or_default())
    }
}

/// Schedule of presence checks, which remove forged and departed observers (RFC 7641 §4.5): a
/// Confirmable message with the newest state or, before the first notification, a ping (RFC 7252
/// §4.3). An observer that does not acknowledge within MAX_TRANSMIT_WAIT (93 s by default) is
/// removed.
///
/// An observer has proven its presence when it acknowledged a notification or its first response,
/// when its peer acknowledged any message or answered a request, or when it registered from a
/// [validated](crate::EndpointConfig::source_validation) source. If the table of observers or of
/// peers is full, the oldest unproven ones are evicted; they are checked at once when they take
/// half of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObserverChecks {
    /// Time from the registration to the first check of an unproven observer. Default: 2 min, so
    /// that the first change checks most observers without an extra message.
    pub first: Duration,
    /// Time from the last proof to the next check, at most 24 h (RFC 7641 §4.5). Default: 12 h,
    /// because a failing check takes time to give up.
    pub every: Duration,
}

impl ObserverChecks {
    /// The default of [`first`](Self::first).
    pub const FIRST: Duration = Duration::from_secs(2 * 60);

    /// The default of [`every`](Self::every).
    pub const EVERY: Duration = Duration::from_secs(12 * 60 * 60);

    /// RFC 7641 §4.5.
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    fn validate(&self) -> Result<(), ConfigError> {
        if self.first.is_zero() {
            return Err(ConfigError::NoTime { setting: "observer_checks.first" });
        }
        if self.every.is_zero() {
            return Err(ConfigError::NoTime { setting: "observer_checks.every" });
        }
        if self.every > Self::LONGEST {
            return Err(ConfigError::ObserverChecks { given: self.every });
        }
        Ok(())
    }
}

impl Default for ObserverChecks {
    fn default() -> Self {
        Self { first: Self::FIRST, every: Self::EVERY }
    }
}

/// Proof that the feature `q-block` is on. States of Q-Block hold one: without the feature they
/// cannot exist, and the compiler drops their code.
#[cfg(feature = "q-block")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct QBlockFeature;

/// Uninhabited, without the feature.
#[cfg(not(feature = "q-block"))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum QBlockFeature {}

impl EndpointConfig {
    /// Returns the parameters of Q-Block, if it is enabled.
    pub(crate) fn q_block(&self) -> Option<(QBlock, QBlockFeature)> {
        #[cfg(feature = "q-block")]
        return self.q_block.map(|q_block| (q_block, QBlockFeature));
        #[cfg(not(feature = "q-block"))]
        None
    }
}

/// Parameters of Q-Block1 and Q-Block2 (RFC 9177), with the feature `q-block`.
///
/// Both ends must use the same `max_payloads`. The rate within a burst depends on the controller
/// and the delivered part of previous bursts.
///
/// NON_TIMEOUT, NON_MAX_RETRANSMIT and NON_PARTIAL_TIMEOUT are ACK_TIMEOUT, MAX_RETRANSMIT and
/// EXCHANGE_LIFETIME of the [transmission parameters](super::TransmissionParameters) (RFC 9177
/// §7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QBlock {
    /// MAX_PAYLOADS: the maximum number of messages in a burst, 1 to 1024; 10 by default. A long
    /// RTT needs more, because each burst waits for its answer.
    pub max_payloads: u16,
    /// NON_RECEIVE_TIMEOUT: the wait before missing blocks are requested; 4 s by default, at least
    /// 1.5 times ACK_TIMEOUT plus a second. After the end of a burst, it is the time of two more
    /// messages.
    pub non_receive_timeout: Duration,
    /// Send payloads as Confirmable messages (RFC 9177 §7.1); `false` by default. A body has one
    /// outstanding at a time, and missing blocks are never requested: slower than bursts, but no
    /// slower than block-wise transfer. Peers may send either kind.
    pub confirmable: bool,
}

impl Default for QBlock {
    fn default() -> Self {
        Self { max_payloads: 10, non_receive_timeout: Duration::from_secs(4), confirmable: false }
    }
}

/// The missing blocks of a burst must fit into one burst.
const MOST_PAYLOADS: u16 = 1024;

impl QBlock {
    /// `non_timeout` is the maximum of NON_TIMEOUT_RANDOM.
    fn validate(&self, non_timeout: Duration) -> Result<(), ConfigError> {
        let Self { max_payloads, non_receive_timeout: given, .. } = *self;
        if !(1..=MOST_PAYLOADS).contains(&max_payloads) {
            let (given, most) = (max_payloads.into(), MOST_PAYLOADS.into());
            return Err(ConfigError::Limit { limit: "max_payloads", given, least: 1, most });
        }
        let least = non_timeout.saturating_add(Duration::from_secs(1));
        if given < least { Err(ConfigError::NonReceiveTimeout { given, least }) } else { Ok(()) }
    }
}

/// The proof that a source receives at its address, before it is sent more than three times its own
/// bytes.
///
/// A small and prompt response needs no proof. Required are proofs for larger responses, for those
/// after [`separate_after`](crate::EndpointConfig::separate_after), and before a request registers
/// an observer, uses Q-Block or starts a streamed body. A source then counts as validated for 247
/// s, as does one that acknowledges a Confirmable response or notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SourceValidation {
    /// No proof: for closed networks.
    Off,
    /// An Echo value (RFC 9175): the request gets 4.01 with the value, and is repeated with it. A
    /// non-idempotent request needs the proof before it reaches the application. Clients without
    /// RFC 9175 get only small and prompt responses.
    Echo,
    /// The answer to a ping with a random message ID, which every endpoint must send (RFC 7252
    /// §4.3). Request or response are held meanwhile: at most 12 s, 16 messages per source, and 1
    /// MiB in total. Without an answer, a first block of 16 bytes is sent within the allowance, so
    /// that the client fetches the others. Otherwise, or without room to hold the message, an Echo
    /// value is requested. A request with an Echo value needs no ping.
    ///
    /// A host that runs CoAP at the forged address answers the ping, and can receive responses
    /// while it counts as validated. Only [`Echo`](Self::Echo) protects such hosts.
    #[default]
    Ping,
}

/// A configuration shared by all clones, for simulations.
///
/// ```
/// use conche_proto::cc::AnyController;
/// use conche_proto::{Endpoint, EndpointConfig, SharedConfig};
///
/// let config = SharedConfig::from(EndpointConfig::default());
/// let controller = AnyController::by_name("cocoa").expect("a known name");
/// let [one, other] = [1, 2].map(|seed| {
///     Endpoint::<u32, _>::new(config.clone(), controller.clone(), [seed; 32]).expect("legal parameters")
/// });
/// assert_eq!(one.transmission(), other.transmission());
/// ```
#[derive(Clone)]
pub struct SharedConfig(Shared<Settings>);

#[derive(Clone)]
struct Settings {
    config: EndpointConfig,
    times: Times,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) max_transmit_span: Duration,
    pub(crate) exchange_lifetime: Duration,
    pub(crate) non_lifetime: Duration,
    pub(crate) response_timeout: Duration,
    /// Range of NON_TIMEOUT_RANDOM (RFC 9177 §7.2).
    pub(crate) non_timeout: [Duration; 2],
    /// NON_RECEIVE_TIMEOUT.
    pub(crate) non_receive_timeout: Duration,
    /// See [`EndpointConfig::longest_pause`].
    pub(crate) longest_pause: Duration,
}

impl Times {
    fn of(config: &EndpointConfig) -> Self {
        let transmission = &config.transmission;
        let exchange_lifetime = transmission.exchange_lifetime();
        Self {
            max_transmit_span: transmission.max_transmit_span(),
            exchange_lifetime,
            non_lifetime: transmission.non_lifetime(),
            non_timeout: [transmission.ack_timeout, transmission.ack_timeout.saturating_mul(3) / 2],
            non_receive_timeout: config.q_block().map_or(Duration::ZERO, |(q_block, _)| q_block.non_receive_timeout),
            response_timeout: config.response_timeout.unwrap_or(exchange_lifetime),
            longest_pause: config.longest_pause.unwrap_or(config.queue_lifetime.saturating_add(exchange_lifetime)),
        }
    }
}

impl SharedConfig {
    pub(crate) fn times(&self) -> &Times {
        &self.0.times
    }

    /// Returns the maximum timeout of transmission `attempt`, sent `elapsed` after the first, so
    /// that all retransmissions fit into MAX_TRANSMIT_SPAN. A sixteenth stays free: timers expire
    /// late.
    pub(crate) fn room_for_retransmissions(&self, attempt: u8, elapsed: Duration) -> Duration {
        let span = self.times().max_transmit_span;
        let left = (span - span / 16).saturating_sub(elapsed);
        left.checked_div(self.transmission.max_retransmit.saturating_sub(attempt).into()).unwrap_or(Duration::MAX)
    }
}

impl From<EndpointConfig> for SharedConfig {
    fn from(mut config: EndpointConfig) -> Self {
        if config.q_block().is_some() {
            config.known_options.extend([OptionNumber::Q_BLOCK1, OptionNumber::Q_BLOCK2]);
        }
        let times = Times::of(&config);
        Self(Shared::new(Settings { config, times }))
    }
}

impl Deref for SharedConfig {
    type Target = EndpointConfig;

    #[inline]
    fn deref(&self) -> &EndpointConfig {
        &self.0.config
    }
}

impl fmt::Debug for SharedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.config.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use conche_cc::AnyController;

    use super::*;

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

    #[cfg(feature = "q-block")]
    #[test]
    fn parameters_of_q_block_that_contradict_others_are_refused() {
        let error = refusal(|config| config.q_block = Some(QBlock { max_payloads: 0, ..QBlock::default() }));
        assert_eq!(error.to_string(), "the limit max_payloads is 0: it must be between 1 and 1024");
        let error = refusal(|config| {
            config.transmission.ack_timeout = Duration::from_secs(3);
            config.q_block = Some(QBlock::default());
        });
        assert!(matches!(error, ConfigError::NonReceiveTimeout { .. }));
    }

    #[test]
    fn times_that_contradict_each_other_are_refused() {
        let seconds = Duration::from_secs;
        assert_eq!(refusal(|config| config.token_length = 9), ConfigError::TokenLength { given: 9, most: 8 });
        let error = refusal(|config| config.queue_lifetime = Duration::ZERO);
        assert_eq!(error, ConfigError::NoTime { setting: "queue_lifetime" });
        let error = refusal(|config| config.separate_after = seconds(2));
        assert!(matches!(error, ConfigError::LateAcknowledgement { .. }));
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

    #[test]
    fn the_envelope_holds_floor_cap_and_order() {
        let envelope = Envelope::default();
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        assert_eq!(envelope.hold(ms(1), None), ms(100));
        assert_eq!(envelope.hold(s(3), Some(s(5))), s(5));
        assert_eq!(envelope.hold(s(300), Some(s(5))), s(60));
        assert_eq!(Envelope::open(s(60)).hold(s(3), Some(s(5))), s(3));
    }

    // RFC 7252 §8.2 (Q89)
    #[test]
    fn the_leisure_is_size_times_members_by_rate() {
        assert_eq!(Multicast::leisure_for(100, 100, 1_000), Duration::from_secs(10));
        assert_eq!(Multicast::leisure_for(1, 1, 3), Duration::from_nanos(333_333_333));
        assert_eq!(Multicast::leisure_for(u32::MAX, u32::MAX, 1), Duration::from_secs(u64::from(u32::MAX).pow(2)));
        assert_eq!(Multicast::leisure_for(1, 1, 0), Duration::MAX);
        assert_eq!(Multicast::default().leisure, None, "DEFAULT_LEISURE");
        assert_eq!(crate::TransmissionParameters::default().default_leisure, Duration::from_secs(5));
    }
}
