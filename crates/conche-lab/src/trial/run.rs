//! One run of a cell, in virtual time.
//!
//! Each entity and purpose draws its own random numbers: a replication has the same jitter,
//! processing times, batches and dithering under every scheme.

use std::cell::{Cell as Shared, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use conche_netsim::node::{Node, SharedMonitor};
use conche_netsim::packet::Packet;
use conche_netsim::rng::Streams;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::{LinkConfig, Topology};
use conche_netsim::{Instant, LinkId, NodeId, RadioId, RunEnd, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::codec::{BlockSize, Body, Code};
use conche_proto::{ControllerId, PathKey, PeerSnapshot, SharedConfig};

use super::error::TrialError;
use super::network::Network;
use super::observers::{NodeCounts, Notifications, Queues, TransmissionCounts};
use super::plan::{ObserverRoles, Plan, Role};
use super::record::{Control, Flow, NodeRecord, Record};
use super::series::{LinkDrops, Sampled, Sampler, Sampling};
use super::transfers::{Mesh, PlannedTcp, PlannedTransfer, Routes, mixed_seed};
use crate::campaign::{Replication, RunResult};
use crate::scenario::{Cell, ChangeEvent, Paths, Radio, Routing, Scenario, ScenarioError, Security, Sender, Traffic};
use crate::workload::{
    AnyHost, Application, FlowState, Inbox, Log, OpenSender, Program, Requester, Responder, Secured, Timeout, Timeouts,
    config, endpoint_seed,
};

/// Optional data to record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordOptions {
    /// Timeouts of Confirmable messages.
    pub timeouts: bool,
    /// Arrival times of requests at their servers.
    pub arrivals: bool,
    /// Drops per link, for time series.
    pub link_drops: bool,
}

/// Runs a cell once; `routes` holds the routes discovered so far.
///
/// # Errors
/// If its parts contradict each other, or it exceeds its time limit.
pub fn run(
    cell: &Cell,
    wanted: RecordOptions,
    replication: Replication,
    routes: &Routes,
) -> Result<RunResult<Record>, TrialError> {
    run_observed(cell, wanted, replication, routes, Observing::default())
}

/// Observes packets of a run.
pub type SharedObserver = Rc<RefCell<dyn Observer>>;

/// An observer of a run's packets, or of its endpoints.
#[derive(Clone)]
pub enum Trace {
    /// Observes packets in the network.
    Packets(SharedObserver),
    /// Observes the nodes' endpoints.
    Endpoints(SharedMonitor),
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(_) => f.write_str("Packets"),
            Self::Endpoints(_) => f.write_str("Endpoints"),
        }
    }
}

/// Records of a run that have no effect on its results.
#[derive(Default)]
pub struct Observing<'a, 'b> {
    /// Time series.
    pub sampling: Option<&'a mut Sampling<'b>>,
    /// Returns an observer; of flows that run one by one, of the first.
    pub trace: Option<&'a mut dyn FnMut(&Topology) -> Trace>,
}

impl fmt::Debug for Observing<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observing").field("sampling", &self.sampling).finish_non_exhaustive()
    }
}

/// A controller in place of a node's own.
pub struct Substitute {
    /// Controller of the node's endpoint.
    pub controller: AnyController,
    /// Receives each new destination just before the controller makes its state.
    pub meet: Box<dyn Fn(NodeId) + Send + Sync>,
}

impl fmt::Debug for Substitute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Substitute").field("controller", &self.controller).finish_non_exhaustive()
    }
}

/// Returns the substitute for a node's controller; `None` keeps it. Called for each endpoint, and
/// again when its node reboots.
pub type Substitutes<'a> = &'a dyn Fn(NodeId, Control) -> Option<Substitute>;

/// Runs a cell once, and records time series and a trace.
///
/// # Errors
/// As [`run`].
pub fn run_observed(
    cell: &Cell,
    wanted: RecordOptions,
    replication: Replication,
    routes: &Routes,
    observing: Observing<'_, '_>,
) -> Result<RunResult<Record>, TrialError> {
    run_all(cell, wanted, replication, routes, observing, &|_, _| None)
}

/// Runs a cell once, with other controllers on some nodes.
///
/// # Errors
/// As [`run`].
pub fn run_substituted(
    cell: &Cell,
    replication: Replication,
    routes: &Routes,
    trace: &mut dyn FnMut(&Topology) -> Trace,
    substitutes: Substitutes<'_>,
) -> Result<RunResult<Record>, TrialError> {
    let observing = Observing { trace: Some(trace), ..Observing::default() };
    run_all(cell, RecordOptions::default(), replication, routes, observing, substitutes)
}

fn run_all(
    cell: &Cell,
    wanted: RecordOptions,
    replication: Replication,
    routes: &Routes,
    observing: Observing<'_, '_>,
    substitutes: Substitutes<'_>,
) -> Result<RunResult<Record>, TrialError> {
    let Observing { mut sampling, trace } = observing;
    let wanted = RecordOptions { link_drops: sampling.is_some(), ..wanted };
    let mut network = Network::new(&cell.scenario, replication)?;
    let mut trace = trace.map(|trace| trace(&network.topology));
    let plan = |network: &Network| Plan::new(cell, network, replication, routes);
    if !cell.scenario.one_by_one {
        let plan = plan(&network)?;
        let sampler = sampling.map(|sampling| Sampler::new(sampling, Duration::ZERO, &network, plan.flows.iter()));
        let watching = Watching { sampler, trace: trace.take(), substitutes };
        return one(cell, wanted, &mut network, plan, replication.seed, watching);
    }
    let mut all = RunResult { outcome: Record::default(), events: 0 };
    for place in 0.. {
        let mut plan = plan(&network)?;
        if place == plan.flows.len() {
            break;
        }
        plan.roles.values_mut().for_each(|role| role.flows.retain(|(flow, _)| *flow == place));
        plan.transfers.retain(|planned| planned.place == place);
        plan.bulk.retain(|planned| planned.place == place);
        let seed = match plan.transfers.is_empty() {
            true => replication.seed.wrapping_add(place as u64),
            false => mixed_seed(replication.seed, place as u64),
        };
        let flow = plan.flows[place..].iter().take(1);
        let before = all.outcome.elapsed;
        let sampler = sampling.as_deref_mut().map(|sampling| Sampler::new(sampling, before, &network, flow));
        let watching = Watching { sampler, trace: trace.take(), substitutes };
        let ran = one(cell, wanted, &mut network, plan, seed, watching)?;
        all.events += ran.events;
        all.outcome.add(ran.outcome, place);
    }
    Ok(all)
}

/// Checks a cell without running it.
///
/// # Errors
/// As [`run`], except for problems that depend on random numbers.
pub fn check(cell: &Cell, replication: Replication, routes: &Routes) -> Result<(), TrialError> {
    let mut network = Network::new(&cell.scenario, replication)?;
    let plan = Plan::new(cell, &network, replication, routes)?;
    if cell.scenario.one_by_one {
        return Ok(());
    }
    Trial::new(cell, RecordOptions::default(), &mut network, plan, replication.seed, None.into()).map(drop)
}

impl Sampled for Simulation<AnyHost, Observers> {
    fn path(&self, node: NodeId, peer: NodeId) -> Option<PeerSnapshot> {
        match self.host(node)? {
            AnyHost::Coap(host) => host.endpoint().snapshot(&self.address(peer, node)),
            _ => None,
        }
    }

    fn queue(&self, link: LinkId) -> Option<(u64, u64)> {
        self.waiting(link)
    }

    fn drops(&self) -> &LinkDrops {
        self.observer().1.1.1.0.as_ref().unwrap_or(&NO_DROPS)
    }
}

pub(super) struct Traced(Vec<SharedObserver>);

impl Observer for Traced {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        self.0.iter().for_each(|observer| observer.borrow_mut().on_sent(now, packet));
    }

    fn on_entered(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.0.iter().for_each(|observer| observer.borrow_mut().on_entered(now, packet, link));
    }

    fn on_dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {
        self.0.iter().for_each(|observer| observer.borrow_mut().on_dropped(now, packet, reason));
    }

    fn on_duplicated(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.0.iter().for_each(|observer| observer.borrow_mut().on_duplicated(now, packet, link));
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        self.0.iter().for_each(|observer| observer.borrow_mut().on_delivered(now, packet));
    }
}

static NO_DROPS: LinkDrops = LinkDrops::none();

struct Watching<'a, 'b> {
    sampler: Option<Sampler<'a, 'b>>,
    trace: Option<Trace>,
    substitutes: Substitutes<'a>,
}

fn one(
    cell: &Cell,
    wanted: RecordOptions,
    network: &mut Network,
    plan: Plan<'_>,
    seed: u64,
    Watching { sampler, trace, substitutes }: Watching<'_, '_>,
) -> Result<RunResult<Record>, TrialError> {
    let outside = Outside { substitutes: Some(substitutes), ..Outside::from(trace) };
    let mut trial = Trial::new(cell, wanted, network, plan, seed, outside)?;
    let scenario = &cell.scenario;
    let limit = scenario.duration.or(scenario.time_limit).map_or(Duration::MAX, |span| span.0);
    let limit_at = Instant::ZERO + limit;
    let ended = trial.run_to(limit_at, limit_at, sampler)?;
    let events = trial.simulation.events();
    let is_cut_short = ended == RunEnd::Limit && scenario.duration.is_none();
    let asked = trial.roles.values().flat_map(|role| &role.flows).map(|(place, _)| *place);
    let asked = asked.chain(trial.transfer.iter().map(|planned| planned.place));
    let asked: Vec<usize> = asked.chain(trial.bulk.iter().map(|planned| planned.place)).collect();
    let mut record = trial.into_record();
    if scenario.duration.is_none() {
        record.end_with_flows();
    }
    let is_undone = |flow: &Flow| flow.wanted.is_some() && flow.tally.done.is_none();
    match asked.into_iter().filter(|place| is_undone(&record.flows[*place])).min() {
        Some(place) if is_cut_short => Err(unfinished(&record.flows[place], place, limit)),
        _ => Ok(RunResult { outcome: record, events }),
    }
}

fn unfinished(flow: &Flow, place: usize, limit: Duration) -> TrialError {
    let (completed, wanted) = (flow.tally.answered, flow.wanted.unwrap_or_default());
    TrialError::Unfinished { limit, client: place, completed, wanted }
}

/// Observers of a trial, the nodes of programs, and controllers in place of nodes' own.
#[derive(Default)]
pub(super) struct Outside<'a> {
    pub(super) packets: Vec<SharedObserver>,
    pub(super) monitor: Option<SharedMonitor>,
    pub(super) programs: Option<(BTreeSet<NodeId>, Inbox)>,
    pub(super) substitutes: Option<Substitutes<'a>>,
}

impl Outside<'_> {
    /// Adds an observer of packets, or replaces the one of endpoints.
    pub(super) fn observe(&mut self, trace: Trace) {
        match trace {
            Trace::Packets(observer) => self.packets.push(observer),
            Trace::Endpoints(monitor) => self.monitor = Some(monitor),
        }
    }
}

impl From<Option<Trace>> for Outside<'_> {
    fn from(trace: Option<Trace>) -> Self {
        let mut outside = Self::default();
        trace.into_iter().for_each(|trace| outside.observe(trace));
        outside
    }
}

pub(super) type Observers = (TransmissionCounts, (Queues, (Notifications, (Option<LinkDrops>, Traced))));

pub(super) struct Trial<'a> {
    cell: &'a Cell,
    pub(super) simulation: Simulation<AnyHost, Observers>,
    streams: Streams,
    /// By scheme of the cell.
    controllers: Vec<AnyController>,
    /// By traffic.
    own_controllers: Vec<Option<AnyController>>,
    configs: Vec<((u16, Option<BlockSize>), SharedConfig)>,
    pub(super) flows: Vec<Flow>,
    pub(super) roles: BTreeMap<NodeId, Role>,
    transfer: Option<PlannedTransfer>,
    bulk: Vec<PlannedTcp>,
    meshes: Vec<Mesh>,
    prefixes: Arc<[PathKey]>,
    radios: Vec<RadioId>,
    /// Pending changes, the next one last.
    steps: Vec<(Instant, Step)>,
    /// Hosts replaced by reboots.
    retired: Vec<(NodeId, AnyHost)>,
    /// Nodes of programs with a reboot, until the caller takes them.
    pub(super) rebooted_programs: Vec<NodeId>,
    handshakes: Vec<(NodeId, Log)>,
    wanted: RecordOptions,
    monitor: Option<SharedMonitor>,
    /// Their arrivals.
    programs: Option<(BTreeSet<NodeId>, Inbox)>,
    substitutes: Option<Substitutes<'a>>,
    /// The last one ends the run.
    unfinished_flows: Option<Rc<Shared<u64>>>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        cell: &'a Cell,
        wanted: RecordOptions,
        network: &mut Network,
        plan: Plan<'_>,
        seed: u64,
        Outside { packets, monitor, programs, substitutes }: Outside<'a>,
    ) -> Result<Self, TrialError> {
        let scenario = &cell.scenario;
        if let Some(nodes) = scenario.nodes.iter().find(|nodes| programs.is_none() && nodes.program.is_some()) {
            let problem = "a simulation runs no programs; run the scenario by `conche emulate`, or leave `program` out";
            return Err(ScenarioError::new(format_args!("nodes.{}.program", nodes.name), problem).into());
        }
        let steps = steps(scenario, network);
        let addresses = network.topology.addresses();
        let counts = TransmissionCounts::of(network.topology.nodes().count(), addresses.clone());
        let servers = plan.roles.iter().filter(|(_, role)| !role.topics.is_empty()).map(|(node, _)| *node);
        let notifications = Notifications::of(servers.collect(), addresses);
        let mut queues = Queues::default();
        for (name, above) in scenario.watched_links() {
            network.links(name).iter().for_each(|link| queues.watch(*link, name, above.0));
        }
        let link_drops = wanted.link_drops.then(LinkDrops::default);
        let simulation = Simulation::new(
            &network.topology,
            seed,
            (counts, (queues, (notifications, (link_drops, Traced(packets))))),
        )?;
        plan.flows.iter().try_for_each(|flow| check_path(scenario, &simulation, &network.topology, flow))?;
        let streams = simulation.streams();
        let schemes = cell.schemes.iter().filter_map(|name| scenario.scheme(name));
        let controllers = schemes.map(|scheme| scheme.build(&scenario.controllers)).collect::<Result<_, _>>()?;
        let own_controllers = scenario.traffic.iter().map(|traffic| {
            let built = traffic.controller.as_ref().map(|name| name.build(&scenario.controllers)).transpose();
            built.map_err(|error| ScenarioError::new(format_args!("traffic.{}.controller", traffic.name), error))
        });
        let own_controllers = own_controllers.collect::<Result<_, _>>()?;
        let Plan { flows, roles, mut transfers, bulk, .. } = plan;
        let transfer = transfers.pop();
        if !transfers.is_empty() {
            return Err(TrialError::SeveralTransfers);
        }
        // Radio control traffic never ends.
        let ends_the_run = scenario.time_limit.is_some() && !scenario.radios.is_empty();
        if ends_the_run && !bulk.is_empty() {
            return Err(TrialError::TcpWithoutDuration);
        }
        let starts_anew = |planned: &PlannedTcp| reboots(&steps, planned.from) || reboots(&steps, planned.to);
        if bulk.iter().any(starts_anew) {
            return Err(TrialError::TcpReboot);
        }
        let mut trial = Self {
            cell,
            simulation,
            streams,
            controllers,
            own_controllers,
            configs: Vec::new(),
            flows,
            roles,
            transfer,
            bulk,
            meshes: network.meshes.clone(),
            prefixes: Arc::clone(&network.prefixes),
            radios: network.radios.clone(),
            steps,
            retired: Vec::new(),
            rebooted_programs: Vec::new(),
            handshakes: Vec::new(),
            wanted,
            monitor,
            programs,
            substitutes,
            unfinished_flows: ends_the_run.then(Rc::default),
        };
        let motes = trial.meshes.iter().flat_map(|mesh| &mesh.nodes);
        let ends = trial.bulk.iter().flat_map(|planned| [&planned.from, &planned.to]);
        let programs = trial.programs.iter().flat_map(|(nodes, _)| nodes);
        let mut hosts: Vec<NodeId> = trial.roles.keys().chain(motes).chain(ends).chain(programs).copied().collect();
        hosts.sort_unstable();
        hosts.dedup();
        for node in hosts {
            let host = trial.host(node, 0)?;
            trial.simulation.attach(node, host)?;
        }
        Ok(trial)
    }

    /// Runs until `at`, or the end of the run, which is at `limit` at the latest. Returns
    /// [`RunEnd::Limit`] before the end.
    fn run_to(
        &mut self,
        at: Instant,
        limit: Instant,
        mut sampler: Option<Sampler<'_, '_>>,
    ) -> Result<RunEnd, TrialError> {
        while let Some((then, step)) = self.steps.pop_if(|(then, _)| *then <= at && *then < limit) {
            if self.advance(then, false, sampler.as_mut()) == RunEnd::Stopped {
                return Ok(RunEnd::Stopped);
            }
            self.change(step)?;
        }
        let is_last = self.steps.last().is_none_or(|(then, _)| *then >= limit);
        let until_idle = is_last && self.cell.scenario.time_limit.is_some();
        Ok(match self.advance(at, until_idle, sampler.as_mut()) {
            RunEnd::Idle if !until_idle && at < limit => RunEnd::Limit,
            ended => ended,
        })
    }

    /// Runs until `limit`, with `until_idle` at most until no events are left.
    fn advance(&mut self, limit: Instant, until_idle: bool, mut sampler: Option<&mut Sampler<'_, '_>>) -> RunEnd {
        loop {
            let sample_at = sampler.as_ref().map(|sampler| sampler.next()).filter(|next| *next <= limit);
            let until = sample_at.unwrap_or(limit);
            let ended = match until_idle {
                true => self.simulation.run_until_idle(until),
                false => self.simulation.run_until(until),
            };
            let is_over = ended == RunEnd::Stopped || (until_idle && ended == RunEnd::Idle);
            match &mut sampler {
                Some(sampler) if sample_at.is_some() && !is_over => sampler.sample(&self.simulation),
                _ => return ended,
            }
        }
    }

    /// Returns the time of the next event or change.
    pub(super) fn next_time(&mut self) -> Option<Instant> {
        let change = self.steps.last().map(|(at, _)| *at);
        self.simulation.next_time().into_iter().chain(change).min()
    }

    /// Runs until `at`, inclusive with its changes, even if all flows have ended.
    pub(super) fn advance_to(&mut self, at: Instant) -> Result<(), TrialError> {
        while let Some((then, step)) = self.steps.pop_if(|(then, _)| *then <= at) {
            while self.simulation.run_until(then) == RunEnd::Stopped {}
            self.change(step)?;
        }
        while self.simulation.run_until(at) == RunEnd::Stopped {}
        Ok(())
    }

    /// Runs until `at` or the end that [`run`] has, and returns whether it is the end.
    pub(super) fn simulate_to(&mut self, at: Instant, limit: Instant) -> Result<bool, TrialError> {
        let at = at.min(limit);
        Ok(self.run_to(at, limit, None)? != RunEnd::Limit || at == limit)
    }

    /// Returns whether clients with an endpoint exist, and all have completed their exchanges.
    pub(super) fn are_flows_done(&self) -> bool {
        let requesters = self.simulation.hosts().filter_map(|(_, host)| match host {
            AnyHost::Coap(node) => node.application().requester.as_ref(),
            _ => None,
        });
        let mut flows = requesters.flat_map(Requester::flows).peekable();
        flows.peek().is_some() && flows.all(|flow| flow.tally.done.is_some())
    }

    fn change(&mut self, step: Step) -> Result<(), TrialError> {
        let simulation = &mut self.simulation;
        match step {
            Step::Links(links, config) => {
                links.into_iter().try_for_each(|link| simulation.change_link(link, *config))?;
            }
            Step::Up(links, up) => links.into_iter().try_for_each(|link| simulation.set_link_up(link, up))?,
            Step::Joined(nodes, joined) => {
                nodes.into_iter().try_for_each(|node| simulation.set_node_up(node, joined))?;
            }
            Step::Reboot(nodes) => self.reboot(&nodes)?,
            Step::Rebind(nodes) => nodes.into_iter().for_each(|node| {
                // The scenario's reader has checked that it is behind a NAT.
                simulation.rebind(node);
            }),
        }
        Ok(())
    }

    fn reboot(&mut self, nodes: &[NodeId]) -> Result<(), TrialError> {
        let is_program = |node: &&NodeId| self.programs.as_ref().is_some_and(|(programs, _)| programs.contains(node));
        self.rebooted_programs.extend(nodes.iter().filter(is_program));
        let is_host = |node: &&NodeId| self.roles.contains_key(node) || self.mesh_of(**node).is_some();
        for node in nodes.iter().filter(is_host).copied().collect::<Vec<_>>() {
            let lives = self.retired.iter().filter(|(retired, _)| *retired == node).count() + 1;
            let host = self.host(node, lives)?;
            let before = self.simulation.reboot(node, host)?;
            self.retired.extend(before.map(|before| (node, before)));
        }
        Ok(())
    }

    fn mesh_of(&self, node: NodeId) -> Option<&Mesh> {
        self.meshes.iter().find(|mesh| mesh.nodes.contains(&node))
    }

    fn host(&mut self, node: NodeId, lives: usize) -> Result<AnyHost, TrialError> {
        if let Some((_, inbox)) = self.programs.as_ref().filter(|(nodes, _)| nodes.contains(&node)) {
            return Ok(AnyHost::Program(Program::new(Rc::clone(inbox))));
        }
        if let Some(mesh) = self.mesh_of(node) {
            if self.roles.contains_key(&node) {
                return Err(TrialError::CoapOnMote);
            }
            let Some(transfer) = &self.transfer else {
                return Err(TrialError::MotesWithoutTransfer);
            };
            return Ok(AnyHost::Mote(Box::new(transfer.mote(mesh, node, self.controller(transfer.control)))));
        }
        if let Some(bulk) = self.bulk.iter().find(|bulk| [bulk.from, bulk.to].contains(&node)) {
            let ends = self.bulk.iter().filter(|other| [other.from, other.to].contains(&node)).count();
            if ends > 1 || self.roles.contains_key(&node) {
                return Err(TrialError::TcpBeside);
            }
            return Ok(AnyHost::Bulk(Box::new(bulk.host(node, self.controller(bulk.control)))));
        }
        let role = self.roles[&node].clone();
        let sends = !role.flows.is_empty() || !role.topics.is_empty();
        let is_client = !role.flows.is_empty();
        let (publisher, subscriber) = (role.publisher(), role.subscriber(&self.flows));
        let flows: Vec<_> = role.flows.into_iter().map(|(_, flow)| flow).collect();
        if role.is_open_sender {
            return Ok(AnyHost::OpenSender(Box::new(OpenSender::new(flows))));
        }
        if let Some(unfinished_flows) = self.unfinished_flows.as_ref().filter(|_| lives == 0) {
            unfinished_flows.set(unfinished_flows.get() + flows.len() as u64);
        }
        let requester = is_client.then(|| Requester::new(flows, self.unfinished_flows.clone()));
        let (controller, meet) = match self.substitutes.and_then(|of| of(node, role.control)) {
            Some(Substitute { controller, meet }) => (controller, Some(meet)),
            None => (self.controller(role.control), None),
        };
        let timeouts = (self.wanted.timeouts && sends).then(Timeouts::default);
        let controller = match &timeouts {
            Some(timeouts) => timeouts.of(controller),
            None => controller,
        };
        let silent = || Responder::new(Code::CONTENT, Body::EMPTY);
        let responder = role.responder.or_else(|| (!role.unanswered.is_empty()).then(silent));
        let responder = responder.map(|responder| responder.without_answer_to(role.unanswered));
        let responder = match self.wanted.arrivals {
            true => responder.map(Responder::with_arrivals),
            false => responder,
        };
        let is_server = responder.is_some();
        let (responder, publisher, subscriber) =
            (responder.map(Box::new), publisher.map(Box::new), subscriber.map(Box::new));
        let application = Application { requester, responder, publisher, subscriber, timeouts };
        let scenario = &self.cell.scenario;
        let scheme = match role.control {
            Control::Scheme(place) => scenario.scheme(&self.cell.schemes[place]),
            Control::Traffic(_) => None,
        };
        let nstart = scheme.and_then(|scheme| scheme.nstart).unwrap_or(scenario.endpoint.nstart);
        let config = self.config(nstart, role.block);
        let scenario = &self.cell.scenario;
        let seed = endpoint_seed(&self.streams, node, lives);
        let mut host = Node::new(config, controller, seed, application)?;
        if let Some(monitor) = &self.monitor {
            host = host.monitored(Rc::clone(monitor));
        }
        if let Some(meet) = meet {
            host.endpoint_mut().choose_controller(Box::new(move |peer| {
                meet(*peer);
                ControllerId::default()
            }));
        }
        let addresses = self.simulation.addresses().clone();
        match scheme.and_then(|scheme| scheme.paths) {
            None => {}
            Some(Paths::Hosts) => {
                let host_path = |node: NodeId| PathKey::new(node.index() as u128, 128);
                host.endpoint_mut().share_paths(Box::new(move |peer| Some(host_path(addresses.host(*peer)))));
            }
            Some(Paths::Prefixes) => {
                let prefixes = Arc::clone(&self.prefixes);
                let prefix_of = move |peer: &NodeId| prefixes.get(addresses.host(*peer).index()).copied();
                host.endpoint_mut().share_paths(Box::new(prefix_of));
            }
        }
        if scenario.endpoint.security == Security::DtlsPsk {
            let secured = Secured::new(node, lives, &self.streams, &scenario.endpoint.handshakes, is_server)?;
            self.handshakes.push((node, secured.log()));
            host = host.over(Box::new(secured));
        }
        Ok(AnyHost::Coap(Box::new(host)))
    }

    /// Returns the configuration of endpoints, which share it: a copy each would fill the cache.
    fn config(&mut self, nstart: u16, block: Option<BlockSize>) -> SharedConfig {
        if let Some((_, known)) = self.configs.iter().find(|(of, _)| *of == (nstart, block)) {
            return known.clone();
        }
        let scenario = &self.cell.scenario;
        let mut config = config(&scenario.endpoint, nstart);
        config.block_size = block.unwrap_or_default();
        let bodies = scenario.traffic.iter().map(Traffic::largest_body);
        config.limits.body_bytes = bodies.fold(config.limits.body_bytes, usize::max);
        let config = SharedConfig::from(config);
        self.configs.push(((nstart, block), config.clone()));
        config
    }

    fn controller(&self, control: Control) -> AnyController {
        match control {
            Control::Scheme(place) => self.controllers[place].clone(),
            Control::Traffic(place) => {
                self.own_controllers[place].clone().expect("traffic that controls has a controller")
            }
        }
    }

    pub(super) fn into_record(self) -> Record {
        let Self { simulation, mut flows, roles, transfer, bulk, radios, retired, handshakes, wanted, .. } = self;
        let end = simulation.now();
        let elapsed = end - Instant::ZERO;
        let radios = radios.into_iter().filter_map(|radio| simulation.radio_counters(radio)).collect();
        let addresses = simulation.addresses().clone();
        let (hosts, (counts, (queues, (notifications, _)))) = simulation.into_parts();
        // The first of several flows between two nodes counts.
        let places = || (0..flows.len()).rev();
        let pair = |place: usize| ((flows[place].client, flows[place].server), place);
        let pairs: HashMap<(NodeId, NodeId), usize> = places().filter(|_| !handshakes.is_empty()).map(pair).collect();
        let requested = |place: usize| ((flows[place].client, flows[place].server, flows[place].resource), place);
        let requests: HashMap<(NodeId, NodeId, usize), usize> =
            places().filter(|_| wanted.arrivals).map(requested).collect();
        let (mut motes, mut bulks, mut observing) = (BTreeMap::new(), BTreeMap::new(), ObserverRoles::default());
        let mut timeouts: Vec<Vec<Timeout>> = vec![Vec::new(); counts.counts.len()];
        for (node, host) in retired.into_iter().chain(hosts) {
            let own = roles.get(&node).into_iter().flat_map(|role| &role.flows);
            let places: Vec<usize> = own.map(|(place, _)| *place).collect();
            let application = match host {
                AnyHost::Coap(host) => host.into_application(),
                AnyHost::OpenSender(sender) => {
                    for (place, tally) in places.iter().zip(sender.tallies()) {
                        flows[*place].tally = flows[*place].tally.followed_by(tally);
                    }
                    continue;
                }
                AnyHost::Mote(mote) => {
                    motes.insert(node, *mote);
                    continue;
                }
                AnyHost::Bulk(end) => {
                    bulks.insert(node, *end);
                    continue;
                }
                AnyHost::Program(_) => continue,
            };
            let requested = application.requester.into_iter().flat_map(Requester::into_flows);
            for (place, FlowState { tally, mut exchanges, .. }) in places.iter().zip(requested) {
                let flow = &mut flows[*place];
                flow.tally = flow.tally.followed_by(&tally);
                match flow.exchanges.is_empty() {
                    true => flow.exchanges = exchanges,
                    false => flow.exchanges.append(&mut exchanges),
                }
            }
            if let Some(recorded) = application.timeouts {
                timeouts[node.index()].extend(recorded.into_log());
            }
            observing.publishers.extend(application.publisher.map(|publisher| (node, *publisher)));
            observing.subscribers.extend(application.subscriber.map(|subscriber| (node, *subscriber)));
            for arrival in application.responder.iter().flat_map(|responder| responder.arrivals()) {
                if let Some(place) = requests.get(&(arrival.from, node, arrival.resource)) {
                    flows[*place].arrivals.push(arrival.at);
                }
            }
        }
        for (node, log) in &handshakes {
            for (peer, handshakes) in &*log.borrow() {
                let peer = &addresses.node(*peer);
                if let Some(place) = pairs.get(&(*node, *peer)).or_else(|| pairs.get(&(*peer, *node))) {
                    flows[*place].handshakes.add(handshakes);
                }
            }
        }
        bulk.iter().for_each(|planned| planned.measure(&mut flows, &bulks));
        observing.measure(&mut flows, &roles, notifications);
        let sender = |(node, role): (&NodeId, &Role)| {
            let asked = role.flows.iter().map(|(place, _)| flows[*place].traffic);
            let mut traffic: Vec<usize> = asked.chain(role.topics.iter().map(|(traffic, _)| *traffic)).collect();
            traffic.dedup();
            let timeouts = std::mem::take(&mut timeouts[node.index()]);
            let NodeCounts { copies, dropped } = counts.counts[node.index()];
            NodeRecord { node: *node, control: role.control, traffic, timeouts, copies, dropped }
        };
        let sends = |role: &Role| !role.is_open_sender && (!role.flows.is_empty() || !role.topics.is_empty());
        let nodes = roles.iter().filter(|(_, role)| sends(role)).map(sender).collect();
        let mut record = Record { flows, nodes, elapsed, radios, queues: queues.into_seen(end), ..Record::default() };
        transfer.iter().for_each(|transfer| transfer.measure(&mut record, &motes));
        record
    }
}

enum Step {
    Links(Vec<LinkId>, Box<LinkConfig>),
    /// Links go down (`false`) or up.
    Up(Vec<LinkId>, bool),
    /// Nodes leave (`false`) or rejoin.
    Joined(Vec<NodeId>, bool),
    /// Nodes restart without state.
    Reboot(Vec<NodeId>),
    /// Nodes lose the mappings of their NATs.
    Rebind(Vec<NodeId>),
}

fn reboots(steps: &[(Instant, Step)], node: NodeId) -> bool {
    steps.iter().any(|(_, step)| matches!(step, Step::Reboot(nodes) if nodes.contains(&node)))
}

/// Checks that links lead to a flow's server and, unless its client ignores responses, back.
fn check_path(
    scenario: &Scenario,
    simulation: &Simulation<AnyHost, Observers>,
    topology: &Topology,
    flow: &Flow,
) -> Result<(), TrialError> {
    let traffic = &scenario.traffic[flow.traffic];
    // Motes search their routes during the run, and a full routing table lacks some on purpose.
    let is_limited = |radio: &Radio| matches!(radio.routing, Routing::Rpl { routes: Some(_), .. });
    if matches!(traffic.sender, Sender::Transfer(_)) || scenario.radios.iter().any(is_limited) {
        return Ok(());
    }
    let name =
        |node| topology.nodes().find(|(known, _)| *known == node).map_or_else(String::new, |(_, name)| name.into());
    let refuse = |problem: TrialError| Err(problem.of_traffic(&traffic.name));
    let (client, server) = (flow.client, flow.server);
    if let Some(nat) = nat_between(simulation, server, client) {
        return refuse(TrialError::ServerBehindNat { server: name(server), nat: name(nat) });
    }
    let nat = nat_between(simulation, client, server);
    let back = (traffic.sender != Sender::Unaware).then_some((server, client));
    for (from, to) in [(client, server)].into_iter().chain(back) {
        if !simulation.has_path(from, to) {
            return refuse(TrialError::NoPath { from: name(from), to: name(to) });
        }
        if let Some(nat) = nat.filter(|nat| !simulation.passes(from, to, *nat)) {
            return refuse(TrialError::AvoidedNat { from: name(from), to: name(to), nat: name(nat) });
        }
    }
    Ok(())
}

/// Returns the NAT that hides one node from another.
pub(super) fn nat_between(
    simulation: &Simulation<AnyHost, Observers>,
    inside: NodeId,
    outside: NodeId,
) -> Option<NodeId> {
    let addresses = simulation.addresses();
    addresses.nat_of(inside).filter(|nat| *nat != outside && addresses.nat_of(outside) != Some(*nat))
}

/// Returns changes in reverse order, and marks their links.
fn steps(scenario: &Scenario, network: &mut Network) -> Vec<(Instant, Step)> {
    let mut steps = Vec::new();
    for change in &scenario.changes {
        let at = Instant::ZERO + change.at.0;
        match &change.event {
            ChangeEvent::Link { name, wire } => {
                let links = network.changing(name);
                steps.push((at, Step::Links(links, wire.clone())));
            }
            ChangeEvent::Fail { link, lasting } => {
                let links = network.changing(link);
                steps.push((at, Step::Up(links.clone(), false)));
                steps.push((at + lasting.0, Step::Up(links, true)));
            }
            ChangeEvent::CutOff { nodes, lasting } => {
                let nodes = network.nodes(nodes);
                steps.push((at, Step::Joined(nodes.clone(), false)));
                steps.push((at + lasting.0, Step::Joined(nodes, true)));
            }
            ChangeEvent::Reboot { nodes } => steps.push((at, Step::Reboot(network.nodes(nodes)))),
            ChangeEvent::Rebind { nodes } => steps.push((at, Step::Rebind(network.nodes(nodes)))),
        }
    }
    // Of simultaneous changes, the first is last.
    steps.reverse();
    steps.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    steps
}
