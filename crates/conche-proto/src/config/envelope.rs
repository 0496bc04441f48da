//! [`Envelope`]: bounds for the timeouts of every controller.

use core::time::Duration;

use super::ConfigError;

/// The minimum timeout: retransmission in the same instant would be a burst, and a millisecond is
/// the finest timer of any controller.
const FINEST: Duration = Duration::from_millis(1);

/// The safety envelope: bounds that hold even for a broken controller.
///
/// Two further bounds are not settings: retransmissions stay within MAX_TRANSMIT_SPAN, and an
/// unresponsive peer gets Non-confirmable messages only at PROBING_RATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Minimum initial timeout, even after a fast or forged acknowledgement. Default 100 ms.
    pub timeout_floor: Duration,
    /// Maximum timeout. Default 60 s.
    pub timeout_cap: Duration,
    /// Within an exchange, no timeout is shorter than the previous one. FASOR's own series breaks
    /// this rule on purpose; `true`, the default, enforces it nevertheless.
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
    /// Creates an envelope without floor and order: the controller's timeouts apply up to the cap.
    /// For scenarios of papers that measured the algorithms without an envelope.
    #[must_use]
    pub fn open(timeout_cap: Duration) -> Self {
        Self { timeout_floor: Duration::ZERO, timeout_cap, monotonic_backoff: false }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let Self { timeout_floor: floor, timeout_cap: cap, .. } = *self;
        if cap < floor.max(FINEST) { Err(ConfigError::Envelope { floor, cap }) } else { Ok(()) }
    }

    /// Returns the timeout to arm if the controller requests `wanted`; `previous` is the last
    /// timeout armed in this exchange.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_holds_floor_cap_and_order() {
        let envelope = Envelope::default();
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        assert_eq!(envelope.hold(ms(1), None), ms(100));
        assert_eq!(envelope.hold(s(3), Some(s(5))), s(5));
        assert_eq!(envelope.hold(s(300), Some(s(5))), s(60));
        assert_eq!(Envelope::open(s(60)).hold(s(3), Some(s(5))), s(3));
    }
}
