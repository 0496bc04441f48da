//! [`Server`]: received requests, stored bodies, observers, and responses to groups.
//!
//! | module | contents |
//! |---|---|
//! | `receive` | requests on their way to the application |
//! | `pending_requests` | requests that await their response |
//! | `respond` | their responses |
//! | `validation` | proofs that a source receives at its address (RFC 9175) |
//! | `blockwise` | bodies in blocks (RFC 7959) |
//! | `q_block` | responses and notifications in bursts (RFC 9177) |
//! | `streams` | bodies that pass block by block between the application and the endpoint |
//! | `observe` | observers and notifications (RFC 7641) |
//! | `group` | requests to groups (RFC 7252 §8) |

mod blockwise;
mod group;
mod observe;
mod pending_requests;
mod q_block;
mod receive;
mod respond;
mod streams;
mod validation;

use alloc::boxed::Box;
use core::marker::PhantomData;

use crate::PeerKey;
use crate::blockwise::Representations;
use crate::config::SharedConfig;
use crate::error::RequestError;
use crate::hash::Keyed;
use crate::layers::Layers;
use crate::observe::{ObserverKey, Observers, ObserversConfig};
use crate::shares::Group;
use crate::store::OnDemand;
use crate::transport::{
    AfterPayload, Exchange, ExchangeId, ExchangeIndex, Failure, PeerIndex, PeersFull, Purpose, Transmit,
};
use conche_cc::control::AbandonReason;
use conche_cc::{Controller, Instant};
use group::DelayedResponses;
pub(crate) use pending_requests::PendingRequests;
use q_block::QBlock;
use streams::StreamedBodies;
use validation::Validation;

pub(crate) struct Server<P: PeerKey, C: Controller> {
    pub(crate) validation: Option<Box<Validation<P>>>,
    pub(crate) pending_requests: OnDemand<PendingRequests<P>>,
    pub(crate) delayed_responses: OnDemand<DelayedResponses<P>>,
    pub(crate) streamed_bodies: OnDemand<StreamedBodies>,
    pub(crate) representations: OnDemand<Representations>,
    pub(crate) q_block: Option<Box<QBlock<P>>>,
    pub(crate) observers: OnDemand<Observers>,
    controller: PhantomData<fn() -> C>,
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    pub(crate) fn new(config: &SharedConfig, hash: Keyed) -> Self {
        Self {
            validation: None,
            pending_requests: OnDemand::new(config.clone()),
            delayed_responses: OnDemand::new(()),
            streamed_bodies: OnDemand::new(config.clone()),
            representations: OnDemand::new(config.clone()),
            q_block: QBlock::of(config).map(Box::new),
            observers: OnDemand::new(ObserversConfig { hash, config: config.clone() }),
            controller: PhantomData,
        }
    }

    /// Returns `false` if nothing is due.
    pub(crate) fn handle_due(&mut self, layers: &mut Layers<P, C>) -> bool {
        if let Some(request) = self.pending_requests.due(layers.now) {
            self.piggybacking_over(layers, request);
            return true;
        }
        self.ping_due(layers)
            || self.leisure_over(layers)
            || self.streamed_bodies.created().is_some() && self.stream_expired(layers)
            || self.q_block.is_some() && self.upload_due(layers)
    }

    /// Returns `false` if no observer is due.
    pub(crate) fn notify_due(&mut self, layers: &mut Layers<P, C>) -> bool {
        let due = self.observers.created().and_then(|created| created.visit(layers.now));
        if let Some(observer) = due {
            self.notify_observer(layers, observer);
        }
        due.is_some()
    }

    pub(crate) fn has_observers(&mut self) -> bool {
        self.observers.created().is_some_and(|observers| !observers.is_empty())
    }

    fn has_streams(&mut self) -> bool {
        self.streamed_bodies.created().is_some_and(|parts| parts.streams.len() > 0)
    }

    /// Creates the peer's state if necessary, charged to this group.
    #[inline]
    pub(crate) fn open_peer(
        &mut self,
        layers: &mut Layers<P, C>,
        key: P,
        group: Group,
    ) -> Result<PeerIndex, RequestError> {
        match layers.transport.peers.open(layers.now, key, group, &mut layers.transport.random) {
            Ok(peer) => Ok(peer),
            Err(PeersFull) => self.open_in_place_of_an_observer(layers, key, group),
        }
    }

    /// Drops expired state, and returns the time of the next action.
    pub(crate) fn next_due(&mut self, now: Instant) -> Option<Instant> {
        let next = [
            self.pending_requests.next_due(),
            self.delayed_responses.created().and_then(|leisure| leisure.next_due()),
            self.observers.created().and_then(|observers| observers.next_due()),
            self.purge_bodies(now),
            self.q_block.as_ref().and_then(|q_block| q_block.uploads.next_due()),
            self.validation.as_ref().and_then(|validation| validation.next_due()),
        ];
        next.into_iter().flatten().min()
    }

    /// Sends a response whose only possible answer is a Reset.
    pub(crate) fn response_sent(
        &mut self,
        layers: &mut Layers<P, C>,
        id: ExchangeId,
        transmit: Transmit<P>,
    ) -> Transmit<P> {
        let exchange = layers.transport.exchanges.get(id.index);
        let fingerprint = Keyed::fingerprint(layers.transport.peers.hash(&transmit.to), 0, exchange.id.0);
        layers.transport.rejectable.sent(fingerprint, exchange.token.clone());
        if self.has_observers() {
            let place = ObserverKey { peer: exchange.peer, token: exchange.token.clone(), local: exchange.local };
            self.first_response_sent(layers.now, &place, id, exchange.id);
        }
        self.close(layers, id.index);
        transmit
    }

    /// Ends an acknowledged exchange, unless it has more to send.
    pub(crate) fn acknowledged(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        let exchange = layers.transport.exchanges.get(index);
        let purpose = exchange.purpose;
        if exchange.transfer.is_some() {
            if self.continue_bursts_after_ack(layers, index) {
                return;
            }
            if matches!(purpose, Purpose::Response(_)) {
                // The further messages of a Q-Block response are not reported to the application.
                return self.close(layers, index);
            }
        }
        if let Purpose::Notification(observer) = purpose {
            return self.notification_acknowledged(layers, index, observer);
        }
        if layers.transport.exchanges.yield_next(layers.now, &mut layers.transport.peers, index) {
            return layers.transport.admit_waiting(layers.now, layers.transport.exchanges.get(index).peer);
        }
        if self.has_observers() {
            let exchange = layers.transport.exchanges.get(index);
            let place = ObserverKey { peer: exchange.peer, token: exchange.token.clone(), local: exchange.local };
            let id = exchange.id(index);
            self.response_acknowledged(layers, &place, id);
        }
        layers.announce_acknowledged(index);
        self.close(layers, index);
    }

    pub(crate) fn fail(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex, reason: Failure) {
        layers.transport.count_failure(index, reason);
        let exchange = layers.transport.exchanges.get(index);
        let Exchange { purpose, peer, local, .. } = *exchange;
        if let Purpose::Notification(observer) = purpose {
            return self.notification_failed(layers, index, observer, reason);
        }
        let (id, place) = (exchange.id(index), ObserverKey { peer, token: exchange.token.clone(), local });
        if exchange.is_reportable() {
            layers.announce_failure(index, reason);
        } else {
            layers.transport.stats.responses_expired += 1;
        }
        self.close(layers, index);
        if self.has_observers() {
            self.response_failed(layers, &place, id, reason);
        }
    }

    pub(crate) fn cancel(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        layers.transport.abandon(layers.now, index, AbandonReason::Cancelled);
        self.bursts_over(layers, index);
    }

    /// Returns the time of the next purge.
    fn purge_bodies(&mut self, now: Instant) -> Option<Instant> {
        let assemblies = self.streamed_bodies.created().and_then(|parts| parts.assemblies.purge(now));
        let representations = self.representations.created().and_then(|representations| representations.purge(now));
        let in_bursts = self.q_block.as_mut().and_then(|q_block| q_block.uploads.purge(now));
        let streams = self.streamed_bodies.created().and_then(|parts| parts.streams.purge(now));
        [assemblies, representations, in_bursts, streams].into_iter().flatten().min()
    }

    pub(crate) fn body_bytes(&self, layers: &Layers<P, C>) -> usize {
        let in_bursts = self.q_block.as_ref().map_or(0, |q_block| q_block.uploads.contexts().bytes());
        let kept =
            self.streamed_bodies.assemblies.contexts().bytes() + self.representations.contexts().bytes() + in_bursts;
        kept + layers.transport.exchanges.transfer_bytes()
    }

    pub(crate) fn transmit_payload(
        &mut self,
        layers: &mut Layers<P, C>,
        id: ExchangeId,
        buf: &mut [u8],
    ) -> Option<Transmit<P>> {
        let message_id = layers.transport.payload_id(layers.now, id)?;
        let exchange = layers.transport.exchanges.get(id.index);
        let base = exchange.token.clone();
        let mut transfer = layers.transport.exchanges.take_transfer(id.index)?;
        let payload = self.next_payload(layers, &mut transfer, base);
        layers.transport.exchanges.put_back(id.index, transfer);
        let Some(payload) = payload else {
            // The client requests the rest again, and the application is asked again.
            layers.transport.abandon(layers.now, id.index, AbandonReason::Cancelled);
            self.bursts_over(layers, id.index);
            return None;
        };
        if let Purpose::Notification(observer) = layers.transport.exchanges.get(id.index).purpose {
            self.observers.payload_left(layers.now, observer, message_id, payload.begins);
        }
        let Some((transmit, left)) = layers.transport.write_payload(layers.now, id, message_id, &payload, buf) else {
            self.fail(layers, id.index, Failure::MessageTooLarge);
            return None;
        };
        if left == AfterPayload::Over {
            self.bursts_over(layers, id.index);
        }
        Some(transmit)
    }
}
