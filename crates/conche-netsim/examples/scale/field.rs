//! IEEE 802.15.4 motes on a square grid, 30 m apart, that send requests to the middle one over an
//! RPL tree.

use std::error::Error;
use std::time::Duration;

use conche_netsim::mac::{MacConfig, RadioConfig};
use conche_netsim::node::Node;
use conche_netsim::radio::{MediumConfig, Position, Sinr};
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::routing::{RplConfig, RplTree};
use conche_netsim::wired::Topology;
use conche_netsim::{NodeId, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::{EndpointConfig, SharedConfig};

use crate::application::Host;
use crate::{Ran, measured};

pub struct Field {
    /// Number of motes in a row, and of rows.
    pub side: u16,
    pub period: Duration,
    /// Duration in virtual time.
    pub seconds: u64,
}

const SEED: u64 = 1;
const RESPONSE_BYTES: usize = 12;

impl Field {
    pub fn run(&self) -> Result<Ran, Box<dyn Error>> {
        measured(|| self.build(), self.seconds)
    }

    fn build(&self) -> Result<Simulation<Node<Host>>, Box<dyn Error>> {
        let mut net = Topology::new();
        let medium = MediumConfig::Sinr(Sinr::default());
        let radio = net.radio("field", RadioConfig { medium, mac: MacConfig::ieee802154() });
        let mut motes = Vec::new();
        for (row, column) in (0..self.side).flat_map(|row| (0..self.side).map(move |column| (row, column))) {
            let mote = net.node(format!("mote {row} {column}"));
            net.place(radio, mote, Position::metres(30.0 * f64::from(column), 30.0 * f64::from(row)));
            motes.push(mote);
        }
        let root: NodeId = motes[motes.len() / 2 + usize::from(self.side) / 2];
        let quality = net.link_quality(radio, SEED, 60)?;
        let mut ties = Streams::new(SEED).stream(Entity::Run, Purpose::named("rpl"));
        let tree = RplTree::new(&quality, root, RplConfig::default(), &mut ties);
        drop(quality);
        tree.install(&mut net, radio);
        let mut sim = Simulation::new(&net, SEED, ())?;
        drop(net);
        let config = SharedConfig::from(EndpointConfig::default());
        let controller = AnyController::by_name("default")?;
        for mote in motes {
            let host = if mote == root { Host::server(RESPONSE_BYTES) } else { Host::client(root, Some(self.period)) };
            let seed = sim.streams().seed_bytes(Entity::Node(mote), Purpose::named("endpoint"));
            sim.attach(mote, Node::new(config.clone(), controller.clone(), seed, host)?)?;
        }
        Ok(sim)
    }
}
