//! [`ObserverChecks`]: when an observer is checked by a Confirmable message.

use core::time::Duration;

use super::ConfigError;

/// The times at which an observer is sent a Confirmable message although nothing has changed, to
/// remove observers with forged addresses and those that have gone (RFC 7641 §4.5). The message is
/// the newest state as a notification or, before the first notification of the application, a ping
/// (RFC 7252 §4.3). An observer that does not acknowledge it within MAX_TRANSMIT_WAIT (93 s with
/// the default parameters) is removed.
///
/// An observer has proven its presence when it has acknowledged a notification or its first
/// response, when its peer has acknowledged any message or answered a request of this endpoint, or
/// when it registered from a [validated](crate::EndpointConfig::source_validation) source. If the
/// table of observers or of peers is full, observers without such a proof are evicted, the oldest
/// first. To detect genuine ones in time, the endpoint checks observers at once when unchecked ones
/// take half of the table of observers or of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObserverChecks {
    /// Time from the registration to the first check of an observer that has not proven its
    /// presence. Default: 2 min, so that the first change checks most observers without an extra
    /// message.
    pub first: Duration,
    /// Time from the last proof to the next check, at most 24 h (RFC 7641 §4.5). Default: 12 h,
    /// because a failing check is given up only later, and changes do not occur at fixed times.
    pub every: Duration,
}

impl ObserverChecks {
    /// The default of [`first`](Self::first).
    pub const FIRST: Duration = Duration::from_secs(2 * 60);

    /// The default of [`every`](Self::every).
    pub const EVERY: Duration = Duration::from_secs(12 * 60 * 60);

    /// RFC 7641 §4.5.
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
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
