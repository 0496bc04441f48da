//! The record of a run.

use std::time::Duration;

use conche_netsim::mac::RadioCounters;
use conche_netsim::{Instant, NodeId};

use super::observers::{Drops, StandingQueue};
use crate::workload::{Exchange, HandshakeCounts, ReceivedState, Tally, Timeout};

/// Data of a run for metrics.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Flows in the order of traffic and pairs.
    pub flows: Vec<Flow>,
    /// Hosts with a client, in node order.
    pub nodes: Vec<NodeRecord>,
    /// Start; later for a part of a run.
    pub began: Instant,
    /// Duration in virtual time; of a run that ends with its flows, until the last one has ended.
    pub elapsed: Duration,
    /// Counters per radio channel, and per run of flows that ran one by one.
    pub radios: Vec<RadioCounters>,
    /// Times of watched queues.
    pub queues: Vec<StandingQueue>,
    /// Datagrams passed to the MACs of motes, per hop.
    pub handed_over: u64,
    /// Datagrams that the MACs gave up.
    pub given_up: u64,
}

/// A client's requests to a server.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Index of its traffic.
    pub traffic: usize,
    /// Source.
    pub client: NodeId,
    /// Destination.
    pub server: NodeId,
    /// Congestion controller.
    pub control: Control,
    /// Radio hops from client and server to the root, summed.
    pub hops: u16,
    /// Start time.
    pub start: Instant,
    /// Exchanges to complete, if limited.
    pub wanted: Option<u64>,
    /// Maximum concurrent exchanges.
    pub outstanding: u16,
    /// Number of the server's resource that it requests.
    pub resource: usize,
    /// Bytes of a request with network and transport headers.
    pub request_bytes: u64,
    /// Whether an endpoint sends it, with congestion control.
    pub has_endpoint: bool,
    /// Counts of its exchanges.
    pub tally: Tally,
    /// Completed exchanges by end.
    pub exchanges: Vec<Exchange>,
    /// Arrivals at the server, without duplicates, if wanted; the first flow to a resource has all.
    pub arrivals: Vec<Instant>,
    /// Outcome of a bulk transfer.
    pub transfer: Option<Transferred>,
    /// States that an observing client received. Exchanges are then acknowledged Confirmable
    /// notifications, and arrivals are states.
    pub observed: Option<Observed>,
    /// DTLS handshakes between its nodes; the first flow between them has them all.
    pub handshakes: HandshakeCounts,
}

/// A topic's changes and an observer's states, by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Times of the changes.
    pub changes: Vec<Instant>,
    /// States received, each newer than the last.
    pub received: Vec<ReceivedState>,
}

/// The outcome of a bulk transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Transferred {
    /// Payload bytes.
    pub bytes: u64,
    /// Those that arrived, each counted once.
    pub arrived: u64,
    /// Mean round-trip time in seconds; `None` without an unambiguous sample.
    pub mean_round_trip_s: Option<f64>,
    /// Lengths of the source's discovered routes.
    pub routes: Vec<u8>,
}

impl Flow {
    /// Returns a flow without exchanges.
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
            resource: 0,
            request_bytes: 0,
            has_endpoint: true,
            tally: Tally::default(),
            exchanges: Vec::new(),
            arrivals: Vec::new(),
            transfer: None,
            observed: None,
            handshakes: HandshakeCounts::default(),
        }
    }
}

/// A client host's record.
#[derive(Clone, Debug)]
pub struct NodeRecord {
    /// Node.
    pub node: NodeId,
    /// Congestion controller.
    pub control: Control,
    /// Indices of its traffic.
    pub traffic: Vec<usize>,
    /// Timeouts of Confirmable messages, if wanted.
    pub timeouts: Vec<Timeout>,
    /// Transmissions of its requests.
    pub copies: u64,
    /// Lost requests and responses.
    pub dropped: Drops,
}

/// A client's congestion controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The cell's scheme with this index.
    Scheme(usize),
    /// The controller of this traffic, whatever the scheme.
    Traffic(usize),
}

/// Selects flows and hosts by scheme and traffic.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Index of the scheme in the cell.
    pub scheme: usize,
    /// Index of the traffic; `None` for all endpoints of the scheme.
    pub traffic: Option<usize>,
}

impl Selection {
    /// Traffic with its own controller, if selected, matches any scheme.
    fn has(self, control: Control) -> bool {
        match control {
            Control::Scheme(scheme) => scheme == self.scheme,
            Control::Traffic(_) => self.traffic.is_some(),
        }
    }
}

impl Record {
    /// Ends the run with its last exchange: timers such as EXCHANGE_LIFETIME outlast it.
    pub(super) fn end_with_flows(&mut self) {
        let ends = |flow: &Flow| flow.exchanges.iter().map(|exchange| exchange.ended).chain(flow.tally.done).max();
        if let Some(end) = self.flows.iter().filter_map(ends).max() {
            self.elapsed = self.elapsed.min(end - self.began);
        }
    }

    pub(super) fn add(&mut self, run: Self, place: usize) {
        self.flows.extend(run.flows.into_iter().nth(place));
        self.nodes.extend(run.nodes);
        self.radios.extend(run.radios);
        self.queues.extend(run.queues);
        self.elapsed += run.elapsed;
        self.handed_over += run.handed_over;
        self.given_up += run.given_up;
    }

    /// Returns the selected flows.
    pub fn flows_of(&self, selection: Selection) -> impl Iterator<Item = &Flow> {
        let is_wanted = move |flow: &Flow| selection.traffic.map_or(flow.has_endpoint, |of| of == flow.traffic);
        self.flows.iter().filter(move |flow| selection.has(flow.control) && is_wanted(flow))
    }

    /// Returns a part of the run, by ends of exchanges, arrivals of requests and starts of
    /// timeouts. Transmissions, losses and frames remain whole.
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

    /// Returns the selected hosts.
    pub fn nodes_of(&self, selection: Selection) -> impl Iterator<Item = &NodeRecord> {
        let is_wanted = move |node: &NodeRecord| selection.traffic.is_none_or(|of| node.traffic.contains(&of));
        self.nodes.iter().filter(move |node| selection.has(node.control) && is_wanted(node))
    }
}
