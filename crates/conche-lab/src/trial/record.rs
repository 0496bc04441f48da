//! What is left of a run.

use std::time::Duration;

use conche_netsim::mac::RadioCounters;
use conche_netsim::{Instant, NodeId};

use super::queues::Standing;
use crate::workload::{Exchange, Handshaken, Heard, Tally, Timeout};

/// Everything that metrics can be made of.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The flows, in the order of the scenario's traffic and its pairs.
    pub flows: Vec<Flow>,
    /// The hosts that have a client, in the order of their nodes.
    pub nodes: Vec<NodeRecord>,
    /// When it began; a part of a run, later than the run.
    pub began: Instant,
    /// How long it was, in virtual time.
    pub elapsed: Duration,
    /// What happened on each radio channel, and of flows that were run one by one in each run.
    pub radios: Vec<RadioCounters>,
    /// How long the queues stood that are watched.
    pub queues: Vec<Standing>,
    /// Datagrams that motes handed to their MACs, each once a hop.
    pub handed_over: u64,
    /// Datagrams among them that the MACs gave up.
    pub given_up: u64,
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
    /// What controls its congestion.
    pub control: Control,
    /// How many radio hops client and server are away from the root, both together.
    pub hops: u16,
    /// When it began.
    pub start: Instant,
    /// How many exchanges it was to have, if that is limited.
    pub wanted: Option<u64>,
    /// How many it may have at the same time.
    pub outstanding: u16,
    /// Bytes of a request with the headers of network and transport.
    pub request_bytes: u64,
    /// It comes from an endpoint, not from a sender that knows of no congestion.
    pub has_endpoint: bool,
    /// What it did.
    pub tally: Tally,
    /// Those of its exchanges that are over, in the order of their ends.
    pub exchanges: Vec<Exchange>,
    /// When the server received its requests, if that is wanted; duplicates do not count. Flows from one client to one
    /// server share them, in the first of these flows.
    pub arrivals: Vec<Instant>,
    /// What became of it, if it is a bulk transfer. As a flow it is one exchange.
    pub transfer: Option<Transferred>,
    /// What its client heard of, if that observes. Its exchanges then are the Confirmable notifications that were acknowledged, and its
    /// arrivals what the client heard.
    pub observed: Option<Observed>,
    /// What the handshakes of its two nodes came to, if sessions protect it. Flows between the same nodes share them, in the first of these.
    pub handshaken: Handshaken,
}

/// What changed, and what an observer heard of it, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// When it changed.
    pub changes: Vec<Instant>,
    /// The states that the observer heard of, each newer than the one before.
    pub heard: Vec<Heard>,
}

/// What became of a bulk transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Transferred {
    /// Its payload.
    pub bytes: u64,
    /// The mean round-trip time of segments, in seconds; `None` if there is none without doubt.
    pub mean_round_trip_s: Option<f64>,
    /// The lengths of the routes that its source looked for and found.
    pub routes: Vec<u8>,
}

impl Flow {
    /// A flow that has done nothing yet.
    #[must_use]
    pub fn new(client: NodeId, server: NodeId) -> Self {
        Self {
            traffic: 0,
            client,
            server,
            control: Control::Scheme(0),
            hops: 0,
            start: Instant::ZERO,
            wanted: None,
            outstanding: 1,
            request_bytes: 0,
            has_endpoint: true,
            tally: Tally::default(),
            exchanges: Vec::new(),
            arrivals: Vec::new(),
            transfer: None,
            observed: None,
            handshaken: Handshaken::default(),
        }
    }
}

/// What a host with clients did.
#[derive(Clone, Debug)]
pub struct NodeRecord {
    /// Which.
    pub node: NodeId,
    /// What controls its congestion.
    pub control: Control,
    /// The places of the traffic that it is a client of.
    pub traffic: Vec<usize>,
    /// The timeouts of its Confirmable messages, if they are wanted.
    pub timeouts: Vec<Timeout>,
    /// Copies of its requests that it sent.
    pub copies: u64,
    /// Of these, and of the responses to them, those that were lost.
    pub dropped: u64,
}

/// What controls the congestion of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The scheme of this place among those of the cell.
    Scheme(usize),
    /// The controller of the traffic of this place, whatever the scheme is.
    Traffic(usize),
}

/// Whose values are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The place of the scheme among those of the cell.
    pub scheme: usize,
    /// The place of the traffic; `None`: all that comes from endpoints which run the scheme.
    pub traffic: Option<usize>,
}

impl Selection {
    /// Whether what is controlled so belongs to it. Traffic with a controller of its own does under any scheme, if it is meant.
    fn has(self, control: Control) -> bool {
        match control {
            Control::Scheme(scheme) => scheme == self.scheme,
            Control::Traffic(_) => self.traffic.is_some(),
        }
    }
}

impl Record {
    /// Adds another run, in which only the flow of this place was at work.
    pub(super) fn add(&mut self, run: Self, place: usize) {
        self.flows.extend(run.flows.into_iter().nth(place));
        self.nodes.extend(run.nodes);
        self.radios.extend(run.radios);
        self.queues.extend(run.queues);
        self.elapsed += run.elapsed;
        self.handed_over += run.handed_over;
        self.given_up += run.given_up;
    }

    /// The flows of a selection.
    pub fn flows_of(&self, selection: Selection) -> impl Iterator<Item = &Flow> {
        let is_wanted = move |flow: &Flow| selection.traffic.map_or(flow.has_endpoint, |of| of == flow.traffic);
        self.flows.iter().filter(move |flow| selection.has(flow.control) && is_wanted(flow))
    }

    /// What is left of a part of the run: the exchanges that ended in it, and the requests that arrived and the timeouts
    /// that began in it. Copies, losses and frames are counted for whole runs only.
    #[must_use]
    pub fn during(&self, from: Duration, to: Duration) -> Self {
        let (began, end) = (Instant::ZERO + from, Instant::ZERO + to);
        let is_in = |at: Instant| began <= at && at < end;
        let mut part = self.clone();
        (part.began, part.elapsed) = (began, to.saturating_sub(from));
        for flow in &mut part.flows {
            flow.exchanges.retain(|exchange| is_in(exchange.ended));
            flow.arrivals.retain(|at| is_in(*at));
            flow.observed.iter_mut().for_each(|observed| observed.changes.retain(|at| is_in(*at)));
            flow.tally = Tally::of(&flow.exchanges);
        }
        for node in &mut part.nodes {
            node.timeouts.retain(|timeout| is_in(timeout.at));
        }
        part
    }

    /// The hosts of a selection.
    pub fn nodes_of(&self, selection: Selection) -> impl Iterator<Item = &NodeRecord> {
        let is_wanted = move |node: &NodeRecord| selection.traffic.is_none_or(|of| node.traffic.contains(&of));
        self.nodes.iter().filter(move |node| selection.has(node.control) && is_wanted(node))
    }
}
