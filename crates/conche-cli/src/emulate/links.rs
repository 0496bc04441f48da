//! [`LinkMeter`]: counts and delays of the packets on links, and between groups of nodes.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use conche_netsim::packet::Packet;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::{Addresses, Topology};
use conche_netsim::{Instant, LinkId, NodeId, PacketId};
use serde::Serialize;

use super::Delays;
use crate::packet_counts::{PacketCounts, group};

/// Measures links of the same name as one, as `access` of all clients.
#[derive(Debug)]
pub struct LinkMeter {
    nodes: Vec<String>,
    links: Vec<String>,
    addresses: Addresses,
    of_links: BTreeMap<String, Counts>,
    of_paths: BTreeMap<(String, String), Counts>,
    /// Current link and time of entry.
    under_way: HashMap<(PacketId, bool), (LinkId, Instant)>,
}

#[derive(Debug, Default)]
struct Counts {
    packets: PacketCounts,
    delays: Delays,
}

/// Counts of a link, or from one group to another.
#[derive(Clone, Debug, Serialize)]
pub struct LinkRow {
    /// `uplink`, or `client to server`.
    pub name: String,
    #[serde(flatten)]
    pub packets: PacketCounts,
    /// Delay of packets that left it, in milliseconds.
    pub delay_p50_ms: Option<f64>,
    pub delay_p99_ms: Option<f64>,
}

impl LinkMeter {
    pub fn new(topology: &Topology) -> Self {
        let nodes = topology.nodes().map(|(_, name)| group(name)).collect();
        let links = topology.links().map(|(_, name)| group(name)).collect();
        let addresses = topology.addresses();
        let (of_links, of_paths, under_way) = Default::default();
        Self { nodes, links, addresses, of_links, of_paths, under_way }
    }

    pub fn rows(&self) -> Vec<LinkRow> {
        let paths = self.of_paths.iter().map(|((from, to), counts)| counts.row(format!("{from} to {to}")));
        paths.chain(self.of_links.iter().map(|(name, counts)| counts.row(name.clone()))).collect()
    }

    fn link(&mut self, link: LinkId) -> &mut Counts {
        let name = self.links.get(link.index()).cloned().unwrap_or_default();
        self.of_links.entry(name).or_default()
    }

    fn path(&mut self, packet: &Packet) -> &mut Counts {
        let name = |of: NodeId| self.nodes.get(self.addresses.node(of).index()).cloned().unwrap_or_default();
        self.of_paths.entry((name(packet.meta.from), name(packet.meta.to))).or_default()
    }

    fn left(&mut self, now: Instant, packet: &Packet) {
        if let Some((link, entered)) = self.under_way.remove(&key(packet)) {
            self.link(link).delays.record(now - entered);
        }
    }
}

fn key(packet: &Packet) -> (PacketId, bool) {
    (packet.meta.id, packet.meta.duplicate)
}

impl Observer for LinkMeter {
    fn on_sent(&mut self, _: Instant, packet: &Packet) {
        self.path(packet).packets.sent += 1;
    }

    fn on_entered(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.left(now, packet);
        self.link(link).packets.sent += 1;
        self.under_way.insert(key(packet), (link, now));
    }

    fn on_duplicated(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.path(packet).packets.sent += 1;
        self.link(link).packets.sent += 1;
        self.under_way.insert(key(packet), (link, now));
    }

    fn on_dropped(&mut self, _: Instant, packet: &Packet, reason: DropReason) {
        self.under_way.remove(&key(packet));
        self.path(packet).packets.drop(reason);
        if let Some(link) = reason.link() {
            self.link(link).packets.drop(reason);
        }
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        self.left(now, packet);
        self.path(packet).delays.record(now - packet.meta.sent_at);
    }
}

impl Counts {
    fn row(&self, name: String) -> LinkRow {
        let ms = |percent| self.delays.percentile(percent).map(milliseconds);
        LinkRow { name, packets: self.packets, delay_p50_ms: ms(50.0), delay_p99_ms: ms(99.0) }
    }
}

pub fn milliseconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use conche_netsim::Simulation;
    use conche_netsim::wired::{LinkConfig, Loss};

    use super::*;
    use crate::packet_counts::testing::Sink;

    #[test]
    fn links_and_paths_of_a_group_count_as_one() {
        let mut topology = Topology::new();
        let [one, two, hub, server] = ["client[0]", "client[1]", "hub", "server"].map(|name| topology.node(name));
        let delay =
            |delay_ms, loss| LinkConfig { delay: Duration::from_millis(delay_ms), loss, ..LinkConfig::default() };
        topology.duplex("access[0]", one, hub, delay(8, Loss::None));
        topology.duplex("access[1]", two, hub, delay(8, Loss::Bernoulli(1.0)));
        topology.duplex("core", hub, server, delay(20, Loss::None));
        let mut simulation = Simulation::new(&topology, 1, LinkMeter::new(&topology)).expect("a valid topology");
        simulation.attach(server, Sink).expect("a node");
        for client in [one, two, one, one] {
            simulation.send(client, server, b"datagram").expect("two nodes");
        }
        simulation.run();
        let rows = simulation.observer().rows();
        let seen = rows.iter().map(|row| (row.name.as_str(), row.packets.sent, row.packets.lost, row.delay_p50_ms));
        let seen: Vec<_> = seen.map(|(name, sent, lost, delay)| (name, sent, lost, delay.map(f64::round))).collect();
        let path = ("client to server", 4, 1, Some(28.0));
        assert_eq!(seen, [path, ("access>", 4, 1, Some(8.0)), ("core>", 3, 0, Some(20.0))]);
    }
}
