//! [`Security`]: protection of a request (RFC 8613), and the binding of its responses to it.
//!
//! Without the feature `oscore` it takes no memory; with it, a pointer for unprotected messages.

#[cfg(feature = "oscore")]
use alloc::boxed::Box;

use crate::codec::{Body, Code};
#[cfg(feature = "oscore")]
use crate::oscore::Binding;
#[cfg(feature = "oscore")]
pub(crate) use crate::oscore::ContextId;

/// A security context. There are none.
#[cfg(not(feature = "oscore"))]
pub(crate) type ContextId = core::convert::Infallible;

#[derive(Clone, Debug, Default)]
pub(crate) struct Security {
    #[cfg(feature = "oscore")]
    bound: Option<Box<Bound>>,
}

#[cfg(feature = "oscore")]
#[derive(Clone, Debug)]
struct Bound {
    context: ContextId,
    /// Bytes of the OSCORE option that name sender and ID context.
    names: u16,
    /// `None` until the request is protected.
    binding: Option<Binding>,
    /// Of our own request before protection: the outer message does not contain them.
    unprotected: Option<(Code, Body)>,
    /// Repetitions of the request with other keys.
    again: u8,
}

impl Security {
    pub(crate) const PLAIN: Self = Self {
        #[cfg(feature = "oscore")]
        bound: None,
    };

    /// Maximum bytes that protection adds to a response: the OSCORE option with five bytes of
    /// Partial IV (RFC 8613 §6.1), Observe in the outer message, the payload marker, the inner
    /// code, the tag, and longer option deltas where options in between moved to the other message.
    pub(crate) const RESPONSE_BYTES: usize = 2 + (1 + 5) + 4 + 1 + 1 + 16 + 4;

    /// Returns the bytes to reserve beside its own content and its response.
    #[inline]
    pub(crate) fn request_bytes(&self) -> usize {
        #[cfg(feature = "oscore")]
        if let Some(bound) = &self.bound {
            return usize::from(bound.names) + Self::RESPONSE_BYTES;
        }
        0
    }

    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.context() == other.context()
    }

    #[inline]
    pub(crate) fn response_bytes(&self) -> usize {
        if self.is_plain() { 0 } else { Self::RESPONSE_BYTES }
    }
}

#[cfg(not(feature = "oscore"))]
impl Security {
    #[inline]
    pub(crate) const fn context(&self) -> Option<ContextId> {
        None
    }

    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        true
    }

    #[inline]
    pub(crate) const fn bytes_to_come(&self) -> usize {
        0
    }

    #[inline]
    pub(crate) const fn unprotected(&self) -> Option<(Code, &Body)> {
        None
    }

    #[inline]
    pub(crate) const fn for_new_request(&self) -> Self {
        Self::PLAIN
    }
}

#[cfg(feature = "oscore")]
impl Security {
    pub(crate) fn with(context: ContextId, names: usize) -> Self {
        let names = u16::try_from(names).unwrap_or(u16::MAX);
        Self { bound: Some(Box::new(Bound { context, names, binding: None, unprotected: None, again: 0 })) }
    }

    pub(crate) fn by(binding: Binding) -> Self {
        let context = binding.context();
        Self { bound: Some(Box::new(Bound { context, names: 0, binding: Some(binding), unprotected: None, again: 0 })) }
    }

    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        self.bound.is_none()
    }

    /// Returns the bytes that protection will add to a request that is not protected yet.
    #[inline]
    pub(crate) fn bytes_to_come(&self) -> usize {
        match &self.bound {
            Some(bound) if bound.binding.is_none() => self.request_bytes(),
            _ => 0,
        }
    }

    #[inline]
    pub(crate) fn unprotected(&self) -> Option<(Code, &Body)> {
        self.bound.as_ref()?.unprotected.as_ref().map(|(code, body)| (*code, body))
    }

    #[inline]
    pub(crate) fn context(&self) -> Option<ContextId> {
        self.bound.as_ref().map(|bound| bound.context)
    }

    pub(crate) fn binding(&self) -> Option<&Binding> {
        self.bound.as_ref()?.binding.as_ref()
    }

    pub(crate) fn binding_mut(&mut self) -> Option<&mut Binding> {
        self.bound.as_mut()?.binding.as_mut()
    }

    pub(crate) fn bind(&mut self, binding: Binding, code: Code, body: Body) {
        if let Some(bound) = &mut self.bound {
            (bound.binding, bound.unprotected) = (Some(binding), Some((code, body)));
        }
    }

    /// Returns `false` after three. A server may have lost its keys and offer new ones, possibly
    /// too late for a single repetition.
    pub(crate) fn count_repetition(&mut self) -> bool {
        let Some(bound) = self.bound.as_mut().filter(|bound| bound.again < 3) else { return false };
        bound.again += 1;
        true
    }

    pub(crate) fn for_new_request(&self) -> Self {
        let unbound = |bound: &Bound| Box::new(Bound { binding: None, unprotected: None, again: 0, ..*bound });
        Self { bound: self.bound.as_deref().map(unbound) }
    }
}
