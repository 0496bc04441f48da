//! One run: a network on one medium, one scheme and one workload, under one seed.

use std::time::Duration;

use conche_netsim::node::Node;
use conche_netsim::radio::MediumConfig;
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::{Instant, NodeId, Simulation};
use conche_proto::EndpointConfig;
use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code};

use super::measure::{Record, Sent};
use super::mote::{Mote, Unaware};
use super::network::Network;
use super::scenario::Scenario;
use crate::workload::{Answers, Application, Flow, Pace, Parameters, Recorded, Requester, Responder, Segment, body_of};

/// What the motes send.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Workload {
    /// All at one rate, in bit/s.
    Static(f64),
    /// All at a rate that changes in steps.
    Dynamic,
    /// Some with Confirmable messages, the others with traffic that knows of no congestion.
    Mixed,
}

/// A run to be made.
pub(super) struct Setup<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) medium: &'a MediumConfig,
    pub(super) controller: AnyController,
    pub(super) workload: &'a Workload,
}

impl Setup<'_> {
    /// Runs it. The answer's second part is how many events it took.
    ///
    /// # Errors
    /// If the network or the endpoints make no sense.
    pub(super) fn run(&self, seed: u64) -> Result<(Record, u64), String> {
        let network = Network::new(self.scenario, self.medium, seed)?;
        let mut simulation = Simulation::new(&network.topology, seed, ()).map_err(|error| error.to_string())?;
        let streams = simulation.streams();
        let unaware = self.unaware(&network, &streams);
        let responder = Responder::new(Answers::Confirmable, Code::CHANGED, self.response());
        let sink = Application { responder: Some(responder), requester: None };
        let mut hosts = vec![(network.sink, self.coap(network.sink, &streams, sink)?)];
        for (node, _) in &network.motes {
            let host = if unaware.contains(node) {
                Mote::Unaware(self.source(*node, network.sink, &streams))
            } else {
                let requester = Requester::new(vec![self.flow(*node, network.sink, &streams)]);
                self.coap(*node, &streams, Application { requester: Some(requester), responder: None })?
            };
            hosts.push((*node, host));
        }
        for (node, host) in hosts {
            simulation.attach(node, host).expect("a node of this topology");
        }
        simulation.run_until(Instant::ZERO + self.duration());
        let events = simulation.events();
        let frames = simulation.radio_counters(network.radio).map_or(0, |counters| counters.frames);
        let (hosts, ()) = simulation.into_parts();
        Ok((record(&network, &unaware, hosts, frames), events))
    }

    /// How long it takes.
    pub(super) fn duration(&self) -> Duration {
        match self.workload {
            Workload::Static(_) => self.scenario.fixed.duration.0,
            Workload::Dynamic => {
                let steps = u32::try_from(self.scenario.dynamic.rates().len()).unwrap_or(u32::MAX);
                self.scenario.dynamic.step.0.saturating_mul(steps)
            }
            Workload::Mixed => self.scenario.mixed.duration.0,
        }
    }

    fn coap(&self, node: NodeId, streams: &Streams, application: Application) -> Result<Mote, String> {
        let endpoint = self.scenario.endpoint;
        let parameters = Parameters {
            max_retransmit: endpoint.max_retransmit,
            nstart: endpoint.nstart,
            timeout_cap: endpoint.timeout_cap.0,
            token_length: endpoint.token_length,
            response_timeout: None,
        };
        let overhead = u32::try_from(self.scenario.network.headers.compressed.0).unwrap_or(u32::MAX);
        let config = EndpointConfig { datagram_overhead: overhead, ..parameters.config() };
        let seed = streams.seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
        let node = Node::new(config, Recorded::silent(self.controller.clone()), seed, application);
        node.map(|node| Mote::Coap(Box::new(node))).map_err(|error| error.to_string())
    }

    /// The messages that a mote sends. It begins each of its rates at its own time within the interval.
    fn flow(&self, node: NodeId, sink: NodeId, streams: &Streams) -> Flow {
        let mut phases = streams.stream(Entity::Node(node), Purpose::named("phase"));
        let mut segment = |from: Duration, rate: f64| {
            let interval = self.scenario.interval(rate);
            Segment { from: Instant::ZERO + from + interval.mul_f64(phases.unit()), interval: Some(interval) }
        };
        let segments = match self.workload {
            Workload::Static(rate) => vec![segment(Duration::ZERO, *rate)],
            Workload::Mixed => vec![segment(Duration::ZERO, self.scenario.mixed.confirmable_rate)],
            Workload::Dynamic => {
                let step = self.scenario.dynamic.step.0;
                (0..).zip(self.scenario.dynamic.rates()).map(|(place, rate)| segment(step * place, rate)).collect()
            }
        };
        Flow {
            pace: Pace::Rate(segments),
            method: Code::POST,
            body: body_of(self.request_bytes(), usize::from(self.scenario.endpoint.token_length)),
            ..Flow::to(sink)
        }
    }

    fn source(&self, node: NodeId, sink: NodeId, streams: &Streams) -> Unaware {
        let interval = self.scenario.interval(self.scenario.mixed.unaware_rate);
        let phase = streams.stream(Entity::Node(node), Purpose::named("phase")).unit();
        let on_off = self.scenario.mixed.on_off.0;
        Unaware { sink, phase: interval.mul_f64(phase), interval, on_off, bytes: self.request_bytes(), sent: 0 }
    }

    /// The motes whose traffic knows of no congestion: a random choice for each replication.
    fn unaware(&self, network: &Network, streams: &Streams) -> Vec<NodeId> {
        if *self.workload != Workload::Mixed {
            return Vec::new();
        }
        let mut stream = streams.stream(Entity::Run, Purpose::named("mixed"));
        let mut nodes: Vec<NodeId> = network.motes.iter().map(|(node, _)| *node).collect();
        for _ in 0..self.scenario.mixed.confirmable {
            let place = usize::try_from(stream.below(nodes.len() as u64)).unwrap_or(0);
            nodes.swap_remove(place);
        }
        nodes
    }

    /// A request as a UDP payload.
    fn request_bytes(&self) -> usize {
        let bytes = self.scenario.messages.request.0 - self.scenario.network.headers.compressed.0;
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn response(&self) -> Body {
        let bytes = self.scenario.messages.response.0 - self.scenario.network.headers.compressed.0;
        body_of(usize::try_from(bytes).unwrap_or(usize::MAX), usize::from(self.scenario.endpoint.token_length))
    }
}

/// What is left of a run.
fn record(network: &Network, unaware: &[NodeId], hosts: Vec<(NodeId, Mote)>, frames: u64) -> Record {
    let mut record = Record {
        motes: network
            .motes
            .iter()
            .map(|(node, hops)| Sent { hops: *hops, confirmable: !unaware.contains(node), exchanges: Vec::new() })
            .collect(),
        arrivals: Vec::new(),
        frames,
    };
    let place = |node: NodeId| network.motes.iter().position(|(mote, _)| *mote == node);
    for (node, host) in hosts {
        let Mote::Coap(host) = host else { continue };
        let application = host.into_application();
        if let (Some(requester), Some(place)) = (application.requester, place(node)) {
            record.motes[place].exchanges = requester.exchanges().to_vec();
        }
        if let Some(responder) = application.responder {
            let arrivals = responder.arrivals().iter();
            record.arrivals = arrivals.filter_map(|arrival| Some((arrival.at, place(arrival.from)?))).collect();
        }
    }
    record
}
