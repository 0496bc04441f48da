//! [`Multicast`]: responses to group requests (RFC 7252 §8).

use core::time::Duration;

/// Responses of a group member to group requests.
///
/// Errors and successes without a payload are of no use to the client of a group, so they are not
/// sent. A request with No-Response specifies the wanted responses itself (RFC 7967 §2.1), and the
/// application can request any response to be sent with
/// [`Response::even_to_group`](crate::Response::even_to_group).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Multicast {
    /// Length of the period within which each response leaves at a random time; periods do not
    /// overlap (§8.2). `None`, the default: DEFAULT_LEISURE of the transmission parameters (5 s).
    pub leisure: Option<Duration>,
}

impl Multicast {
    /// Creates the setting with this leisure; see [`leisure_for`](Self::leisure_for).
    #[must_use]
    pub const fn with_leisure(leisure: Duration) -> Self {
        Self { leisure: Some(leisure) }
    }

    /// Returns the shortest leisure with which a group of `members` responds at no more than this
    /// rate: S · G / R of RFC 7252 §8.2. For a rate of 0 it is [`Duration::MAX`].
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
        // The remainder is less than the rate, so this is less than a second.
        Duration::new(bytes / rate, u32::try_from(nanos).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
