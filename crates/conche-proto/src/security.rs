//! [`Security`]: whether a request, and what answers it, is protected (RFC 8613), and what the one is bound to the other by.
//!
//! It is part of whatever outlives a message: a request that waits, an exchange, an observer, a subscription. Without the
//! feature `oscore` it takes no memory, and with it a pointer as long as nothing is protected.

#[cfg(feature = "oscore")]
use alloc::boxed::Box;

use crate::codec::{Body, Code};
#[cfg(feature = "oscore")]
use crate::oscore::{Binding, ContextId};

/// How a request, and what answers it, is protected, if it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Security {
    #[cfg(feature = "oscore")]
    bound: Option<Box<Bound>>,
}

#[cfg(feature = "oscore")]
#[derive(Clone, Debug)]
struct Bound {
    context: ContextId,
    /// What a request says beside of whose it is, and with which ID context: so many bytes.
    names: u16,
    /// `None` as long as the request is not protected.
    binding: Option<Binding>,
    /// What a request of ours says that is protected: the outer message tells nobody, and us neither.
    said: Option<(Code, Body)>,
    /// How often the request was made again, with other keys.
    again: u8,
}

impl Security {
    /// Nothing is protected.
    pub(crate) const PLAIN: Self = Self {
        #[cfg(feature = "oscore")]
        bound: None,
    };

    /// What the protection of a response adds to it at most: the OSCORE option with five bytes of Partial IV (RFC 8613 §6.1),
    /// Observe in the outer message as well, the payload marker, the inner code, the tag, and what options take more
    /// where others between them are in the other message.
    pub(crate) const RESPONSE_BYTES: usize = 2 + (1 + 5) + 4 + 1 + 1 + 16 + 4;

    /// Bytes to leave free in a request, its own or what it is answered with not counted.
    #[inline]
    pub(crate) fn request_bytes(&self) -> usize {
        #[cfg(feature = "oscore")]
        if let Some(bound) = &self.bound {
            return usize::from(bound.names) + Self::RESPONSE_BYTES;
        }
        0
    }

    /// Bytes to leave free in a response.
    #[inline]
    pub(crate) fn response_bytes(&self) -> usize {
        if self.is_plain() { 0 } else { Self::RESPONSE_BYTES }
    }
}

#[cfg(not(feature = "oscore"))]
impl Security {
    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        true
    }

    #[inline]
    pub(crate) const fn bytes_to_come(&self) -> usize {
        0
    }

    #[inline]
    pub(crate) const fn said(&self) -> Option<(Code, &Body)> {
        None
    }

    #[inline]
    pub(crate) const fn is_as(&self, _: &Self) -> bool {
        true
    }

    #[inline]
    pub(crate) const fn anew(&self) -> Self {
        Self::PLAIN
    }
}

#[cfg(feature = "oscore")]
impl Security {
    /// A request is to be protected with this.
    pub(crate) fn with(context: ContextId, names: usize) -> Self {
        let names = u16::try_from(names).unwrap_or(u16::MAX);
        Self { bound: Some(Box::new(Bound { context, names, binding: None, said: None, again: 0 })) }
    }

    /// A request came that was protected.
    pub(crate) fn by(binding: Binding) -> Self {
        let context = binding.context();
        Self { bound: Some(Box::new(Bound { context, names: 0, binding: Some(binding), said: None, again: 0 })) }
    }

    /// Nothing is protected.
    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        self.bound.is_none()
    }

    /// Bytes that a request takes more when it is protected, which it is not yet.
    #[inline]
    pub(crate) fn bytes_to_come(&self) -> usize {
        match &self.bound {
            Some(bound) if bound.binding.is_none() => self.request_bytes(),
            _ => 0,
        }
    }

    /// What a request of ours says behind its protection.
    #[inline]
    pub(crate) fn said(&self) -> Option<(Code, &Body)> {
        self.bound.as_ref()?.said.as_ref().map(|(code, body)| (*code, body))
    }

    /// Both are protected with the same context, or neither is.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.context() == other.context()
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

    /// A request of ours that says this is protected.
    pub(crate) fn bind(&mut self, binding: Binding, said: (Code, Body)) {
        if let Some(bound) = &mut self.bound {
            (bound.binding, bound.said) = (Some(binding), Some(said));
        }
    }

    /// A request is made again, if it may be: its server may have lost its keys, and then offers others, which it may offer too late.
    pub(crate) fn goes_again(&mut self) -> bool {
        let Some(bound) = self.bound.as_mut().filter(|bound| bound.again < 3) else { return false };
        bound.again += 1;
        true
    }

    /// As another request is to be protected.
    pub(crate) fn anew(&self) -> Self {
        let unbound = |bound: &Bound| Box::new(Bound { binding: None, said: None, again: 0, ..*bound });
        Self { bound: self.bound.as_deref().map(unbound) }
    }
}
