//! How far messages are believed that only a message ID vouches for: Empty ACKs and Resets. Whoever knows the addresses can
//! send all 65 536 of them.

use crate::codec::MessageId;
use crate::message::NextId;
use conche_cc::Instant;
use conche_cc::units::Stamp;

/// After so many that fit nothing, none is believed any more: somebody is guessing. Retransmission then goes on until a
/// response with the right token comes.
const DISTRUST: u8 = 16;

/// One wrong guess is forgiven each time this has passed, in milliseconds.
const FORGIVEN_EVERY_MS: u32 = 4_000;

/// No more than so many are counted, so that the longest distrust ends 196 s after the last wrong guess.
const MOST: u8 = 64;

/// What wrong guesses are left to be forgiven. Packed, so that it fills what other fields leave.
#[derive(Clone, Copy, Debug, Default)]
#[repr(Rust, packed)]
pub(crate) struct Trust {
    guesses: u8,
    /// When one was last forgiven, or the first was counted.
    since: Stamp,
}

impl Trust {
    /// An Empty ACK or a Reset came that fits no message that waits for one. One of the last IDs may be a late duplicate
    /// and does not count.
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

    /// An Empty ACK or a Reset whose message ID fits is believed.
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
