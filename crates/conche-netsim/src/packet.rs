//! Packets and the slab that holds them while they are in the network.
//!
//! Events carry a packet's 4-byte handle. A slot that is freed keeps its buffer for the next packet, so that a run in
//! its steady state allocates nothing.

use std::hint::black_box;

use crate::{Instant, NodeId, PacketId};

/// A UDP datagram on its way, with what observers want to know of it.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Origin, destination and cause.
    pub meta: PacketMeta,
    /// The signal-to-noise ratio of the last frame that carried it over a radio, in dB.
    pub(crate) snr_db: Option<f64>,
    pub(crate) bytes: Vec<u8>,
}

/// What is known of a packet beside its bytes. Nothing of it is visible to the receiving endpoint; it is for traces and
/// metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketMeta {
    /// Its number in the run.
    pub id: PacketId,
    /// Who sent it.
    pub from: NodeId,
    /// Whom to; [`NodeId::BROADCAST`] while it is a frame for everyone, and each copy's receiver when it is there.
    pub to: NodeId,
    /// When its sender handed it to the network.
    pub sent_at: Instant,
    /// Set if it is a copy of a message that opens an exchange of its sender: a request, ping or separate response.
    pub copy: Option<Copied>,
    /// Set if it answers a packet: an ACK, RST or response.
    pub cause: Option<Cause>,
    /// A duplicating link made it, or a broadcast that this is a copy of; its original has the same number.
    pub duplicate: bool,
}

/// Which copy of which exchange a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Copied {
    /// Whose exchange it is.
    pub node: NodeId,
    /// The number of the exchange at that node: [`ExchangeId::as_u64`](conche_proto::ExchangeId::as_u64).
    pub exchange: u64,
    /// 0 for the original transmission, n for the n-th retransmission.
    pub attempt: u8,
}

/// The packet that another one answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its number.
    pub packet: PacketId,
    /// Who had sent it.
    pub from: NodeId,
    /// Which copy of which exchange it was or, if it was an answer itself, answered. A client thus finds the copy of its
    /// request in the response that this copy triggered.
    pub copy: Option<Copied>,
}

impl Packet {
    /// The UDP payload.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl PacketMeta {
    /// This packet as the cause of its answer.
    #[must_use]
    pub fn as_cause(&self) -> Cause {
        Cause { packet: self.id, from: self.from, copy: self.copy.or_else(|| self.cause?.copy) }
    }
}

/// Where a packet is in the slab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketRef(u32);

/// What forwarding wants of a packet. It is apart from the rest, so that what a packet takes at each hop is a few bytes
/// beside those of others: with tens of thousands on their way no cache holds them whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) to: NodeId,
    pub(crate) payload_bytes: u32,
    pub(crate) hops: u8,
}

/// The packets that are in the network now.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    slots: Vec<Packet>,
    /// One for each slot.
    ways: Vec<Way>,
    free: Vec<PacketRef>,
}

impl Packets {
    pub(crate) fn insert(&mut self, meta: PacketMeta, bytes: &[u8]) -> PacketRef {
        let payload_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let way = Way { to: meta.to, payload_bytes, hops: 0 };
        if let Some(packet) = self.free.pop() {
            *self.way(packet) = way;
            let slot = self.get_mut(packet);
            slot.meta = meta;
            slot.snr_db = None;
            slot.bytes.clear();
            slot.bytes.extend_from_slice(bytes);
            return packet;
        }
        let packet = PacketRef(u32::try_from(self.slots.len()).expect("fewer than 2^32 packets fit into memory"));
        self.slots.push(Packet { meta, snr_db: None, bytes: bytes.to_vec() });
        self.ways.push(way);
        packet
    }

    /// A second packet with the same number and bytes, as far on its way.
    pub(crate) fn duplicate(&mut self, packet: PacketRef) -> PacketRef {
        let original = self.get_mut(packet);
        let meta = PacketMeta { duplicate: true, ..original.meta };
        let bytes = std::mem::take(&mut original.bytes);
        let copy = self.insert(meta, &bytes);
        self.get_mut(packet).bytes = bytes;
        *self.way(copy) = *self.way(packet);
        copy
    }

    /// A second packet with the same number and bytes, for another receiver.
    pub(crate) fn copy_for(&mut self, packet: PacketRef, to: NodeId) -> PacketRef {
        let copy = self.duplicate(packet);
        self.get_mut(copy).meta.to = to;
        self.way(copy).to = to;
        copy
    }

    pub(crate) fn get(&self, packet: PacketRef) -> &Packet {
        &self.slots[packet.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, packet: PacketRef) -> &mut Packet {
        &mut self.slots[packet.0 as usize]
    }

    pub(crate) fn way(&mut self, packet: PacketRef) -> &mut Way {
        &mut self.ways[packet.0 as usize]
    }

    /// Takes the bytes out, to read them while other packets are inserted; [`Packets::release`] wants them back.
    pub(crate) fn take_bytes(&mut self, packet: PacketRef) -> Vec<u8> {
        std::mem::take(&mut self.get_mut(packet).bytes)
    }

    /// Frees the slot and keeps `buffer` for its next packet.
    pub(crate) fn release(&mut self, packet: PacketRef, buffer: Vec<u8>) {
        self.get_mut(packet).bytes = buffer;
        self.remove(packet);
    }

    pub(crate) fn remove(&mut self, packet: PacketRef) {
        self.free.push(packet);
    }

    /// Where a packet goes.
    pub(crate) fn destination(&self, packet: PacketRef) -> NodeId {
        self.ways[packet.0 as usize].to
    }

    /// Reads what forwarding a packet will need of it, so that it is near then.
    pub(crate) fn glance_at_way(&self, packet: PacketRef) {
        black_box(self.ways[packet.0 as usize].hops);
    }

    /// Reads what delivering it will need.
    pub(crate) fn glance(&self, packet: PacketRef) {
        let Packet { meta, bytes, .. } = self.get(packet);
        // Something of each of its lines of the cache.
        black_box((meta.to, meta.cause.is_some(), bytes.len()));
    }

    /// How many packets there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// What is known of some packet from the first node to the second.
    pub(crate) fn meta(id: u64) -> PacketMeta {
        PacketMeta {
            id: PacketId(id),
            from: NodeId(0),
            to: NodeId(1),
            sent_at: Instant::ZERO,
            copy: None,
            cause: None,
            duplicate: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::meta;
    use super::*;

    #[test]
    fn a_freed_slot_and_its_buffer_are_used_again() {
        let mut packets = Packets::default();
        let first = packets.insert(meta(0), &[1; 100]);
        let buffer = packets.get(first).bytes.as_ptr();
        let bytes = packets.take_bytes(first);
        packets.release(first, bytes);
        assert_eq!(packets.len(), 0);
        let second = packets.insert(meta(1), &[2; 60]);
        assert_eq!((second, packets.get(second).bytes.as_ptr()), (first, buffer));
        assert_eq!((packets.get(second).bytes(), packets.len()), (&[2; 60][..], 1));
    }

    #[test]
    fn a_duplicate_has_the_number_and_the_bytes_of_its_original() {
        let mut packets = Packets::default();
        let original = packets.insert(meta(5), b"hello");
        packets.way(original).hops = 3;
        let copy = packets.duplicate(original);
        let Way { to, payload_bytes, hops } = *packets.way(copy);
        let (original, copy) = (packets.get(original), packets.get(copy));
        assert_eq!((original.bytes(), copy.bytes()), (&b"hello"[..], &b"hello"[..]));
        assert_eq!((copy.meta.id, to, payload_bytes, hops), (original.meta.id, original.meta.to, 5, 3));
        assert_eq!((original.meta.duplicate, copy.meta.duplicate), (false, true));
    }

    #[test]
    fn an_answer_to_an_answer_names_the_first_copy() {
        let copied = Copied { node: NodeId(3), exchange: 8, attempt: 2 };
        let request = PacketMeta { copy: Some(copied), ..meta(1) };
        let response = PacketMeta { cause: Some(request.as_cause()), ..meta(2) };
        assert_eq!(response.as_cause(), Cause { packet: PacketId(2), from: NodeId(0), copy: Some(copied) });
    }
}
