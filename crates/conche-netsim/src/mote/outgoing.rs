use std::collections::VecDeque;

use crate::NodeId;
use crate::routing::aodv::Message;
use crate::transport::tcp::Segment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    pub(super) origin: NodeId,
    pub(super) destination: NodeId,
    pub(super) segment: Segment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Message(NodeId, Message),
    Datagram(NodeId, Datagram),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Queue(VecDeque<Datagram>);

impl Queue {
    pub(super) fn push(&mut self, datagram: Datagram) {
        self.0.push_back(datagram);
    }

    pub(super) fn push_first(&mut self, datagram: Datagram) {
        self.0.push_front(datagram);
    }

    pub(super) fn take_next(&mut self, next_hop: impl Fn(NodeId) -> Option<NodeId>) -> Option<Outgoing> {
        let found = self.0.iter().enumerate();
        let (index, to) =
            found.filter_map(|(index, datagram)| Some((index, next_hop(datagram.destination)?))).next()?;
        self.0.remove(index).map(|datagram| Outgoing::Datagram(to, datagram))
    }

    pub(super) fn replace(&mut self, waits: impl Fn(&Datagram) -> bool, by: Datagram) -> bool {
        let waiting = self.0.iter_mut().find(|datagram| waits(datagram));
        waiting.map(|datagram| *datagram = by).is_some()
    }

    pub(super) fn drop_where(&mut self, drops: impl Fn(&Datagram) -> bool) -> u64 {
        let before = self.0.len();
        self.0.retain(|datagram| !drops(datagram));
        (before - self.0.len()) as u64
    }

    pub(super) fn destination_of_own(&self, origin: NodeId) -> Option<NodeId> {
        self.0.iter().find(|datagram| datagram.origin == origin).map(|datagram| datagram.destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(destination: u32, number: u32) -> Datagram {
        Datagram { origin: NodeId(0), destination: NodeId(destination), segment: Segment::Ack { number } }
    }

    #[test]
    fn what_has_a_route_overtakes_what_waits_for_one() {
        let mut queue = Queue::default();
        queue.push(datagram(1, 0));
        queue.push(datagram(2, 0));
        let only_2 = |to| (to == NodeId(2)).then_some(NodeId(7));
        assert_eq!(queue.take_next(only_2), Some(Outgoing::Datagram(NodeId(7), datagram(2, 0))));
        assert_eq!(queue.take_next(only_2), None);
        assert_eq!(queue.destination_of_own(NodeId(0)), Some(NodeId(1)));
    }

    #[test]
    fn a_waiting_datagram_is_replaced_in_its_place() {
        let mut queue = Queue::default();
        queue.push(datagram(1, 4));
        queue.push(datagram(2, 0));
        assert!(queue.replace(|waiting| waiting.destination == NodeId(1), datagram(1, 5)));
        assert!(!queue.replace(|waiting| waiting.destination == NodeId(3), datagram(3, 5)));
        let any = |_| Some(NodeId(7));
        assert_eq!(queue.take_next(any), Some(Outgoing::Datagram(NodeId(7), datagram(1, 5))));
        assert_eq!((queue.drop_where(|_| true), queue.take_next(any)), (1, None));
    }
}
