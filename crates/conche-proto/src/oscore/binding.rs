//! [`Binding`]: what makes a response the one to a certain request (RFC 8613 §5.4, §8.3, §8.4).

use super::{ContextId, EndId, PartialIv, Refused};

/// Which request a response belongs to, for whoever answers it and for whoever waits for the answer. A response that was
/// made for another request is refused.
///
/// A clone is the same request: what takes a request's number only once is kept in the server's context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    context: ContextId,
    /// Which of the keys that the context has had.
    epoch: u32,
    /// Who sent the request.
    kid: EndId,
    /// The number that the request has.
    number: PartialIv,
    /// At a client: the request registers an observation, so that several responses may come.
    observes: bool,
    /// At a client: the keys are such as it proposes.
    proposal: bool,
    /// At a client: a response without a number of its own came.
    answered: bool,
    /// At a client: one more than the number of the newest notification (RFC 8613 §7.4.1); 0 if none came.
    newest: u64,
}

impl Binding {
    pub(super) const fn new((context, epoch): (ContextId, u32), kid: EndId, number: PartialIv, observes: bool) -> Self {
        Self { context, epoch, kid, number, observes, proposal: false, answered: false, newest: 0 }
    }

    /// The same, with keys that are proposed, or not.
    pub(super) const fn proposing(self, proposal: bool) -> Self {
        Self { proposal, ..self }
    }

    /// At a client: the request was protected with keys that it alone knew ([`Start::Anew`](super::Start::Anew)). Nobody has executed it.
    #[must_use]
    pub const fn is_proposal(&self) -> bool {
        self.proposal
    }

    /// Who gave the request its number, and which.
    pub(super) const fn request(&self) -> (EndId, PartialIv) {
        (self.kid, self.number)
    }

    /// With which of the context's keys the request was protected.
    pub(super) const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Several responses may come.
    pub(super) const fn observes(&self) -> bool {
        self.observes
    }

    /// A response with this number came, or one without, and was authentic.
    ///
    /// # Errors
    ///
    /// If it is not newer than what came before.
    pub(super) fn take(&mut self, number: Option<u64>) -> Result<(), Refused> {
        match number {
            // It is the oldest of all (RFC 8613 §4.1.3.5.2).
            None if self.answered || self.newest > 0 => return Err(Refused::Replayed),
            None => self.answered = true,
            Some(number) if number < self.newest => return Err(Refused::Replayed),
            Some(number) => self.newest = number.saturating_add(1),
        }
        Ok(())
    }

    /// Whose keys the request was protected with.
    #[must_use]
    pub const fn context(&self) -> ContextId {
        self.context
    }

    /// The request's number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.number()
    }
}
