//! The receiving side.

use super::{Acknowledgments, Segment};
use crate::Instant;

/// Receives one transfer; keeps segments out of order.
#[derive(Clone, Debug)]
pub struct Receiver {
    acknowledgments: Acknowledgments,
    arrived: Vec<bool>,
    next: u32,
    missing: u32,
    duplicates: u32,
    completed: Option<Instant>,
}

impl Receiver {
    /// Creates a receiver for a transfer of `segments` segments.
    #[must_use]
    pub fn new(segments: u32, acknowledgments: Acknowledgments) -> Self {
        let arrived = vec![false; segments as usize];
        Self { acknowledgments, arrived, next: 0, missing: segments, duplicates: 0, completed: None }
    }

    /// Handles a segment; returns the answer.
    ///
    /// A duplicate's acknowledgment may have been lost (RFC 793, page 69).
    pub fn receive(&mut self, now: Instant, segment: Segment) -> Option<Segment> {
        match segment {
            Segment::Syn => Some(Segment::SynAck),
            Segment::Data { number } => {
                self.take(now, number)?;
                let number = match self.acknowledgments {
                    Acknowledgments::Cumulative => self.next,
                    Acknowledgments::Positive => number,
                };
                Some(Segment::Ack { number })
            }
            Segment::SynAck | Segment::Ack { .. } => None,
        }
    }

    /// Returns `true` if a later acknowledgment replaces earlier ones.
    #[must_use]
    pub fn later_replaces_earlier(&self) -> bool {
        self.acknowledgments == Acknowledgments::Cumulative
    }

    /// Returns the arrival time of the last segment.
    #[must_use]
    pub fn completed(&self) -> Option<Instant> {
        self.completed
    }

    /// Returns the number of distinct segments received.
    #[must_use]
    pub fn received(&self) -> u32 {
        u32::try_from(self.arrived.len()).unwrap_or(u32::MAX) - self.missing
    }

    /// Returns the number of duplicates received.
    #[must_use]
    pub fn duplicates(&self) -> u32 {
        self.duplicates
    }

    fn take(&mut self, now: Instant, number: u32) -> Option<()> {
        let arrived = self.arrived.get_mut(number as usize)?;
        if std::mem::replace(arrived, true) {
            self.duplicates += 1;
            return Some(());
        }
        self.missing -= 1;
        while self.arrived.get(self.next as usize) == Some(&true) {
            self.next += 1;
        }
        if self.missing == 0 {
            self.completed = Some(now);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acks(acknowledgments: Acknowledgments, arrivals: &[u32]) -> (Receiver, Vec<u32>) {
        let mut receiver = Receiver::new(4, acknowledgments);
        let mut acks = Vec::new();
        for (at, number) in (0..).zip(arrivals) {
            let answer = receiver.receive(Instant::from_millis(at), Segment::Data { number: *number });
            let Some(Segment::Ack { number }) = answer else { panic!("{number} is answered with {answer:?}") };
            acks.push(number);
        }
        (receiver, acks)
    }

    #[test]
    fn cumulative_acknowledgments_stop_at_a_hole_and_skip_buffered_segments() {
        let (receiver, acks) = acks(Acknowledgments::Cumulative, &[0, 2, 3, 1]);
        assert_eq!(acks, [1, 1, 1, 4]);
        assert_eq!(receiver.completed(), Some(Instant::from_millis(3)));
    }

    #[test]
    fn positive_acknowledgments_name_their_segment() {
        let (receiver, acks) = acks(Acknowledgments::Positive, &[0, 2, 3, 2]);
        assert_eq!(acks, [0, 2, 3, 2]);
        assert_eq!((receiver.received(), receiver.duplicates(), receiver.completed()), (3, 1, None));
    }

    #[test]
    fn a_segment_outside_the_transfer_is_not_answered() {
        let mut receiver = Receiver::new(4, Acknowledgments::Cumulative);
        assert_eq!(receiver.receive(Instant::ZERO, Segment::Data { number: 4 }), None);
        assert_eq!(receiver.receive(Instant::ZERO, Segment::SynAck), None);
        assert_eq!(receiver.receive(Instant::ZERO, Segment::Syn), Some(Segment::SynAck));
    }
}
