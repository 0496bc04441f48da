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
}

impl Sequence {
    /// One more than the last number (RFC 8613 §7.2.1).
    pub(super) const END: u64 = 1 << 40;

    /// Numbers that are asked for at once. A restart loses those that are left of them: with one each second it would take
    /// a century to lose all.
    pub(super) const STEP: u64 = 256;

    pub(super) fn new(next: u64) -> Self {
        let next = next.min(Self::END);
        Self { next, reserved: next, asked: next, is_stored: false }
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

    /// The next number, which was not used yet.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// What to store, if it is time for that and nothing was asked for yet.
    pub(super) fn ask(&mut self) -> Option<u64> {
        let wanted = self.next.saturating_add(Self::STEP).min(Self::END);
        let is_time = self.reserved.saturating_sub(self.next) <= Self::STEP / 2 && wanted > self.reserved;
        if !is_time || self.asked > self.reserved {
            return None;
        }
        self.asked = wanted;
        Some(wanted)
    }

    /// Numbers below this are stored as used. Fewer than before, or more than were asked for, mean nothing.
    pub(super) fn reserved(&mut self, up_to: u64) {
        let reserved = up_to.min(self.asked);
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
