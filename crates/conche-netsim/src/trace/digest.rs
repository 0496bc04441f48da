use super::{DropReason, Observer};
use crate::packet::Packet;
use crate::{Instant, LinkId};

/// Fingerprint of a run: FNV-1a over each packet event (time, kind, packet number and bytes).
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
