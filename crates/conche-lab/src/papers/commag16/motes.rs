//! The network of motes: FlockLab, asked from the Internet.

use conche_netsim::NodeId;
use conche_netsim::rng::{Entity, Purpose, Streams};

use super::scenario::FlockLab;
use super::site::Site;
use crate::campaign::Replication;
use crate::scenario::Endpoint;
use crate::workload::body_of;

/// The network of one run: a client for each mote, in an order that is drawn, so that which of them work all the time in
/// a burst differs from run to run. The testbed itself is the same in all runs.
pub(super) fn site(
    flocklab: &FlockLab,
    endpoint: &Endpoint,
    seed: u64,
    replication: Replication,
) -> Result<Site, String> {
    let network = flocklab.testbed.network(Some(flocklab.contikimac), flocklab.objective, seed)?;
    let mut pairs: Vec<(NodeId, NodeId)> = network.servers.iter().map(|server| (network.cloud, *server)).collect();
    let mut stream = Streams::new(replication.seed).stream(Entity::Run, Purpose::named("order of clients"));
    stream.shuffle(&mut pairs);
    let body =
        |size: crate::units::Size| body_of(usize::try_from(size.0).unwrap_or(usize::MAX), endpoint.token_length.into());
    Ok(Site { topology: network.topology, pairs, request: body(flocklab.request), response: body(flocklab.response) })
}
