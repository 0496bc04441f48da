//! Packets and their slab: a freed slot keeps its buffer, so a steady state does not allocate.

use std::hint::black_box;

use crate::{Instant, NodeId, PacketId};

/// A UDP datagram in transit.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Origin, destination and cause.
    pub meta: PacketMeta,
    pub(crate) snr_db: Option<f64>,
    pub(crate) bytes: Vec<u8>,
}

/// Metadata for traces and metrics, invisible to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketMeta {
    /// Number in the run.
    pub id: PacketId,
    /// Sender; behind its NAT, its [address](crate::wired::Addresses) there.
    pub from: NodeId,
    /// Destination: [`NodeId::BROADCAST`], the receiver of a copy, or until its NAT an address there.
    pub to: NodeId,
    /// Time at which the sender passed it on.
    pub sent_at: Instant,
    /// Transmission, if it opens an exchange: a request, ping or separate response.
    pub transmission: Option<Transmission>,
    /// Packet that this ACK, RST or response answers.
    pub cause: Option<Cause>,
    /// Whether it is a link's duplicate or a receiver's copy of a broadcast; these share a number.
    pub duplicate: bool,
    /// Whether it is an ICMP echo request, which its destination answers without a host.
    pub is_echo_request: bool,
}

/// One transmission of an exchange's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transmission {
    /// Node that opened the exchange.
    pub node: NodeId,
    /// Number of the exchange there: [`ExchangeId::as_u64`](conche_proto::ExchangeId::as_u64).
    pub exchange: u64,
    /// 0 for the original, n for retransmission n.
    pub attempt: u8,
}

/// A packet that another packet answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Number.
    pub packet: PacketId,
    /// Sender.
    pub from: NodeId,
    /// Transmission that the packet was, or answered.
    pub transmission: Option<Transmission>,
}

impl Packet {
    /// Returns the UDP payload.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl PacketMeta {
    /// Returns this packet as its answer's cause.
    #[must_use]
    pub fn as_cause(&self) -> Cause {
        Cause { packet: self.id, from: self.from, transmission: self.transmission.or_else(|| self.cause?.transmission) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketRef(u32);

/// Apart: caches cannot hold tens of thousands of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardingFields {
    pub(crate) to: NodeId,
    pub(crate) payload_bytes: u32,
    pub(crate) hops: u8,
}

#[derive(Debug, Default)]
pub(crate) struct Packets {
    slots: Vec<Packet>,
    forwarding: Vec<ForwardingFields>,
    free: Vec<PacketRef>,
}

impl Packets {
    pub(crate) fn insert(&mut self, meta: PacketMeta, bytes: &[u8]) -> PacketRef {
        let payload_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let forwarding = ForwardingFields { to: meta.to, payload_bytes, hops: 0 };
        if let Some(packet) = self.free.pop() {
            *self.forwarding(packet) = forwarding;
            let slot = self.get_mut(packet);
            slot.meta = meta;
            slot.snr_db = None;
            slot.bytes.clear();
            slot.bytes.extend_from_slice(bytes);
            return packet;
        }
        let packet = PacketRef(u32::try_from(self.slots.len()).expect("fewer than 2^32 packets fit into memory"));
        self.slots.push(Packet { meta, snr_db: None, bytes: bytes.to_vec() });
        self.forwarding.push(forwarding);
        packet
    }

    /// With the same number and hop count.
    pub(crate) fn duplicate(&mut self, packet: PacketRef) -> PacketRef {
        let original = self.get_mut(packet);
        let meta = PacketMeta { duplicate: true, ..original.meta };
        let bytes = std::mem::take(&mut original.bytes);
        let copy = self.insert(meta, &bytes);
        self.get_mut(packet).bytes = bytes;
        *self.forwarding(copy) = *self.forwarding(packet);
        copy
    }

    /// With the same number.
    pub(crate) fn copy_for(&mut self, packet: PacketRef, to: NodeId) -> PacketRef {
        let copy = self.duplicate(packet);
        self.get_mut(copy).meta.to = to;
        self.forwarding(copy).to = to;
        copy
    }

    pub(crate) fn get(&self, packet: PacketRef) -> &Packet {
        &self.slots[packet.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, packet: PacketRef) -> &mut Packet {
        &mut self.slots[packet.0 as usize]
    }

    pub(crate) fn forwarding(&mut self, packet: PacketRef) -> &mut ForwardingFields {
        &mut self.forwarding[packet.0 as usize]
    }

    pub(crate) fn take_bytes(&mut self, packet: PacketRef) -> Vec<u8> {
        std::mem::take(&mut self.get_mut(packet).bytes)
    }

    pub(crate) fn release(&mut self, packet: PacketRef, buffer: Vec<u8>) {
        self.get_mut(packet).bytes = buffer;
        self.remove(packet);
    }

    pub(crate) fn remove(&mut self, packet: PacketRef) {
        self.free.push(packet);
    }

    pub(crate) fn destination(&self, packet: PacketRef) -> NodeId {
        self.forwarding[packet.0 as usize].to
    }

    pub(crate) fn prefetch_forwarding(&self, packet: PacketRef) {
        black_box(self.forwarding[packet.0 as usize].hops);
    }

    pub(crate) fn prefetch_delivery(&self, packet: PacketRef) {
        let Packet { meta, bytes, .. } = self.get(packet);
        // One field per cache line.
        black_box((meta.to, meta.cause.is_some(), bytes.len()));
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    pub(crate) fn meta(id: u64) -> PacketMeta {
        PacketMeta {
            id: PacketId(id),
            from: NodeId(0),
            to: NodeId(1),
            sent_at: Instant::ZERO,
            transmission: None,
            cause: None,
            duplicate: false,
            is_echo_request: false,
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
        packets.forwarding(original).hops = 3;
        let copy = packets.duplicate(original);
        let ForwardingFields { to, payload_bytes, hops } = *packets.forwarding(copy);
        let (original, copy) = (packets.get(original), packets.get(copy));
        assert_eq!((original.bytes(), copy.bytes()), (&b"hello"[..], &b"hello"[..]));
        assert_eq!((copy.meta.id, to, payload_bytes, hops), (original.meta.id, original.meta.to, 5, 3));
        assert_eq!((original.meta.duplicate, copy.meta.duplicate), (false, true));
    }

    #[test]
    fn an_answer_to_an_answer_names_the_first_copy() {
        let transmission = Transmission { node: NodeId(3), exchange: 8, attempt: 2 };
        let request = PacketMeta { transmission: Some(transmission), ..meta(1) };
        let response = PacketMeta { cause: Some(request.as_cause()), ..meta(2) };
        assert_eq!(
            response.as_cause(),
            Cause { packet: PacketId(2), from: NodeId(0), transmission: Some(transmission) }
        );
    }
}
