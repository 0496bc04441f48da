//! Protection of outgoing messages (OSCORE, RFC 8613).
//!
//! A message without a security context is sent unchanged. Without the feature `oscore` no message
//! has one: [`ContextId`](crate::security::ContextId) has no values then.

use crate::PeerKey;
use crate::codec::{Body, Code, Overhead};
use crate::error::RequestError;
use crate::exchange::{Failure, Opening, Request};
use crate::layers::Layers;
#[cfg(feature = "oscore")]
use crate::oscore::ProtectError;
use crate::security::Security;
use conche_cc::Controller;

impl<P: PeerKey, C: Controller> Layers<P, C> {
    /// Returns how a request is to be protected.
    #[inline]
    pub(crate) fn security_of(&self, request: &Request) -> Security {
        match request.context() {
            None => Security::PLAIN,
            #[cfg(feature = "oscore")]
            Some(context) => self.security_with(context),
        }
    }

    /// Protects a request. This is the last step before its exchange is opened.
    #[inline]
    pub(crate) fn protect_opening(&mut self, opening: &mut Opening) -> Result<(), RequestError> {
        match opening.security.context() {
            None => Ok(()),
            #[cfg(feature = "oscore")]
            Some(context) => self.protect_opening_with(context, opening),
        }
    }

    /// Protects the next message of an exchange. Returns the body to send, or why the exchange
    /// fails.
    #[inline]
    pub(crate) fn protect_next(&mut self, index: u32, body: Body) -> Result<Body, Failure> {
        match self.transport.exchanges.get(index).security.context() {
            None => Ok(body),
            #[cfg(feature = "oscore")]
            Some(context) => self.protect_next_with(context, index, body),
        }
    }

    /// Returns the maximum number of bytes that protection adds to a notification.
    #[inline]
    pub(crate) fn most_protection(&self) -> usize {
        #[cfg(feature = "oscore")]
        if self.has_contexts() {
            return Security::RESPONSE_BYTES;
        }
        0
    }

    /// Protects the response to a request, in a message with this overhead. Returns `None` if the
    /// context is gone or the message is too long.
    #[cfg_attr(not(feature = "oscore"), expect(unused_variables, reason = "no request has a context"))]
    #[inline]
    pub(crate) fn try_protect(
        &mut self,
        security: &Security,
        overhead: Overhead,
        (code, body): (Code, &Body),
    ) -> Option<(Code, Body)> {
        #[cfg(feature = "oscore")]
        if let Some(binding) = security.binding() {
            return self.protect_response(binding, overhead, (code, body));
        }
        Some((code, body.clone()))
    }

    /// Protects as [`try_protect`](Self::try_protect). If that fails, returns an error without
    /// protection that tells the client to come back later.
    #[inline]
    pub(crate) fn protect(&mut self, security: &Security, overhead: Overhead, content: (Code, &Body)) -> (Code, Body) {
        let protected = self.try_protect(security, overhead, content);
        protected.unwrap_or_else(|| (Code::SERVICE_UNAVAILABLE, self.transport.config.try_later()))
    }

    /// Returns why nothing can be protected in this way any more, if the context is gone or its
    /// keys have changed.
    #[inline]
    pub(crate) fn never_protects(&self, security: &Security) -> Option<Failure> {
        match security.context() {
            None => None,
            #[cfg(feature = "oscore")]
            Some(context) => {
                self.has_lost_context(context, security).then_some(Failure::NotProtected(ProtectError::UnknownContext))
            }
        }
    }
}
