//! Transmission parameters and derived times (RFC 7252 §4.8).

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use conche_cc::{Controller, Instant};
use thiserror::Error;

/// Parameters of retransmission and pacing; the defaults are those of RFC 7252 (§4.8, Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmissionParameters {
    /// ACK_TIMEOUT: the base of all derived times. The controller's initial RTO must equal it
    /// ([`validate_with`](Self::validate_with)), since the controller arms the timers.
    pub ack_timeout: Duration,
    /// ACK_RANDOM_FACTOR: the initial timeout is drawn between ACK_TIMEOUT and this multiple of it.
    pub ack_random_factor: RandomFactor,
    /// MAX_RETRANSMIT: maximum number of retransmissions of a Confirmable message.
    pub max_retransmit: u8,
    /// Whether the last retransmission's acknowledgement is awaited (§4.2). Contiki's er-coap gives
    /// up as soon as it is sent.
    pub last_timeout: bool,
    /// MAX_TRANSMIT_SPAN, after which no retransmission starts; `None` for the RFC's
    /// ([`max_transmit_span`](Self::max_transmit_span)). Contiki's er-coap has no such limit.
    pub transmit_span: Option<Duration>,
    /// NSTART: maximum number of outstanding interactions with one peer.
    pub nstart: u16,
    /// DEFAULT_LEISURE: the period that spreads responses to multicast requests.
    pub default_leisure: Duration,
    /// PROBING_RATE: the average rate toward an unresponsive peer, in bytes per second.
    pub probing_rate: u32,
    /// MAX_LATENCY: maximum time of a datagram in the network (§4.8.2).
    pub max_latency: Duration,
    /// PROCESSING_DELAY: maximum time until a peer acknowledges (§4.8.2); `None` for ACK_TIMEOUT.
    pub processing_delay: Option<Duration>,
}

impl Default for TransmissionParameters {
    fn default() -> Self {
        Self::RFC_7252
    }
}

impl TransmissionParameters {
    /// The values of RFC 7252, Table 2, with MAX_LATENCY and PROCESSING_DELAY of §4.8.2.
    pub const RFC_7252: Self = Self {
        ack_timeout: Duration::from_secs(2),
        ack_random_factor: RandomFactor { permille: 1500 },
        max_retransmit: 4,
        last_timeout: true,
        transmit_span: None,
        nstart: 1,
        default_leisure: Duration::from_secs(5),
        probing_rate: 1,
        max_latency: Duration::from_secs(100),
        processing_delay: None,
    };

    /// Returns PROCESSING_DELAY; ACK_TIMEOUT if it is not set.
    #[must_use]
    pub fn processing_delay(&self) -> Duration {
        self.processing_delay.unwrap_or(self.ack_timeout)
    }

    /// Returns MAX_TRANSMIT_SPAN, from the first to the last transmission of a Confirmable message:
    /// `transmit_span`, or the sum of all timeouts but the last; 45 s by default.
    #[must_use]
    pub fn max_transmit_span(&self) -> Duration {
        self.transmit_span.unwrap_or_else(|| self.timeouts(self.max_retransmit.into()))
    }

    /// Returns MAX_TRANSMIT_WAIT, from the first transmission of a Confirmable message until its
    /// sender gives up; 93 s by default.
    #[must_use]
    pub fn max_transmit_wait(&self) -> Duration {
        self.timeouts(u32::from(self.max_retransmit) + 1)
    }

    /// Returns MAX_RTT: the maximum time from a message to its acknowledgement; 202 s by default.
    #[must_use]
    pub fn max_rtt(&self) -> Duration {
        self.max_latency.saturating_mul(2).saturating_add(self.processing_delay())
    }

    /// Returns EXCHANGE_LIFETIME, from the first transmission of a Confirmable message until no
    /// acknowledgement is expected, so that its message ID can be reused; 247 s by default.
    ///
    /// The RFC's MAX_TRANSMIT_SPAN + 2 * MAX_LATENCY + PROCESSING_DELAY holds if the last waiting
    /// period is shorter than MAX_LATENCY; otherwise the sender still waits then, until
    /// MAX_TRANSMIT_WAIT. The later of both is exact in either case.
    #[must_use]
    pub fn exchange_lifetime(&self) -> Duration {
        self.max_transmit_span().saturating_add(self.max_rtt()).max(self.max_transmit_wait())
    }

    /// Returns NON_LIFETIME, from the first transmission of a Non-confirmable message until no
    /// duplicate can arrive; 145 s by default.
    #[must_use]
    pub fn non_lifetime(&self) -> Duration {
        self.max_transmit_span().saturating_add(self.max_latency)
    }

    /// Returns the maximum sum of the first `count` timeouts of an exchange: ACK_TIMEOUT * (2 **
    /// count - 1) * ACK_RANDOM_FACTOR.
    fn timeouts(&self, count: u32) -> Duration {
        // A value that overflows 128 bits would not fit a Duration after the division.
        let nanos = 1_u128
            .checked_shl(count)
            .map(|power| power - 1)
            .and_then(|periods| periods.checked_mul(self.ack_timeout.as_nanos()))
            .and_then(|nanos| nanos.checked_mul(self.ack_random_factor.permille.into()));
        nanos.map_or(Duration::MAX, |nanos| saturating_duration(nanos / 1000))
    }

    /// Checks that the parameters are safe for the network (§4.8.1). Returns warnings about unusual
    /// values.
    ///
    /// `controller_measures_rtt` is `true` if a congestion controller adapts the timeout to
    /// measured RTTs. Without one, "configurations MUST NOT decrease ACK_TIMEOUT or increase
    /// NSTART".
    ///
    /// # Errors
    ///
    /// The first invalid parameter.
    pub fn validate(&self, controller_measures_rtt: bool) -> Result<Vec<ParameterWarning>, ParameterError> {
        self.refuse(controller_measures_rtt)?;
        let default = Self::RFC_7252;
        let warnings = [
            (*self != default, ParameterWarning::NotDefault),
            (self.enlarges_lifetimes(), ParameterWarning::EnlargedLifetimes(self.exchange_lifetime())),
            (
                !controller_measures_rtt && self.ack_timeout < default.ack_timeout,
                ParameterWarning::ShortAckTimeout(self.ack_timeout),
            ),
            (self.ack_random_factor < RandomFactor::ENOUGH, ParameterWarning::LittleRandomness(self.ack_random_factor)),
        ];
        Ok(warnings.into_iter().filter_map(|(applies, warning)| applies.then_some(warning)).collect())
    }

    /// Checks the parameters with the controller that arms the timers.
    ///
    /// # Errors
    /// As for [`validate`](Self::validate), and if `ack_timeout` was changed here but not in the
    /// controller's configuration.
    pub fn validate_with<C: Controller>(&self, controller: &C) -> Result<Vec<ParameterWarning>, ParameterError> {
        self.agree_with(controller)?;
        self.validate(controller.measures_rtt())
    }

    pub(super) fn agree_with<C: Controller>(&self, controller: &C) -> Result<(), ParameterError> {
        let initial_rto = controller.base(&mut controller.peer(Instant::ZERO), Instant::ZERO);
        if self.ack_timeout != Self::RFC_7252.ack_timeout && self.ack_timeout != initial_rto {
            return Err(ParameterError::OtherInitialRto { ack_timeout: self.ack_timeout, initial_rto });
        }
        Ok(())
    }

    fn refuse(&self, controller_measures_rtt: bool) -> Result<(), ParameterError> {
        if self.ack_timeout.is_zero() {
            return Err(ParameterError::NoAckTimeout);
        }
        if self.max_retransmit == 0 && !self.last_timeout {
            return Err(ParameterError::NoTimeout);
        }
        if self.nstart == 0 {
            return Err(ParameterError::NoNstart);
        }
        if self.probing_rate == 0 {
            return Err(ParameterError::NoProbingRate);
        }
        if self.ack_random_factor < RandomFactor::ONE {
            return Err(ParameterError::RandomFactorBelowOne(self.ack_random_factor));
        }
        if !controller_measures_rtt && self.ack_timeout < Duration::from_secs(1) {
            return Err(ParameterError::ShortAckTimeout(self.ack_timeout));
        }
        if !controller_measures_rtt && self.nstart > 1 {
            return Err(ParameterError::HighNstart(self.nstart));
        }
        Ok(())
    }

    fn enlarges_lifetimes(&self) -> bool {
        let default = Self::RFC_7252;
        self.exchange_lifetime() > default.exchange_lifetime() || self.non_lifetime() > default.non_lifetime()
    }
}

/// A factor in thousandths: 1500 for 1.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RandomFactor {
    /// Thousandths.
    pub permille: u16,
}

impl RandomFactor {
    const ONE: Self = Self { permille: 1000 };
    /// Sufficient against synchronised peers; RFC 7252 §4.8.1 gives no number.
    const ENOUGH: Self = Self { permille: 1200 };
}

/// Prints `1.5`.
impl fmt::Display for RandomFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, thousandths) = (self.permille / 1000, self.permille % 1000);
        match (thousandths % 100, thousandths % 10) {
            (0, _) => write!(f, "{whole}.{}", thousandths / 100),
            (_, 0) => write!(f, "{whole}.{:02}", thousandths / 10),
            _ => write!(f, "{whole}.{thousandths:03}"),
        }
    }
}

/// Reason why parameters are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// Messages would be retransmitted without a pause.
    #[error("ack_timeout is 0: it must be longer, 2 s by default")]
    NoAckTimeout,
    /// No acknowledgement would be awaited.
    #[error(
        "max_retransmit is 0 and last_timeout false: no acknowledgement would be awaited; set max_retransmit to at least 1"
    )]
    NoTimeout,
    /// No message could ever be sent.
    #[error("nstart is 0: at least 1 interaction must be possible")]
    NoNstart,
    /// An unresponsive peer would never be sent a message again.
    #[error("probing_rate is 0: it must be at least 1 byte/s")]
    NoProbingRate,
    /// RFC 7252 §4.8.1: "ACK_RANDOM_FACTOR MUST NOT be decreased below 1.0".
    #[error("ack_random_factor is {0}: it must be at least 1.0 and should be 1.5")]
    RandomFactorBelowOne(RandomFactor),
    /// ACK_TIMEOUT is below 1 s without a controller that measures RTTs (RFC 7252 §4.8.1, RFC 8085
    /// §3.1.1).
    #[error("ack_timeout is {0:?}: below 1 s only with a congestion controller that measures RTTs")]
    ShortAckTimeout(Duration),
    /// RFC 7252 §4.7, §4.8.1.
    #[error("nstart is {0}: above 1 only with a congestion controller that measures RTTs")]
    HighNstart(u16),
    /// An `ack_timeout` that the controller does not use would change only the derived times.
    #[error(
        "ack_timeout is {ack_timeout:?}, but the controller's initial RTO is {initial_rto:?}: \
         give the controller's configuration the same value"
    )]
    OtherInitialRto {
        /// The value in the parameters.
        ack_timeout: Duration,
        /// The controller's initial RTO.
        initial_rto: Duration,
    },
}

/// Legal but unusual parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterWarning {
    /// The parameters differ from the defaults (RFC 7252 §4.8.1).
    NotDefault,
    /// Peers with default lifetimes of message IDs would take late duplicates for new messages
    /// (§4.8.1); the new EXCHANGE_LIFETIME.
    EnlargedLifetimes(Duration),
    /// ACK_TIMEOUT is between 1 s and the default, without a controller that measures RTTs.
    ShortAckTimeout(Duration),
    /// ACK_RANDOM_FACTOR should be sufficiently above 1.0 to avoid synchronised peers (§4.8.1).
    LittleRandomness(RandomFactor),
}

impl fmt::Display for ParameterWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDefault => {
                f.write_str("transmission parameters differ from RFC 7252's: all peers should use the same ones")
            }
            Self::EnlargedLifetimes(lifetime) => {
                write!(f, "message IDs must be kept for {lifetime:?}, longer than by default: configure all peers so")
            }
            Self::ShortAckTimeout(timeout) => {
                write!(f, "ack_timeout is {timeout:?}, below 2 s, and no congestion controller measures RTTs")
            }
            Self::LittleRandomness(factor) => {
                write!(f, "ack_random_factor is {factor}: below 1.2 peers may retransmit in step")
            }
        }
    }
}

fn saturating_duration(nanos: u128) -> Duration {
    const NANOS_PER_SECOND: u128 = 1_000_000_000;
    match (u64::try_from(nanos / NANOS_PER_SECOND), u32::try_from(nanos % NANOS_PER_SECOND)) {
        (Ok(seconds), Ok(nanos)) => Duration::new(seconds, nanos),
        _ => Duration::MAX,
    }
}

#[cfg(test)]
mod tests;
