//! Watching a run: what becomes of each packet.
//!
//! An [`Observer`] is a type parameter of the simulation, so one that ignores an event costs nothing there. `()` ignores
//! all; a pair `(A, B)` tells both.

mod digest;
pub mod pcapng;

pub use digest::Digest;
pub use pcapng::PcapNg;

use crate::packet::Packet;
use crate::{Instant, LinkId, NodeId, RadioId};

/// Is told of every packet. Each method's own body does nothing.
#[allow(unused_variables)]
pub trait Observer {
    /// A host sent a packet.
    fn on_sent(&mut self, now: Instant, packet: &Packet) {}

    /// A packet's way has ended early.
    fn on_dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {}

    /// A link made a second packet out of one; this is the second.
    fn on_duplicated(&mut self, now: Instant, packet: &Packet, link: LinkId) {}

    /// A link took a frame, which will have left its queue then. Links that may change, follow a trace or manage their queue do
    /// not know that.
    fn on_queued(&mut self, now: Instant, link: LinkId, departure: Instant) {}

    /// A packet is at its host, which is told next.
    fn on_delivered(&mut self, now: Instant, packet: &Packet) {}
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue of this link was full.
    QueueFull(LinkId),
    /// The active queue management of this link dropped it.
    DroppedEarly(LinkId),
    /// This link was or went down.
    LinkDown(LinkId),
    /// It was lost on this link or hop.
    Lost(LinkId),
    /// It was given up at this hop because the radio channel was busy.
    ChannelBusy(LinkId),
    /// It was given up at this hop because no acknowledgment came.
    Unacknowledged(LinkId),
    /// It does not fit into a frame of this hop.
    TooLong(LinkId),
    /// A frame that a host transmitted by itself in this radio network; the host was told why.
    Untransmitted(RadioId),
    /// This node has no route to its destination.
    NoRoute(NodeId),
    /// There is no host on this node, which is its destination.
    NoHost(NodeId),
    /// It came from, to or through this node, which is cut off.
    NodeDown(NodeId),
    /// It had crossed too many links when it came to this node: the routes form a loop.
    HopLimit(NodeId),
}

impl Observer for () {}

impl<A: Observer, B: Observer> Observer for (A, B) {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        self.0.on_sent(now, packet);
        self.1.on_sent(now, packet);
    }

    fn on_dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {
        self.0.on_dropped(now, packet, reason);
        self.1.on_dropped(now, packet, reason);
    }

    fn on_duplicated(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.0.on_duplicated(now, packet, link);
        self.1.on_duplicated(now, packet, link);
    }

    fn on_queued(&mut self, now: Instant, link: LinkId, departure: Instant) {
        self.0.on_queued(now, link, departure);
        self.1.on_queued(now, link, departure);
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        self.0.on_delivered(now, packet);
        self.1.on_delivered(now, packet);
    }
}

impl<O: Observer> Observer for Option<O> {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        if let Some(observer) = self {
            observer.on_sent(now, packet);
        }
    }

    fn on_dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {
        if let Some(observer) = self {
            observer.on_dropped(now, packet, reason);
        }
    }

    fn on_duplicated(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        if let Some(observer) = self {
            observer.on_duplicated(now, packet, link);
        }
    }

    fn on_queued(&mut self, now: Instant, link: LinkId, departure: Instant) {
        if let Some(observer) = self {
            observer.on_queued(now, link, departure);
        }
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        if let Some(observer) = self {
            observer.on_delivered(now, packet);
        }
    }
}
