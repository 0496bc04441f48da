//! [`Emulation`]: a trial with a clock outside, and programs on some nodes.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use conche_netsim::wired::{Addresses, LinkConfig, Topology};
use conche_netsim::{Instant, LinkId, NodeId, PacketId};
use conche_proto::PeerSnapshot;

use super::error::TrialError;
use super::network::Network;
use super::plan::Plan;
use super::record::Record;
use super::run::{Outside, RecordOptions, Trace, Trial, nat_between};
use super::series::{self, Sampled};
use super::transfers::Routes;
use crate::campaign::Replication;
use crate::scenario::{Cell, Scenario, ScenarioError, Security, Sender};
use crate::workload::{ArrivedAtProgram, Inbox};

/// A cell's network and endpoints, with programs in place of the endpoints of some nodes.
///
/// The caller advances the time, passes datagrams of the programs on, and hands out arrivals. The
/// same datagrams at the same times have the same fate as in a simulation.
pub struct Emulation<'a> {
    trial: Trial<'a>,
    network: Network,
    scenario: &'a Scenario,
    programs: BTreeSet<NodeId>,
    inbox: Inbox,
}

impl<'a> Emulation<'a> {
    /// Creates an emulation at time zero, with programs on the nodes of references such as `client`
    /// or `client[0..3]`. `observe` returns observers of its packets, and at most one of its endpoints.
    ///
    /// Without programs it is the cell's simulation.
    ///
    /// # Errors
    /// If a reference names no nodes, or the cell cannot be emulated with programs on them.
    pub fn new(
        cell: &'a Cell,
        replication: Replication,
        programs: &[String],
        observe: &mut dyn FnMut(&Topology) -> Vec<Trace>,
    ) -> Result<Self, TrialError> {
        Self::on(Network::new(&cell.scenario, replication)?, cell, replication, programs, observe)
    }

    /// As [`Emulation::new`], with wired links that can all change ([`Emulation::change_link`]).
    ///
    /// # Errors
    /// As [`Emulation::new`].
    pub fn changeable(
        cell: &'a Cell,
        replication: Replication,
        programs: &[String],
        observe: &mut dyn FnMut(&Topology) -> Vec<Trace>,
    ) -> Result<Self, TrialError> {
        let mut network = Network::new(&cell.scenario, replication)?;
        network.allow_all_changes();
        Self::on(network, cell, replication, programs, observe)
    }

    fn on(
        mut network: Network,
        cell: &'a Cell,
        replication: Replication,
        programs: &[String],
        observe: &mut dyn FnMut(&Topology) -> Vec<Trace>,
    ) -> Result<Self, TrialError> {
        let scenario = &*cell.scenario;
        let mut nodes = BTreeSet::new();
        for reference in programs {
            scenario.selected(format_args!("the program of `{reference}`"), reference)?;
            nodes.extend(network.nodes(reference));
        }
        validate(scenario, &network, &nodes)?;
        let routes = Routes::default();
        let mut plan = Plan::new(cell, &network, replication, &routes)?;
        plan.roles.retain(|node, _| !nodes.contains(node));
        let inbox = Inbox::default();
        let programs = (!nodes.is_empty()).then(|| (nodes.clone(), Rc::clone(&inbox)));
        let mut outside = Outside { programs, ..Outside::default() };
        observe(&network.topology).into_iter().for_each(|trace| outside.observe(trace));
        let trial = Trial::new(cell, RecordOptions::default(), &mut network, plan, replication.seed, outside)?;
        Ok(Self { trial, network, scenario, programs: nodes, inbox })
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.trial.simulation.now()
    }

    /// Returns the time of the next event or change.
    pub fn next_time(&mut self) -> Option<Instant> {
        self.trial.next_time()
    }

    /// Runs until `at`, inclusive; an earlier time has no effect.
    ///
    /// # Errors
    /// If the simulator refuses a change of the network.
    pub fn advance_to(&mut self, at: Instant) -> Result<(), TrialError> {
        self.trial.advance_to(at)
    }

    /// Runs a simulation without programs until `at` or its end, and returns whether it has ended.
    ///
    /// # Errors
    /// If the simulator refuses a change of the network.
    pub fn simulate_to(&mut self, at: Instant) -> Result<bool, TrialError> {
        self.trial.simulate_to(at, Instant::ZERO + self.limit())
    }

    /// Sends a datagram of a program at the current time, and returns its number.
    ///
    /// # Errors
    /// If the network has no such node.
    pub fn send(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) -> Result<PacketId, TrialError> {
        Ok(self.trial.simulation.send(from, to, bytes)?)
    }

    /// Sends an ICMP echo request of a program at the current time, and returns its number. Its
    /// destination returns the bytes, in a packet that [answers](ArrivedAtProgram::answers) it.
    ///
    /// # Errors
    /// If the network has no such node.
    pub fn send_echo_request(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) -> Result<PacketId, TrialError> {
        Ok(self.trial.simulation.send_echo_request(from, to, bytes)?)
    }

    /// Takes the first datagram that has arrived for a program.
    pub fn take_arrived(&mut self) -> Option<ArrivedAtProgram> {
        self.inbox.borrow_mut().pop_front()
    }

    /// Takes the nodes of programs that a change of the scenario has rebooted. The caller starts the
    /// programs again.
    pub fn take_rebooted(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.trial.rebooted_programs)
    }

    /// Returns the nodes of a reference such as `client[0..3]`, in their order.
    ///
    /// # Errors
    /// If they do not exist; the error names `place`.
    pub fn nodes(&self, place: impl fmt::Display, reference: &str) -> Result<Vec<NodeId>, ScenarioError> {
        self.scenario.selected(place, reference)?;
        Ok(self.network.nodes(reference))
    }

    /// Returns all nodes.
    pub fn all_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.network.topology.nodes().map(|(node, _)| node)
    }

    /// Returns nodes and links at the start.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.network.topology
    }

    /// Returns the paths of the scenario's traffic, from sender to peer. Paths of programs have no
    /// [state](Self::path).
    pub fn paths(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        series::paths(self.trial.flows.iter()).map(|(from, to, _)| (from, to))
    }

    /// Returns the state of a simulated endpoint's path to a peer, once it exists.
    #[must_use]
    pub fn path(&self, from: NodeId, to: NodeId) -> Option<PeerSnapshot> {
        Sampled::path(&self.trial.simulation, from, to)
    }

    /// Returns packets and bytes that wait for a link; `None` for radio hops.
    #[must_use]
    pub fn queue(&self, link: LinkId) -> Option<(u64, u64)> {
        Sampled::queue(&self.trial.simulation, link)
    }

    /// Returns whether a link is up.
    #[must_use]
    pub fn is_link_up(&self, link: LinkId) -> bool {
        self.trial.simulation.is_link_up(link).unwrap_or_default()
    }

    /// Returns the current configuration of a link that can change.
    #[must_use]
    pub fn link_config(&self, link: LinkId) -> Option<LinkConfig> {
        self.trial.simulation.link_config(link).ok()
    }

    /// Changes a link now.
    ///
    /// # Errors
    /// If the link cannot change, or the configuration is invalid.
    pub fn change_link(&mut self, link: LinkId, config: LinkConfig) -> Result<(), TrialError> {
        config.check(self.network.topology.link_name(link).unwrap_or_default())?;
        Ok(self.trial.simulation.change_link(link, config)?)
    }

    /// Takes a link down or up now.
    ///
    /// # Errors
    /// If the link cannot change.
    pub fn set_link_up(&mut self, link: LinkId, up: bool) -> Result<(), TrialError> {
        Ok(self.trial.simulation.set_link_up(link, up)?)
    }

    /// Returns the addresses of nodes and NATs.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        self.trial.simulation.addresses()
    }

    /// Returns a node's name, such as `client[3]`.
    #[must_use]
    pub fn name(&self, node: NodeId) -> &str {
        self.network.topology.nodes().find(|(known, _)| *known == node).map_or("", |(_, name)| name)
    }

    /// Returns whether a program runs on the node.
    #[must_use]
    pub fn is_program(&self, node: NodeId) -> bool {
        self.programs.contains(&node)
    }

    /// Returns whether the node has a simulated server.
    #[must_use]
    pub fn is_server(&self, node: NodeId) -> bool {
        self.trial.roles.get(&node).is_some_and(|role| role.responder.is_some() || !role.topics.is_empty())
    }

    /// Returns the nodes that the traffic of the scenario makes servers of this one.
    pub fn servers_of(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let flows = self.trial.flows.iter().filter(move |flow| flow.client == node);
        flows.map(|flow| flow.server).collect::<BTreeSet<_>>().into_iter()
    }

    /// Returns whether traffic of the scenario leads to the node.
    #[must_use]
    pub fn has_clients(&self, node: NodeId) -> bool {
        self.trial.flows.iter().any(|flow| flow.server == node)
    }

    /// Returns whether requests of a client reach a server, and responses return.
    #[must_use]
    pub fn are_connected(&self, client: NodeId, server: NodeId) -> bool {
        let simulation = &self.trial.simulation;
        let has_paths = simulation.has_path(client, server) && simulation.has_path(server, client);
        has_paths && nat_between(simulation, server, client).is_none()
    }

    /// Returns the scenario's `duration` or `time_limit`.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.scenario.duration.or(self.scenario.time_limit).map_or(Duration::MAX, |span| span.0)
    }

    /// Returns whether simulated clients have nothing left to send.
    #[must_use]
    pub fn are_clients_done(&self) -> bool {
        self.trial.are_flows_done()
    }

    /// Returns the record of the simulated clients.
    #[must_use]
    pub fn into_record(self) -> Record {
        let Self { trial, programs, .. } = self;
        let mut record = trial.into_record();
        record.flows.retain(|flow| !programs.contains(&flow.client));
        record
    }
}

impl fmt::Debug for Emulation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulation").field("programs", &self.programs).finish_non_exhaustive()
    }
}

fn validate(scenario: &Scenario, network: &Network, programs: &BTreeSet<NodeId>) -> Result<(), ScenarioError> {
    let refuse = |place: &dyn fmt::Display, problem: &str| Err(ScenarioError::new(place, problem));
    if scenario.one_by_one {
        let problem = "flows that run one by one have a clock each, and programs or a live view only one; leave it out";
        return refuse(&"one_by_one", problem);
    }
    if scenario.endpoint.security != Security::Plain && !programs.is_empty() {
        let problem = "simulated endpoints have keys that no program knows; write \"plain\". Programs may use DTLS among \
                       themselves: their datagrams pass unread";
        return refuse(&"endpoint.security", problem);
    }
    let is_program = |reference: &str| network.nodes(reference).iter().any(|node| programs.contains(node));
    for traffic in &scenario.traffic {
        let is_bulk = matches!(traffic.sender, Sender::Transfer(_) | Sender::Tcp(_));
        if is_bulk && (is_program(&traffic.from) || is_program(&traffic.to)) {
            let problem = "a bulk transfer is simulated at both ends; give it nodes without programs";
            return refuse(&format_args!("traffic.{}", traffic.name), problem);
        }
    }
    if let Some(mesh) = network.meshes.iter().find(|mesh| mesh.nodes.iter().any(|node| programs.contains(node))) {
        let node = mesh.nodes.iter().find(|node| programs.contains(node)).copied();
        let name = network.topology.nodes().find(|(known, _)| Some(*known) == node).map_or("", |(_, name)| name);
        let problem = "stations that route by themselves send transfers only; put programs on other nodes";
        return refuse(&format_args!("the program of `{name}`"), problem);
    }
    Ok(())
}
