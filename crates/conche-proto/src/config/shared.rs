//! [`SharedConfig`]: one configuration for many endpoints.

use core::fmt;
use core::ops::Deref;
use core::time::Duration;

use super::EndpointConfig;
use crate::codec::OptionNumber;

// Targets without atomic pointers have a single endpoint, which owns the configuration.
#[cfg(not(target_has_atomic = "ptr"))]
use alloc::boxed::Box as Shared;
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc as Shared;

/// A configuration that all clones share, for the thousands of endpoints of a simulation.
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

/// The times derived from a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) max_transmit_span: Duration,
    pub(crate) exchange_lifetime: Duration,
    pub(crate) non_lifetime: Duration,
    pub(crate) response_timeout: Duration,
    /// Range of NON_TIMEOUT_RANDOM (RFC 9177 §7.2).
    pub(crate) non_timeout: [Duration; 2],
    /// NON_RECEIVE_TIMEOUT: the wait before missing blocks are requested.
    pub(crate) non_receive_timeout: Duration,
    /// Maximum wait at the head of a queue; see [`EndpointConfig::longest_pause`].
    pub(crate) longest_pause: Duration,
}

impl Times {
    /// Computes the times of RFC 7252 §4.8.2, and the defaults of unset times.
    fn of(config: &EndpointConfig) -> Self {
        let transmission = &config.transmission;
        let exchange_lifetime = transmission.exchange_lifetime();
        Self {
            max_transmit_span: transmission.max_transmit_span(),
            exchange_lifetime,
            non_lifetime: transmission.non_lifetime(),
            non_timeout: [transmission.ack_timeout, transmission.ack_timeout.saturating_mul(3) / 2],
            non_receive_timeout: config.q_block.map_or(Duration::ZERO, |q_block| q_block.non_receive_timeout),
            response_timeout: config.response_timeout.unwrap_or(exchange_lifetime),
            longest_pause: config.longest_pause.unwrap_or(config.queue_lifetime.saturating_add(exchange_lifetime)),
        }
    }
}

impl SharedConfig {
    pub(crate) fn times(&self) -> &Times {
        &self.0.times
    }

    /// Returns the maximum timeout of transmission `attempt`, sent `elapsed` after the first, with
    /// which all remaining retransmissions fit into MAX_TRANSMIT_SPAN. A sixteenth of the span
    /// stays free, because timers expire late.
    pub(crate) fn room_for_retransmissions(&self, attempt: u8, elapsed: Duration) -> Duration {
        let span = self.times().max_transmit_span;
        let left = (span - span / 16).saturating_sub(elapsed);
        left.checked_div(self.transmission.max_retransmit.saturating_sub(attempt).into()).unwrap_or(Duration::MAX)
    }
}

impl From<EndpointConfig> for SharedConfig {
    fn from(mut config: EndpointConfig) -> Self {
        if config.q_block.is_some() {
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
