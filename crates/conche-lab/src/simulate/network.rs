//! A scenario's network as the simulator's topology.

use std::time::Duration;

use conche_netsim::NodeId;
use conche_netsim::wired::{Distribution, DropTail, InService, Jitter, Limit, LinkConfig, Order, Topology};

use crate::scenario::{Buffer, Network, Server, SharedBottleneck};
use crate::units::SpanRange;

/// Where the hosts are.
pub(super) struct Sites {
    pub(super) server: NodeId,
    pub(super) clients: Vec<NodeId>,
}

pub(super) fn build(network: &Network, server: &Server, clients: u32, buffer: &Buffer) -> (Topology, Sites) {
    let Network::SharedBottleneck(network) = network;
    shared_bottleneck(network, server, clients, buffer)
}

/// Links and clients come in an order that gives each the same random stream whatever the number of clients.
///
/// The time that the server's host takes for a request is a delay in front of the server.
fn shared_bottleneck(network: &SharedBottleneck, host: &Server, clients: u32, buffer: &Buffer) -> (Topology, Sites) {
    let header_bytes = u32::try_from(network.header.0).expect("checked when the scenario was read");
    let plain = || LinkConfig { header_bytes, ..LinkConfig::default() };
    let mut topology = Topology::new();
    let (hub, router) = (topology.node("hub"), topology.node("router"));
    let (interface, server) = (topology.node("interface"), topology.node("server"));
    let uplink = LinkConfig { rate: Some(network.uplink.rate), delay: network.uplink.delay.0, ..plain() };
    let downlink = LinkConfig {
        rate: Some(network.downlink.rate),
        delay: network.downlink.delay.0,
        queue: DropTail { limit: Limit::Bytes(buffer.size.0), in_service: InService::Excluded },
        ..plain()
    };
    topology.link("uplink", hub, router, uplink);
    topology.link("to server", router, interface, LinkConfig { jitter: drawn(network.core.to_server), ..plain() });
    topology.link("processing", interface, server, LinkConfig { jitter: drawn(host.processing), ..plain() });
    topology.link("from server", server, router, LinkConfig { jitter: drawn(network.core.from_server), ..plain() });
    topology.link("downlink", router, hub, downlink);
    let clients = (0..clients)
        .map(|index| {
            let client = topology.node(format!("client {index}"));
            topology.duplex(format!("access {index}"), client, hub, plain());
            client
        })
        .collect();
    (topology, Sites { server, clients })
}

fn drawn(range: SpanRange) -> Jitter {
    let (low, high): (Duration, Duration) = (range.least(), range.most());
    Jitter { distribution: Distribution::Uniform { low, high }, order: Order::Free }
}
