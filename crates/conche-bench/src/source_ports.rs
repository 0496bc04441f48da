//! Source ports, called lanes: each is a separate peer to the endpoint, with its own message IDs
//! toward the server.
//!
//! A lane rests when its IDs are used up, until EXCHANGE_LIFETIME has passed and they may be used
//! again (RFC 7252 §4.4). Its socket stays open meanwhile: otherwise another socket could get the
//! port, and the server would take its requests for duplicates.

use std::collections::VecDeque;
use std::time::Duration;

use conche_proto::Instant;

/// Minimum number of message IDs of a lane: the endpoint tracks IDs in blocks of 1024 and uses 63
/// of them toward one peer, of which the first may be partly used.
const IDS: u64 = 62 * 1024;

/// All lanes of a thread, by number.
#[derive(Debug)]
pub(crate) struct SourcePorts {
    /// Messages sent on each lane since it last had all its IDs.
    used: Vec<u64>,
    /// Resting lanes, and when their IDs are available again; the earliest first.
    resting: VecDeque<(Instant, u32)>,
    lifetime: Duration,
    /// Maximum messages of a single request so far.
    most_messages: u64,
    in_flight: u64,
}

impl SourcePorts {
    pub(crate) fn new(lifetime: Duration, in_flight: u16) -> Self {
        let (used, resting) = (Vec::new(), VecDeque::new());
        Self { used, resting, lifetime, most_messages: 1, in_flight: in_flight.into() }
    }

    /// Adds a lane after its socket was opened.
    pub(crate) fn add(&mut self) {
        self.used.push(0);
    }

    pub(crate) fn len(&self) -> usize {
        self.used.len()
    }

    /// Whether the lane has IDs for the requests in flight and one more.
    #[inline]
    pub(crate) fn has_ids(&self, lane: u32) -> bool {
        let reserve = (self.most_messages - 1).saturating_mul(self.in_flight).min(IDS / 2);
        self.used[lane as usize] + reserve < IDS
    }

    /// Counts a request that leaves on the lane.
    #[inline]
    pub(crate) fn begins(&mut self, lane: u32) {
        self.used[lane as usize] += 1;
    }

    /// Counts the remaining messages of a completed request.
    #[inline]
    pub(crate) fn ends(&mut self, lane: u32, messages: u32) {
        if messages > 1 {
            self.used[lane as usize] += u64::from(messages) - 1;
            self.most_messages = self.most_messages.max(messages.into());
        }
    }

    /// Puts a lane to rest. Returns a rested lane, if any; otherwise the caller needs a new one.
    pub(crate) fn rest(&mut self, lane: u32, now: Instant) -> Option<u32> {
        self.resting.push_back((now + self.lifetime, lane));
        self.resting.front().filter(|(free, _)| *free <= now)?;
        let (_, rested) = self.resting.pop_front()?;
        self.used[rested as usize] = 0;
        Some(rested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(247);

    // RFC 7252 §4.4
    #[test]
    fn a_lane_rests_for_a_lifetime_before_its_ids_are_used_again() {
        let mut lanes = SourcePorts::new(LIFETIME, 1);
        (0..2).for_each(|_| lanes.add());
        let mut left = 0;
        while lanes.has_ids(0) {
            lanes.begins(0);
            left += 1;
        }
        assert!((60_000..=63 * 1024 - 1024).contains(&left), "{left}");
        let start = Instant::from_millis(1_000);
        assert_eq!(lanes.rest(0, start), None, "a new one is needed");
        assert_eq!(lanes.rest(1, start + LIFETIME - Duration::from_millis(1)), None);
        assert_eq!(lanes.rest(1, start + LIFETIME), Some(0));
        assert!(lanes.has_ids(0));
    }

    #[test]
    fn bodies_of_many_messages_use_lanes_up_sooner() {
        let mut lanes = SourcePorts::new(LIFETIME, 4);
        lanes.add();
        for _ in 0..60 {
            lanes.begins(0);
            lanes.ends(0, 1_000);
        }
        assert!(!lanes.has_ids(0), "four more would not fit");
    }
}
