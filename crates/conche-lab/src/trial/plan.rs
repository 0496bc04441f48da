//! Plans the hosts' roles.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use conche_netsim::rng::{Entity, Purpose, Stream, Streams};
use conche_netsim::{Instant, NodeId};
use conche_proto::codec::Body;

use super::bulk::PlannedTcp;
use super::error::TrialError;
use super::network::Network;
use super::record::{Control, Flow};
use super::routes::Routes;
use super::transfers::Planned;
use super::{pace, pairs};
use crate::campaign::Replication;
use crate::scenario::{self, Count, Nstart, Outstanding, Phase, Scenario, Sender, Tcp, Traffic, Transfer};
use crate::units::Size;
use crate::workload::{self, Limit, Responder, Topic, body_of};

#[derive(Clone, Debug)]
pub(super) struct Role {
    /// Requests sent, with flow indices.
    pub(super) flows: Vec<(usize, workload::Flow)>,
    /// The first scheme if it only answers.
    pub(super) control: Control,
    pub(super) responder: Option<Responder>,
    pub(super) unanswered: BTreeSet<NodeId>,
    pub(super) topics: Vec<(usize, Topic)>,
    pub(super) observers: BTreeMap<NodeId, u32>,
    /// Servers observed, with flow indices.
    pub(super) observes: Vec<(usize, NodeId)>,
    pub(super) is_open_sender: bool,
}

impl Default for Role {
    fn default() -> Self {
        Self {
            flows: Vec::new(),
            control: OF_SERVERS,
            responder: None,
            unanswered: BTreeSet::new(),
            topics: Vec::new(),
            observers: BTreeMap::new(),
            observes: Vec::new(),
            is_open_sender: false,
        }
    }
}

/// Of hosts that only answer or notify.
pub(super) const OF_SERVERS: Control = Control::Scheme(0);
/// CoAP header.
const HEADER_BYTES: u64 = 4;

pub(super) struct Plan<'a> {
    scenario: &'a Scenario,
    streams: Streams,
    /// NSTART per scheme on the network.
    nstarts: Vec<u16>,
    clients: usize,
    pub(super) flows: Vec<Flow>,
    pub(super) roles: BTreeMap<NodeId, Role>,
    pub(super) transfers: Vec<Planned>,
    pub(super) bulk: Vec<PlannedTcp>,
}

impl<'a> Plan<'a> {
    /// Plans the hosts of a network.
    ///
    /// # Errors
    /// If traffic names an unknown part, or a server would need two behaviours.
    pub(super) fn new(
        cell: &'a scenario::Cell,
        network: &Network,
        replication: Replication,
        routes: &Routes,
    ) -> Result<Self, TrialError> {
        let scenario = &cell.scenario;
        let streams = Streams::new(replication.seed);
        let nstarts = cell.schemes.iter().map(|scheme| scenario.nstart(scheme)).collect();
        let (flows, roles, transfers, bulk) = (Vec::new(), BTreeMap::new(), Vec::new(), Vec::new());
        let mut plan = Self { scenario, streams, nstarts, clients: 0, flows, roles, transfers, bulk };
        for (place, traffic) in scenario.traffic.iter().enumerate() {
            let hops = |node: NodeId| network.hops.get(&node).copied().unwrap_or_default();
            let of_all = Streams::new(scenario.seed);
            let pairs = pairs::of(traffic, network, if traffic.fixed { &of_all } else { &streams })?;
            if let Sender::Transfer(transfer) = &traffic.sender {
                plan.transfers(place, traffic, transfer, pairs, (routes, replication.index))
                    .map_err(|problem| problem.of_traffic(&traffic.name))?;
                continue;
            }
            if let Sender::Tcp(tcp) = traffic.sender {
                plan.bulk(place, traffic, tcp, pairs);
                continue;
            }
            let flow = |(client, server)| {
                let hops = hops(client) + hops(server);
                Flow { traffic: place, hops, ..Flow::new(client, server) }
            };
            let flows = pairs.into_iter().map(flow);
            let planned = match traffic.observe {
                Some(observe) => plan.plan_observations(place, traffic, observe, flows),
                None => plan.traffic(traffic, flows),
            };
            planned.map_err(|problem| problem.of_traffic(&traffic.name))?;
        }
        let speaks = |role: &Role| role.responder.is_some() || !role.unanswered.is_empty() || !role.topics.is_empty();
        let is_both = |role: &Role| role.is_open_sender && speaks(role);
        match plan.roles.values().any(is_both) {
            true => Err(TrialError::UnawareServer),
            false => Ok(plan),
        }
    }

    /// One per pair or, over frozen routes, a single one.
    fn transfers(
        &mut self,
        place: usize,
        traffic: &Traffic,
        transfer: &Transfer,
        pairs: Vec<(NodeId, NodeId)>,
        (routes, number): (&Routes, u32),
    ) -> Result<(), TrialError> {
        let ways = match traffic.hops {
            None => pairs.into_iter().map(|pair| (pair, None)).collect(),
            Some(hops) => {
                let (pair, route) = routes.of_hops(self.scenario, transfer, pairs, (hops, number))?;
                vec![(pair, Some(route))]
            }
        };
        for ((from, to), route) in ways {
            let control = traffic.controller.as_ref().map_or_else(|| self.deal(), |_| Control::Traffic(place));
            let hops = route.as_ref().map_or(0, |route| u16::try_from(route.hops()).unwrap_or(u16::MAX));
            let flow = Flow { traffic: place, control, hops, wanted: Some(1), ..Flow::new(from, to) };
            let place = self.flows.len();
            self.transfers.push(Planned { place, from, to, control, transfer: *transfer, route });
            self.flows.push(flow);
        }
        Ok(())
    }

    fn bulk(&mut self, traffic: usize, of: &Traffic, tcp: Tcp, pairs: Vec<(NodeId, NodeId)>) {
        for (from, to) in pairs {
            let control = of.controller.as_ref().map_or_else(|| self.deal(), |_| Control::Traffic(traffic));
            let place = self.flows.len();
            self.bulk.push(PlannedTcp { place, from, to, control, tcp });
            self.flows.push(Flow { traffic, control, wanted: Some(1), has_endpoint: false, ..Flow::new(from, to) });
        }
    }

    fn traffic(&mut self, traffic: &Traffic, flows: impl ExactSizeIterator<Item = Flow>) -> Result<(), TrialError> {
        let is_open_sender = traffic.sender == Sender::Unaware;
        let token_length = if is_open_sender { 0 } else { usize::from(self.scenario.endpoint.token_length) };
        let body = |size: Option<Size>| body_of(size.map_or(0, bytes), token_length);
        let exchanges = traffic.exchanges.map(|exchanges| u64::from(exchanges.get()));
        let all = exchanges.unwrap_or_default().saturating_mul(flows.len() as u64);
        let enough = traffic.ends_run.filter(|_| all > 0).map(|share| Rc::new(Cell::new(enough(share, all))));
        let start = self.start_of(traffic);
        let request = workload::Flow {
            start,
            stop: traffic.stop.map(|stop| Instant::ZERO + stop.0),
            limit: match (exchanges, traffic.count) {
                (None, _) => Limit::None,
                (Some(exchanges), Count::Opened) => Limit::Opened(exchanges),
                (Some(exchanges), Count::Succeeded) => Limit::Succeeded(exchanges),
            },
            enough,
            batch: traffic.batch,
            method: traffic.method.code(),
            body: body(traffic.request),
            confirmable: traffic.confirmable,
            ..workload::Flow::to(NodeId::BROADCAST)
        };
        let no_token = if is_open_sender { u64::from(self.scenario.endpoint.token_length) } else { 0 };
        let request_bytes = self.datagram_bytes(&request.body) - no_token;
        let phases: Vec<_> = Phase::spans(&self.scenario.phases).map(|(from, _)| Instant::ZERO + from).collect();
        let responder = Responder::new(traffic.method.success(), body(traffic.response));
        for flow in flows {
            let (client, server) = (flow.client, flow.server);
            let mut random = self.streams.stream(Entity::Node(client), Purpose::named("phase"));
            let pace = pace::of(&traffic.pace, start, &phases, &mut random);
            let control = if is_open_sender {
                self.roles.entry(server).or_default().unanswered.insert(client);
                self.sender(client)?
            } else {
                self.answer(server, &responder)?;
                let own = traffic.controller.as_ref().map(|_| Control::Traffic(flow.traffic));
                self.control_of(client, own)?
            };
            let outstanding = match (traffic.outstanding.unwrap_or_default(), control) {
                (Outstanding::Number(number), _) => number,
                (Outstanding::Scheme(Nstart::Nstart), Control::Scheme(scheme)) => self.nstarts[scheme],
                (Outstanding::Scheme(Nstart::Nstart), Control::Traffic(_)) => self.scenario.endpoint.nstart,
            };
            let request = workload::Flow { peer: server, pace, outstanding, ..request.clone() };
            self.roles.entry(client).or_default().flows.push((self.flows.len(), request));
            self.flows.push(Flow {
                control,
                start,
                wanted: exchanges,
                outstanding,
                request_bytes,
                has_endpoint: !is_open_sender,
                ..flow
            });
        }
        Ok(())
    }

    pub(super) fn start_of(&self, traffic: &Traffic) -> Instant {
        Instant::ZERO + traffic.start.map_or(Duration::ZERO, |span| span.0)
    }

    pub(super) fn body(&self, size: Option<Size>) -> Body {
        body_of(size.map_or(0, bytes), usize::from(self.scenario.endpoint.token_length))
    }

    pub(super) fn datagram_bytes(&self, body: &Body) -> u64 {
        let endpoint = &self.scenario.endpoint;
        body.len() as u64 + HEADER_BYTES + u64::from(endpoint.token_length) + u64::from(endpoint.overhead())
    }

    pub(super) fn stream_of(&self, entity: Entity, purpose: Purpose) -> Stream {
        self.streams.stream(entity, purpose)
    }

    /// Its traffic's `own`, or a scheme, dealt in the order in which traffic names the clients.
    pub(super) fn control_of(&mut self, client: NodeId, own: Option<Control>) -> Result<Control, TrialError> {
        let role = self.roles.entry(client).or_default();
        let known = role.control;
        if role.is_open_sender {
            return Err(TrialError::TwoSenders);
        }
        if role.flows.is_empty() && role.observes.is_empty() {
            let notifies = !role.topics.is_empty();
            let control = own.unwrap_or_else(|| self.deal());
            if notifies && control != OF_SERVERS {
                return Err(TrialError::TwoControllers);
            }
            self.roles.entry(client).or_default().control = control;
            return Ok(control);
        }
        let is_same = own.map_or(matches!(known, Control::Scheme(_)), |own| own == known);
        if is_same { Ok(known) } else { Err(TrialError::TwoControllers) }
    }

    fn deal(&mut self) -> Control {
        self.clients += 1;
        Control::Scheme((self.clients - 1) % self.nstarts.len())
    }

    /// Its values count for the first scheme.
    fn sender(&mut self, client: NodeId) -> Result<Control, TrialError> {
        let role = self.roles.entry(client).or_default();
        if !role.is_open_sender && !role.flows.is_empty() {
            return Err(TrialError::TwoSenders);
        }
        role.is_open_sender = true;
        Ok(role.control)
    }

    fn answer(&mut self, server: NodeId, responder: &Responder) -> Result<(), TrialError> {
        match &mut self.roles.entry(server).or_default().responder {
            Some(known) if !known.answers_as(responder) => Err(TrialError::TwoResponses),
            Some(_) => Ok(()),
            none => {
                *none = Some(responder.clone());
                Ok(())
            }
        }
    }
}

fn bytes(size: Size) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

/// Rounds up, to at least one.
pub(crate) fn enough(share: f64, all: u64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of an integer
    let enough = (share * all as f64).ceil() as u64;
    enough.max(1)
}
