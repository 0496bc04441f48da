//! Observers of packet events.
//!
//! [`Observer`] is a type parameter, so ignored events cost nothing. `()` ignores all; `(A, B)`
//! passes them to both.

use crate::packet::Packet;
use crate::{Instant, LinkId, NodeId, RadioId};

/// Receives packet events; the default methods do nothing.
#[allow(unused_variables)]
pub trait Observer {
    /// A host sent a packet.
    fn on_sent(&mut self, now: Instant, packet: &Packet) {}

    /// A link or radio hop takes a packet, which it may refuse. Duplicates follow their original.
    fn on_entered(&mut self, now: Instant, packet: &Packet, link: LinkId) {}

    /// A packet was dropped.
    fn on_dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {}

    /// A link duplicated a packet; this is the duplicate.
    fn on_duplicated(&mut self, now: Instant, packet: &Packet, link: LinkId) {}

    /// A link accepted a frame, which leaves its queue at `departure`. Not called for links that
    /// may change, follow a trace or manage their queue.
    fn on_queued(&mut self, now: Instant, link: LinkId, departure: Instant) {}

    /// A packet arrived; its host receives it next.
    fn on_delivered(&mut self, now: Instant, packet: &Packet) {}
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue of this link was full.
    QueueFull(LinkId),
    /// Dropped by this link's active queue management.
    DroppedEarly(LinkId),
    /// This link was down or went down.
    LinkDown(LinkId),
    /// Lost on this link or hop.
    Lost(LinkId),
    /// The hop gave up because the channel was busy.
    ChannelBusy(LinkId),
    /// The hop gave up without an acknowledgment.
    Unacknowledged(LinkId),
    /// Too long for a frame of this hop.
    TooLong(LinkId),
    /// A host's frame in this radio network; the host received the reason.
    Untransmitted(RadioId),
    /// This node has no route to its destination.
    NoRoute(NodeId),
    /// This node, the destination, has no host.
    NoHost(NodeId),
    /// From, to or through this cut-off node.
    NodeDown(NodeId),
    /// This node, a NAT, has no mapping to its destination.
    NoMapping(NodeId),
    /// Too many links crossed by this node: a routing loop.
    HopLimit(NodeId),
}

impl DropReason {
    /// Returns the link or hop that dropped the packet; `None` for drops elsewhere.
    #[must_use]
    pub const fn link(self) -> Option<LinkId> {
        match self {
            Self::QueueFull(link)
            | Self::DroppedEarly(link)
            | Self::LinkDown(link)
            | Self::Lost(link)
            | Self::ChannelBusy(link)
            | Self::Unacknowledged(link)
            | Self::TooLong(link) => Some(link),
            Self::Untransmitted(_)
            | Self::NoRoute(_)
            | Self::NoHost(_)
            | Self::NodeDown(_)
            | Self::NoMapping(_)
            | Self::HopLimit(_) => None,
        }
    }
}

impl Observer for () {}

impl<A: Observer, B: Observer> Observer for (A, B) {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        self.0.on_sent(now, packet);
        self.1.on_sent(now, packet);
    }

    fn on_entered(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.0.on_entered(now, packet, link);
        self.1.on_entered(now, packet, link);
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

    fn on_entered(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        if let Some(observer) = self {
            observer.on_entered(now, packet, link);
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

/// Fingerprint of a run: FNV-1a over the packet events (time, kind, number, bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Returns the fingerprint so far.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    fn note(&mut self, now: Instant, what: [u64; 2], packet: &Packet) {
        for word in [now.as_nanos(), what[0], what[1], packet.meta.id.as_u64()] {
            self.mix(&word.to_le_bytes());
        }
        self.mix(packet.bytes());
    }

    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Observer for Digest {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        self.note(now, [1, 0], packet);
    }

    fn on_dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {
        let (kind, place) = match reason {
            DropReason::QueueFull(link) => (2, link.index()),
            DropReason::DroppedEarly(link) => (13, link.index()),
            DropReason::LinkDown(link) => (14, link.index()),
            DropReason::NodeDown(node) => (15, node.index()),
            DropReason::Lost(link) => (3, link.index()),
            DropReason::ChannelBusy(link) => (9, link.index()),
            DropReason::Unacknowledged(link) => (10, link.index()),
            DropReason::TooLong(link) => (11, link.index()),
            DropReason::Untransmitted(radio) => (12, radio.index()),
            DropReason::NoRoute(node) => (4, node.index()),
            DropReason::NoHost(node) => (5, node.index()),
            DropReason::NoMapping(node) => (16, node.index()),
            DropReason::HopLimit(node) => (6, node.index()),
        };
        self.note(now, [kind, place as u64], packet);
    }

    fn on_duplicated(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.note(now, [7, link.index() as u64], packet);
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        self.note(now, [8, 0], packet);
    }
}
