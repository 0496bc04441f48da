//! The protocol of one node, without clock or I/O.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Message;
use super::metric::{Cost, Metric};
use crate::rng::Stream;
use crate::{Instant, NodeId, units};

/// Parameters, with RFC 3561's names where defined (§10).
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
    /// Route metric.
    pub metric: Metric,
    /// Time that the destination waits for better copies of a request. Zero with hop count: the
    /// first decides.
    pub reply_wait: Duration,
    /// NET_TRAVERSAL_TIME: time that the origin waits for a reply, doubled per attempt.
    pub net_traversal_time: Duration,
    /// RREQ_RETRIES: maximum repetitions of a request.
    pub rreq_retries: u8,
    /// Maximum random delay of a forwarded request, to desynchronise neighbours.
    pub forward_jitter: Duration,
    /// NET_DIAMETER: maximum hops of a request.
    pub net_diameter: u8,
}

/// An action or a result of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this message to all neighbours.
    Broadcast(Message),
    /// Send this message to one neighbour.
    Unicast(NodeId, Message),
    /// A route was discovered.
    Found {
        /// The route's destination.
        destination: NodeId,
        /// The route's length in hops.
        hops: u8,
    },
    /// A discovery failed; packets waiting for it may be dropped.
    Unreachable(NodeId),
}

/// The protocol state of one node.
#[derive(Clone, Debug)]
pub struct Aodv {
    address: NodeId,
    config: AodvConfig,
    table: Table,
    sequence: u16,
    /// Latest request per origin, with its best cost.
    seen: BTreeMap<NodeId, (u16, Cost)>,
    discoveries: BTreeMap<NodeId, Discovery>,
    pending: Vec<Pending>,
    outbox: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug)]
struct Discovery {
    retries: u8,
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    at: Instant,
    origin: NodeId,
    action: PendingAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingAction {
    Forward { destination: NodeId },
    Reply,
}

impl Aodv {
    /// Creates a node without routes.
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

    /// Returns the next hop, if a route is known.
    #[must_use]
    pub fn next_hop(&self, destination: NodeId) -> Option<NodeId> {
        self.table.get(destination).map(|route| route.next_hop)
    }

    /// Starts a route discovery, unless one is in progress.
    pub fn discover(&mut self, now: Instant, destination: NodeId) {
        if !self.discoveries.contains_key(&destination) {
            let until = now + self.config.net_traversal_time;
            self.discoveries.insert(destination, Discovery { retries: 0, until });
            self.request(destination);
        }
    }

    /// Handles a neighbour's message, received with this signal-to-noise ratio.
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

    /// Handles a broken link. `lost` is the undelivered packet's origin and destination, or `None`
    /// for an AODV message.
    pub fn link_broken(&mut self, neighbour: NodeId, lost: Option<(NodeId, NodeId)>) {
        self.table.break_link(neighbour);
        if let Some((origin, destination)) = lost {
            self.report(origin, destination);
        }
    }

    /// Sends a route error to the origin of an unroutable packet.
    pub fn report(&mut self, origin: NodeId, destination: NodeId) {
        if origin != self.address
            && let Some(next_hop) = self.next_hop(origin)
        {
            self.outbox.push_back(Output::Unicast(next_hop, Message::Error { origin, destination }));
        }
    }

    /// Returns the next action or result; call it until `None`.
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

    /// Returns the time of the next poll without input.
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

    /// Handles a copy of a request (§6.5).
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
        // Pending messages take their contents when sent.
        let waits = self.pending.iter().any(|pending| pending.origin == origin);
        let (at, action) = if destination == self.address {
            (now + self.config.reply_wait, PendingAction::Reply)
        } else {
            let jitter = stream.below(units::nanos(self.config.forward_jitter) + 1);
            (now + Duration::from_nanos(jitter), PendingAction::Forward { destination })
        };
        if !waits && (first || action != PendingAction::Reply) {
            self.pending.push(Pending { at, origin, action });
        }
    }

    fn act(&mut self, Pending { origin, action, .. }: Pending) {
        let Some(&(sequence, cost)) = self.seen.get(&origin) else { return };
        match action {
            PendingAction::Forward { destination } if cost.hops < self.config.net_diameter => {
                let message = Message::Request { origin, sequence, destination, cost };
                self.outbox.push_back(Output::Broadcast(message));
            }
            PendingAction::Forward { .. } => {}
            PendingAction::Reply => {
                let (destination, sequence) = (self.address, self.next_sequence());
                let reply = Message::Reply { origin, destination, sequence, cost: Cost::ZERO };
                let next_hop = self.next_hop(origin);
                self.outbox.extend(next_hop.map(|next_hop| Output::Unicast(next_hop, reply)));
            }
        }
    }

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    next_hop: NodeId,
    cost: Cost,
    sequence: u16,
}

/// The latest and best route per destination (RFC 3561 §6.2).
#[derive(Clone, Debug, Default)]
struct Table {
    routes: BTreeMap<NodeId, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    route: Route,
    valid: bool,
}

impl Table {
    fn get(&self, destination: NodeId) -> Option<Route> {
        self.routes.get(&destination).filter(|entry| entry.valid).map(|entry| entry.route)
    }

    fn offer(&mut self, destination: NodeId, route: Route, metric: &Metric) {
        let takes = |known: &Entry| {
            let known_route = known.route;
            newer(route.sequence, known_route.sequence)
                || (route.sequence == known_route.sequence
                    && (!known.valid || metric.prefers(route.cost, known_route.cost)))
        };
        if self.routes.get(&destination).is_none_or(takes) {
            self.routes.insert(destination, Entry { route, valid: true });
        }
    }

    fn break_link(&mut self, neighbour: NodeId) {
        for entry in self.routes.values_mut().filter(|entry| entry.route.next_hop == neighbour) {
            entry.valid = false;
        }
    }

    fn break_route(&mut self, destination: NodeId, next_hop: NodeId) {
        if let Some(entry) = self.routes.get_mut(&destination).filter(|entry| entry.route.next_hop == next_hop) {
            entry.valid = false;
        }
    }
}

/// Compares sequence numbers with wrap-around (RFC 3561 §6.1).
fn newer(one: u16, other: u16) -> bool {
    (1..1 << 15).contains(&one.wrapping_sub(other))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod unit_tests {
    use super::*;

    fn route(next_hop: u32, hops: u8, sequence: u16) -> Route {
        Route { next_hop: NodeId(next_hop), cost: Cost { hops, delivery: u16::MAX }, sequence }
    }

    #[test]
    fn a_newer_route_replaces_a_shorter_one_and_an_equally_new_one_only_if_it_is_shorter() {
        let (mut table, to) = (Table::default(), NodeId(9));
        let mut next = |route: Route| {
            table.offer(to, route, &Metric::HopCount);
            table.get(to).expect("a route").next_hop.0
        };
        assert_eq!(next(route(1, 3, 10)), 1);
        assert_eq!(next(route(2, 3, 10)), 1);
        assert_eq!(next(route(3, 2, 10)), 3);
        assert_eq!(next(route(4, 5, 11)), 4);
        assert_eq!(next(route(5, 1, 10)), 4, "it is older");
    }

    #[test]
    fn a_broken_link_takes_its_routes_with_it_and_no_others() {
        let mut table = Table::default();
        table.offer(NodeId(8), route(1, 1, 0), &Metric::HopCount);
        table.offer(NodeId(9), route(2, 1, 0), &Metric::HopCount);
        table.break_link(NodeId(1));
        assert_eq!((table.get(NodeId(8)), table.get(NodeId(9)).map(|route| route.next_hop)), (None, Some(NodeId(2))));
        table.break_route(NodeId(9), NodeId(1));
        assert!(table.get(NodeId(9)).is_some(), "it leads over another neighbour");
    }

    #[test]
    fn sequence_numbers_wrap_around() {
        assert!(newer(1, 65_535) && newer(0, 65_535) && !newer(65_535, 0) && !newer(5, 5));
    }
}
