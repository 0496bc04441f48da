//! The drop-tail queue before a link.

use std::collections::VecDeque;
use std::fmt;

use crate::Instant;
use crate::units::Size;

/// A FIFO queue that drops frames that do not fit.
///
/// A frame that finds the link idle is served at once.
///
/// ```toml
/// queue = "unlimited"
/// queue = "2500B"
/// queue = { bytes = "2500B", in_service = "included" }
/// queue = { packets = 16 }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropTail {
    /// Capacity of the queue.
    pub limit: Limit,
    /// Whether the frame in transmission counts.
    pub in_service: InService,
}

/// The capacity of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// Everything.
    #[default]
    Unlimited,
    /// Bytes of frames with headers, including the new one.
    Bytes(u64),
    /// Number of frames.
    Packets(u64),
}

/// Whether the frame in transmission counts towards the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InService {
    /// Only waiting frames count, as with Linux tbf's `limit`.
    #[default]
    Excluded,
    /// It counts until its last bit has left.
    Included,
}

/// Writes the text of scenarios.
impl fmt::Display for DropTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = match self.limit {
            Limit::Unlimited => return f.write_str("unlimited"),
            Limit::Bytes(bytes) if self.in_service == InService::Excluded => return write!(f, "{}", Size(bytes)),
            Limit::Bytes(bytes) => format!("bytes = \"{}\"", Size(bytes)),
            Limit::Packets(packets) => format!("packets = {packets}"),
        };
        let in_service = match self.in_service {
            InService::Excluded => "",
            InService::Included => ", in_service = \"included\"",
        };
        write!(f, "{{ {limit}{in_service} }}")
    }
}

impl DropTail {
    pub(super) fn has_room(&self, waiting: u64, waiting_bytes: u64, in_service: Option<u32>, bytes: u32) -> bool {
        let (frames, in_service_bytes) = match (self.in_service, in_service) {
            (_, None) if waiting == 0 => return true,
            (InService::Included, Some(in_service)) => (1, u64::from(in_service)),
            _ => (0, 0),
        };
        match self.limit {
            Limit::Unlimited => true,
            Limit::Bytes(limit) => waiting_bytes + in_service_bytes + u64::from(bytes) <= limit,
            Limit::Packets(limit) => waiting + frames < limit,
        }
    }

    /// Creates a queue for this many waiting bytes.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { limit: Limit::Bytes(bytes), in_service: InService::Excluded }
    }

    /// Creates a queue for this many waiting frames.
    #[must_use]
    pub const fn packets(packets: u64) -> Self {
        Self { limit: Limit::Packets(packets), in_service: InService::Excluded }
    }
}

/// Departures are fixed on arrival (FIFO, known rate). Departed frames are removed at the next
/// arrival, which saves events.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    queue: DropTail,
    /// The first is in service.
    frames: VecDeque<(Instant, u32)>,
    bytes: u64,
}

impl Backlog {
    pub(super) fn new(queue: DropTail) -> Self {
        Self { queue, frames: VecDeque::new(), bytes: 0 }
    }

    /// Returns `None` if the queue is full. A frame that departs now takes no room.
    pub(super) fn accept(&mut self, now: Instant, bytes: u32, service_nanos: u64) -> Option<Instant> {
        self.forget_departed(now);
        if !self.has_room(bytes) {
            return None;
        }
        let start = self.frames.back().map_or(now, |(departure, _)| *departure);
        let departure = Instant::from_nanos(start.as_nanos().saturating_add(service_nanos));
        self.frames.push_back((departure, bytes));
        self.bytes += u64::from(bytes);
        Some(departure)
    }

    fn forget_departed(&mut self, now: Instant) {
        while let Some((departure, bytes)) = self.frames.front()
            && *departure <= now
        {
            self.bytes -= u64::from(*bytes);
            self.frames.pop_front();
        }
    }

    /// Returns the number of frames that wait behind the one in service, and their bytes.
    pub(super) fn waiting(&self, now: Instant) -> (u64, u64) {
        let departed = self.frames.partition_point(|(departure, _)| *departure <= now);
        let waiting = self.frames.iter().skip(departed + 1);
        waiting.fold((0, 0), |(frames, bytes), (_, more)| (frames + 1, bytes + u64::from(*more)))
    }

    fn has_room(&self, bytes: u32) -> bool {
        let Some((_, in_service)) = self.frames.front() else { return true };
        let (waiting, waiting_bytes) = (self.frames.len() as u64 - 1, self.bytes - u64::from(*in_service));
        self.queue.has_room(waiting, waiting_bytes, Some(*in_service), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: u64 = 25_000_000;

    fn burst(queue: DropTail) -> usize {
        let mut backlog = Backlog::new(queue);
        (0..1000).filter(|_| backlog.accept(Instant::ZERO, 94, SERVICE).is_some()).count()
    }

    #[test]
    fn bytes_count_waiting_frames_and_the_one_in_service_as_named() {
        assert_eq!(burst(DropTail::bytes(2500)), 26 + 1);
        assert_eq!(burst(DropTail { in_service: InService::Included, ..DropTail::bytes(2500) }), 26);
        assert_eq!(burst(DropTail::bytes(26 * 94)), 26 + 1);
        assert_eq!(burst(DropTail::bytes(26 * 94 - 1)), 25 + 1);
    }

    #[test]
    fn packets_count_waiting_frames_and_the_one_in_service_as_named() {
        assert_eq!(burst(DropTail::packets(5)), 5 + 1);
        assert_eq!(burst(DropTail { in_service: InService::Included, ..DropTail::packets(5) }), 5);
        assert_eq!(burst(DropTail::packets(0)), 1, "a link without a queue still transmits");
    }

    #[test]
    fn a_departure_makes_room_in_the_same_instant() {
        let mut backlog = Backlog::new(DropTail::packets(1));
        let first = backlog.accept(Instant::ZERO, 94, SERVICE).expect("idle");
        assert!(backlog.accept(Instant::ZERO, 94, SERVICE).is_some());
        let before = first - std::time::Duration::from_nanos(1);
        assert_eq!(backlog.accept(before, 94, SERVICE), None);
        assert_eq!((backlog.waiting(before), backlog.waiting(first)), ((1, 94), (0, 0)));
        let third = backlog.accept(first, 94, SERVICE).expect("one waits no longer");
        assert_eq!(third.as_nanos(), 3 * SERVICE);
    }

    #[test]
    fn an_idle_link_starts_at_once() {
        let mut backlog = Backlog::new(DropTail::default());
        assert_eq!(backlog.accept(Instant::from_millis(7), 94, SERVICE), Some(Instant::from_millis(32)));
        assert_eq!(backlog.accept(Instant::from_millis(90), 94, SERVICE), Some(Instant::from_millis(115)));
    }
}
