//! [`Layers`]: what the client and the server of an endpoint use: the message layer, the protection
//! of messages, and the events for the application.

#[cfg(feature = "oscore")]
mod oscore;
mod protection;

#[cfg(feature = "oscore")]
pub(crate) use oscore::{Agree, Protection};

#[cfg(feature = "oscore")]
use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::PeerKey;
use crate::blockwise::Transfer;
use crate::codec::MessagePool;
use crate::error::RequestError;
use crate::event::{Event, Unfinished};
use crate::exchange::{ExchangeId, Failure, Opening};
use crate::transport::{Transport, reserve_first};
use conche_cc::{Controller, Instant};

/// The layers below the roles, and the events on their way to the application.
pub(crate) struct Layers<P: PeerKey, C: Controller> {
    pub(crate) transport: Transport<P, C>,
    /// Security contexts, created with the first one.
    #[cfg(feature = "oscore")]
    pub(crate) protection: Option<Box<Protection>>,
    /// Memory of requests for the application. Responses arrive one by one and have their own
    /// allocation.
    pub(crate) pool: MessagePool,
    pub(crate) events: VecDeque<Event<P>>,
}

impl<P: PeerKey, C: Controller> Layers<P, C> {
    pub(crate) fn new(transport: Transport<P, C>) -> Self {
        Self {
            transport,
            #[cfg(feature = "oscore")]
            protection: None,
            pool: MessagePool::new(),
            events: VecDeque::new(),
        }
    }

    /// Queues an event for the application.
    #[inline]
    pub(crate) fn announce(&mut self, event: Event<P>) {
        reserve_first(&mut self.events);
        self.events.push_back(event);
    }

    /// Reports to the application that a message of an exchange was acknowledged.
    pub(crate) fn announce_acknowledged(&mut self, now: Instant, index: u32) {
        let (exchange, from, course) = self.transport.exchanges.summary(now, &self.transport.peers, index);
        self.announce(Event::Acknowledged { exchange, from, course });
    }

    /// Reports a failed exchange to the application.
    pub(crate) fn announce_failure(&mut self, now: Instant, index: u32, reason: Failure) {
        let exchange = self.transport.exchanges.get(index);
        let as_asked = exchange.stays_unanswered_by(reason);
        #[cfg(feature = "oscore")]
        let context = exchange.security.context();
        let (exchange, peer, course) = self.transport.exchanges.summary(now, &self.transport.peers, index);
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

    /// Opens an exchange for the application, within its limits.
    #[inline]
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        peer: u32,
        opening: &mut Opening,
    ) -> Result<ExchangeId, RequestError> {
        self.transport.check_room(peer, opening)?;
        self.protect_opening(opening)?;
        let limit = self.transport.config.limits.exchanges;
        self.transport.open(now, peer, opening).ok_or(RequestError::TooManyExchanges { limit })
    }

    /// Reports to the application how much of a request body is wanted, if it does not know yet.
    pub(crate) fn announce_wanted(&mut self, id: ExchangeId) {
        if let Some(bytes) = self.transport.exchanges.blocks_mut(id).and_then(Transfer::wants) {
            self.announce(Event::Wanted { body: Unfinished::Request(id), bytes });
        }
    }
}
