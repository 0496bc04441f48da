//! [`Order`]: the order of Observe notifications (RFC 7641 §3.4).

use core::time::Duration;

use conche_cc::Instant;

/// The value of the Observe option that registers an observer (RFC 7641 §2).
pub(crate) const REGISTER: u32 = 0;

/// Sequence number and arrival time of the newest notification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) sequence: u32,
    pub(crate) received: Instant,
}

impl Order {
    /// Returns `true` if a notification with the order `new` is newer than this one (RFC 7641
    /// §3.4).
    pub(crate) fn is_before(&self, new: &Self) -> bool {
        const HALF: u32 = 1 << 23;
        let (old, sequence) = (self.sequence, new.sequence);
        (old < sequence && sequence - old < HALF)
            || (old > sequence && old - sequence > HALF)
            || new.received > self.received + Duration::from_secs(128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 7641 §3.4 (Q105)
    #[test]
    fn newer_is_the_higher_number_modulo_2_to_the_24_or_what_comes_128_seconds_later() {
        let order = |sequence, seconds: u64| Order { sequence, received: Instant::from_millis(seconds * 1_000) };
        let newer = |old, new| Order::is_before(&old, &new);
        assert!(newer(order(1, 0), order(2, 0)));
        assert!(!newer(order(2, 0), order(1, 0)));
        assert!(!newer(order(2, 0), order(2, 0)), "a copy is not newer");
        assert!(newer(order(0xff_ffff, 0), order(0, 0)), "it wraps");
        assert!(newer(order(0, 0), order((1 << 23) - 1, 0)));
        assert!(!newer(order(0, 0), order(1 << 23, 0)));
        assert!(!newer(order(5, 0), order(4, 128)));
        assert!(newer(order(5, 0), order(4, 129)));
    }
}
