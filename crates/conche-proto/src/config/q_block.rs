//! [`QBlock`]: the parameters of RFC 9177.

use core::time::Duration;

use super::ConfigError;

/// How bodies go with Q-Block1 and Q-Block2 (RFC 9177): in sets of Non-confirmable messages, each of which gets one answer, or as
/// Confirmable messages.
///
/// Both ends must have the same `max_payloads`. How fast a set leaves is not said here: that is for the destination's
/// controller, and for what the path delivered of the sets before.
///
/// NON_TIMEOUT and NON_MAX_RETRANSMIT are ACK_TIMEOUT and MAX_RETRANSMIT of the
/// [transmission parameters](super::TransmissionParameters), as by default (RFC 9177 §7.2); NON_PARTIAL_TIMEOUT is their
/// EXCHANGE_LIFETIME, which is computed in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QBlock {
    /// MAX_PAYLOADS: so many messages are in a set at most, 1 to 1024; by default 10. A path whose round trip takes long needs
    /// more, as every set is followed by the wait for its answer.
    pub max_payloads: u16,
    /// NON_RECEIVE_TIMEOUT: how long to wait for what is missing of a set before it is asked for, 4 s by default. It must
    /// exceed 1.5 times ACK_TIMEOUT by one second at least. Where the end of a set has come, nothing but reordering can
    /// bring what is missing, and it is asked for as soon as two more messages would have come.
    pub non_receive_timeout: Duration,
    /// Payloads are sent as Confirmable messages, `false` by default. Then each is a message to the controller like any other, one
    /// on its way at a time for each body, and is repeated until it is acknowledged (RFC 9177 §7.1): slower than sets, which get one answer
    /// for many, but no slower than block by block, and nothing is ever asked for again. Peers may send either kind whatever this is.
    pub confirmable: bool,
}

impl Default for QBlock {
    fn default() -> Self {
        Self { max_payloads: 10, non_receive_timeout: Duration::from_secs(4), confirmable: false }
    }
}

/// What is missing of a set must fit into the application's patience, and into one set.
const MOST_PAYLOADS: u16 = 1024;

impl QBlock {
    /// `non_timeout` is the longest that NON_TIMEOUT_RANDOM can be.
    pub(super) fn validate(&self, non_timeout: Duration) -> Result<(), ConfigError> {
        let Self { max_payloads, non_receive_timeout: given, .. } = *self;
        if !(1..=MOST_PAYLOADS).contains(&max_payloads) {
            let (given, most) = (max_payloads.into(), MOST_PAYLOADS.into());
            return Err(ConfigError::Limit { limit: "max_payloads", given, least: 1, most });
        }
        let least = non_timeout.saturating_add(Duration::from_secs(1));
        if given < least { Err(ConfigError::NonReceiveTimeout { given, least }) } else { Ok(()) }
    }
}
