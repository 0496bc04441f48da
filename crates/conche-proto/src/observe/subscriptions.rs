//! [`Subscriptions`]: resources of other endpoints that this one observes (RFC 7641 §3).
//!
//! ```text
//!  registering ─response with Observe─> fresh ─Max-Age + 5 to 15 s─> stale ─re-registered─> fresh
//! ```

use core::fmt;

use super::Order;
use crate::codec::{Code, Token};
use crate::hash::Keyed;
use crate::q_block::BurstRegistration;
use crate::security::Security;
use crate::store::{Arena, CreateOnDemand, Index, Timers};
use crate::transport::{Content, ExchangeId, Failure, PeerIndex, Reliability, SubscriptionIndex, token_hash};
use conche_cc::Instant;

/// Identifies a subscription of this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId {
    index: SubscriptionIndex,
    generation: u32,
}

/// Reason why a subscription ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriptionEnd {
    /// The server does not notify (RFC 7641 §3.1).
    NotObserved,
    /// The server ended the observation with this error (RFC 7641 §3.2).
    Error(Code),
    /// A registration failed.
    Failed(Failure),
    /// The application cancelled a repeated registration.
    Cancelled,
}

impl fmt::Display for SubscriptionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotObserved => f.write_str("the server answered without observation"),
            Self::Error(code) => write!(f, "the server ended the observation with {code}"),
            Self::Failed(failure) => failure.fmt(f),
            Self::Cancelled => f.write_str("the repeated registration was cancelled"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) peer: PeerIndex,
    pub(crate) token: Token,
    /// For repetition.
    pub(crate) request: Content,
    pub(crate) reliability: Reliability,
    pub(crate) exchange: ExchangeId,
    pub(crate) in_bursts: Option<BurstRegistration>,
    pub(crate) security: Security,
}

#[derive(Debug)]
pub(crate) struct Subscription {
    generation: u32,
    pub(crate) peer: PeerIndex,
    pub(crate) token: Token,
    pub(crate) request: Content,
    pub(crate) reliability: Reliability,
    pub(crate) exchange: Option<ExchangeId>,
    /// `None` before the server accepts.
    pub(crate) newest: Option<Order>,
    pub(crate) in_bursts: Option<BurstRegistration>,
    /// The exchange that receives a newer state.
    pub(crate) coming: Option<ExchangeId>,
    /// Notifications must use the registration's protection.
    pub(crate) security: Security,
}

#[derive(Debug)]
pub(crate) struct Subscriptions {
    slots: Arena<Subscription, SubscriptionIndex>,
    by_token: Index<SubscriptionIndex>,
    timers: Timers<SubscriptionIndex>,
    hash: Keyed,
    generation: u32,
}

impl CreateOnDemand for Subscriptions {
    type Config = Keyed;

    fn empty<'a>() -> &'a Self {
        const { &Self::new(Keyed::NONE) }
    }

    fn create(hash: &Keyed) -> Self {
        Self::new(*hash)
    }
}

impl Subscriptions {
    const fn new(hash: Keyed) -> Self {
        Self { slots: Arena::new(), by_token: Index::new(), timers: Timers::new(), hash, generation: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    pub(crate) fn insert(&mut self, opened: Opened) -> Option<SubscriptionId> {
        let Opened { peer, token, request, reliability, exchange, in_bursts, security } = opened;
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let (exchange, newest, coming) = (Some(exchange), None, None);
        let subscription = Subscription {
            generation,
            peer,
            token,
            request,
            reliability,
            exchange,
            newest,
            in_bursts,
            coming,
            security,
        };
        let index = self.slots.insert(subscription)?;
        let hash = self.hash_of(peer, &self.slots[index].token);
        self.by_token.insert(hash, index);
        Some(SubscriptionId { index, generation })
    }

    pub(crate) fn remove(&mut self, index: SubscriptionIndex) {
        self.timers.cancel(index);
        self.by_token.remove(index);
        self.slots.remove(index);
    }

    pub(crate) fn live(&self, id: SubscriptionId) -> Option<SubscriptionIndex> {
        self.slots.get(id.index).filter(|subscription| subscription.generation == id.generation).map(|_| id.index)
    }

    pub(crate) fn id(&self, index: SubscriptionIndex) -> SubscriptionId {
        SubscriptionId { index, generation: self.slots[index].generation }
    }

    pub(crate) fn get(&self, index: SubscriptionIndex) -> &Subscription {
        &self.slots[index]
    }

    pub(crate) fn get_mut(&mut self, index: SubscriptionIndex) -> &mut Subscription {
        &mut self.slots[index]
    }

    pub(crate) fn find(&mut self, peer: PeerIndex, token: &Token) -> Option<SubscriptionIndex> {
        let is_it = |subscription: &Subscription| subscription.peer == peer && subscription.token == *token;
        self.by_token.find(&self.slots, self.hash_of(peer, token), is_it)
    }

    pub(crate) fn fresh_until(&mut self, index: SubscriptionIndex, at: Instant) {
        self.timers.set(index, at);
    }

    /// Records a repeated registration and stops the timer.
    pub(crate) fn registering(&mut self, index: SubscriptionIndex, exchange: ExchangeId) {
        self.timers.cancel(index);
        self.slots[index].exchange = Some(exchange);
    }

    #[cfg(feature = "oscore")]
    pub(crate) fn securities(&self) -> impl Iterator<Item = &Security> {
        self.slots.iter().map(|(_, subscription)| &subscription.security)
    }

    pub(crate) fn timers(&self) -> usize {
        self.timers.len()
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<SubscriptionIndex> {
        self.timers.pop_due(now)
    }

    fn hash_of(&self, peer: PeerIndex, token: &Token) -> u64 {
        token_hash(&self.hash, peer, token)
    }
}
