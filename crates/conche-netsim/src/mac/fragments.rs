//! Fragmented datagrams on a hop (RFC 4944 §5.3), lost with their first lost fragment.
//!
//! Simplification: unlimited concurrent reassembly, without timeout.

use crate::packet::PacketRef;

pub(super) type DatagramIndex = u16;

#[derive(Debug, Default)]
pub(super) struct Datagrams {
    slots: Vec<Datagram>,
    free: Vec<DatagramIndex>,
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    packet: PacketRef,
    open: usize,
    lost: bool,
}

impl Datagrams {
    pub(super) fn insert(&mut self, packet: PacketRef, fragments: usize) -> DatagramIndex {
        let datagram = Datagram { packet, open: fragments, lost: false };
        if let Some(index) = self.free.pop() {
            self.slots[usize::from(index)] = datagram;
            return index;
        }
        self.slots.push(datagram);
        DatagramIndex::try_from(self.slots.len() - 1).expect("fewer than 2^16 datagrams wait in all stations")
    }

    pub(super) fn receive(&mut self, index: DatagramIndex) -> Option<PacketRef> {
        let Datagram { packet, open, lost } = self.close(index);
        (open == 0 && !lost).then_some(packet)
    }

    pub(super) fn give_up(&mut self, index: DatagramIndex) -> Option<PacketRef> {
        let Datagram { packet, lost, .. } = self.close(index);
        if lost {
            return None;
        }
        self.slots[usize::from(index)].lost = true;
        Some(packet)
    }

    fn close(&mut self, index: DatagramIndex) -> Datagram {
        let datagram = &mut self.slots[usize::from(index)];
        datagram.open -= 1;
        if datagram.open == 0 {
            self.free.push(index);
        }
        *datagram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packets;

    fn packets() -> Vec<PacketRef> {
        let mut packets = Packets::default();
        (0..2).map(|id| packets.insert(crate::packet::testing::meta(id), &[])).collect()
    }

    #[test]
    fn a_packet_arrives_with_its_last_fragment() {
        let (mut datagrams, packets) = (Datagrams::default(), packets());
        let first = datagrams.insert(packets[0], 3);
        let second = datagrams.insert(packets[1], 2);
        let received = [first, second, first, second, first].map(|index| datagrams.receive(index));
        assert_eq!(received, [None, None, None, Some(packets[1]), Some(packets[0])]);
        assert_eq!((datagrams.slots.len(), datagrams.free.len()), (2, 2));
    }

    #[test]
    fn a_packet_is_lost_once_regardless_of_its_other_fragments() {
        let (mut datagrams, packets) = (Datagrams::default(), packets());
        let index = datagrams.insert(packets[0], 4);
        assert_eq!(datagrams.receive(index), None);
        assert_eq!(datagrams.give_up(index), Some(packets[0]));
        assert_eq!((datagrams.give_up(index), datagrams.receive(index)), (None, None));
        assert_eq!(datagrams.insert(packets[1], 1), index, "its place is free");
        assert_eq!(datagrams.receive(index), Some(packets[1]));
    }
}
