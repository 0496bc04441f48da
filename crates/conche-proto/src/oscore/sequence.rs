//! The numbers that a sender gives to what it protects, each once (RFC 8613 §3.2.2, §7.2.1, appendix B.1.1).

use super::{ContextId, PartialIv, ProtectError};

/// The application is to store that the numbers of a context below `up_to` may have been used, and say so when that will
/// survive a power cut: [`Contexts::reserved`](super::Contexts::reserved). Until then the context goes on with what it has,
/// and protects nothing more when that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Whose numbers.
    pub context: ContextId,
    /// What to store: after a restart the context begins with it ([`Start::Restarted`](super::Start::Restarted)).
    pub up_to: u64,
}

/// Numbers below `next` may have been used, those below `reserved` may be.
#[derive(Debug)]
pub(super) struct Sequence {
    next: u64,
    reserved: u64,
    /// What was asked for last; more than `reserved` as long as there is no answer.
    asked: u64,
    /// Something was stored since the start.
    is_stored: bool,
    /// Numbers that are asked for at once.
    step: u32,
}

impl Sequence {
    /// One more than the last number (RFC 8613 §7.2.1).
    pub(super) const END: u64 = 1 << 40;

    /// Numbers that are asked for at first. A restart loses those that are left of them: with one each second it would take
    /// a century to lose all.
    const FIRST_STEP: u32 = 256;

    /// What they grow to, where many are used before the store answers. With one restart each minute it would take 30 years
    /// to lose all.
    const LONGEST_STEP: u32 = 65_536;

    pub(super) fn new(next: u64) -> Self {
        let next = next.min(Self::END);
        Self { next, reserved: next, asked: next, is_stored: false, step: Self::FIRST_STEP }
    }

    /// Those of keys that nobody has after this run: nothing is to be stored.
    pub(super) const fn volatile(next: u64) -> Self {
        let end = Self::END;
        Self { next, reserved: end, asked: end, is_stored: true, step: Self::FIRST_STEP }
    }

    /// A number that nothing was protected with yet, and nothing else will be.
    pub(super) fn take(&mut self) -> Result<PartialIv, ProtectError> {
        let number = PartialIv::new(self.next).ok_or(ProtectError::Exhausted)?;
        if self.next >= self.reserved {
            return Err(ProtectError::NotReserved);
        }
        self.next += 1;
        Ok(number)
    }

    /// There are numbers left, but none that is stored yet.
    pub(super) const fn waits(&self) -> bool {
        self.next >= self.reserved && self.next < Self::END
    }

    /// The next number, which was not used yet.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// What to store, if it is time for that and nothing was asked for yet.
    pub(super) fn ask(&mut self) -> Option<u64> {
        let wanted = self.next.saturating_add(self.step.into()).min(Self::END);
        let is_time = self.reserved.saturating_sub(self.next) <= u64::from(self.step / 2) && wanted > self.reserved;
        if !is_time || self.asked > self.reserved {
            return None;
        }
        self.asked = wanted;
        Some(wanted)
    }

    /// Numbers below this are stored as used. Fewer than before, or more than were asked for, mean nothing.
    pub(super) fn reserved(&mut self, up_to: u64) {
        let reserved = up_to.min(self.asked);
        // It was asked with half of a step left. If half of that half went since, the next answer may be too late.
        let since = self.next.saturating_sub(self.asked.saturating_sub(self.step.into()));
        if reserved > self.reserved && since > u64::from(self.step / 4) {
            self.step = self.step.saturating_mul(2).min(Self::LONGEST_STEP);
        }
        self.is_stored |= reserved > self.reserved;
        self.reserved = self.reserved.max(reserved);
    }

    /// A restart from now on would know that the credentials were used.
    pub(super) const fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// What was asked for was not stored, and is to be asked for again.
    pub(super) fn not_reserved(&mut self) {
        self.asked = self.reserved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses so many numbers while the store is at work, and says how many there were.
    fn use_up(sequence: &mut Sequence, wanted: u64) -> u64 {
        (0..wanted).take_while(|_| sequence.take().is_ok()).fold(0, |taken, _| taken + 1)
    }

    #[test]
    fn the_step_grows_until_numbers_last_while_the_store_is_at_work_and_no_further() {
        for (while_storing, step) in [(10, 256), (200, 1024), (5000, 32_768)] {
            let mut sequence = Sequence::new(0);
            let first = sequence.ask().expect("there are none yet");
            sequence.reserved(first);
            let mut short = 0;
            for round in 0..40 {
                let asked = loop {
                    match sequence.ask() {
                        Some(asked) => break asked,
                        None => assert!(sequence.take().is_ok(), "nothing is asked for, so there are some"),
                    }
                };
                let taken = use_up(&mut sequence, while_storing);
                short = if taken < while_storing { round } else { short };
                sequence.reserved(asked);
            }
            assert!(short < 20, "after {short} rounds they did not last");
            assert_eq!(sequence.step, step);
        }
    }

    #[test]
    fn the_step_is_bounded_and_what_is_told_twice_does_not_make_it_grow() {
        let mut sequence = Sequence::new(0);
        sequence.ask();
        for _ in 0..40 {
            sequence.reserved(sequence.asked);
            let step = sequence.step;
            // It asks again with half of them left, and the store does not answer before all are used.
            while sequence.take().is_ok() {
                sequence.ask();
            }
            sequence.reserved(sequence.reserved);
            assert_eq!(sequence.step, step);
        }
        assert_eq!(sequence.step, Sequence::LONGEST_STEP);
    }
}
