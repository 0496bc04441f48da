//! [`Throttle`]: limits the rate of a log message that peers can cause.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum time between two messages.
const PAUSE: Duration = Duration::from_secs(1);

/// Passes one message per second and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    last: Option<Instant>,
    held_back: u64,
}

impl Throttle {
    /// Returns the number of messages suppressed since the last one, or `None` to suppress this
    /// one.
    pub(crate) fn passes(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            self.held_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_a_second_passes_with_the_number_of_those_held_back() {
        let mut throttle = Throttle::default();
        let start = Instant::now();
        assert_eq!(throttle.passes(start), Some(0));
        assert_eq!(throttle.passes(start), None);
        assert_eq!(throttle.passes(start + PAUSE / 2), None);
        assert_eq!(throttle.passes(start + PAUSE), Some(2));
        assert_eq!(throttle.passes(start + PAUSE * 5), Some(0));
    }
}
