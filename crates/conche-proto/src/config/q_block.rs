//! [`QBlock`]: the parameters of RFC 9177.

use core::time::Duration;

use super::ConfigError;

/// Parameters of Q-Block1 and Q-Block2 (RFC 9177): bursts of Non-confirmable messages with a single
/// answer each, or Confirmable messages.
///
/// Both ends must use the same `max_payloads`. The rate within a burst is not a setting: it depends
/// on the destination's controller, and on the part of previous bursts that was delivered.
///
/// NON_TIMEOUT and NON_MAX_RETRANSMIT are ACK_TIMEOUT and MAX_RETRANSMIT of the [transmission
/// parameters](super::TransmissionParameters), as by default (RFC 9177 §7.2). NON_PARTIAL_TIMEOUT
/// is their EXCHANGE_LIFETIME, which is computed in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QBlock {
    /// MAX_PAYLOADS: the maximum number of messages in a burst, 1 to 1024; 10 by default. A path
    /// with a long RTT needs more, because every burst is followed by the wait for its answer.
    pub max_payloads: u16,
    /// NON_RECEIVE_TIMEOUT: the wait before missing blocks of a burst are requested; 4 s by
    /// default. It must exceed 1.5 times ACK_TIMEOUT by at least one second. After the end of a
    /// burst has arrived, only reordering can bring missing blocks, and they are requested after
    /// the time of two more messages.
    pub non_receive_timeout: Duration,
    /// Send payloads as Confirmable messages; `false` by default. Each payload is then an ordinary
    /// message to the controller, one outstanding at a time for each body, and is retransmitted
    /// until acknowledged (RFC 9177 §7.1). This is slower than bursts, which get one answer for
    /// many payloads, but no slower than block-wise transfer, and missing blocks are never
    /// requested. Peers may send either kind, regardless of this setting.
    pub confirmable: bool,
}

impl Default for QBlock {
    fn default() -> Self {
        Self { max_payloads: 10, non_receive_timeout: Duration::from_secs(4), confirmable: false }
    }
}

/// The largest MAX_PAYLOADS: the missing blocks of a burst must fit into one burst, and their
/// transfer into the application's timeout.
const MOST_PAYLOADS: u16 = 1024;

impl QBlock {
    /// Checks the settings; `non_timeout` is the maximum of NON_TIMEOUT_RANDOM.
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
