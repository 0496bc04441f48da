//! Requests to groups (RFC 7252 §8), and [`DelayedResponses`]: their responses, until their random
//! times (§8.2).
//!
//! ```text
//!   a response │<------ leisure ------>│<------ leisure ------>│
//!              │        x              │                   x   │
//!              │   the first leaves    │     the next one leaves
//! ```
//!
//! Periods do not overlap, so a group of G members responds at the rate for which the leisure was
//! chosen, regardless of the number of requests. Groups of sources take turns (self-clocked fair
//! queueing, Golestani, INFOCOM 1994): a response waits for one response of each other group, not
//! for all requests of one host.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::Server;
use super::pending_requests::{PendingRequest, RequestKind, ResponseFilter};
use super::receive::{Arrival, ReceivedRequest, RequestOptions};
use crate::PeerKey;
use crate::codec::{Body, Code, Message, OptionNumber, OwnedMessage, Type};
use crate::event::Event;
use crate::layers::Layers;
use crate::security::Security;
use crate::shares::{Group, Shares};
use crate::store::CreateOnDemand;
use crate::transport::{Datagram, RequestId, Response, Source};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

impl<P: PeerKey, C: Controller> Server<P, C> {
    #[must_use]
    pub(crate) fn is_group_request(&self, request: RequestId) -> bool {
        self.pending_requests.get(request).is_some_and(|pending| pending.is_to_group())
    }

    /// Accepts only Non-confirmable requests. Everything else, malformed or not, is ignored: even a
    /// Reset would come from all members at once (§8.1).
    pub(crate) fn receive_by_group(&mut self, layers: &mut Layers<P, C>, datagram: &Datagram<'_, P>) {
        let &Datagram { from, bytes, .. } = datagram;
        let message = Message::read(bytes, layers.transport.config.longest_echoed_token()).ok().filter(|message| {
            layers.transport.config.multicast.is_some()
                && message.ty() == Type::NonConfirmable
                && message.code().is_request()
        });
        let Some(message) = message else {
            layers.transport.stats.multicast += 1;
            return;
        };
        // A group address cannot be a source address: the operating system chooses one (§8.2).
        let source = Source { from, local: None };
        let hash = layers.transport.peers.hash(&from);
        if let Some(peer) = layers.transport.peers.find(&from, hash) {
            layers.transport.peers.get_mut(peer).heard();
        }
        self.receive_group_request(layers, source, hash, &message);
    }

    fn receive_group_request(
        &mut self,
        layers: &mut Layers<P, C>,
        source: Source<P>,
        hash: u64,
        message: &Message<'_>,
    ) {
        let limiter = layers.transport.limiters.as_mut().and_then(|limiters| limiters.requests.as_mut());
        if limiter.is_some_and(|limiter| !limiter.admits(layers.now, Group::of(hash))) {
            layers.transport.stats.limited += 1;
            return;
        }
        let fingerprint = layers.transport.fingerprint(source, hash, message);
        if layers.transport.received.find(layers.now, fingerprint).is_some() {
            layers.transport.stats.duplicates += 1;
            return;
        }
        // An error would be suppressed (§8.2). Blocks after the first must be requested from a
        // single server (RFC 7959 §2.8), and Q-Block2 is ignored (RFC 9177 §4.8).
        let Some(options) =
            self.acceptable(layers, message, &Security::PLAIN).ok().filter(|RequestOptions { requested, .. }| {
                !requested.is_in_bursts()
                    && requested.block1().is_none()
                    && requested.block2().is_none_or(|block| block.num == 0)
            })
        else {
            return;
        };
        let group = layers.transport.group_of(&source.from, hash);
        if !self.delayed_responses.admits(group, layers.transport.config.limits.group_requests) {
            layers.transport.stats.no_leisure += 1;
            return;
        }
        let interest = if message.option(OptionNumber::NO_RESPONSE).is_some() {
            ResponseFilter::NoResponseOption
        } else {
            ResponseFilter::Default
        };
        let arrival = Arrival {
            source,
            hash,
            fingerprint,
            group,
            allowance: None,
            kind: RequestKind::ToGroup(interest),
            security: Security::PLAIN,
        };
        let Some(id) = self.take_in(layers, ReceivedRequest { arrival: &arrival, message }, &options) else {
            layers.transport.stats.overloaded += 1;
            return;
        };
        self.delayed_responses.take(group);
        layers.transport.stats.requests_received += 1;
        let message = OwnedMessage::pooled(*message, &mut layers.pool);
        layers.announce(Event::Request { id, from: source.from, message });
    }
}

#[derive(Debug)]
pub(crate) struct DelayedResponse<P> {
    /// Order of service: the least is next.
    round: u64,
    leisure: Duration,
    /// Time of departure, from the start of its period.
    offset: Duration,
    pub(crate) pending: PendingRequest<P>,
    pub(crate) code: Code,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) struct DelayedResponses<P> {
    /// The response of the current period, and when it leaves.
    current: Option<(Instant, DelayedResponse<P>)>,
    /// In order of arrival.
    queue: VecDeque<DelayedResponse<P>>,
    /// End of the last period.
    over: Instant,
    /// Turn and group of the last response with a period.
    round: u64,
    last: Group,
    /// Group requests per source, from their arrival on, so that accepted ones can be answered.
    shares: Shares,
}

impl<P> CreateOnDemand for DelayedResponses<P> {
    type Config = ();

    fn empty<'a>() -> &'a Self
    where
        Self: 'a,
    {
        const { &Self::NONE }
    }

    fn create(_: &()) -> Self {
        Self::NONE
    }
}

impl<P> DelayedResponses<P> {
    const NONE: Self = Self {
        current: None,
        queue: VecDeque::new(),
        over: Instant::ZERO,
        round: 0,
        last: Group::NOBODY,
        shares: Shares::new(),
    };

    /// Returns `true` if there is room for a request of this group, of `capacity` in total.
    pub(super) fn admits(&self, sources: Group, capacity: usize) -> bool {
        self.shares.admits(sources, 1, capacity)
    }

    pub(super) fn take(&mut self, sources: Group) {
        self.shares.take(sources, 1);
    }

    pub(super) fn give_back(&mut self, sources: Group) {
        self.shares.give_back(sources, 1);
    }

    /// Stores a response for a random time of a period of this length.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        leisure: Duration,
        random: &mut impl RngCore,
        pending: PendingRequest<P>,
        response: Response,
    ) {
        let nanos = u64::try_from(leisure.as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is uniform over [0, nanos).
        let point = u64::try_from((u128::from(random.next_u64()) * u128::from(nanos)) >> 64).unwrap_or(nanos);
        let same_group = self.queue.iter().filter(|queued| queued.pending.group == pending.group);
        let before = same_group.map(|queued| queued.round).fold(self.round, u64::max);
        let (round, offset) = (before.saturating_add(1), Duration::from_nanos(point));
        let Response { code, body, .. } = response;
        self.queue.push_back(DelayedResponse { round, leisure, offset, pending, code, body });
        if self.current.is_none() && self.over <= now {
            self.begin_period(now);
        }
    }

    /// Returns when the next response leaves or the next period starts.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let begins = || (!self.queue.is_empty()).then_some(self.over);
        self.current.as_ref().map(|(at, _)| *at).or_else(begins)
    }

    /// Takes the response that is due. Its share must be given back.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<DelayedResponse<P>> {
        if self.current.is_none() && self.over <= now {
            self.begin_period(self.over);
        }
        self.current.take_if(|(at, _)| *at <= now).map(|(_, response)| response)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some())
    }

    /// Prefers a response of another group than the last one.
    fn begin_period(&mut self, start: Instant) {
        let order = |(_, queued): &(usize, &DelayedResponse<P>)| (queued.round, queued.pending.group == self.last);
        let next = self.queue.iter().enumerate().min_by_key(order).map(|(place, _)| place);
        let Some(next) = next.and_then(|place| self.queue.remove(place)) else { return };
        (self.round, self.last) = (next.round, next.pending.group);
        self.over = start + next.leisure;
        self.current = Some((start + next.offset, next));
    }
}
