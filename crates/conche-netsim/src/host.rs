//! Hosts: they send and receive packets on nodes, and set timers.

use std::time::Duration;

use crate::event::Event;
use crate::mac::TransmitOutcome;
use crate::packet::{Cause, PacketMeta, PacketRef, Packets, Transmission};
use crate::rng::Stream;
use crate::scheduler::Scheduler;
pub use crate::timers::TimerId;
use crate::timers::Timers;
use crate::timers::WakeUp;
use crate::wired::Addresses;
use crate::{Instant, NodeId, PacketId, RadioId};

/// An object on a node.
pub trait Host {
    /// The value of each timer.
    type Timer;

    /// Called once when the simulation begins.
    fn start(&mut self, port: &mut Port<'_, Self::Timer>);

    /// Handles a received packet.
    fn receive(&mut self, port: &mut Port<'_, Self::Timer>, packet: Received<'_>);

    /// Handles a timer set with [`Port::set_timer`].
    fn timer(&mut self, port: &mut Port<'_, Self::Timer>, timer: Self::Timer);

    /// Called at the time set with [`Port::wake_at`].
    fn wake(&mut self, port: &mut Port<'_, Self::Timer>);

    /// Prefetches the host's state into the CPU cache by [`black_box`](std::hint::black_box),
    /// shortly before a call.
    fn prefetch(&self) {}

    /// Like [`Host::prefetch`], for a known packet.
    #[allow(unused_variables)]
    fn prefetch_for(&self, packet: Received<'_>) {}

    /// Handles the outcome of a frame from [`Port::transmit`].
    #[allow(unused_variables)]
    fn transmitted(&mut self, port: &mut Port<'_, Self::Timer>, frame: PacketId, outcome: TransmitOutcome) {}
}

/// A packet at its destination.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Origin and cause.
    pub meta: &'a PacketMeta,
    /// UDP payload.
    pub bytes: &'a [u8],
    /// Signal-to-noise ratio of the last radio frame, without interference, in dB.
    pub snr_db: Option<f64>,
}

/// A host's access to the simulation.
#[derive(Debug)]
pub struct Port<'a, T> {
    world: &'a mut World,
    timers: &'a mut Timers<T>,
    node: NodeId,
}

impl<'a, T> Port<'a, T> {
    pub(crate) fn new(world: &'a mut World, timers: &'a mut Timers<T>, node: NodeId) -> Self {
        Self { world, timers, node }
    }

    pub(crate) fn reborrow(&mut self) -> Port<'_, T> {
        Port { world: self.world, timers: self.timers, node: self.node }
    }

    pub(crate) fn world(&mut self) -> &mut World {
        self.world
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.world.scheduler.now()
    }

    /// Returns the host's node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the node at an address, also at an address of a NAT.
    #[must_use]
    pub fn node_at(&self, address: NodeId) -> NodeId {
        self.world.addresses.node(address)
    }

    /// Returns the host's random stream.
    pub fn rng(&mut self) -> &mut Stream {
        &mut self.world.streams[self.node.index()]
    }

    /// Sends a datagram. `transmission` and `cause` serve only traces and metrics.
    pub fn send(
        &mut self,
        to: NodeId,
        bytes: &[u8],
        transmission: Option<Transmission>,
        cause: Option<Cause>,
    ) -> PacketId {
        self.world.send(self.node, to, bytes, transmission, cause)
    }

    /// Transmits one unrouted frame over a radio network where the node has a station.
    ///
    /// `to` is a neighbour, or [`NodeId::BROADCAST`] for all stations in range, unacknowledged.
    /// [`Host::transmitted`] reports the outcome.
    ///
    /// # Panics
    /// The run panics if the radio network is of another topology.
    pub fn transmit(&mut self, radio: RadioId, to: NodeId, bytes: &[u8]) -> PacketId {
        let (id, packet) = self.world.insert(self.node, to, bytes, None, None);
        self.world.frames.push((packet, radio));
        id
    }

    /// Calls [`Host::timer`] after this delay.
    pub fn set_timer(&mut self, after: Duration, timer: T) -> TimerId {
        let id = self.timers.set(self.node, timer);
        let at = self.now() + after;
        self.world.scheduler.schedule(at, Event::Timer(id));
        id
    }

    /// Cancels a timer; returns `false` if it has fired or was cancelled.
    pub fn cancel_timer(&mut self, id: TimerId) -> bool {
        let Self { world, timers, node } = self;
        let cancelled = timers.cancel(*node, id);
        if cancelled && timers.should_purge(world.scheduler.pending()) {
            world.scheduler.retain(|event| !matches!(event, Event::Timer(id) if !timers.is_armed(*id)));
            timers.purged();
        }
        cancelled
    }

    /// Sets the next [`Host::wake`]; `None` and [`Instant::FAR_FUTURE`] mean never.
    pub fn wake_at(&mut self, at: Option<Instant>) {
        self.world.wake_at(self.node, at);
    }

    /// Ends the run after the current event.
    pub fn stop(&mut self) {
        self.world.stopped = true;
    }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scheduler: Scheduler<Event>,
    pub(crate) packets: Packets,
    pub(crate) wake_ups: Vec<WakeUp>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) addresses: Addresses,
    pub(crate) outbox: Vec<PacketRef>,
    pub(crate) frames: Vec<(PacketRef, RadioId)>,
    pub(crate) buffer: Vec<u8>,
    pub(crate) sent: u64,
    pub(crate) stopped: bool,
}

impl World {
    pub(crate) fn new(streams: Vec<Stream>, addresses: Addresses) -> Self {
        Self {
            scheduler: Scheduler::new(),
            packets: Packets::default(),
            wake_ups: vec![WakeUp::new(); streams.len()],
            streams,
            addresses,
            outbox: Vec::new(),
            frames: Vec::new(),
            buffer: Vec::new(),
            sent: 0,
            stopped: false,
        }
    }

    pub(crate) fn send(
        &mut self,
        from: NodeId,
        to: NodeId,
        bytes: &[u8],
        transmission: Option<Transmission>,
        cause: Option<Cause>,
    ) -> PacketId {
        let (id, packet) = self.insert(from, to, bytes, transmission, cause);
        self.outbox.push(packet);
        id
    }

    pub(crate) fn send_echo_request(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) -> PacketId {
        let (id, packet) = self.insert(from, to, bytes, None, None);
        self.packets.get_mut(packet).meta.is_echo_request = true;
        self.outbox.push(packet);
        id
    }

    fn insert(
        &mut self,
        from: NodeId,
        to: NodeId,
        bytes: &[u8],
        transmission: Option<Transmission>,
        cause: Option<Cause>,
    ) -> (PacketId, PacketRef) {
        let id = PacketId(self.sent);
        self.sent += 1;
        let (sent_at, duplicate, is_echo_request) = (self.scheduler.now(), false, false);
        let meta = PacketMeta { id, from, to, sent_at, transmission, cause, duplicate, is_echo_request };
        let packet = self.packets.insert(meta, bytes);
        self.packets.forwarding(packet).to = self.addresses.node(to);
        (id, packet)
    }

    pub(crate) fn wake_at(&mut self, node: NodeId, at: Option<Instant>) {
        if let Some(at) = self.wake_ups[node.index()].set(at) {
            self.scheduler.schedule(at, Event::Wake(node));
        }
    }

    pub(crate) fn take_buffer(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        buffer
    }

    pub(crate) fn return_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wired::Topology;
    use crate::{RunEnd, Simulation};

    /// Sets a timer each millisecond, cancels it in the next, and advances its wake-up.
    struct Restless {
        fired: u32,
        woken: Vec<Instant>,
        pending: usize,
        timer: Option<TimerId>,
    }

    impl Host for Restless {
        type Timer = bool;

        fn start(&mut self, port: &mut Port<'_, bool>) {
            port.set_timer(Duration::ZERO, true);
            port.wake_at(Some(Instant::FAR_FUTURE));
            for millis in [900, 800, 70, 500] {
                port.wake_at(Some(Instant::from_millis(millis)));
            }
        }

        fn timer(&mut self, port: &mut Port<'_, bool>, again: bool) {
            self.fired += 1;
            self.pending = self.pending.max(port.world.scheduler.pending());
            if let Some(timer) = self.timer.take() {
                assert!(port.cancel_timer(timer));
            }
            if again && port.now() < Instant::from_millis(2000) {
                self.timer = Some(port.set_timer(Duration::from_secs(3600), false));
                port.set_timer(Duration::from_millis(1), true);
            }
        }

        fn receive(&mut self, _: &mut Port<'_, bool>, _: Received<'_>) {}

        fn wake(&mut self, port: &mut Port<'_, bool>) {
            self.woken.push(port.now());
        }
    }

    #[test]
    fn cancelled_timers_neither_fire_nor_pile_up_and_a_host_wakes_once() {
        let mut net = Topology::new();
        let node = net.node("node");
        let mut sim = Simulation::<Restless>::new(&net, 1, ()).expect("a valid topology");
        let host = Restless { fired: 0, woken: Vec::new(), pending: 0, timer: None };
        sim.attach(node, host).expect("a node");
        assert_eq!(sim.run(), RunEnd::Idle);
        let host = sim.host(node).expect("attached");
        assert_eq!(host.fired, 2001, "one a millisecond, and none that was cancelled");
        assert_eq!(host.woken, [Instant::from_millis(500)], "at the time that was asked for last");
        assert!(host.pending < 140, "{} events wait for 2 live timers", host.pending);
    }
}
