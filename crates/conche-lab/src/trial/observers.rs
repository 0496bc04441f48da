//! Observers of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conche_netsim::packet::Packet;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::Addresses;
use conche_netsim::{Instant, LinkId, NodeId};

use crate::workload::Exchange;

#[derive(Debug)]
pub(super) struct TransmissionCounts {
    /// By node.
    pub(super) counts: Vec<NodeCounts>,
    addresses: Addresses,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeCounts {
    pub(super) copies: u64,
    pub(super) dropped: Drops,
}

/// Lost transmissions of requests and responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// All.
    pub all: u64,
    /// By a full queue or active queue management.
    pub queue: u64,
    /// At random, on links and radio hops.
    pub random: u64,
}

impl Drops {
    fn add(&mut self, reason: DropReason) {
        self.all += 1;
        match reason {
            DropReason::QueueFull(_) | DropReason::DroppedEarly(_) => self.queue += 1,
            DropReason::Lost(_) => self.random += 1,
            _ => {}
        }
    }
}

impl TransmissionCounts {
    pub(super) fn of(nodes: usize, addresses: Addresses) -> Self {
        Self { counts: vec![NodeCounts::default(); nodes], addresses }
    }
}

impl Observer for TransmissionCounts {
    fn on_sent(&mut self, _now: Instant, packet: &Packet) {
        if packet.meta.transmission.is_some() {
            self.counts[packet.meta.from.index()].copies += 1;
        }
    }

    fn on_dropped(&mut self, _now: Instant, packet: &Packet, reason: DropReason) {
        let client = if packet.meta.transmission.is_some() { packet.meta.from } else { packet.meta.to };
        // A broadcast belongs to no exchange.
        if let Some(client) = self.counts.get_mut(self.addresses.node(client).index()) {
            client.dropped.add(reason);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Queues(BTreeMap<LinkId, Vec<StandingQueue>>);

/// How long a queue stood above a waiting time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingQueue {
    /// Name of the link in the scenario.
    pub link: String,
    /// Waiting time that is too long.
    pub above: Duration,
    /// Longest interval in which arriving packets would wait longer.
    pub longest: Duration,
    last_interval: (Instant, Instant),
}

impl Queues {
    pub(super) fn watch(&mut self, id: LinkId, link: &str, above: Duration) {
        let (longest, last_interval) = (Duration::ZERO, (Instant::ZERO, Instant::ZERO));
        self.0.entry(id).or_default().push(StandingQueue { link: link.to_owned(), above, longest, last_interval });
    }

    pub(super) fn into_seen(self, end: Instant) -> Vec<StandingQueue> {
        let seen = self.0.into_values().flatten();
        seen.map(|queue| StandingQueue { longest: queue.longest.max(queue.last_interval_until(end)), ..queue })
            .collect()
    }
}

impl StandingQueue {
    fn last_interval_until(&self, end: Instant) -> Duration {
        self.last_interval.1.min(end) - self.last_interval.0
    }

    /// A packet waits too long if it arrives more than `above` before its departure.
    fn on_queued(&mut self, now: Instant, departure: Instant) {
        let waits_until = Instant::ZERO + (departure - Instant::ZERO).saturating_sub(self.above);
        if waits_until <= now {
            return;
        }
        let (began, ended) = self.last_interval;
        self.last_interval = (if now <= ended { began } else { now }, waits_until);
        if now > ended {
            self.longest = self.longest.max(ended - began);
        }
    }
}

impl Observer for Queues {
    fn on_queued(&mut self, now: Instant, link: LinkId, departure: Instant) {
        if self.0.is_empty() {
            return;
        }
        for queue in self.0.get_mut(&link).into_iter().flatten() {
            queue.on_queued(now, departure);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Notifications {
    servers: BTreeSet<NodeId>,
    addresses: Addresses,
    /// Client, first transmission and count, by server and exchange.
    sent: BTreeMap<(NodeId, u64), (NodeId, Instant, u16)>,
    acknowledged: Vec<(NodeId, NodeId, Exchange)>,
}

/// RFC 7252 §3.
const CONFIRMABLE: u8 = 0;
const ACKNOWLEDGEMENT: u8 = 2;

impl Notifications {
    pub(super) fn of(servers: BTreeSet<NodeId>, addresses: Addresses) -> Self {
        Self { servers, addresses, ..Self::default() }
    }

    /// By time: server, client and exchange.
    pub(super) fn into_acknowledged(self) -> Vec<(NodeId, NodeId, Exchange)> {
        self.acknowledged
    }
}

impl Observer for Notifications {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        if let Some(copy) =
            packet.meta.transmission.filter(|copy| is_of(packet, CONFIRMABLE) && self.servers.contains(&copy.node))
        {
            let client = self.addresses.node(packet.meta.to);
            self.sent.entry((copy.node, copy.exchange)).or_insert((client, now, 0)).2 += 1;
        }
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        let Some(copy) = packet.meta.cause.and_then(|cause| cause.transmission) else { return };
        // An unexpected notification gets a Reset.
        if copy.node != packet.meta.to || !is_of(packet, ACKNOWLEDGEMENT) {
            return;
        }
        let Some((to, began, copies)) = self.sent.remove(&(copy.node, copy.exchange)) else { return };
        let exchange = Exchange {
            number: copy.exchange,
            due: began,
            began,
            ended: now,
            transmissions: copies,
            unnecessary: copies.saturating_sub(u16::from(copy.attempt) + 1),
            answered: true,
            round_trip: Some(now - began),
        };
        self.acknowledged.push((copy.node, to, exchange));
    }
}

fn is_of(packet: &Packet, message: u8) -> bool {
    packet.bytes().first().is_some_and(|first| (first >> 4) & 3 == message)
}

#[cfg(test)]
mod tests {
    use conche_netsim::wired::{LinkConfig, Topology};

    use super::*;

    fn longest(frames: &[(u64, u64)], end: u64) -> u64 {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut topology = Topology::new();
        let [from, to] = ["router", "core"].map(|name| topology.node(name));
        let link = topology.link("uplink", from, to, LinkConfig::default());
        let mut queues = Queues::default();
        queues.watch(link, "uplink", Duration::from_secs(2));
        frames.iter().for_each(|(now, departure)| queues.on_queued(at(*now), link, at(*departure)));
        queues.into_seen(at(end))[0].longest.as_secs()
    }

    #[test]
    fn a_queue_stands_from_the_frame_that_makes_it_too_long_until_it_has_drained_so_far() {
        assert_eq!(longest(&[(0, 1), (0, 2)], 100), 0, "2 s are not longer than 2 s");
        assert_eq!(longest(&[(10, 20)], 100), 8);
        assert_eq!(longest(&[(10, 20), (15, 25)], 100), 13, "one stretch");
        assert_eq!(longest(&[(10, 20), (19, 25), (50, 53)], 100), 8, "at 19 s another one begins");
        assert_eq!(longest(&[(10, 20)], 14), 4, "the run is over");
    }
}
