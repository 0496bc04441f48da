//! [`Context`]: shared keys, and the sequence numbers sent and received (RFC 8613 §3.1).

use alloc::boxed::Box;
use core::hash::{Hash, Hasher};

use super::contexts::Challenges;
use super::cose::{CommonIv, Key, Material, Nonce, Output};
use super::renewal::Renewal;
use super::window::Arrivals;
use super::{Aead, ContextId, Credentials, CredentialsError, EndId, PartialIv, ProtectError, ReplayWindow};

/// Earlier use of the same credentials by this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// This end never used the credentials, on any machine. If this is wrong, nonces repeat and all
    /// protection is lost.
    First,
    /// The last stored [`Reserve::up_to`]. The received requests are unknown: as a server, this end
    /// accepts no request until one proves its freshness (RFC 8613 appendix B.1.2).
    Restarted {
        /// The first certainly unused number.
        next: u64,
    },
    /// State stored at an orderly shutdown and since removed from the store.
    Resumed {
        /// The first unused number: [`Context::next_number`].
        next: u64,
        /// The received requests: [`Context::window`].
        window: ReplayWindow,
    },
    /// Earlier use is unknown and nothing will be stored. Random numbers of both ends replace the
    /// ID context and give new keys. This costs the first request a round trip, and the other end
    /// must do the same (RFC 8613 appendix B.2).
    Anew,
}

/// A security context: Common, Sender and Recipient Context. Its keys are wiped on drop.
///
/// It takes 232 bytes with 64-bit addresses, plus the ID context: expanded keys are not stored. A
/// [renewed](Start::Anew) context also stores its credentials.
#[derive(Debug)]
pub struct Context {
    pub(super) sender_id: EndId,
    pub(super) recipient_id: EndId,
    pub(super) id_context: Option<Box<[u8]>>,
    pub(super) aead: Aead,
    pub(super) sender_key: Key,
    pub(super) recipient_key: Key,
    pub(super) common_iv: CommonIv,
    pub(super) sequence: Sequence,
    /// `None` until replayed requests can be detected.
    pub(super) arrivals: Option<Arrivals>,
    pub(super) window_size: u16,
    pub(super) challenges: Option<Box<Challenges>>,
    pub(super) renewal: Option<Box<Renewal>>,
    pub(super) epoch: u32,
}

impl Context {
    /// Derives the keys (RFC 8613 §3.2.1).
    ///
    /// # Errors
    ///
    /// As for [`Credentials::check`].
    pub fn derive(credentials: &Credentials, start: Start) -> Result<Self, CredentialsError> {
        credentials.check()?;
        let (next, window) = match start {
            Start::First | Start::Anew => (0, Some(ReplayWindow::EMPTY)),
            Start::Restarted { next } => (next, None),
            Start::Resumed { next, window } => (next, Some(window)),
        };
        let material = Material::extract(credentials);
        Ok(Self {
            sender_id: credentials.sender_id,
            recipient_id: credentials.recipient_id,
            id_context: credentials.id_context.clone(),
            aead: credentials.aead,
            sender_key: material.derive(Output::Key(credentials.sender_id)),
            recipient_key: material.derive(Output::Key(credentials.recipient_id)),
            common_iv: material.derive(Output::CommonIv),
            // Renewed keys do not outlive the process.
            sequence: if start == Start::Anew { Sequence::volatile(next) } else { Sequence::new(next) },
            arrivals: window.map(|window| Arrivals::new(window, credentials.replay_window)),
            window_size: credentials.replay_window,
            challenges: None,
            renewal: (start == Start::Anew).then(|| Box::new(Renewal::new(credentials))),
            epoch: 0,
        })
    }

    /// Derives the keys from credentials that both ends have just negotiated (RFC 9528) and do not
    /// keep. Sequence numbers need not be stored. Stored credentials would repeat nonces after a
    /// restart, which loses all protection.
    ///
    /// # Errors
    ///
    /// As for [`Credentials::check`].
    pub fn agreed(credentials: &Credentials) -> Result<Self, CredentialsError> {
        Ok(Self { sequence: Sequence::volatile(0), ..Self::derive(credentials, Start::First)? })
    }

    /// Returns the ID of this end.
    #[must_use]
    pub const fn sender_id(&self) -> EndId {
        self.sender_id
    }

    /// Returns the ID of the other end.
    #[must_use]
    pub const fn recipient_id(&self) -> EndId {
        self.recipient_id
    }

    /// Returns the ID context, which distinguishes contexts with equal IDs.
    #[must_use]
    pub fn id_context(&self) -> Option<&[u8]> {
        self.id_context.as_deref()
    }

    /// Returns the encryption algorithm.
    #[must_use]
    pub const fn aead(&self) -> Aead {
        self.aead
    }

    /// Returns the first unused sequence number.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.sequence.next()
    }

    /// Returns the newest received requests; `None` if unknown after a restart.
    #[must_use]
    pub fn window(&self) -> Option<ReplayWindow> {
        self.arrivals.as_ref().map(Arrivals::window)
    }

    /// Hashes the sender's key material. Contexts with equal hashes would use the same key and
    /// nonces; only one may be in use at a time. The hash function must be keyed with a secret, and
    /// its state and result kept secret.
    pub fn hash_sender<H: Hasher>(&self, state: &mut H) {
        self.sender_key.0.hash(state);
        self.common_iv.0.hash(state);
    }

    pub(super) fn sends_as(&self, other: &Self) -> bool {
        self.sender_key.is(&other.sender_key) & self.common_iv.is(&other.common_iv)
    }

    pub(super) fn nonce(&self, counted_by: EndId, number: PartialIv) -> Nonce {
        Nonce::new(&self.common_iv, counted_by, number)
    }
}

/// A request to store that numbers below `up_to` may be used. Confirm with
/// [`Contexts::reserved`](super::Contexts::reserved) once the value survives a power failure.
/// Meanwhile the context uses the numbers reserved before, then protects nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The context of the numbers.
    pub context: ContextId,
    /// The value to store, for [`Start::Restarted`].
    pub up_to: u64,
}

#[derive(Debug)]
pub(super) struct Sequence {
    next: u64,
    reserved: u64,
    /// Last requested value; above `reserved` while unanswered.
    requested: u64,
    /// Something was stored since the start.
    is_stored: bool,
    /// Numbers per reservation.
    step: u32,
}

impl Sequence {
    /// The largest number plus one (RFC 8613 §7.2.1).
    pub(super) const END: u64 = 1 << 40;

    /// All numbers last a century with one restart per second, which loses the unused part.
    const FIRST_STEP: u32 = 256;

    /// Reached if many numbers are used before the store answers. All numbers last 30 years with
    /// one restart per minute.
    const LONGEST_STEP: u32 = 65_536;

    pub(super) fn new(next: u64) -> Self {
        let next = next.min(Self::END);
        Self { next, reserved: next, requested: next, is_stored: false, step: Self::FIRST_STEP }
    }

    pub(super) const fn volatile(next: u64) -> Self {
        let end = Self::END;
        Self { next, reserved: end, requested: end, is_stored: true, step: Self::FIRST_STEP }
    }

    pub(super) fn take(&mut self) -> Result<PartialIv, ProtectError> {
        let number = PartialIv::new(self.next).ok_or(ProtectError::Exhausted)?;
        if self.next >= self.reserved {
            return Err(ProtectError::NotReserved);
        }
        self.next += 1;
        Ok(number)
    }

    /// Returns `true` if the reserved numbers, but not all numbers, are used.
    pub(super) const fn waits(&self) -> bool {
        self.next >= self.reserved && self.next < Self::END
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn ask(&mut self) -> Option<u64> {
        let wanted = self.next.saturating_add(self.step.into()).min(Self::END);
        let is_time = self.reserved.saturating_sub(self.next) <= u64::from(self.step / 2) && wanted > self.reserved;
        if !is_time || self.requested > self.reserved {
            return None;
        }
        self.requested = wanted;
        Some(wanted)
    }

    pub(super) fn reserved(&mut self, up_to: u64) {
        let reserved = up_to.min(self.requested);
        // The request was made with half a step left. If more than half of that is used, the next
        // answer may be late.
        let since = self.next.saturating_sub(self.requested.saturating_sub(self.step.into()));
        if reserved > self.reserved && since > u64::from(self.step / 4) {
            self.step = self.step.saturating_mul(2).min(Self::LONGEST_STEP);
        }
        self.is_stored |= reserved > self.reserved;
        self.reserved = self.reserved.max(reserved);
    }

    pub(super) const fn is_stored(&self) -> bool {
        self.is_stored
    }

    pub(super) fn not_reserved(&mut self) {
        self.requested = self.reserved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let requested = loop {
                    match sequence.ask() {
                        Some(requested) => break requested,
                        None => assert!(sequence.take().is_ok(), "nothing is asked for, so there are some"),
                    }
                };
                let taken = use_up(&mut sequence, while_storing);
                short = if taken < while_storing { round } else { short };
                sequence.reserved(requested);
            }
            assert!(short < 20, "after {short} rounds they did not last");
            assert_eq!(sequence.step, step);
        }
    }

    #[test]
    fn the_reservation_step_is_bounded_and_ignores_repeated_reports() {
        let mut sequence = Sequence::new(0);
        sequence.ask();
        for _ in 0..40 {
            sequence.reserved(sequence.requested);
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
