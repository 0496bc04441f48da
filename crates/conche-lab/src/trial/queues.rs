//! An observer that measures standing queues.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_netsim::trace::Observer;
use conche_netsim::{Instant, LinkId};

#[derive(Debug, Default)]
pub(super) struct Queues(BTreeMap<LinkId, Vec<StandingQueue>>);

/// How long a queue stood above a waiting time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingQueue {
    /// Name of the link in the scenario.
    pub link: String,
    /// Waiting time that is too long.
    pub above: Duration,
    /// Longest interval in which arriving packets would wait longer.
    pub longest: Duration,
    /// Last interval so far.
    last_interval: (Instant, Instant),
}

impl Queues {
    pub(super) fn watch(&mut self, id: LinkId, link: &str, above: Duration) {
        let (longest, last_interval) = (Duration::ZERO, (Instant::ZERO, Instant::ZERO));
        self.0.entry(id).or_default().push(StandingQueue { link: link.to_owned(), above, longest, last_interval });
    }

    pub(super) fn into_seen(self, end: Instant) -> Vec<StandingQueue> {
        let seen = self.0.into_values().flatten();
        seen.map(|queue| StandingQueue { longest: queue.longest.max(queue.last_interval_until(end)), ..queue })
            .collect()
    }
}

impl StandingQueue {
    fn last_interval_until(&self, end: Instant) -> Duration {
        self.last_interval.1.min(end) - self.last_interval.0
    }

    /// Packets more than `above` before the departure wait too long.
    fn on_queued(&mut self, now: Instant, departure: Instant) {
        let waits_until = Instant::ZERO + (departure - Instant::ZERO).saturating_sub(self.above);
        if waits_until <= now {
            return;
        }
        let (began, ended) = self.last_interval;
        self.last_interval = (if now <= ended { began } else { now }, waits_until);
        if now > ended {
            self.longest = self.longest.max(ended - began);
        }
    }
}

impl Observer for Queues {
    fn on_queued(&mut self, now: Instant, link: LinkId, departure: Instant) {
        if self.0.is_empty() {
            return;
        }
        for queue in self.0.get_mut(&link).into_iter().flatten() {
            queue.on_queued(now, departure);
        }
    }
}

#[cfg(test)]
mod tests {
    use conche_netsim::wired::{LinkConfig, Topology};

    use super::*;

    /// Returns the longest interval above 2 s, in seconds, for frames given as seconds of (arrival,
    /// departure).
    fn longest(frames: &[(u64, u64)], end: u64) -> u64 {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut topology = Topology::new();
        let [from, to] = ["router", "core"].map(|name| topology.node(name));
        let link = topology.link("uplink", from, to, LinkConfig::default());
        let mut queues = Queues::default();
        queues.watch(link, "uplink", Duration::from_secs(2));
        frames.iter().for_each(|(now, departure)| queues.on_queued(at(*now), link, at(*departure)));
        queues.into_seen(at(end))[0].longest.as_secs()
    }

    #[test]
    fn a_queue_stands_from_the_frame_that_makes_it_too_long_until_it_has_drained_so_far() {
        assert_eq!(longest(&[(0, 1), (0, 2)], 100), 0, "2 s are not longer than 2 s");
        assert_eq!(longest(&[(10, 20)], 100), 8);
        assert_eq!(longest(&[(10, 20), (15, 25)], 100), 13, "one stretch");
        assert_eq!(longest(&[(10, 20), (19, 25), (50, 53)], 100), 8, "at 19 s another one begins");
        assert_eq!(longest(&[(10, 20)], 14), 4, "the run is over");
    }
}
