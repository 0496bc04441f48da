//! A network as a run uses it: who asks whom, and what.

use conche_netsim::NodeId;
use conche_netsim::wired::Topology;
use conche_proto::codec::Body;

/// A network, and who talks to whom in it.
pub(super) struct Site {
    pub(super) topology: Topology,
    /// Clients with their servers. Several clients, each with its own server, may be on one node; no node has both a
    /// client and a server.
    pub(super) pairs: Vec<(NodeId, NodeId)>,
    pub(super) request: Body,
    pub(super) response: Body,
}
