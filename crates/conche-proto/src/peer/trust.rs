//! Trust in Empty ACKs and Resets, which are authenticated only by a message ID. An attacker that
//! knows both addresses can send all 65 536 of them.

use crate::codec::MessageId;
use crate::message::NextId;
use conche_cc::Instant;
use conche_cc::units::Stamp;

/// Number of wrong guesses that ends the trust: an attacker is guessing IDs. Retransmission then
/// continues until a response with the right token arrives.
const DISTRUST: u8 = 16;

/// Interval after which one wrong guess is forgiven, in milliseconds.
const FORGIVEN_EVERY_MS: u32 = 4_000;

/// Maximum number of guesses counted; the longest distrust ends 196 s after the last one.
const MOST: u8 = 64;

/// Wrong guesses not yet forgiven. Packed to fill the padding of other fields.
#[derive(Clone, Copy, Debug, Default)]
#[repr(Rust, packed)]
pub(crate) struct Trust {
    guesses: u8,
    /// When a guess was last forgiven, or the first was counted.
    since: Stamp,
}

impl Trust {
    /// Counts an Empty ACK or Reset that matches no outstanding message. A recent ID may be a late
    /// duplicate and does not count.
    pub(crate) fn guessed(&mut self, now: Instant, id: MessageId, next: NextId) {
        if next.is_recent(id) {
            return;
        }
        self.forgive(now);
        if self.guesses == 0 {
            self.since = Stamp::at(now);
        }
        self.guesses = (self.guesses + 1).min(MOST);
    }

    /// Returns `true` if an Empty ACK or Reset with a matching message ID is trusted.
    pub(crate) fn is_given(&mut self, now: Instant) -> bool {
        self.forgive(now);
        self.guesses < DISTRUST
    }

    fn forgive(&mut self, now: Instant) {
        let forgiven = self.since.age_ms(Stamp::at(now)) / FORGIVEN_EVERY_MS;
        if self.guesses > 0 && forgiven > 0 {
            self.guesses = u8::try_from(forgiven).map_or(0, |forgiven| self.guesses.saturating_sub(forgiven));
            self.since = Stamp::at(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn distrust_begins_with_the_sixteenth_guess_and_ends_196_seconds_after_the_last() {
        let (mut trust, next) = (Trust::default(), NextId::starting_at(0x8000));
        let mut now = Instant::from_millis(77_777);
        for _ in 0..15 {
            trust.guessed(now, MessageId(5), next);
            assert!(trust.is_given(now));
        }
        for _ in 0..65_536 {
            trust.guessed(now, MessageId(5), next);
            assert!(!trust.is_given(now));
        }
        now += Duration::from_secs(191);
        assert!(!trust.is_given(now), "it fades slowly");
        now += Duration::from_secs(8);
        assert!(trust.is_given(now));
    }

    #[test]
    fn a_guess_every_few_seconds_costs_no_trust() {
        let (mut trust, next) = (Trust::default(), NextId::starting_at(0x8000));
        for n in 0..1_000 {
            let now = Instant::from_millis(n * 4_100);
            trust.guessed(now, MessageId(5), next);
            assert!(trust.is_given(now));
        }
    }
}
