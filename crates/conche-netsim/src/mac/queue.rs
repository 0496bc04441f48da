//! Waiting frames of a station, in one queue or, as in Contiki's CSMA, one per neighbour.

use std::collections::VecDeque;

use super::access::{AccessConfig, AnyAccess};
use super::config::QueueConfig;
use super::fragments::DatagramIndex;
pub(super) use crate::ids::QueueIndex;
use crate::packet::PacketRef;
use crate::radio::Station;
use crate::{LinkId, PacketId};

#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) contents: FrameContents,
    pub(super) origin: Origin,
    pub(super) to: Station,
    pub(super) psdu_octets: u8,
    pub(super) dsn: u8,
}

impl Frame {
    pub(super) const fn new(contents: FrameContents, origin: Origin, to: Station, psdu_octets: u8) -> Self {
        Self { contents, origin, to, psdu_octets, dsn: 0 }
    }
}

/// Kept until received, a broadcast's until it leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameContents {
    Nothing,
    Packet(PacketRef),
    Fragment(DatagramIndex),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Hop(LinkId),
    Host(PacketId),
    Control,
}

#[derive(Debug)]
pub(super) struct Queue {
    to: Option<Station>,
    frames: VecDeque<Frame>,
    pub(super) access: AnyAccess,
    pub(super) ready: bool,
}

#[derive(Debug)]
pub(super) struct Queues {
    config: QueueConfig,
    access: AccessConfig,
    queues: Vec<Queue>,
    waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enqueued {
    First(QueueIndex),
    Behind,
    Full,
}

impl Queues {
    pub(super) fn new(config: QueueConfig, access: AccessConfig) -> Self {
        Self { config, access, queues: Vec::new(), waiting: 0 }
    }

    pub(super) fn push(&mut self, frame: Frame) -> Enqueued {
        if self.config.packets.is_some_and(|limit| self.waiting >= limit) {
            return Enqueued::Full;
        }
        let Some(index) = self.place_for(frame.to) else { return Enqueued::Full };
        let queue = &mut self.queues[usize::from(index)];
        queue.frames.push_back(frame);
        self.waiting += 1;
        if queue.frames.len() == 1 { Enqueued::First(index) } else { Enqueued::Behind }
    }

    pub(super) fn have_room(&self, to: Station, frames: usize) -> bool {
        let room = self.config.packets.is_none_or(|limit| self.waiting + frames <= limit);
        let is_place = |queue: &Queue| queue.frames.is_empty() || queue.to == self.key(to);
        room && (self.queues.len() < self.most_queues() || self.queues.iter().any(is_place))
    }

    pub(super) fn head(&mut self, index: QueueIndex) -> &mut Frame {
        self.queues[usize::from(index)].frames.front_mut().expect("an attempt has a frame")
    }

    pub(super) fn pop(&mut self, index: QueueIndex) -> (Frame, bool) {
        let queue = &mut self.queues[usize::from(index)];
        let frame = queue.frames.pop_front().expect("an attempt has a frame");
        self.waiting -= 1;
        (frame, !queue.frames.is_empty())
    }

    pub(super) fn more_wait(&self, index: QueueIndex) -> bool {
        self.queues[usize::from(index)].frames.len() > 1
    }

    pub(super) fn get(&mut self, index: QueueIndex) -> &mut Queue {
        &mut self.queues[usize::from(index)]
    }

    pub(super) fn take_ready(&mut self) -> Option<QueueIndex> {
        let (index, queue) = (0..).zip(&mut self.queues).find(|(_, queue)| queue.ready)?;
        queue.ready = false;
        Some(index)
    }

    fn place_for(&mut self, to: Station) -> Option<QueueIndex> {
        let (to, limit) = (self.key(to), self.most_queues());
        let own = self.queues.iter().position(|queue| queue.to == to && !queue.frames.is_empty());
        let place = own.or_else(|| self.queues.iter().position(|queue| queue.frames.is_empty()));
        let place = match place {
            Some(place) => place,
            None if self.queues.len() < limit => {
                self.queues.push(Queue { to, frames: VecDeque::new(), access: self.access.build(), ready: false });
                self.queues.len() - 1
            }
            None => return None,
        };
        self.queues[place].to = to;
        QueueIndex::try_from(place).ok()
    }

    fn key(&self, to: Station) -> Option<Station> {
        self.config.neighbours.map(|_| to)
    }

    fn most_queues(&self) -> usize {
        self.config.neighbours.map_or(1, |limit| limit.min(usize::from(QueueIndex::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mac::MacConfig;

    fn frame(to: Station) -> Frame {
        Frame { contents: FrameContents::Nothing, origin: Origin::Hop(LinkId(0)), to, psdu_octets: 50, dsn: 0 }
    }

    fn queues(packets: Option<usize>, neighbours: Option<usize>) -> Queues {
        Queues::new(QueueConfig { packets, neighbours }, MacConfig::contiki27().access)
    }

    #[test]
    fn a_third_neighbour_waits_until_a_queue_is_empty() {
        let mut queues = queues(Some(8), Some(2));
        assert_eq!(queues.push(frame(1)), Enqueued::First(0));
        assert_eq!(queues.push(frame(2)), Enqueued::First(1));
        assert_eq!(queues.push(frame(2)), Enqueued::Behind);
        assert_eq!(queues.push(frame(3)), Enqueued::Full);
        assert_eq!([1, 2, 3].map(|to| queues.have_room(to, 5)), [true, true, false]);
        assert!(!queues.have_room(1, 6), "three of eight are taken");
        assert!(!queues.pop(0).1);
        assert!(queues.have_room(3, 6));
        assert_eq!(queues.push(frame(3)), Enqueued::First(0));
        assert_eq!(queues.push(frame(1)), Enqueued::Full);
    }

    #[test]
    fn all_neighbours_share_the_packet_buffers() {
        let mut queues = queues(Some(4), Some(2));
        (0..4).for_each(|i| assert_ne!(queues.push(frame(i % 2)), Enqueued::Full));
        assert_eq!(queues.push(frame(0)), Enqueued::Full);
        assert_eq!((queues.pop(1).0.to, queues.push(frame(0))), (1, Enqueued::Behind));
    }

    #[test]
    fn one_queue_serves_all_neighbours_in_order() {
        let mut queues = queues(None, None);
        assert_eq!(queues.push(frame(7)), Enqueued::First(0));
        assert_eq!(queues.push(frame(8)), Enqueued::Behind);
        assert_eq!((queues.pop(0).0.to, queues.pop(0).0.to), (7, 8));
    }
}
