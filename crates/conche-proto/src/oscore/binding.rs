//! [`Binding`]: what makes a response the one to a certain request (RFC 8613 §5.4, §8.3, §8.4).

use super::{ContextId, EndId};

/// Which request a response belongs to, for whoever answers it and for whoever waits for the answer. A response that was
/// made for another request is refused.
///
/// A clone is the same request: what takes a request's number only once is kept in the server's context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub(super) context: ContextId,
    /// Who sent the request.
    pub(super) kid: EndId,
    /// The number that the request has.
    pub(super) number: u64,
    /// At a client: the request registers an observation, so that several responses may come.
    pub(super) observes: bool,
    /// At a client: a response without a number of its own came.
    pub(super) answered: bool,
    /// At a client: one more than the number of the newest notification (RFC 8613 §7.4.1); 0 if none came.
    pub(super) newest: u64,
}

impl Binding {
    /// Whose keys the request was protected with.
    #[must_use]
    pub const fn context(&self) -> ContextId {
        self.context
    }

    /// The request's number.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }
}
