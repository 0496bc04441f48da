//! [`Layers`]: the message layer, the protection of messages, and the events for the application,
//! as client and server use them.

#[cfg(feature = "oscore")]
mod oscore;

#[cfg(feature = "oscore")]
pub(crate) use oscore::{Agree, Protection};

#[cfg(feature = "oscore")]
use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::PeerKey;
use crate::blockwise::Transfer;
use crate::codec::{Body, Code, MessagePool, Overhead};
use crate::error::RequestError;
use crate::event::{Event, IncompleteBody};
#[cfg(feature = "oscore")]
use crate::oscore::ProtectError;
use crate::security::Security;
use crate::transport::{ExchangeId, ExchangeIndex, Failure, Opening, PeerIndex, Request, Transport, reserve_first};
use conche_cc::{Controller, Instant};

pub(crate) struct Layers<P: PeerKey, C: Controller> {
    /// Of the current input, poll or operation.
    pub(crate) now: Instant,
    pub(crate) transport: Transport<P, C>,
    #[cfg(feature = "oscore")]
    pub(crate) protection: Option<Box<Protection>>,
    /// Of requests. Responses arrive one by one and have their own allocation.
    pub(crate) pool: MessagePool,
    pub(crate) events: VecDeque<Event<P>>,
}

impl<P: PeerKey, C: Controller> Layers<P, C> {
    pub(crate) fn new(transport: Transport<P, C>) -> Self {
        Self {
            now: Instant::ZERO,
            transport,
            #[cfg(feature = "oscore")]
            protection: None,
            pool: MessagePool::new(),
            events: VecDeque::new(),
        }
    }

    #[inline]
    pub(crate) fn announce(&mut self, event: Event<P>) {
        reserve_first(&mut self.events);
        self.events.push_back(event);
    }

    pub(crate) fn announce_acknowledged(&mut self, index: ExchangeIndex) {
        let (exchange, from, course) = self.transport.exchanges.summary(self.now, &self.transport.peers, index);
        self.announce(Event::Acknowledged { exchange, from, course });
    }

    pub(crate) fn announce_failure(&mut self, index: ExchangeIndex, reason: Failure) {
        let exchange = self.transport.exchanges.get(index);
        let as_asked = exchange.stays_unanswered_by(reason);
        #[cfg(feature = "oscore")]
        let context = exchange.security.context();
        let (exchange, peer, course) = self.transport.exchanges.summary(self.now, &self.transport.peers, index);
        self.announce(match as_asked {
            true => Event::Unanswered { exchange, peer, course },
            false => Event::Failed {
                exchange,
                peer,
                reason,
                course,
                #[cfg(feature = "oscore")]
                context,
            },
        });
    }

    /// Opens an exchange within the application's limits.
    #[inline]
    pub(crate) fn submit(&mut self, peer: PeerIndex, opening: &mut Opening) -> Result<ExchangeId, RequestError> {
        self.transport.check_room(peer, opening)?;
        self.protect_opening(opening)?;
        let limit = self.transport.config.limits.exchanges;
        self.transport.open(self.now, peer, opening).ok_or(RequestError::TooManyExchanges { limit })
    }

    /// Reports how much of a request body is wanted, once.
    pub(crate) fn announce_wanted(&mut self, id: ExchangeId) {
        if let Some(bytes) = self.transport.exchanges.blocks_mut(id).and_then(Transfer::wants) {
            self.announce(Event::Wanted { body: IncompleteBody::Request(id), bytes });
        }
    }

    #[inline]
    pub(crate) fn security_of(&self, request: &Request) -> Security {
        match request.context() {
            None => Security::PLAIN,
            #[cfg(feature = "oscore")]
            Some(context) => self.security_with(context),
        }
    }

    /// Protects a request, as the last step before its exchange is opened.
    #[inline]
    pub(crate) fn protect_opening(&mut self, opening: &mut Opening) -> Result<(), RequestError> {
        match opening.security.context() {
            None => Ok(()),
            #[cfg(feature = "oscore")]
            Some(context) => self.protect_opening_with(context, opening),
        }
    }

    /// Returns the body to send, or why the exchange fails.
    #[inline]
    pub(crate) fn protect_next(&mut self, index: ExchangeIndex, body: Body) -> Result<Body, Failure> {
        match self.transport.exchanges.get(index).security.context() {
            None => Ok(body),
            #[cfg(feature = "oscore")]
            Some(context) => self.protect_next_with(context, index, body),
        }
    }

    #[inline]
    pub(crate) fn most_protection(&self) -> usize {
        #[cfg(feature = "oscore")]
        if self.has_contexts() {
            return Security::RESPONSE_BYTES;
        }
        0
    }

    /// Returns `None` if the context is gone or the message is too long.
    #[cfg_attr(not(feature = "oscore"), expect(unused_variables, reason = "no request has a context"))]
    #[inline]
    pub(crate) fn try_protect(
        &mut self,
        security: &Security,
        overhead: Overhead,
        code: Code,
        body: &Body,
    ) -> Option<(Code, Body)> {
        #[cfg(feature = "oscore")]
        if let Some(binding) = security.binding() {
            return self.protect_response(binding, overhead, code, body);
        }
        Some((code, body.clone()))
    }

    /// Protects a response or, if that fails, returns an unprotected error: the client comes back
    /// later.
    #[inline]
    pub(crate) fn protect(&mut self, security: &Security, overhead: Overhead, code: Code, body: &Body) -> (Code, Body) {
        let protected = self.try_protect(security, overhead, code, body);
        protected.unwrap_or_else(|| (Code::SERVICE_UNAVAILABLE, self.transport.config.try_later()))
    }

    /// Returns a failure if the context is gone or its keys have changed.
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
