//! Plans the hosts' roles.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

use conche_netsim::rng::{Entity, Purpose, Stream, Streams};
use conche_netsim::{Instant, NodeId};
use conche_proto::Reliability;
use conche_proto::codec::{BlockSize, Body};

use super::error::TrialError;
use super::network::Network;
use super::observers::Notifications;
use super::record::{Control, Flow, Observed};
use super::transfers::{PlannedTcp, PlannedTransfer, Routes};
use crate::campaign::Replication;
use crate::scenario::{
    self, Block, Count, Nstart, Observe, Outstanding, Pace, Pairs, Phase, Scenario, Sender, Tcp, Traffic, Transfer,
};
use crate::units::{Size, Span};
use crate::workload::{
    self, Limit, Publisher, Responder, Segment, Subscriber, Topic, body_of, request_body, segment_of,
};

#[derive(Clone, Debug)]
pub(super) struct Role {
    /// With flow indices.
    pub(super) flows: Vec<(usize, Rc<workload::Flow>)>,
    pub(super) control: Control,
    pub(super) responder: Option<Responder>,
    pub(super) unanswered: BTreeSet<NodeId>,
    pub(super) topics: Vec<(usize, Topic)>,
    pub(super) observers: BTreeMap<NodeId, u32>,
    /// With flow indices.
    pub(super) observes: Vec<(usize, NodeId)>,
    pub(super) is_open_sender: bool,
    /// Block size of its requests; `None` for the default.
    pub(super) block: Option<BlockSize>,
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
            block: None,
        }
    }
}

/// Of hosts that only answer or notify.
pub(super) const OF_SERVERS: Control = Control::Scheme(0);
const HEADER_BYTES: u64 = 4;

pub(super) struct Plan<'a> {
    scenario: &'a Scenario,
    routes: &'a Routes,
    replication: u32,
    streams: Streams,
    nstarts: Vec<u16>,
    clients: usize,
    pub(super) flows: Vec<Flow>,
    pub(super) roles: BTreeMap<NodeId, Role>,
    pub(super) transfers: Vec<PlannedTransfer>,
    pub(super) bulk: Vec<PlannedTcp>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        cell: &'a scenario::Cell,
        network: &Network,
        replication: Replication,
        routes: &'a Routes,
    ) -> Result<Self, TrialError> {
        let scenario = &cell.scenario;
        let streams = Streams::new(replication.seed);
        let nstarts = cell.schemes.iter().map(|scheme| scenario.nstart(scheme)).collect();
        let (flows, roles, transfers, bulk) = (Vec::new(), BTreeMap::new(), Vec::new(), Vec::new());
        let replication = replication.index;
        let mut plan =
            Self { scenario, routes, replication, streams, nstarts, clients: 0, flows, roles, transfers, bulk };
        for (place, traffic) in scenario.traffic.iter().enumerate() {
            let hops = |node: NodeId| network.hops.get(&node).copied().unwrap_or_default();
            let of_all = Streams::new(scenario.seed);
            let pairs = pairs_of(traffic, network, if traffic.fixed { &of_all } else { &streams })?;
            if let Sender::Transfer(transfer) = &traffic.sender {
                plan.transfers(place, traffic, transfer, pairs).map_err(|problem| problem.of_traffic(&traffic.name))?;
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

    /// Plans a transfer per pair or, over frozen routes, a single one.
    fn transfers(
        &mut self,
        place: usize,
        traffic: &Traffic,
        transfer: &Transfer,
        pairs: Vec<(NodeId, NodeId)>,
    ) -> Result<(), TrialError> {
        let ways = match traffic.hops {
            None => pairs.into_iter().map(|pair| (pair, None)).collect(),
            Some(hops) => {
                let (pair, route) = self.routes.of_hops(self.scenario, transfer, pairs, hops, self.replication)?;
                vec![(pair, Some(route))]
            }
        };
        for ((from, to), route) in ways {
            let control = traffic.controller.as_ref().map_or_else(|| self.deal(), |_| Control::Traffic(place));
            let hops = route.as_ref().map_or(0, |route| u16::try_from(route.hops()).unwrap_or(u16::MAX));
            let flow = Flow { traffic: place, control, hops, wanted: Some(1), ..Flow::new(from, to) };
            let place = self.flows.len();
            self.transfers.push(PlannedTransfer { place, from, to, control, transfer: *transfer, route });
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
        let response = self.body_in(traffic, traffic.response);
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
            confirmable: traffic.confirmable,
            ..workload::Flow::to(NodeId::BROADCAST)
        };
        let no_token = if is_open_sender { u64::from(self.scenario.endpoint.token_length) } else { 0 };
        let phases: Vec<_> = Phase::spans(&self.scenario.phases).map(|(from, _)| Instant::ZERO + from).collect();
        let mut shared: Option<(usize, Body)> = None;
        let mut last = None;
        self.flows.reserve_exact(flows.len());
        for flow in flows {
            let (client, server) = (flow.client, flow.server);
            let mut random = self.streams.stream(Entity::Node(client), Purpose::named("phase"));
            let pace = pace_of(&traffic.pace, start, &phases, &mut random);
            let mut resource = 0;
            let control = if is_open_sender {
                self.roles.entry(server).or_default().unanswered.insert(client);
                self.sender(client)?
            } else {
                let role = self.roles.entry(server).or_default();
                resource = role.responder.get_or_insert_default().resource(traffic.method.success(), &response);
                let own = traffic.controller.as_ref().map(|_| Control::Traffic(flow.traffic));
                self.control_of(client, own)?
            };
            let outstanding = match (traffic.outstanding.unwrap_or_default(), control) {
                (Outstanding::Number(number), _) => number,
                (Outstanding::Scheme(Nstart::Nstart), Control::Scheme(scheme)) => self.nstarts[scheme],
                (Outstanding::Scheme(Nstart::Nstart), Control::Traffic(_)) => self.scenario.endpoint.nstart,
            };
            let body = match &shared {
                Some((known, body)) if *known == resource => Body::clone(body),
                _ => self.request(traffic, token_length, resource)?,
            };
            shared = Some((resource, body.clone()));
            let request_bytes = self.datagram_bytes(&body) - no_token;
            let request = workload::Flow { peer: server, pace, outstanding, body, ..request.clone() };
            // Most flows of a group are equal.
            let request = last.filter(|last: &Rc<_>| **last == request).unwrap_or_else(|| Rc::new(request));
            last = Some(Rc::clone(&request));
            let role = self.roles.entry(client).or_default();
            let block = traffic.block.map(Block::size);
            if role.flows.is_empty() {
                role.block = block;
            } else if role.block != block {
                return Err(TrialError::TwoBlockSizes);
            }
            role.flows.push((self.flows.len(), request));
            self.flows.push(Flow {
                resource,
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

    /// A body in blocks has the size itself; another one, its message.
    fn body_in(&self, traffic: &Traffic, size: Option<Size>) -> Body {
        match (traffic.block, size) {
            (Some(_), Some(size)) => payload_of(bytes(size)),
            (_, size) => self.body(size),
        }
    }

    fn request(&self, traffic: &Traffic, token_length: usize, resource: usize) -> Result<Body, TrialError> {
        let path: Vec<String> = match &traffic.path {
            Some(_) if resource > 0 => return Err(TrialError::PathOfResource),
            Some(path) => path.split('/').map(str::to_owned).collect(),
            None => segment_of(resource).into_iter().collect(),
        };
        if let (Some(_), Some(size)) = (traffic.block, traffic.request) {
            let body = Body::builder().payload(vec![b'.'; bytes(size)]);
            let body = path.iter().fold(body, |body, segment| body.segment(segment));
            return Ok(body.build().expect("a payload and short segments"));
        }
        let body = request_body(traffic.request.map(bytes), token_length, &path);
        body.ok_or(match traffic.path {
            Some(_) => TrialError::NoRoomForOwnPath,
            None => TrialError::NoRoomForPath,
        })
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

    /// Returns the traffic's `own` controller, or deals schemes in the order of clients in traffic.
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

    /// Marks a sender, which counts for the first scheme.
    fn sender(&mut self, client: NodeId) -> Result<Control, TrialError> {
        let role = self.roles.entry(client).or_default();
        if !role.is_open_sender && !role.flows.is_empty() {
            return Err(TrialError::TwoSenders);
        }
        role.is_open_sender = true;
        Ok(role.control)
    }
}

fn payload_of(bytes: usize) -> Body {
    Body::builder().payload(vec![b'.'; bytes]).build().expect("a payload needs no option")
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

impl Plan<'_> {
    pub(super) fn plan_observations(
        &mut self,
        place: usize,
        traffic: &Traffic,
        observe: Observe,
        flows: impl Iterator<Item = Flow>,
    ) -> Result<(), TrialError> {
        let (start, body) = (self.start_of(traffic), self.body(traffic.response));
        let reliability = match observe {
            Observe::Confirmable => Some(Reliability::Confirmable),
            Observe::EachFifthConfirmable => None,
        };
        let request_bytes = self.datagram_bytes(&body);
        for flow in flows {
            let (client, server) = (flow.client, flow.server);
            self.control_of(client, None)?;
            let mut random = self.stream_of(Entity::Node(server), Purpose::named("phase"));
            let role = self.roles.entry(server).or_default();
            if role.is_open_sender {
                return Err(TrialError::ServerWithoutEndpoint);
            }
            if role.control != OF_SERVERS {
                return Err(TrialError::ServerSends);
            }
            let number = role.topics.iter().position(|(of, _)| *of == place).unwrap_or_else(|| {
                let pace = pace_of(&traffic.pace, start, &[], &mut random);
                let stop = traffic.stop.map(|stop| Instant::ZERO + stop.0);
                let to = workload::Flow::to(NodeId::BROADCAST);
                let changes = workload::Flow { start, stop, pace, body: body.clone(), ..to };
                role.topics.push((place, Topic { changes, reliability }));
                role.topics.len() - 1
            });
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            if role.observers.insert(client, number).is_some() {
                return Err(TrialError::ObservedTwice);
            }
            self.roles.entry(client).or_default().observes.push((self.flows.len(), server));
            let observed = Some(Observed::default());
            self.flows.push(Flow { control: OF_SERVERS, start, request_bytes, observed, ..flow });
        }
        Ok(())
    }
}

impl Role {
    pub(super) fn publisher(&self) -> Option<Publisher> {
        let topics: Vec<Topic> = self.topics.iter().map(|(_, topic)| topic.clone()).collect();
        (!topics.is_empty()).then(|| Publisher::new(topics, self.observers.clone()))
    }

    /// Returns a subscriber that registers before the first topic changes.
    pub(super) fn subscriber(&self, flows: &[Flow]) -> Option<Subscriber> {
        let within = self.observes.iter().map(|(place, _)| flows[*place].start - Instant::ZERO).min()?;
        Some(Subscriber::new(self.observes.iter().map(|(_, server)| *server).collect(), within))
    }
}

/// A restarted node has a role per life.
#[derive(Debug, Default)]
pub(super) struct ObserverRoles {
    pub(super) publishers: Vec<(NodeId, Publisher)>,
    pub(super) subscribers: Vec<(NodeId, Subscriber)>,
}

impl ObserverRoles {
    pub(super) fn measure(self, flows: &mut [Flow], roles: &BTreeMap<NodeId, Role>, notifications: Notifications) {
        let mut places: HashMap<(NodeId, NodeId), usize> = HashMap::new();
        for (node, role) in roles {
            places.extend(role.observes.iter().map(|(place, server)| ((*server, *node), *place)));
        }
        for (server, publisher) in self.publishers {
            for (client, number) in &roles[&server].observers {
                let Some(flow) = places.get(&(server, *client)).map(|place| &mut flows[*place]) else { continue };
                let changes = &publisher.changes()[*number as usize];
                flow.tally.generated += changes.len() as u64;
                flow.observed.iter_mut().for_each(|observed| observed.changes.extend(changes));
            }
            for client in publisher.given_up() {
                let Some(flow) = places.get(&(server, *client)).map(|place| &mut flows[*place]) else { continue };
                flow.tally.opened += 1;
                flow.tally.failed += 1;
            }
        }
        for (client, subscriber) in self.subscribers {
            for ((place, _), received) in roles[&client].observes.iter().zip(subscriber.received()) {
                let flow = &mut flows[*place];
                flow.arrivals.extend(received.iter().map(|received| received.at));
                flow.observed.iter_mut().for_each(|observed| observed.received.extend(received));
            }
        }
        for (server, client, exchange) in notifications.into_acknowledged() {
            let Some(flow) = places.get(&(server, client)).map(|place| &mut flows[*place]) else { continue };
            flow.tally.opened += 1;
            flow.tally.answered += 1;
            flow.exchanges.push(exchange);
        }
    }
}

/// Converts a pace; `random` draws the first tick within the interval.
fn pace_of(pace: &Pace, start: Instant, phases: &[Instant], random: &mut Stream) -> workload::Pace {
    let tick = |from: Instant, interval: Duration, messages: u32| Segment { from, interval, messages };
    let mut within = |interval: Duration| interval.mul_f64(random.unit());
    match pace {
        Pace::Closed => workload::Pace::Closed,
        Pace::Every { interval: Span(interval), spread } => {
            let from = if *spread { start + within(*interval) } else { start };
            workload::Pace::Clock(vec![tick(from, *interval, 1)])
        }
        Pace::Poisson { interval } => workload::Pace::Poisson(interval.0),
        Pace::Bursts { interval, exchanges } => workload::Pace::Clock(vec![tick(start, interval.0, exchanges.get())]),
        Pace::At(times) => workload::Pace::At(times.iter().map(|time| time.0).collect()),
        Pace::OnOff { interval: Span(interval), on, off } => {
            workload::Pace::Turns { phase: within(*interval), interval: *interval, on: on.0, off: off.0 }
        }
        Pace::Phases(intervals) => {
            let each = phases.iter().zip(intervals);
            let each = each.map(|(from, Span(interval))| tick(*from + within(*interval), *interval, 1));
            workload::Pace::Clock(each.collect())
        }
    }
}

fn pairs_of(traffic: &Traffic, network: &Network, streams: &Streams) -> Result<Vec<(NodeId, NodeId)>, TrialError> {
    let (clients, servers) = (network.nodes(&traffic.from), network.nodes(&traffic.to));
    let mut pairs: Vec<(NodeId, NodeId)> = match traffic.pairs {
        Pairs::Dealt => {
            let count = clients.len().max(servers.len());
            (0..count).map(|index| (clients[index % clients.len()], servers[index % servers.len()])).collect()
        }
        Pairs::All => {
            let all = clients.iter().flat_map(|client| servers.iter().map(|server| (*client, *server)));
            all.filter(|(client, server)| client != server).collect()
        }
    };
    if let Some(name) = &traffic.shuffle {
        streams.stream(Entity::Run, Purpose::named(name)).shuffle(&mut pairs);
    }
    let take = traffic.take.map_or(usize::MAX, |take| take as usize);
    pairs = pairs.into_iter().skip(traffic.skip as usize).take(take).collect();
    match pairs.iter().find(|(client, server)| client == server) {
        Some(_) => Err(TrialError::AsksItself.of_traffic(&traffic.name)),
        None => Ok(pairs),
    }
}
