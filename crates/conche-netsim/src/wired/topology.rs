//! The network builder: nodes, unidirectional links, radio networks and routes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::aqm::Aqm;
use super::delay::Distribution;
use super::link::{Link, LinkConfig, LinkFeatures};
use super::link_trace::LinkTrace;
use super::nat::{Addresses, Nats};
use super::network::{Network, Route};
use super::rate_trace::RateTrace;
use super::wakes::Wakes;
use crate::ids::Hop;
use crate::mac::{Layout, RadioConfig, RadioNetwork};
use crate::radio::{LinkQuality, Position, RadioError, StationMap};
use crate::rng::Streams;
use crate::{LinkId, NodeId, RadioId};

/// A network under construction.
///
/// All nodes forward. A packet takes the route with the fewest links; of equal ones, the one whose
/// first link was added first. [`Topology::route`] overrides this. For a shared medium, connect the
/// nodes by [`LinkConfig::default`] to a hub with one link.
///
/// ```
/// use std::time::Duration;
/// use conche_netsim::wired::{DropTail, LinkConfig, Topology};
/// use conche_netsim::BitRate;
///
/// let mut net = Topology::new();
/// let (hub, server) = (net.node("hub"), net.node("server"));
/// let delay = Duration::from_millis(200);
/// net.link("up", hub, server, LinkConfig { rate: Some(BitRate::kbit(60)), delay, ..LinkConfig::default() });
/// net.link("down", server, hub, LinkConfig { queue: DropTail::bytes(2500), delay, ..LinkConfig::default() });
/// for i in 0..50 {
///     let client = net.node(format!("client{i}"));
///     net.duplex(format!("access{i}"), client, hub, LinkConfig::default());
/// }
/// assert_eq!(net.nodes().count(), 52);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Topology {
    nodes: Vec<String>,
    links: Vec<Edge>,
    last_config: Option<Arc<LinkConfig>>,
    routes: Vec<StaticRoute>,
    radios: Vec<Layout>,
    equipment: BTreeMap<LinkId, LinkFeatures>,
    /// NAT and timeout, by node behind it.
    nats: BTreeMap<NodeId, (NodeId, Duration)>,
}

#[derive(Clone, Debug)]
struct Edge {
    name: String,
    from: NodeId,
    to: NodeId,
    kind: EdgeKind,
}

#[derive(Clone, Debug)]
enum EdgeKind {
    Wire(Arc<LinkConfig>),
    Hop(RadioId),
}

#[derive(Clone, Copy, Debug)]
struct StaticRoute {
    at: NodeId,
    to: NodeId,
    via: Option<LinkId>,
}

/// Why a topology, or an attachment, is invalid.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TopologyError {
    /// Two nodes, links or radio networks share a name.
    #[error("the name {0:?} is used twice; nodes need names that differ, and so do links and radio networks")]
    DuplicateName(String),
    /// A link has a rate of zero.
    #[error("link {0:?} has a rate of zero; leave the rate out for a link that takes no time")]
    ZeroRate(String),
    /// A probability is outside of 0..=1.
    #[error("link {link:?}: {parameter} is {value}, but a probability is between 0 and 1")]
    Probability {
        /// The link's name.
        link: String,
        /// The parameter's name.
        parameter: &'static str,
        /// The configured value.
        value: f64,
    },
    /// A state of a loss process has no duration.
    #[error("link {link:?}: {parameter} is 0s, but a state lasts longer; leave `loss` out for a link without losses")]
    EmptyState {
        /// The link's name.
        link: String,
        /// The parameter's name.
        parameter: &'static str,
    },
    /// A duty cycle is not above 0 and up to 1.
    #[error("link {link:?}: a duty cycle of {value} is not above 0 and up to 1; leave it out for no limit")]
    DutyCycle {
        /// The link's name.
        link: String,
        /// The configured value.
        value: f64,
    },
    /// A link with a duty cycle has no rate.
    #[error("link {0:?} has a duty cycle, but without a rate its frames take no time; give it a rate")]
    DutyCycleWithoutRate(String),
    /// Periodic windows overlap.
    #[error("link {0:?}: its windows never close; make `for` shorter than `every`, or leave `wakes` out")]
    AlwaysAwake(String),
    /// A link has no windows.
    #[error("link {0:?}: its receiver never wakes; give `wakes` an `every` or `after_uplink`")]
    NeverAwake(String),
    /// A receiver that wakes by sending cannot send.
    #[error("link {0:?} waits for frames of its receiver, which has no wired link to send them on")]
    NoUplink(String),
    /// A link waits for its receiver's frames after a change only.
    #[error("{0} does not wait for frames of its receiver at the start; set `after_uplink` there, too")]
    LateUplinks(String),
    /// A link with a trace has windows or a duty cycle.
    #[error("link {0:?} has a trace, which replaces windows and duty cycles; leave them out")]
    SleepingTrace(String),
    /// A uniform distribution's bounds are reversed.
    #[error("link {0:?}: the jitter's low bound is above its high bound")]
    EmptyJitter(String),
    /// A radio hop has a property of wired links.
    #[error("{0:?} is a hop of a radio network, which has no trace and does not change")]
    NoWire(String),
    /// A node or link is of another topology.
    #[error("{0} does not exist in this topology")]
    Unknown(String),
    /// A radio network is invalid.
    #[error("radio network {radio:?}: {error}")]
    Radio {
        /// The network's name.
        radio: String,
        /// The reason.
        error: RadioError,
    },
    /// A node would translate its own address.
    #[error("{0:?} is behind itself; a NAT is a node on the path to others")]
    OwnNat(String),
    /// A route uses a link that starts elsewhere.
    #[error("node {at:?} cannot route over link {link:?}, which starts at {start:?}")]
    RouteFromElsewhere {
        /// The route's node.
        at: String,
        /// The link.
        link: String,
        /// The node where the link starts.
        start: String,
    },
}

impl Topology {
    /// Creates an empty network.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node.
    pub fn node(&mut self, name: impl Into<String>) -> NodeId {
        self.nodes.push(name.into());
        NodeId(index(self.nodes.len() - 1))
    }

    /// Adds a link in one direction.
    pub fn link(&mut self, name: impl Into<String>, from: NodeId, to: NodeId, config: LinkConfig) -> LinkId {
        // The links of a group, added one after another, share one configuration.
        let last = self.last_config.take().filter(|last| **last == config);
        let config = last.unwrap_or_else(|| Arc::new(config));
        self.last_config = Some(Arc::clone(&config));
        self.add(name.into(), from, to, EdgeKind::Wire(config))
    }

    /// Adds two independent, equal links: `name>` from `a` to `b` and `name<` back.
    pub fn duplex(&mut self, name: impl AsRef<str>, a: NodeId, b: NodeId, config: LinkConfig) -> (LinkId, LinkId) {
        let name = name.as_ref();
        (self.link(format!("{name}>"), a, b, config), self.link(format!("{name}<"), b, a, config))
    }

    /// Declares that a link changes during the run
    /// ([`Simulation::change_link`](crate::Simulation::change_link),
    /// [`Simulation::set_link_up`](crate::Simulation::set_link_up)), at an event per frame.
    pub fn allow_changes(&mut self, link: LinkId) {
        self.equipment.entry(link).or_default().changing = true;
    }

    /// Lets a link's frames leave at a trace's times; replaces rate, `service` and `stalls`.
    ///
    /// ```
    /// use conche_netsim::wired::{LinkConfig, LinkTrace, Topology};
    ///
    /// let mut net = Topology::new();
    /// let (phone, internet) = (net.node("phone"), net.node("internet"));
    /// let uplink = net.link("uplink", phone, internet, LinkConfig::default());
    /// let recorded: LinkTrace = "17\n30\n30\n94\n".parse()?;
    /// net.trace(uplink, recorded);
    /// # Ok::<(), conche_netsim::wired::TraceError>(())
    /// ```
    pub fn trace(&mut self, link: LinkId, trace: LinkTrace) {
        self.equipment.entry(link).or_default().trace = Some(trace);
    }

    /// Lets a link's rate follow a trace, from this time in it or a random one; replaces its rate.
    pub fn rates(&mut self, link: LinkId, trace: RateTrace, start: Option<Duration>) {
        self.equipment.entry(link).or_default().rates = Some((trace, start));
    }

    /// Puts a node behind the NAT `at`, whose mapping ends `timeout` after the node's last datagram.
    /// A node's last NAT counts.
    ///
    /// Nodes outside see an [address](Addresses) of the NAT in place of the node, and only datagrams
    /// to it reach the node. The NAT must be on all paths between the node and nodes outside.
    pub fn nat(&mut self, node: NodeId, at: NodeId, timeout: Duration) {
        self.nats.insert(node, (at, timeout));
    }

    /// Returns the addresses of nodes and NATs.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses::new(index(self.nodes.len()), self.nats.iter().map(|(node, (at, _))| (*node, *at)))
    }

    /// Adds a radio network; [`Topology::place`] adds its stations.
    pub fn radio(&mut self, name: impl Into<String>, config: RadioConfig) -> RadioId {
        self.radios.push(Layout { name: name.into(), config, stations: Vec::new() });
        RadioId(u16::try_from(self.radios.len() - 1).expect("fewer than 2^16 radio networks"))
    }

    /// Adds a node's station, which hears and interferes; packets need hops.
    pub fn place(&mut self, radio: RadioId, node: NodeId, position: Position) {
        // Another topology's radio network is reported when its hops are checked.
        if let Some(layout) = self.radios.get_mut(radio.index()) {
            layout.stations.push((node, position));
        }
    }

    /// Adds a hop between two nodes of a radio network.
    pub fn hop(&mut self, name: impl Into<String>, radio: RadioId, from: NodeId, to: NodeId) -> LinkId {
        self.add(name.into(), from, to, EdgeKind::Hop(radio))
    }

    /// Adds two hops, `name>` from `a` to `b` and `name<` back.
    pub fn duplex_hop(&mut self, name: impl AsRef<str>, radio: RadioId, a: NodeId, b: NodeId) -> (LinkId, LinkId) {
        let name = name.as_ref();
        (self.hop(format!("{name}>"), radio, a, b), self.hop(format!("{name}<"), radio, b, a))
    }

    /// Routes packets for `to` at `at` over `via`. A node and destination's last route counts.
    pub fn route(&mut self, at: NodeId, to: NodeId, via: LinkId) {
        self.routes.push(StaticRoute { at, to, via: Some(via) });
    }

    /// Drops packets for `to` at `at`, like a full routing table. The last route counts.
    pub fn no_route(&mut self, at: NodeId, to: NodeId) {
        self.routes.push(StaticRoute { at, to, via: None });
    }

    /// Returns a radio network's packet reception ratios for this PSDU, without interference.
    /// `seed` draws the shadowing.
    ///
    /// # Errors
    /// If the radio network does not exist or is invalid.
    pub fn link_quality(&self, radio: RadioId, seed: u64, psdu_octets: u8) -> Result<LinkQuality, TopologyError> {
        let layout = self.radios.get(radio.index()).ok_or_else(|| TopologyError::Unknown(radio.to_string()))?;
        let in_radio = |error| TopologyError::Radio { radio: layout.name.clone(), error };
        layout.quality(&Streams::new(seed), psdu_octets).map_err(in_radio)
    }

    /// Returns the nodes with their names.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        (0..).map(NodeId).zip(self.nodes.iter().map(String::as_str))
    }

    /// Returns the links with their names.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &str)> {
        (0..).map(LinkId).zip(self.links.iter().map(|edge| edge.name.as_str()))
    }

    /// Returns a link's name.
    #[must_use]
    pub fn link_name(&self, link: LinkId) -> Option<&str> {
        self.links.get(link.index()).map(|edge| edge.name.as_str())
    }

    /// Returns the node where a link or hop starts, and the one where it ends.
    #[must_use]
    pub fn ends(&self, link: LinkId) -> Option<(NodeId, NodeId)> {
        self.links.get(link.index()).map(|edge| (edge.from, edge.to))
    }

    /// Returns whether a link is a hop of a radio network.
    #[must_use]
    pub fn is_hop(&self, link: LinkId) -> bool {
        self.links.get(link.index()).is_some_and(|edge| matches!(edge.kind, EdgeKind::Hop(_)))
    }

    /// Returns whether a link's rate follows a trace.
    #[must_use]
    pub fn is_traced(&self, link: LinkId) -> bool {
        self.equipment.get(&link).is_some_and(|features| features.trace.is_some() || features.rates.is_some())
    }

    pub(crate) fn build(&self, streams: &Streams) -> Result<Network, TopologyError> {
        self.check_names()?;
        let mut checked = None;
        for edge in &self.links {
            self.name(edge.from)?;
            self.name(edge.to)?;
            if let EdgeKind::Wire(config) = &edge.kind
                && !checked.is_some_and(|checked| Arc::ptr_eq(checked, config))
            {
                check_wire(&edge.name, config)?;
                checked = Some(config);
            }
        }
        for link in self.equipment.keys() {
            let edge = self.links.get(link.index()).ok_or_else(|| TopologyError::Unknown(link.to_string()))?;
            if matches!(edge.kind, EdgeKind::Hop(_)) {
                return Err(TopologyError::NoWire(edge.name.clone()));
            }
        }
        let outgoing = self.outgoing();
        let waking = self.waking(&outgoing)?;
        let mut routes: Vec<Route> = outgoing.iter().map(|links| self.routes_of(links, &outgoing)).collect();
        for route in &self.routes {
            self.check_route(*route)?;
            routes[route.at.index()].set(route.to, route.via);
        }
        let station_maps: Vec<StationMap> = self.radios.iter().map(Layout::station_map).collect();
        let link = |(id, edge): (u32, &Edge)| {
            Ok(match &edge.kind {
                EdgeKind::Wire(config) => {
                    let mut equipment = self.equipment.get(&LinkId(id)).cloned().unwrap_or_default();
                    equipment.wakes_others = waking.contains_key(&LinkId(id));
                    Link::new(LinkId(id), edge.to, Arc::clone(config), equipment, streams)
                }
                EdgeKind::Hop(radio) => Link::hop(edge.to, self.hop_of(edge, *radio, &station_maps)?),
            })
        };
        let links = (0..).zip(&self.links).map(link).collect::<Result<_, TopologyError>>()?;
        for (node, (at, _)) in &self.nats {
            let name = self.name(*node)?;
            self.name(*at)?;
            if node == at {
                return Err(TopologyError::OwnNat(name.to_owned()));
            }
        }
        let timeouts = self.nats.values().map(|(_, timeout)| *timeout);
        let nats = (!self.nats.is_empty()).then(|| Box::new(Nats::new(self.addresses(), timeouts)));
        Ok(Network::new(links, routes, waking, nats))
    }

    pub(crate) fn build_radios(&self, streams: &Streams) -> Result<Vec<RadioNetwork>, TopologyError> {
        let build = |(number, layout): (u16, &Layout)| {
            let in_radio = |error| TopologyError::Radio { radio: layout.name.clone(), error };
            let mut placed = HashSet::new();
            for (node, _) in &layout.stations {
                let name = self.name(*node)?;
                if !placed.insert(node) {
                    return Err(in_radio(RadioError::PlacedTwice(name.to_owned())));
                }
            }
            layout.build(number, streams).map_err(in_radio)
        };
        (0..).zip(&self.radios).map(build).collect()
    }

    fn hop_of(&self, edge: &Edge, radio: RadioId, station_maps: &[StationMap]) -> Result<Hop, TopologyError> {
        let layout = self.radios.get(radio.index()).ok_or_else(|| TopologyError::Unknown(radio.to_string()))?;
        let station = |node| {
            station_maps[radio.index()].of(node).ok_or_else(|| TopologyError::Radio {
                radio: layout.name.clone(),
                error: RadioError::NotPlaced { link: edge.name.clone(), node: self.nodes[node.index()].clone() },
            })
        };
        Ok(Hop { network: radio.0, from: station(edge.from)?, to: station(edge.to)? })
    }

    fn add(&mut self, name: String, from: NodeId, to: NodeId, kind: EdgeKind) -> LinkId {
        self.links.push(Edge { name, from, to, kind });
        LinkId(index(self.links.len() - 1))
    }

    fn outgoing(&self) -> Vec<Vec<LinkId>> {
        let mut outgoing = vec![vec![]; self.nodes.len()];
        for (link, edge) in (0..).zip(&self.links) {
            outgoing[edge.from.index()].push(LinkId(link));
        }
        outgoing
    }

    /// Returns the links whose frames wake the receivers of other links, with those links.
    fn waking(&self, outgoing: &[Vec<LinkId>]) -> Result<BTreeMap<LinkId, Vec<LinkId>>, TopologyError> {
        let mut waking: BTreeMap<LinkId, Vec<LinkId>> = BTreeMap::new();
        for (id, edge) in (0..).map(LinkId).zip(&self.links) {
            let EdgeKind::Wire(config) = &edge.kind else { continue };
            let is_traced = self.equipment.get(&id).is_some_and(|equipment| equipment.trace.is_some());
            if is_traced && (config.wakes.is_some() || config.duty_cycle < 1.0) {
                return Err(TopologyError::SleepingTrace(edge.name.clone()));
            }
            if !config.wakes.is_some_and(|wakes| wakes.awaits_uplinks()) {
                continue;
            }
            let is_wire = |link: &&LinkId| matches!(self.links[link.index()].kind, EdgeKind::Wire(_));
            let mut uplinks = outgoing[edge.to.index()].iter().filter(is_wire).peekable();
            uplinks.peek().ok_or_else(|| TopologyError::NoUplink(edge.name.clone()))?;
            uplinks.for_each(|uplink| waking.entry(*uplink).or_default().push(id));
        }
        Ok(waking)
    }

    /// A single link needs no table.
    fn routes_of(&self, links: &[LinkId], outgoing: &[Vec<LinkId>]) -> Route {
        match links {
            [] => Route::None,
            [only] => Route::Always(*only),
            _ => {
                let mut table = vec![None; self.nodes.len()];
                let mut reached: VecDeque<(NodeId, LinkId)> =
                    links.iter().map(|link| (self.links[link.index()].to, *link)).collect();
                while let Some((node, first)) = reached.pop_front() {
                    if table[node.index()].is_none() {
                        table[node.index()] = Some(first);
                        reached.extend(outgoing[node.index()].iter().map(|link| (self.links[link.index()].to, first)));
                    }
                }
                Route::by_destination(&table)
            }
        }
    }

    fn check_names(&self) -> Result<(), TopologyError> {
        let links = self.links.iter().map(|edge| &edge.name);
        let radios = self.radios.iter().map(|layout| &layout.name);
        for names in [self.nodes.iter().collect::<Vec<_>>(), links.collect(), radios.collect()] {
            let mut seen = HashSet::with_capacity(names.len());
            for name in names {
                if !seen.insert(name) {
                    return Err(TopologyError::DuplicateName(name.clone()));
                }
            }
        }
        Ok(())
    }

    fn check_route(&self, route: StaticRoute) -> Result<(), TopologyError> {
        let at = self.name(route.at)?;
        self.name(route.to)?;
        let Some(via) = route.via else { return Ok(()) };
        let edge = self.links.get(via.index()).ok_or_else(|| TopologyError::Unknown(via.to_string()))?;
        if edge.from == route.at {
            return Ok(());
        }
        Err(TopologyError::RouteFromElsewhere {
            at: at.to_owned(),
            link: edge.name.clone(),
            start: self.name(edge.from)?.to_owned(),
        })
    }

    fn name(&self, node: NodeId) -> Result<&str, TopologyError> {
        self.nodes.get(node.index()).map(String::as_str).ok_or_else(|| TopologyError::Unknown(node.to_string()))
    }
}

pub(super) fn check_wire(link: &str, config: &LinkConfig) -> Result<(), TopologyError> {
    if config.rate.is_some_and(|rate| rate.as_bits() == 0) {
        return Err(TopologyError::ZeroRate(link.to_owned()));
    }
    let mut probabilities = config.loss.probabilities();
    probabilities.extend([("duplicate", config.duplicate), ("stalls", config.stalls.probability)]);
    if let Some(Aqm::Red(red)) = config.aqm {
        probabilities.extend([("max_probability", red.max_probability), ("weight", red.weight)]);
    }
    for (parameter, value) in probabilities {
        if !(0.0..=1.0).contains(&value) {
            return Err(TopologyError::Probability { link: link.to_owned(), parameter, value });
        }
    }
    if !(config.duty_cycle > 0.0 && config.duty_cycle <= 1.0) {
        return Err(TopologyError::DutyCycle { link: link.to_owned(), value: config.duty_cycle });
    }
    if config.duty_cycle < 1.0 && config.rate.is_none() {
        return Err(TopologyError::DutyCycleWithoutRate(link.to_owned()));
    }
    match config.wakes {
        Some(Wakes { every: Some(every), lasting, .. }) if lasting >= every => {
            return Err(TopologyError::AlwaysAwake(link.to_owned()));
        }
        Some(wakes) if wakes.every.is_none() && !wakes.awaits_uplinks() => {
            return Err(TopologyError::NeverAwake(link.to_owned()));
        }
        _ => {}
    }
    if let Some(parameter) = config.loss.empty_state() {
        return Err(TopologyError::EmptyState { link: link.to_owned(), parameter });
    }
    match config.jitter.distribution {
        Distribution::Uniform { low, high } if low > high => Err(TopologyError::EmptyJitter(link.to_owned())),
        _ => Ok(()),
    }
}

fn index(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 nodes and links fit into memory")
}
