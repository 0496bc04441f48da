//! [`Binding`]: binds responses to their request (RFC 8613 §5.4, §8.3, §8.4).

use super::{ContextId, EndId, PartialIv, Refused};

/// The request of a protected response, at client and server. A response to another request is
/// refused.
///
/// A clone refers to the same request: the server's context records which request numbers are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    context: ContextId,
    /// The key generation of the context.
    epoch: u32,
    kid: EndId,
    number: PartialIv,
    /// At a client: the request registers an observation, so that several responses may arrive.
    observes: bool,
    /// At a client: the request uses proposed keys.
    proposal: bool,
    /// At a client: a response without its own number has arrived.
    answered: bool,
    /// At a client: the number of the newest notification plus one (RFC 8613 §7.4.1); 0 before the
    /// first.
    newest: u64,
}

impl Binding {
    pub(super) const fn new((context, epoch): (ContextId, u32), kid: EndId, number: PartialIv, observes: bool) -> Self {
        Self { context, epoch, kid, number, observes, proposal: false, answered: false, newest: 0 }
    }

    pub(super) const fn proposing(self, proposal: bool) -> Self {
        Self { proposal, ..self }
    }

    /// At a client: returns `true` if the request was protected with keys known only to the client
    /// ([`Start::Anew`](super::Start::Anew)). No server can have executed it.
    #[must_use]
    pub const fn is_proposal(&self) -> bool {
        self.proposal
    }

    /// Returns the sender and the number of the request.
    pub(super) const fn request(&self) -> (EndId, PartialIv) {
        (self.kid, self.number)
    }

    pub(super) const fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(super) const fn observes(&self) -> bool {
        self.observes
    }

    /// Records the number of an authentic response, `None` if it has none.
    ///
    /// # Errors
    ///
    /// If it is not newer than previous responses.
    pub(super) fn take(&mut self, number: Option<u64>) -> Result<(), Refused> {
        match number {
            // A response without a number is older than any other (RFC 8613 §4.1.3.5.2).
            None if self.answered || self.newest > 0 => return Err(Refused::Replayed),
            None => self.answered = true,
            Some(number) if number < self.newest => return Err(Refused::Replayed),
            Some(number) => self.newest = number.saturating_add(1),
        }
        Ok(())
    }

    /// Returns the context that protects the request.
    #[must_use]
    pub const fn context(&self) -> ContextId {
        self.context
    }

    /// Returns the sequence number of the request.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.number()
    }
}
