//! Source ports, called lanes: each is a peer with its own message IDs. A lane without IDs rests
//! for EXCHANGE_LIFETIME (RFC 7252 §4.4). Its socket stays open: another's requests from that port
//! could be taken for duplicates.

use std::collections::VecDeque;
use std::time::Duration;

use conche_proto::Instant;

/// Minimum IDs of a lane: the endpoint uses 63 blocks of 1024 per peer, the first perhaps in part.
const IDS: u64 = 62 * 1024;

#[derive(Debug)]
pub(crate) struct SourcePorts {
    used: Vec<u64>,
    /// Earliest first.
    resting: VecDeque<(Instant, u32)>,
    lifetime: Duration,
    most_messages: u64,
    in_flight: u64,
}

impl SourcePorts {
    pub(crate) fn new(lifetime: Duration, in_flight: u16) -> Self {
        let (used, resting) = (Vec::new(), VecDeque::new());
        Self { used, resting, lifetime, most_messages: 1, in_flight: in_flight.into() }
    }

    pub(crate) fn add(&mut self) {
        self.used.push(0);
    }

    pub(crate) fn len(&self) -> usize {
        self.used.len()
    }

    #[inline]
    pub(crate) fn has_ids(&self, lane: u32) -> bool {
        let reserve = (self.most_messages - 1).saturating_mul(self.in_flight).min(IDS / 2);
        self.used[lane as usize] + reserve < IDS
    }

    #[inline]
    pub(crate) fn begins(&mut self, lane: u32) {
        self.used[lane as usize] += 1;
    }

    #[inline]
    pub(crate) fn ends(&mut self, lane: u32, messages: u32) {
        if messages > 1 {
            self.used[lane as usize] += u64::from(messages) - 1;
            self.most_messages = self.most_messages.max(messages.into());
        }
    }

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
