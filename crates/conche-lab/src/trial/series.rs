//! Time series of a run: path state at senders, queues and drops of links.
//!
//! Sampling schedules no events and draws no random numbers, so results are the same without it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use conche_netsim::packet::Packet;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::{Instant, LinkId, NodeId};
use conche_proto::PeerSnapshot;

use super::network::Network;
use super::record::{Control, Flow};

/// Receives the points of time series.
pub struct Sampling<'a> {
    /// Simulated time between samples; not 0.
    pub interval: Duration,
    /// Called for each value that differs from the previous sample, and for the first one.
    pub point: &'a mut dyn FnMut(Point<'_>),
}

impl fmt::Debug for Sampling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampling").field("interval", &self.interval).finish_non_exhaustive()
    }
}

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point<'a> {
    /// Time since the start of the run.
    pub at: Duration,
    /// Node or link.
    pub subject: &'a str,
    /// Other end of the node's path.
    pub peer: Option<&'a str>,
    /// Congestion control of the path; `None` for links.
    pub control: Option<Control>,
    /// Quantity, with its unit.
    pub quantity: &'static str,
    /// Value.
    pub value: f64,
}

/// Drops per link.
#[derive(Debug, Default)]
pub(super) struct LinkDrops(Vec<u64>);

impl Observer for LinkDrops {
    fn on_dropped(&mut self, _now: Instant, _packet: &Packet, reason: DropReason) {
        let Some(link) = reason.link() else { return };
        if self.0.len() <= link.index() {
            self.0.resize(link.index() + 1, 0);
        }
        self.0[link.index()] += 1;
    }
}

impl LinkDrops {
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    fn of(&self, link: LinkId) -> u64 {
        self.0.get(link.index()).copied().unwrap_or_default()
    }
}

/// The state to sample.
pub(super) trait Sampled {
    /// Returns the state of a node's path to a peer.
    fn path(&self, node: NodeId, peer: NodeId) -> Option<PeerSnapshot>;

    /// Returns packets and bytes that wait for a link; `None` if it has no queue.
    fn queue(&self, link: LinkId) -> Option<(u64, u64)>;

    fn drops(&self) -> &LinkDrops;
}

const OF_PATH: [&str; 3] = ["rto_s", "srtt_s", "outstanding"];
const OF_LINK: [&str; 3] = ["queue_packets", "queue_bytes", "drops"];

struct Path {
    from: NodeId,
    to: NodeId,
    control: Control,
    last: [Option<f64>; 3],
}

/// Returns the paths with congestion control, from sender to peer, each once.
pub(super) fn paths<'f>(flows: impl Iterator<Item = &'f Flow>) -> impl Iterator<Item = (NodeId, NodeId, Control)> {
    let mut known = BTreeSet::new();
    flows.filter(|flow| flow.has_endpoint).filter_map(move |flow| {
        // Servers send to observers.
        let ends = (flow.client, flow.server);
        let (from, to) = if flow.observed.is_some() { (ends.1, ends.0) } else { ends };
        known.insert((from, to)).then_some((from, to, flow.control))
    })
}

/// Samples one run.
pub(super) struct Sampler<'a, 'b> {
    sampling: &'a mut Sampling<'b>,
    next: Instant,
    /// Durations of the flows that ran before, if they run one by one.
    before: Duration,
    nodes: Vec<String>,
    paths: Vec<Path>,
    links: Vec<(LinkId, String, [Option<f64>; 3])>,
}

impl<'a, 'b> Sampler<'a, 'b> {
    /// `flows` are those that run.
    pub(super) fn new<'f>(
        sampling: &'a mut Sampling<'b>,
        before: Duration,
        network: &Network,
        flows: impl Iterator<Item = &'f Flow>,
    ) -> Self {
        let path = |(from, to, control)| Path { from, to, control, last: [None; 3] };
        Self {
            sampling,
            next: Instant::ZERO,
            before,
            nodes: network.topology.nodes().map(|(_, name)| name.to_owned()).collect(),
            paths: paths(flows).map(path).collect(),
            links: network
                .topology
                .links()
                .map(|(link, name)| (link, name.to_owned(), [None, None, Some(0.0)]))
                .collect(),
        }
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn sample(&mut self, state: &impl Sampled) {
        let Self { sampling, next, before, nodes, paths, links } = self;
        let at = *before + (*next - Instant::ZERO);
        for Path { from, to, control, last } in paths {
            let Some(path) = state.path(*from, *to) else { continue };
            let seconds = |span: Duration| Some(span.as_secs_f64());
            let values = [
                seconds(path.congestion.rto),
                path.congestion.srtt.and_then(seconds),
                Some(f64::from(path.outstanding)),
            ];
            for (quantity, value) in changed(OF_PATH, values, last) {
                let (subject, peer) = (nodes[from.index()].as_str(), Some(nodes[to.index()].as_str()));
                (sampling.point)(Point { at, subject, peer, control: Some(*control), quantity, value });
            }
        }
        for (link, subject, last) in links {
            let queue = state.queue(*link);
            let drops = state.drops().of(*link) as f64;
            let values = [queue.map(|(packets, _)| packets as f64), queue.map(|(_, bytes)| bytes as f64), Some(drops)];
            for (quantity, value) in changed(OF_LINK, values, last) {
                (sampling.point)(Point { at, subject, peer: None, control: None, quantity, value });
            }
        }
        *next += sampling.interval;
    }
}

/// Returns changed values, and keeps them.
fn changed(
    quantities: [&'static str; 3],
    values: [Option<f64>; 3],
    last: &mut [Option<f64>; 3],
) -> impl Iterator<Item = (&'static str, f64)> {
    let before = std::mem::replace(last, std::array::from_fn(|index| values[index].or(last[index])));
    let news = quantities.into_iter().zip(values).zip(before);
    news.filter_map(|((quantity, value), before)| Some((quantity, value.filter(|_| value != before)?)))
}
