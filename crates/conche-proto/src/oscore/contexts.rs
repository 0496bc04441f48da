//! [`Contexts`]: all security contexts of an endpoint, found by number, or by what a request says of its sender.

use thiserror::Error;

use super::{
    Binding, Context, EndId, ProtectError, Protected, ProtectedResponse, Refused, Reserve, Unprotected,
    UnprotectedResponse,
};
use crate::codec::{Body, Code, Message, MessagePool};
use crate::store::Arena;
use conche_cc::Instant;

/// Names a context among those of an endpoint; never again another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextId {
    place: u32,
    /// Which of those that were at this place.
    generation: u32,
}

/// Up to so many contexts.
#[derive(Debug)]
pub struct Contexts {
    arena: Arena<Context>,
    most: usize,
}

impl Contexts {
    /// None yet, and never more than `most`. Challenges and hashes are made from `seed`, which nobody else knows: real
    /// endpoints draw it from the operating system.
    #[must_use]
    pub fn new(most: usize, seed: [u8; 32]) -> Self {
        let _ = seed;
        Self { arena: Arena::new(), most }
    }

    /// Adds a context. It protects nothing before numbers are reserved: see [`poll_reserve`](Self::poll_reserve).
    ///
    /// # Errors
    ///
    /// [`InsertError`].
    pub fn insert(&mut self, context: Context) -> Result<ContextId, InsertError> {
        if self.arena.len() >= self.most {
            return Err(InsertError::Full);
        }
        let place = self.arena.insert(context).ok_or(InsertError::Full)?;
        Ok(ContextId { place, generation: 0 })
    }

    /// Takes a context out.
    pub fn remove(&mut self, id: ContextId) -> Option<Context> {
        self.arena.take(id.place)
    }

    /// A context.
    #[must_use]
    pub fn get(&self, id: ContextId) -> Option<&Context> {
        self.arena.get(id.place)
    }

    /// The context whose other end has this ID, and this ID context.
    #[must_use]
    pub fn find(&self, recipient_id: EndId, id_context: Option<&[u8]>) -> Option<ContextId> {
        let _ = (recipient_id, id_context);
        None
    }

    /// How many contexts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arena.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the application is to store next, each once. To be asked after each insertion and after whatever protects.
    pub fn poll_reserve(&mut self) -> Option<Reserve> {
        None
    }

    /// What was asked for is stored.
    pub fn reserved(&mut self, reserve: Reserve) {
        if let Some(context) = self.arena.get_mut(reserve.context.place) {
            context.sequence.reserved(reserve.up_to);
        }
    }

    /// What was asked for could not be stored: it is asked for again when the context is next used.
    pub fn not_reserved(&mut self, context: ContextId) {
        if let Some(context) = self.arena.get_mut(context.place) {
            context.sequence.not_reserved();
        }
    }

    /// Protects a request with this inner code, and these inner options and payload (RFC 8613 §8.1). Each transmission of a
    /// request is the same outer message; a request that is made anew is protected anew.
    ///
    /// # Errors
    ///
    /// [`ProtectError`]; no number is used up then.
    pub fn protect_request(&mut self, id: ContextId, code: Code, body: &Body) -> Result<Protected, ProtectError> {
        let _ = (id, code, body);
        Err(ProtectError::UnknownContext)
    }

    /// Checks a request that has an OSCORE option, and says what was asked (RFC 8613 §8.2). Outer block-wise transfer is to
    /// be undone before.
    ///
    /// # Errors
    ///
    /// [`Refused`], and nothing but the answer to it is to follow from the request: see [`refusal`](Self::refusal).
    pub fn unprotect_request(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        pool: &mut MessagePool,
    ) -> Result<Unprotected, Refused> {
        let _ = (now, message, pool);
        Err(Refused::Malformed)
    }

    /// The answer to a request that was refused: outer code, options and payload. `None` if there can be none, as nothing
    /// can be protected at the time.
    pub fn refusal(&mut self, now: Instant, refused: &Refused) -> Option<(Code, Body)> {
        let _ = now;
        refused.unprotected_answer()
    }

    /// Protects a response to the request of this binding, with this inner code, and these inner options and payload
    /// (RFC 8613 §8.3). A body with Observe is a notification.
    ///
    /// The first response takes the request's number, as long as the window still tells that none did; all others take
    /// numbers of their own.
    ///
    /// # Errors
    ///
    /// [`ProtectError`].
    pub fn protect_response(
        &mut self,
        binding: &Binding,
        code: Code,
        body: &Body,
    ) -> Result<ProtectedResponse, ProtectError> {
        let _ = (binding, code, body);
        Err(ProtectError::UnknownContext)
    }

    /// Checks a response that has an OSCORE option against the request that it came for, and says what was answered
    /// (RFC 8613 §8.4). Outer block-wise transfer is to be undone before.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the response is as if it had not come.
    pub fn unprotect_response(
        &mut self,
        binding: &mut Binding,
        message: &Message<'_>,
        pool: &mut MessagePool,
    ) -> Result<UnprotectedResponse, Refused> {
        let _ = (binding, message, pool);
        Err(Refused::Malformed)
    }
}

/// A context was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InsertError {
    /// There are as many as there may be.
    #[error("there are as many security contexts as there may be")]
    Full,
    /// There is one already whose other end has the same ID and ID context.
    #[error("there is a security context with the same recipient ID and ID context")]
    Duplicate,
}
