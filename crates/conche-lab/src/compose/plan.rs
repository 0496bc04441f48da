//! Who asks and answers whom: what each host will do, before there are hosts.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::{Instant, NodeId};

use super::network::Network;
use super::pairs;
use super::record::Flow;
use crate::scenario::{Count, Pace, Scenario, Traffic};
use crate::units::Size;
use crate::workload::{self, Answers, Limit, Responder, Segment, body_of};

/// What a host does.
#[derive(Clone, Debug, Default)]
pub(super) struct Role {
    /// What it asks, with the place of each among all flows.
    pub(super) flows: Vec<(usize, workload::Flow)>,
    /// The place of its scheme among those of the cell. A host that only answers has the first one.
    pub(super) scheme: usize,
    /// How it answers.
    pub(super) responder: Option<Responder>,
}

/// What all hosts do.
pub(super) struct Plan<'a> {
    scenario: &'a Scenario,
    streams: Streams,
    /// How many schemes share the network.
    schemes: usize,
    /// How many clients there are so far.
    clients: usize,
    pub(super) flows: Vec<Flow>,
    pub(super) roles: BTreeMap<NodeId, Role>,
}

impl<'a> Plan<'a> {
    /// The plan for a network that so many schemes share.
    ///
    /// # Errors
    /// If traffic names what the network does not have, or a server would have to answer in two ways.
    pub(super) fn new(
        scenario: &'a Scenario,
        network: &Network,
        schemes: usize,
        streams: Streams,
    ) -> Result<Self, String> {
        let (flows, roles) = (Vec::new(), BTreeMap::new());
        let mut plan = Self { scenario, streams, schemes, clients: 0, flows, roles };
        for (place, traffic) in scenario.traffic.iter().enumerate() {
            let hops = |node: NodeId| network.hops.get(&node).copied().unwrap_or_default();
            let pairs = pairs::of(traffic, network, &streams)?;
            let flow = |(client, server)| {
                let hops = hops(client) + hops(server);
                Flow { traffic: place, hops, ..Flow::new(client, server) }
            };
            plan.traffic(traffic, pairs.into_iter().map(flow))
                .map_err(|problem| format!("traffic.{}: {problem}", traffic.name))?;
        }
        Ok(plan)
    }

    fn traffic(&mut self, traffic: &Traffic, flows: impl Iterator<Item = Flow>) -> Result<(), &'static str> {
        let token_length = usize::from(self.scenario.endpoint.token_length);
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        let body = |size: Option<Size>| body_of(size.map_or(0, bytes), token_length);
        let exchanges = traffic.exchanges.map(|exchanges| u64::from(exchanges.get()));
        let start = Instant::ZERO + traffic.start.map_or(Duration::ZERO, |span| span.0);
        let request = workload::Flow {
            start,
            stop: traffic.stop.map(|stop| Instant::ZERO + stop.0),
            outstanding: traffic.outstanding.or(Some(1)),
            limit: match (exchanges, traffic.count) {
                (None, _) => Limit::None,
                (Some(exchanges), Count::Opened) => Limit::Opened(exchanges),
                (Some(exchanges), Count::Succeeded) => Limit::Succeeded(exchanges),
            },
            batch: traffic.batch,
            method: traffic.method.code(),
            body: body(traffic.request),
            confirmable: traffic.confirmable,
            ..workload::Flow::to(NodeId::BROADCAST)
        };
        let responder = Responder::new(Answers::All, traffic.method.success(), body(traffic.response));
        for flow in flows {
            let (client, server) = (flow.client, flow.server);
            let pace = pace(&traffic.pace, start, client, &self.streams);
            let scheme = self.ask(client, workload::Flow { peer: server, pace, ..request.clone() });
            self.answer(server, &responder)?;
            self.flows.push(Flow { scheme, start, wanted: exchanges, ..flow });
        }
        Ok(())
    }

    /// Gives a client a flow, and answers its scheme: clients are dealt the schemes in the order in which traffic names
    /// them.
    fn ask(&mut self, client: NodeId, flow: workload::Flow) -> usize {
        let role = self.roles.entry(client).or_default();
        if role.flows.is_empty() {
            role.scheme = self.clients % self.schemes;
            self.clients += 1;
        }
        role.flows.push((self.flows.len(), flow));
        role.scheme
    }

    fn answer(&mut self, server: NodeId, responder: &Responder) -> Result<(), &'static str> {
        match &mut self.roles.entry(server).or_default().responder {
            Some(known) if !known.answers_as(responder) => {
                Err("its server answers other traffic with another method or size; give it a server of its own")
            }
            Some(_) => Ok(()),
            none => {
                *none = Some(responder.clone());
                Ok(())
            }
        }
    }
}

fn pace(pace: &Pace, start: Instant, client: NodeId, streams: &Streams) -> workload::Pace {
    match pace {
        Pace::Closed => workload::Pace::Closed,
        Pace::Every { interval, spread } => {
            let mut phases = streams.stream(Entity::Node(client), Purpose::named("phase"));
            let phase = if *spread { interval.0.mul_f64(phases.unit()) } else { Duration::ZERO };
            workload::Pace::Rate(vec![Segment { from: start + phase, interval: Some(interval.0) }])
        }
        Pace::Poisson { interval } => workload::Pace::Poisson(interval.0),
        Pace::Bursts { interval, exchanges } => {
            workload::Pace::Bursts { interval: interval.0, messages: exchanges.get() }
        }
        Pace::At(times) => workload::Pace::At(times.iter().map(|time| time.0).collect()),
    }
}
