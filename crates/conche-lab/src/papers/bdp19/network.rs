//! The network of one run: motes on circles around a sink, and the tree that RPL finds in it.

use std::f64::consts::TAU;

use conche_netsim::mac::RadioConfig;
use conche_netsim::radio::{MediumConfig, Position};
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::routing::RplTree;
use conche_netsim::wired::Topology;
use conche_netsim::{NodeId, RadioId};

use super::scenario::Scenario;

/// A network whose routes are set.
pub(super) struct Network {
    pub(super) topology: Topology,
    pub(super) radio: RadioId,
    pub(super) sink: NodeId,
    /// The motes, the innermost circle first, and their hops to the sink.
    pub(super) motes: Vec<(NodeId, u16)>,
}

impl Network {
    /// The network on this medium in the run with this seed.
    ///
    /// # Errors
    /// If it makes no sense, or a mote has no path to the sink.
    pub(super) fn new(scenario: &Scenario, medium: &MediumConfig, seed: u64) -> Result<Self, String> {
        let mut topology = Topology::new();
        let radio = topology.radio("air", RadioConfig { medium: medium.clone(), mac: scenario.mac() });
        let sink = topology.node("sink");
        topology.place(radio, sink, Position::metres(0.0, 0.0));
        let mut nodes = Vec::new();
        for (ring, count) in (1..).zip(scenario.network.rings.iter().copied()) {
            let radius = scenario.network.ring_spacing_m * f64::from(ring);
            for place in 0..count {
                let angle = TAU * f64::from(place) / f64::from(count);
                let node = topology.node(format!("mote {ring}.{place}"));
                topology.place(radio, node, Position::polar(radius, angle));
                nodes.push(node);
            }
        }
        let quality = topology.link_quality(radio, seed, scenario.psdu_octets()).map_err(|error| error.to_string())?;
        let mut ties = Streams::new(seed).stream(Entity::Run, Purpose::named("rpl"));
        let tree = RplTree::new(&quality, sink, scenario.network.rpl.config(), &mut ties);
        let unreached = tree.unreached().count();
        if unreached > 0 {
            return Err(format!(
                "{unreached} of {} motes have no path to the sink; give the medium more reach or lower network.rpl.min_ratio",
                nodes.len()
            ));
        }
        tree.install(&mut topology, radio);
        let motes = nodes.into_iter().filter_map(|node| Some((node, tree.hops(node)?))).collect();
        Ok(Self { topology, radio, sink, motes })
    }
}
