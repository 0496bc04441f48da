//! [`Client`]: requests of this endpoint, from their submission to their end, and observations.
//!
//! | module | contents |
//! |---|---|
//! | `request` | requests of the application |
//! | `receive` | their acknowledgements and responses |
//! | `token` | tokens, and support of extended ones (RFC 8974) |
//! | `oscore` | responses to protected requests (RFC 8613) |
//! | `transfer` | block-wise bodies (RFC 7959) |
//! | `stream` | bodies that pass block by block between the application and the endpoint |
//! | `q_block` | bodies in bursts (RFC 9177) |
//! | `observe` | observations of servers (RFC 7641) |
//! | `group` | requests to groups (RFC 7252 §8) |

mod group;
mod observe;
#[cfg(feature = "oscore")]
mod oscore;
mod q_block;
mod receive;
mod request;
mod stream;
mod token;
mod transfer;

use alloc::boxed::Box;
use core::marker::PhantomData;

use crate::PeerKey;
use crate::config::SharedConfig;
use crate::exchange::{Failure, Purpose};
use crate::hash::Keyed;
use crate::layers::Layers;
use crate::observe::Subscriptions;
use crate::store::OnDemand;
use conche_cc::control::AbandonReason;
use conche_cc::{Controller, Instant};
use group::GroupRequests;
use q_block::QBlock;
use token::Discovery;
pub(crate) use token::Tried;

/// The client of an endpoint.
pub(crate) struct Client<P: PeerKey, C: Controller> {
    /// What peers are known to support, if extended tokens or Q-Block are configured.
    support: Option<Box<Support>>,
    pub(crate) group_requests: OnDemand<GroupRequests>,
    pub(crate) subscriptions: OnDemand<Subscriptions>,
    layers: PhantomData<fn() -> Layers<P, C>>,
}

/// What peers are known to support.
struct Support {
    /// Extended tokens, if configured.
    discovery: Option<Discovery>,
    /// Q-Block, if configured.
    q_block: Option<QBlock>,
}

impl Support {
    fn of(config: &SharedConfig) -> Option<Self> {
        let (discovery, q_block) = (Discovery::of(config), QBlock::of(config));
        (discovery.is_some() || q_block.is_some()).then_some(Self { discovery, q_block })
    }
}

impl<P: PeerKey, C: Controller> Client<P, C> {
    pub(crate) fn new(config: &SharedConfig, hash: Keyed) -> Self {
        Self {
            support: Support::of(config).map(Box::new),
            group_requests: OnDemand::new(()),
            subscriptions: OnDemand::new(hash),
            layers: PhantomData,
        }
    }

    fn has_q_block(&self) -> bool {
        self.q_block().is_some()
    }

    fn q_block(&self) -> Option<&QBlock> {
        self.support.as_ref()?.q_block.as_ref()
    }

    fn q_block_mut(&mut self) -> Option<&mut QBlock> {
        self.support.as_mut()?.q_block.as_mut()
    }

    fn discovery_mut(&mut self) -> Option<&mut Discovery> {
        self.support.as_mut()?.discovery.as_mut()
    }

    /// Reports a stale observation, if there is one; returns `false` otherwise.
    pub(crate) fn do_what_is_due(&mut self, layers: &mut Layers<P, C>, now: Instant) -> bool {
        let due = self.subscriptions.made().and_then(|made| made.pop_due(now));
        if let Some(subscription) = due {
            self.subscription_due(layers, subscription);
        }
        due.is_some()
    }

    /// Ends a request of the application without an event.
    pub(crate) fn cancel(&mut self, layers: &mut Layers<P, C>, now: Instant, index: u32) {
        self.registration_cancelled(layers, now, index);
        layers.transport.exchanges.abandon(now, &mut layers.transport.peers, index, AbandonReason::Cancelled);
        self.close(layers, now, index);
    }

    /// Ends a request with a failure: reports it to the application, and frees its resources.
    pub(crate) fn fail(&mut self, layers: &mut Layers<P, C>, now: Instant, index: u32, reason: Failure) {
        layers.transport.count_failure(index, reason);
        if let Purpose::State(subscription) = layers.transport.exchanges.get(index).purpose {
            return self.state_failed(layers, now, index, subscription);
        }
        let subscription = self.registers(layers, index);
        if let Some(over) = self.group_over(layers, now, index, reason) {
            layers.announce(over);
        } else if self.is_reported(layers, index) {
            layers.announce_failure(now, index, reason);
        } else {
            layers.transport.stats.responses_expired += 1;
        }
        self.close(layers, now, index);
        if let Some(subscription) = subscription {
            self.registration_failed(layers, now, subscription, reason);
        }
    }

    /// Closes the exchange of a request or of a state.
    #[inline]
    pub(crate) fn close(&mut self, layers: &mut Layers<P, C>, now: Instant, index: u32) {
        if !self.group_requests.is_empty() {
            let exchange = layers.transport.exchanges.get(index);
            self.group_requests.forget(exchange.id(index), &exchange.token);
        }
        layers.transport.close(now, index);
    }
}
