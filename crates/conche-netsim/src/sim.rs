//! The simulation: a network, hosts and an observer in virtual time.

use std::hint::black_box;
use std::{error, fmt};

use crate::event::{Arrival, Event, EventContext, RadioEvent};
use crate::host::{Host, Port, Received, World};
use crate::ids::Hop;
use crate::mac::{RadioCounters, RadioNetwork};
use crate::packet::{Packet, PacketRef};
use crate::rng::{Entity, Purpose, Streams};
use crate::timers::Timers;
use crate::timers::WakeUpOutcome;
use crate::trace::Observer;
pub use crate::wired::ChangeError;
use crate::wired::{Addresses, ForwardOutcome, LinkConfig, Network, Topology, TopologyError};
use crate::{Instant, LinkId, NodeId, PacketId, RadioId};

/// One run of one network.
///
/// `H` is the type of all hosts, for static calls; use an enum for several kinds.
#[derive(Debug)]
pub struct Simulation<H: Host, O: Observer = ()> {
    world: World,
    timers: Timers<H::Timer>,
    network: Network,
    radios: Vec<RadioNetwork>,
    hosts: Vec<Option<H>>,
    observer: O,
    streams: Streams,
    /// Packets soon to reach hosts, during the look-ahead.
    arriving: Vec<(PacketRef, NodeId)>,
    delivered: u64,
    started: bool,
}

/// Why a run returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// No events are left.
    Idle,
    /// A host called [`Port::stop`](crate::host::Port::stop).
    Stopped,
    /// The limit is reached, with events left.
    Limit,
}

/// Packet counts: always `sent + duplicated = delivered + dropped + broadcast + in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that hosts sent.
    pub sent: u64,
    /// Duplicates by links, and receivers' copies of broadcasts.
    pub duplicated: u64,
    /// Packets that reached their host.
    pub delivered: u64,
    /// Packets that did not reach their host.
    pub dropped: u64,
    /// Broadcasts sent; each receiver gets a copy.
    pub broadcast: u64,
    /// Packets still in the network.
    pub in_flight: u64,
}

/// The node is not in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchNode(pub NodeId);

macro_rules! around {
    ($simulation:ident) => {
        EventContext {
            scheduler: &mut $simulation.world.scheduler,
            packets: &mut $simulation.world.packets,
            observer: &mut $simulation.observer,
        }
    };
}

impl<H: Host, O: Observer> Simulation<H, O> {
    /// Creates a simulation at time zero; `seed` determines all randomness.
    ///
    /// # Errors
    /// If the topology is invalid.
    pub fn new(topology: &Topology, seed: u64, observer: O) -> Result<Self, TopologyError> {
        let streams = Streams::new(seed);
        let (world, network, radios) = without_hosts(topology, &streams)?;
        let (timers, hosts, arriving) = (Timers::new(), Vec::new(), Vec::new());
        Ok(Self { world, timers, network, radios, hosts, observer, streams, arriving, delivered: 0, started: false })
    }

    /// Puts a host on a node, replacing any other.
    ///
    /// # Errors
    /// If the node is of another topology.
    pub fn attach(&mut self, node: NodeId, host: H) -> Result<(), NoSuchNode> {
        if self.hosts.is_empty() {
            // Not in `new`: the caller may drop the topology first. With a million nodes each takes
            // about a GiB.
            let nodes = self.world.wake_ups.len();
            self.hosts.reserve_exact(nodes);
            self.hosts.resize_with(nodes, || None);
        }
        *self.hosts.get_mut(node.index()).ok_or(NoSuchNode(node))? = Some(host);
        Ok(())
    }

    /// Runs until no events are left or a host stops it.
    pub fn run(&mut self) -> RunEnd {
        self.run_until(Instant::FAR_FUTURE)
    }

    /// Runs until `limit`, inclusive; a run can be continued.
    ///
    /// The time is then `limit`, unless a host stopped the run, or `limit` is
    /// [`Instant::FAR_FUTURE`].
    pub fn run_until(&mut self, limit: Instant) -> RunEnd {
        let ended = self.run_until_idle(limit);
        if ended == RunEnd::Idle && limit != Instant::FAR_FUTURE {
            self.world.scheduler.advance(limit);
        }
        ended
    }

    /// Like [`Simulation::run_until`], but without events left the time stays.
    pub fn run_until_idle(&mut self, limit: Instant) -> RunEnd {
        self.world.stopped = false;
        self.start();
        while !self.world.stopped {
            self.look_ahead();
            let Some(event) = self.world.scheduler.next(limit) else {
                if self.world.scheduler.pending() == 0 {
                    return RunEnd::Idle;
                }
                self.world.scheduler.advance(limit);
                return RunEnd::Limit;
            };
            self.handle_event(event);
        }
        RunEnd::Stopped
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.world.scheduler.now()
    }

    /// Returns the time of the next event.
    pub fn next_time(&mut self) -> Option<Instant> {
        self.start();
        self.world.scheduler.next_time()
    }

    /// Sends a datagram from a node to a node or address at the current time, between two calls of
    /// [`Simulation::run_until`]; the node needs no host.
    ///
    /// # Errors
    /// If one of the nodes is of another topology.
    pub fn send(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) -> Result<PacketId, NoSuchNode> {
        self.send_by(from, to, |world| world.send(from, to, bytes, None, None))
    }

    /// Sends an ICMP echo request as [`Simulation::send`] does a datagram. `to`, which needs no host,
    /// returns its bytes in a packet with the request as its [`Cause`](crate::packet::Cause).
    ///
    /// # Errors
    /// If one of the nodes is of another topology.
    pub fn send_echo_request(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) -> Result<PacketId, NoSuchNode> {
        self.send_by(from, to, |world| world.send_echo_request(from, to, bytes))
    }

    fn send_by(
        &mut self,
        from: NodeId,
        to: NodeId,
        send: impl FnOnce(&mut World) -> PacketId,
    ) -> Result<PacketId, NoSuchNode> {
        for (end, node) in [(from, from), (to, self.world.addresses.node(to))] {
            self.world.wake_ups.get(node.index()).ok_or(NoSuchNode(end))?;
        }
        self.start();
        let id = send(&mut self.world);
        self.forward_sent(from);
        Ok(id)
    }

    /// Returns the number of past events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.world.scheduler.fired()
    }

    /// Returns the packet counts so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let of_radios = |count: fn(&RadioNetwork) -> u64| self.radios.iter().map(count).sum::<u64>();
        Counters {
            sent: self.world.sent,
            duplicated: self.network.duplicated + of_radios(|radio| radio.copies),
            delivered: self.delivered,
            dropped: self.network.dropped + of_radios(|radio| radio.dropped),
            broadcast: of_radios(|radio| radio.broadcast),
            in_flight: self.world.packets.len() as u64,
        }
    }

    /// Returns a radio network's counters; `None` if it is of another topology.
    #[must_use]
    pub fn radio_counters(&self, radio: RadioId) -> Option<RadioCounters> {
        Some(self.radios.get(radio.index())?.counters)
    }

    /// Returns whether links and routes lead from one node to another.
    #[must_use]
    pub fn has_path(&self, from: NodeId, to: NodeId) -> bool {
        self.network.path(from, to).last() == Some(to)
    }

    /// Returns whether the path from one node to another leads through a node.
    #[must_use]
    pub fn passes(&self, from: NodeId, to: NodeId, node: NodeId) -> bool {
        self.network.path(from, to).any(|at| at == node)
    }

    /// Returns the addresses of nodes and NATs.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.world.addresses
    }

    /// Returns the packets and bytes, with headers, that wait in a link's queue, without the one in
    /// transmission; `None` for links without a queue and radio hops.
    #[must_use]
    pub fn waiting(&self, link: LinkId) -> Option<(u64, u64)> {
        self.network.waiting(link, self.world.scheduler.now())
    }

    /// Returns the run's random streams, for a scenario's own draws.
    #[must_use]
    pub fn streams(&self) -> Streams {
        self.streams
    }

    /// Returns the hosts in node order.
    pub fn hosts(&self) -> impl Iterator<Item = (NodeId, &H)> {
        (0..).map(NodeId).zip(&self.hosts).filter_map(|(node, host)| Some((node, host.as_ref()?)))
    }

    /// Returns the host on a node.
    #[must_use]
    pub fn host(&self, node: NodeId) -> Option<&H> {
        self.hosts.get(node.index())?.as_ref()
    }

    /// Returns the address of a node in datagrams that another one receives now.
    #[must_use]
    pub fn address(&self, of: NodeId, seen_from: NodeId) -> NodeId {
        let nat = self.addresses().nat_of(of);
        let is_inside = nat == Some(seen_from) || nat == self.addresses().nat_of(seen_from);
        let mapped = || self.network.mapped_address(self.now(), of);
        Some(of).filter(|_| is_inside).or_else(mapped).unwrap_or(of)
    }

    /// Returns the observer.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Returns the observer for changes between runs.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Returns hosts and observer.
    pub fn into_parts(self) -> (Vec<(NodeId, H)>, O) {
        let hosts = (0..).map(NodeId).zip(self.hosts).filter_map(|(node, host)| Some((node, host?)));
        (hosts.collect(), self.observer)
    }

    fn start(&mut self) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        for radio in &mut self.radios {
            radio.start_control(&mut around!(self));
        }
        for index in 0..self.hosts.len() {
            let node = NodeId(u32::try_from(index).expect("nodes have 32-bit numbers"));
            self.with_host(node, |host, port| host.start(port));
        }
    }

    #[inline]
    fn handle_event(&mut self, event: Event) {
        let forwarded = match event {
            Event::Arrive(Arrival { packet, at }) => self.network.forward(&mut around!(self), packet, at),
            Event::Lose { packet, link } => {
                return self.network.lose(&mut around!(self), packet, link);
            }
            Event::Resume { link, number } => {
                return self.network.resume(&mut around!(self), link, number);
            }
            Event::Radio(event) => self.handle_radio_event(event),
            Event::Wake(node) => return self.wake(node),
            Event::Transmitted(radio) => return self.report_outcome(radio),
            Event::Timer(id) => {
                let Some((node, timer)) = self.timers.fire(id) else { return };
                return self.with_host(node, |host, port| host.timer(port, timer));
            }
        };
        match forwarded {
            ForwardOutcome::Consumed => {}
            ForwardOutcome::Arrived(packet) => self.deliver(packet),
            ForwardOutcome::Hop(packet, hop, link) => self.hop(packet, hop, link),
        }
    }

    fn wake(&mut self, node: NodeId) {
        match self.world.wake_ups[node.index()].fired(self.world.scheduler.now()) {
            WakeUpOutcome::Now => self.with_host(node, |host, port| host.wake(port)),
            WakeUpOutcome::Again(at) => self.world.scheduler.schedule(at, Event::Wake(node)),
            WakeUpOutcome::Asleep => {}
        }
    }

    // Out of line, to keep the event loop small.
    #[inline(never)]
    fn handle_radio_event(&mut self, event: RadioEvent) -> ForwardOutcome {
        match self.radios[usize::from(event.network)].handle_event(&mut around!(self), event) {
            Some((packet, at)) => self.network.forward(&mut around!(self), packet, at),
            None => ForwardOutcome::Consumed,
        }
    }

    #[inline(never)]
    fn report_outcome(&mut self, radio: RadioId) {
        if let Some((node, frame, outcome)) = self.radios[radio.index()].next_outcome() {
            self.with_host(node, |host, port| host.transmitted(port, frame, outcome));
        }
    }

    #[inline(never)]
    fn hop(&mut self, packet: PacketRef, hop: Hop, link: LinkId) {
        self.radios[usize::from(hop.network)].send(&mut around!(self), packet, hop, link);
    }

    fn deliver(&mut self, packet: PacketRef) {
        let Packet { meta, snr_db, .. } = *self.world.packets.get(packet);
        if meta.is_echo_request {
            return self.answer_echo(packet);
        }
        if self.host(meta.to).is_none() {
            return self.network.refuse(&mut around!(self), packet, meta.to);
        }
        self.delivered += 1;
        self.observer.on_delivered(self.world.scheduler.now(), self.world.packets.get(packet));
        let bytes = self.world.packets.take_bytes(packet);
        self.with_host(meta.to, |host, port| host.receive(port, Received { meta: &meta, bytes: &bytes, snr_db }));
        self.world.packets.release(packet, bytes);
    }

    #[inline(never)]
    fn answer_echo(&mut self, packet: PacketRef) {
        self.delivered += 1;
        self.observer.on_delivered(self.world.scheduler.now(), self.world.packets.get(packet));
        let meta = self.world.packets.get(packet).meta;
        let bytes = self.world.packets.take_bytes(packet);
        self.world.send(meta.to, meta.from, &bytes, None, Some(meta.as_cause()));
        self.forward_sent(meta.to);
        self.world.packets.release(packet, bytes);
    }

    fn with_host(&mut self, node: NodeId, act: impl FnOnce(&mut H, &mut Port<'_, H::Timer>)) {
        let Some(Some(host)) = self.hosts.get_mut(node.index()) else { return };
        act(host, &mut Port::new(&mut self.world, &mut self.timers, node));
        self.forward_sent(node);
    }

    fn forward_sent(&mut self, node: NodeId) {
        // An immediate arrival is its own event: no host sends meanwhile.
        for index in 0..self.world.outbox.len() {
            let packet = self.world.outbox[index];
            self.observer.on_sent(self.world.scheduler.now(), self.world.packets.get(packet));
            match self.network.forward(&mut around!(self), packet, node) {
                ForwardOutcome::Arrived(packet) => {
                    let at = self.world.packets.get(packet).meta.to;
                    let now = self.world.scheduler.now();
                    self.world.scheduler.schedule(now, Event::arrive(packet, at));
                }
                ForwardOutcome::Hop(packet, hop, link) => self.hop(packet, hop, link),
                ForwardOutcome::Consumed => {}
            }
        }
        self.world.outbox.clear();
        if !self.world.frames.is_empty() {
            self.transmit(node);
        }
    }

    #[inline(never)]
    fn transmit(&mut self, node: NodeId) {
        let mut frames = std::mem::take(&mut self.world.frames);
        for (packet, radio) in frames.drain(..) {
            self.observer.on_sent(self.world.scheduler.now(), self.world.packets.get(packet));
            self.radios[radio.index()].transmit(&mut around!(self), packet, node);
        }
        self.world.frames = frames;
    }
}

fn without_hosts(topology: &Topology, streams: &Streams) -> Result<(World, Network, Vec<RadioNetwork>), TopologyError> {
    let network = topology.build(streams)?;
    let radios = topology.build_radios(streams)?;
    let nodes = topology.nodes().map(|(node, _)| node);
    let own = nodes.map(|node| streams.stream(Entity::Node(node), Purpose::named("host"))).collect();
    Ok((World::new(own, topology.addresses()), network, radios))
}

impl fmt::Display for NoSuchNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a node of this topology", self.0)
    }
}

impl error::Error for NoSuchNode {}

// Changes between two calls of `run_until`, after the events of that time. They draw no random
// numbers, so runs remain functions of their inputs.
impl<H: Host, O: Observer> Simulation<H, O> {
    /// Returns a changeable link's current configuration.
    ///
    /// # Errors
    /// If the link cannot change.
    pub fn link_config(&self, link: LinkId) -> Result<LinkConfig, ChangeError> {
        self.network.config(link)
    }

    /// Returns whether a link or hop is up; `None` if it is of another topology.
    #[must_use]
    pub fn is_link_up(&self, link: LinkId) -> Option<bool> {
        self.network.is_up(link)
    }

    /// Changes a link's rate, delay, loss or queue.
    ///
    /// A frame in transmission keeps its rate, frames on the wire their arrival times, and waiting
    /// frames their place, even beyond the new limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use conche_netsim::{Simulation, NodeId, host::{Host, Port, Received}};
    /// # struct Idle;
    /// # impl Host for Idle {
    /// #     type Timer = ();
    /// #     fn start(&mut self, _: &mut Port<'_, ()>) {}
    /// #     fn timer(&mut self, _: &mut Port<'_, ()>, (): ()) {}
    /// #     fn receive(&mut self, _: &mut Port<'_, ()>, _: Received<'_>) {}
    /// #     fn wake(&mut self, _: &mut Port<'_, ()>) {}
    /// # }
    /// use conche_netsim::wired::{LinkConfig, Topology};
    /// use conche_netsim::{BitRate, Instant};
    ///
    /// let mut net = Topology::new();
    /// let (a, b) = (net.node("a"), net.node("b"));
    /// let link = net.link("a-b", a, b, LinkConfig { rate: Some(BitRate::kbit(60)), ..LinkConfig::default() });
    /// net.allow_changes(link);
    ///
    /// let mut sim = Simulation::new(&net, 1, ())?;
    /// sim.attach(a, Idle)?;
    /// sim.run_until(Instant::from_millis(10_000));
    /// let slower = LinkConfig { rate: Some(BitRate::kbit(15)), ..sim.link_config(link)? };
    /// sim.change_link(link, slower)?;
    /// sim.run_until(Instant::from_millis(20_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the link cannot change, or the configuration is invalid.
    pub fn change_link(&mut self, link: LinkId, config: LinkConfig) -> Result<(), ChangeError> {
        self.network.change(&mut around!(self), link, config)
    }

    /// Takes a link down or up.
    ///
    /// A link going down drops waiting and new frames and the one in transmission; frames on the
    /// wire arrive. A radio hop only stops filling its station's queue.
    ///
    /// # Errors
    /// If the link is of another topology, or has a queue and cannot change.
    pub fn set_link_up(&mut self, link: LinkId, up: bool) -> Result<(), ChangeError> {
        self.network.set_up(&mut around!(self), link, up)
    }

    /// Cuts off or reconnects a node.
    ///
    /// Drops packets from, to and through it. Its host runs on; its station still acknowledges, and
    /// transmits frames of [`Port::transmit`](crate::host::Port::transmit).
    ///
    /// # Errors
    /// If the node is of another topology.
    pub fn set_node_up(&mut self, node: NodeId, up: bool) -> Result<(), NoSuchNode> {
        self.world.wake_ups.get(node.index()).ok_or(NoSuchNode(node))?;
        self.network.cut_off(node, !up);
        Ok(())
    }

    /// Ends the mapping of a node's NAT; returns `false` if the node is behind none.
    ///
    /// The next datagram of the node has a new [address](Addresses).
    pub fn rebind(&mut self, node: NodeId) -> bool {
        self.network.rebind(node)
    }

    /// Replaces and starts a node's host; returns the old one.
    ///
    /// The new host receives packets in transit and the outcomes of its frames, but no timers or
    /// wake-ups of the old one. A restarted endpoint needs a new seed, or it repeats tokens and
    /// message IDs.
    ///
    /// # Errors
    /// If the node is of another topology.
    pub fn reboot(&mut self, node: NodeId, host: H) -> Result<Option<H>, NoSuchNode> {
        let before = self.hosts.get_mut(node.index()).and_then(Option::take);
        self.attach(node, host)?;
        self.timers.cancel_all(node);
        // Disables scheduled events.
        let _ = self.world.wake_ups[node.index()].set(None);
        if self.started {
            self.with_host(node, |host, port| host.start(port));
        }
        Ok(before)
    }
}

/// Fewer nodes fit into a cache.
const MANY: usize = 1000;

// With tens of thousands of nodes, events wait for memory. Reading a few dozen nodes' state at once
// overlaps the waits, without effect on results.
impl<H: Host, O: Observer> Simulation<H, O> {
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if self.world.scheduler.knows_next() {
            return;
        }
        self.world.scheduler.look_ahead();
        if self.hosts.len() >= MANY {
            self.get_ready();
        }
    }

    #[inline(never)]
    fn get_ready(&mut self) {
        // Finds addresses for the second pass and skips needless reads: most packets only cross to
        // another link, and many wake-ups were postponed.
        for (_, event) in self.world.scheduler.next_events() {
            match event {
                Event::Arrive(Arrival { packet, .. }) => self.world.packets.prefetch_forwarding(packet),
                Event::Timer(timer) => {
                    black_box(self.timers.owner(timer));
                }
                Event::Wake(node) => self.world.wake_ups[node.index()].prefetch(),
                _ => {}
            }
        }
        let mut arriving = std::mem::take(&mut self.arriving);
        for (at, event) in self.world.scheduler.next_events() {
            match event {
                Event::Arrive(Arrival { packet, at }) => {
                    if let Some(to) = self.receiver(packet, at) {
                        arriving.push((packet, to));
                        self.world.packets.prefetch_delivery(packet);
                        self.prefetch_node(to);
                    }
                }
                Event::Timer(timer) => {
                    if let Some(node) = self.timers.owner(timer) {
                        self.prefetch_node(node);
                    }
                }
                Event::Wake(node) if self.world.wake_ups[node.index()].wakes(at) => self.prefetch_node(node),
                _ => {}
            }
        }
        for (packet, _) in &arriving {
            black_box(self.world.packets.get(*packet).bytes.first().copied());
        }
        for (packet, to) in arriving.drain(..) {
            if let Some(host) = self.host(to) {
                let Packet { meta, snr_db, bytes } = self.world.packets.get(packet);
                host.prefetch_for(Received { meta, bytes, snr_db: *snr_db });
            }
        }
        self.arriving = arriving;
    }

    fn receiver(&self, packet: PacketRef, at: NodeId) -> Option<NodeId> {
        let to = self.world.packets.destination(packet);
        self.network.reaches(at, to).then_some(to)
    }

    fn prefetch_node(&self, node: NodeId) {
        self.world.wake_ups[node.index()].prefetch();
        self.network.prefetch(node);
        if let Some(host) = self.host(node) {
            host.prefetch();
        }
    }
}
