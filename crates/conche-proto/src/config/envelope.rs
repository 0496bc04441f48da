//! [`Envelope`]: what holds around every controller.

use core::time::Duration;

use super::ConfigError;

/// A retransmission in the same instant would be a burst; a millisecond is the finest timer of any controller.
const FINEST: Duration = Duration::from_millis(1);

/// The safety envelope: what a controller, even a broken one, cannot break.
///
/// Two more walls are not settings: retransmissions stay inside MAX_TRANSMIT_SPAN, and an unresponsive peer gets
/// Non-confirmable messages at PROBING_RATE only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// No first timeout is shorter, whatever a fast or forged acknowledgement suggests. Default 100 ms.
    pub timeout_floor: Duration,
    /// No timeout is longer. Default 60 s.
    pub timeout_cap: Duration,
    /// Within an exchange no timeout is shorter than the one before it. FASOR's own series breaks this on purpose; with
    /// `true` (the default) it is held all the same.
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
    /// No floor and no order: what a controller answers is what happens, up to the cap. For scenarios of papers, which
    /// measured the algorithms without an envelope.
    #[must_use]
    pub fn open(timeout_cap: Duration) -> Self {
        Self { timeout_floor: Duration::ZERO, timeout_cap, monotonic_backoff: false }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let Self { timeout_floor: floor, timeout_cap: cap, .. } = *self;
        if cap < floor.max(FINEST) { Err(ConfigError::Envelope { floor, cap }) } else { Ok(()) }
    }

    /// The timeout to arm where the controller wants `wanted`; `previous` is the one armed before in this exchange.
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
