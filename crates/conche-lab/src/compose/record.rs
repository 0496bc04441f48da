//! What is left of a run.

use std::time::Duration;

use conche_netsim::mac::RadioCounters;
use conche_netsim::{Instant, NodeId};

use crate::workload::{Exchange, Tally, Timeout};

/// Everything that metrics can be made of.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The flows, in the order of the scenario's traffic and its pairs.
    pub flows: Vec<Flow>,
    /// The hosts that have a client, in the order of their nodes.
    pub nodes: Vec<NodeRecord>,
    /// How long it was, in virtual time.
    pub elapsed: Duration,
    /// What happened on each radio channel.
    pub radios: Vec<RadioCounters>,
}

/// What one client asked of one server.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The place of its traffic in the scenario.
    pub traffic: usize,
    /// Where it comes from.
    pub client: NodeId,
    /// Where it goes to.
    pub server: NodeId,
    /// The place of its scheme among those of the cell.
    pub scheme: usize,
    /// How many radio hops client and server are away from the root, both together.
    pub hops: u16,
    /// When it began.
    pub start: Instant,
    /// How many exchanges it was to have, if that is limited.
    pub wanted: Option<u64>,
    /// What it did.
    pub tally: Tally,
    /// Those of its exchanges that are over, in the order of their ends.
    pub exchanges: Vec<Exchange>,
}

impl Flow {
    /// A flow that has done nothing yet.
    pub(super) fn new(client: NodeId, server: NodeId) -> Self {
        let (tally, exchanges) = (Tally::default(), Vec::new());
        Self { traffic: 0, client, server, scheme: 0, hops: 0, start: Instant::ZERO, wanted: None, tally, exchanges }
    }
}

/// What a host with clients did.
#[derive(Clone, Debug)]
pub struct NodeRecord {
    /// Which.
    pub node: NodeId,
    /// The place of its scheme among those of the cell.
    pub scheme: usize,
    /// The places of the traffic that it is a client of.
    pub traffic: Vec<usize>,
    /// The timeouts of its Confirmable messages, if they are wanted.
    pub timeouts: Vec<Timeout>,
    /// Copies of its requests that it sent.
    pub copies: u64,
    /// Of these, and of the responses to them, those that were lost.
    pub dropped: u64,
}

/// Whose values are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The place of the scheme among those of the cell.
    pub scheme: usize,
    /// The place of the traffic; `None`: all.
    pub traffic: Option<usize>,
}

impl Record {
    /// The flows of a selection.
    pub fn flows_of(&self, selection: Selection) -> impl Iterator<Item = &Flow> {
        let Selection { scheme, traffic } = selection;
        self.flows.iter().filter(move |flow| flow.scheme == scheme && traffic.is_none_or(|of| of == flow.traffic))
    }

    /// The hosts of a selection.
    pub fn nodes_of(&self, selection: Selection) -> impl Iterator<Item = &NodeRecord> {
        let Selection { scheme, traffic } = selection;
        self.nodes
            .iter()
            .filter(move |node| node.scheme == scheme && traffic.is_none_or(|of| node.traffic.contains(&of)))
    }
}
