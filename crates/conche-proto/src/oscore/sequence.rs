//! Sender sequence numbers, each used once (RFC 8613 §3.2.2, §7.2.1, appendix B.1.1).

use super::{ContextId, PartialIv, ProtectError};

/// A request to store that the numbers of a context below `up_to` may be used. The application
/// confirms with [`Contexts::reserved`](super::Contexts::reserved) once the value survives a power
/// failure. Until then the context continues with its reserved numbers, and protects nothing after
/// they are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The context of the numbers.
    pub context: ContextId,
    /// The value to store; after a restart the context starts with it
    /// ([`Start::Restarted`](super::Start::Restarted)).
    pub up_to: u64,
}

/// Numbers below `next` may have been used; the others below `reserved` may be used.
#[derive(Debug)]
pub(super) struct Sequence {
    next: u64,
    reserved: u64,
    /// The last requested value; larger than `reserved` while unanswered.
    asked: u64,
    /// Something was stored since the start.
    is_stored: bool,
    /// Numbers per reservation.
    step: u32,
}

impl Sequence {
    /// The largest number plus one (RFC 8613 §7.2.1).
    pub(super) const END: u64 = 1 << 40;

    /// Initial reservation. A restart loses the unused part: with one restart per second, all
    /// numbers would be lost after a century.
    const FIRST_STEP: u32 = 256;

    /// Maximum reservation, reached if many numbers are used before the store answers. With one
    /// restart per minute, all numbers would be lost after 30 years.
    const LONGEST_STEP: u32 = 65_536;

    pub(super) fn new(next: u64) -> Self {
        let next = next.min(Self::END);
        Self { next, reserved: next, asked: next, is_stored: false, step: Self::FIRST_STEP }
    }

    /// Creates the numbers of keys that do not outlive the process: nothing is stored.
    pub(super) const fn volatile(next: u64) -> Self {
        let end = Self::END;
        Self { next, reserved: end, asked: end, is_stored: true, step: Self::FIRST_STEP }
    }

    pub(super) fn take(&mut self) -> Result<PartialIv, ProtectError> {
        let number = PartialIv::new(self.next).ok_or(ProtectError::Exhausted)?;
        if self.next >= self.reserved {
            return Err(ProtectError::NotReserved);
        }
        self.next += 1;
        Ok(number)
    }

    /// Returns `true` if all reserved numbers are used, but not all numbers.
    pub(super) const fn waits(&self) -> bool {
        self.next >= self.reserved && self.next < Self::END
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Returns the value to store, if a reservation is due and none is pending.
    pub(super) fn ask(&mut self) -> Option<u64> {
        let wanted = self.next.saturating_add(self.step.into()).min(Self::END);
        let is_time = self.reserved.saturating_sub(self.next) <= u64::from(self.step / 2) && wanted > self.reserved;
        if !is_time || self.asked > self.reserved {
            return None;
        }
        self.asked = wanted;
        Some(wanted)
    }

    /// Records that the numbers below `up_to` are stored as used. Ignores smaller values, and those
    /// beyond the request.
    pub(super) fn reserved(&mut self, up_to: u64) {
        let reserved = up_to.min(self.asked);
        // The request was made with half a step left. If more than half of that was used since, the
        // next answer may be late: double the step.
        let since = self.next.saturating_sub(self.asked.saturating_sub(self.step.into()));
        if reserved > self.reserved && since > u64::from(self.step / 4) {
            self.step = self.step.saturating_mul(2).min(Self::LONGEST_STEP);
        }
        self.is_stored |= reserved > self.reserved;
        self.reserved = self.reserved.max(reserved);
    }

    /// Returns `true` if a restart would find that the credentials were used.
    pub(super) const fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Records that the reservation was not stored and must be requested again.
    pub(super) fn not_reserved(&mut self) {
        self.asked = self.reserved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses up to `wanted` numbers; returns how many were available.
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
            // The next request comes with half of the numbers left; the store answers after all are
            // used.
            while sequence.take().is_ok() {
                sequence.ask();
            }
            sequence.reserved(sequence.reserved);
            assert_eq!(sequence.step, step);
        }
        assert_eq!(sequence.step, Sequence::LONGEST_STEP);
    }
}
