//! One node's protocol: messages and time in, messages and news out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Message;
use super::metric::{Cost, Metric};
use super::table::{Route, Table, newer};
use crate::rng::Stream;
use crate::{Instant, NodeId, units};

/// The protocol's parameters, by RFC 3561's names where it has them (§10).
///
/// ```toml
/// metric = "hop-count"
/// reply_wait = "0ms"
/// net_traversal_time = "2800ms"
/// rreq_retries = 2
/// forward_jitter = "10ms"
/// net_diameter = 35
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AodvConfig {
    /// Which of two routes is better.
    pub metric: Metric,
    /// How long the destination waits for better copies of a request before it replies. Zero under the hop count, as the
    /// first copy decides there.
    pub reply_wait: Duration,
    /// NET_TRAVERSAL_TIME: how long the origin waits for a reply; twice as long after each attempt.
    pub net_traversal_time: Duration,
    /// RREQ_RETRIES: how often it asks again before it gives up.
    pub rreq_retries: u8,
    /// A request is forwarded after a random part of this time, so that neighbours do not all send at once.
    pub forward_jitter: Duration,
    /// NET_DIAMETER: a request does not go further than so many hops.
    pub net_diameter: u8,
}

/// What a node wants, or has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this to all neighbours.
    Broadcast(Message),
    /// Send this to one neighbour.
    Unicast(NodeId, Message),
    /// A route that was looked for is there.
    Found {
        /// Where it leads.
        destination: NodeId,
        /// How long it is.
        hops: u8,
    },
    /// A route that was looked for is not: what waits for it may be dropped.
    Unreachable(NodeId),
}

/// The protocol at one node.
#[derive(Clone, Debug)]
pub struct Aodv {
    address: NodeId,
    config: AodvConfig,
    table: Table,
    sequence: u16,
    /// The newest request of each origin, and the best way that a copy of it took.
    seen: BTreeMap<NodeId, (u16, Cost)>,
    discoveries: BTreeMap<NodeId, Discovery>,
    /// What this node will send at a time.
    pending: Vec<Pending>,
    outbox: VecDeque<Output>,
}

/// The search for one destination.
#[derive(Clone, Copy, Debug)]
struct Discovery {
    retries: u8,
    until: Instant,
}

/// A request of this origin that is to be forwarded or, at its destination, to be answered.
#[derive(Clone, Copy, Debug)]
struct Pending {
    at: Instant,
    origin: NodeId,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Forward { destination: NodeId },
    Reply,
}

impl Aodv {
    /// A node that knows no routes.
    #[must_use]
    pub fn new(address: NodeId, config: AodvConfig) -> Self {
        Self {
            address,
            config,
            table: Table::default(),
            sequence: 0,
            seen: BTreeMap::new(),
            discoveries: BTreeMap::new(),
            pending: Vec::new(),
            outbox: VecDeque::new(),
        }
    }

    /// Where to send what is for this destination, if a route is known.
    #[must_use]
    pub fn next_hop(&self, destination: NodeId) -> Option<NodeId> {
        self.table.get(destination).map(|route| route.next_hop)
    }

    /// Looks for a route, if that is not being done already.
    pub fn discover(&mut self, now: Instant, destination: NodeId) {
        if !self.discoveries.contains_key(&destination) {
            let until = now + self.config.net_traversal_time;
            self.discoveries.insert(destination, Discovery { retries: 0, until });
            self.request(destination);
        }
    }

    /// A message arrived from a neighbour with this signal-to-noise ratio.
    pub fn receive(&mut self, now: Instant, from: NodeId, snr_db: f64, message: Message, stream: &mut Stream) {
        match message {
            Message::Request { origin, sequence, destination, cost } => {
                let cost = self.config.metric.extend(cost, snr_db);
                let route = Route { next_hop: from, cost, sequence };
                self.requested(now, origin, destination, route, stream);
            }
            Message::Reply { origin, destination, sequence, cost } => {
                let cost = self.config.metric.extend(cost, snr_db);
                self.table.offer(destination, Route { next_hop: from, cost, sequence }, &self.config.metric);
                self.replied(origin, Message::Reply { origin, destination, sequence, cost }, destination, cost);
            }
            Message::Error { origin, destination } => {
                self.table.break_route(destination, from);
                self.report(origin, destination);
            }
        }
    }

    /// The MAC could not deliver a frame to a neighbour: the link is broken. `lost` names origin and destination of the
    /// packet in it, unless it was a message of this protocol.
    pub fn link_broken(&mut self, neighbour: NodeId, lost: Option<(NodeId, NodeId)>) {
        self.table.break_link(neighbour);
        if let Some((origin, destination)) = lost {
            self.report(origin, destination);
        }
    }

    /// Tells the origin of a packet that there is no route to its destination from here.
    pub fn report(&mut self, origin: NodeId, destination: NodeId) {
        if origin != self.address
            && let Some(next_hop) = self.next_hop(origin)
        {
            self.outbox.push_back(Output::Unicast(next_hop, Message::Error { origin, destination }));
        }
    }

    /// What to do now; to be called until it answers `None`.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        while let Some(index) = self.pending.iter().position(|pending| pending.at <= now) {
            let pending = self.pending.remove(index);
            self.act(pending);
        }
        let overdue = |discovery: &Discovery| discovery.until <= now;
        while let Some(destination) = self.discoveries.iter().find_map(|(to, d)| overdue(d).then_some(*to)) {
            self.ask_again(now, destination);
        }
        self.outbox.pop_front()
    }

    /// When to poll again without any news.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        let pending = self.pending.iter().map(|pending| pending.at);
        pending.chain(self.discoveries.values().map(|discovery| discovery.until)).min()
    }

    fn request(&mut self, destination: NodeId) {
        let (origin, sequence) = (self.address, self.next_sequence());
        self.outbox.push_back(Output::Broadcast(Message::Request { origin, sequence, destination, cost: Cost::ZERO }));
    }

    fn ask_again(&mut self, now: Instant, destination: NodeId) {
        let Some(discovery) = self.discoveries.get_mut(&destination) else { return };
        if discovery.retries >= self.config.rreq_retries {
            self.discoveries.remove(&destination);
            self.outbox.push_back(Output::Unreachable(destination));
            return;
        }
        // Binary exponential backoff (§6.3).
        discovery.retries += 1;
        discovery.until = now + self.config.net_traversal_time * (1 << discovery.retries.min(16));
        self.request(destination);
    }

    /// A copy of a request came by this way (§6.5).
    fn requested(&mut self, now: Instant, origin: NodeId, destination: NodeId, route: Route, stream: &mut Stream) {
        if origin == self.address {
            return;
        }
        let metric = &self.config.metric;
        let first = self.seen.get(&origin).is_none_or(|(sequence, _)| newer(route.sequence, *sequence));
        let better = self.seen.get(&origin).is_some_and(|(sequence, cost)| {
            route.sequence == *sequence && metric.forwards_better_copies() && metric.prefers(route.cost, *cost)
        });
        if !first && !better {
            return;
        }
        self.seen.insert(origin, (route.sequence, route.cost));
        self.table.offer(origin, route, metric);
        if first {
            self.pending.retain(|pending| pending.origin != origin);
        }
        // What is sent says what is known when it is sent; a reply goes once for each request.
        let waits = self.pending.iter().any(|pending| pending.origin == origin);
        let (at, what) = if destination == self.address {
            (now + self.config.reply_wait, What::Reply)
        } else {
            let jitter = stream.below(units::nanos(self.config.forward_jitter) + 1);
            (now + Duration::from_nanos(jitter), What::Forward { destination })
        };
        if !waits && (first || what != What::Reply) {
            self.pending.push(Pending { at, origin, what });
        }
    }

    fn act(&mut self, Pending { origin, what, .. }: Pending) {
        let Some(&(sequence, cost)) = self.seen.get(&origin) else { return };
        match what {
            What::Forward { destination } if cost.hops < self.config.net_diameter => {
                let message = Message::Request { origin, sequence, destination, cost };
                self.outbox.push_back(Output::Broadcast(message));
            }
            What::Forward { .. } => {}
            What::Reply => {
                let (destination, sequence) = (self.address, self.next_sequence());
                let reply = Message::Reply { origin, destination, sequence, cost: Cost::ZERO };
                let next_hop = self.next_hop(origin);
                self.outbox.extend(next_hop.map(|next_hop| Output::Unicast(next_hop, reply)));
            }
        }
    }

    /// A reply came: the search is over, or it goes on towards the origin.
    fn replied(&mut self, origin: NodeId, reply: Message, destination: NodeId, cost: Cost) {
        if origin != self.address {
            let next_hop = self.next_hop(origin);
            self.outbox.extend(next_hop.map(|next_hop| Output::Unicast(next_hop, reply)));
        } else if self.discoveries.remove(&destination).is_some() {
            self.outbox.push_back(Output::Found { destination, hops: cost.hops });
        }
    }

    fn next_sequence(&mut self) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }
}

#[cfg(test)]
mod tests;
