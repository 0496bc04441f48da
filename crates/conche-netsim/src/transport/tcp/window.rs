//! Size of the send window.

#[derive(Clone, Debug)]
pub(super) struct Window {
    segments: u16,
    limit: u16,
    reno: Option<Reno>,
}

/// RFC 5681 with RFC 6582's recovery, counted in segments.
#[derive(Clone, Copy, Debug)]
struct Reno {
    /// From this size, the window grows by one segment per round trip.
    threshold: u16,
    /// Acknowledgments of new data since the last growth.
    new_acks: u16,
    /// Consecutive duplicate acknowledgments.
    duplicates: u16,
    /// End of the data in flight at the last detected loss; losses before it are the same event.
    recover: u32,
    /// Repairing a loss detected by duplicate acknowledgments.
    recovers: bool,
}

/// RFC 5681 §3.2.
const DUPLICATES: u16 = 3;
/// RFC 5681, equation (4).
const LEAST_THRESHOLD: u16 = 2;

impl Window {
    /// Grows by one segment per acknowledgment, up to its limit.
    pub(super) fn limited(limit: u16) -> Self {
        Self { segments: 1, limit, reno: None }
    }

    pub(super) fn reno(limit: u16) -> Self {
        let reno = Reno { threshold: limit, new_acks: 0, duplicates: 0, recover: 0, recovers: false };
        Self { segments: 1, limit, reno: Some(reno) }
    }

    pub(super) fn segments(&self) -> u16 {
        self.segments
    }

    /// Handles the acknowledgment of `count` segments, at least one, up to `until`; returns `true`
    /// if the next is lost.
    pub(super) fn acknowledged(&mut self, count: u16, until: u32) -> bool {
        let Some(reno) = &mut self.reno else {
            self.segments = self.segments.saturating_add(1).min(self.limit).max(1);
            return false;
        };
        reno.duplicates = 0;
        if reno.recovers && until < reno.recover {
            // Partial acknowledgment: data is still missing (RFC 6582 §3.2, step 3).
            self.segments = self.segments.saturating_sub(count).saturating_add(1).max(1);
            return true;
        }
        if reno.recovers {
            reno.recovers = false;
            self.segments = reno.threshold;
        } else if self.segments < reno.threshold {
            self.segments += 1;
        } else {
            reno.new_acks += 1;
            if reno.new_acks >= self.segments {
                reno.new_acks = 0;
                self.segments = self.segments.saturating_add(1);
            }
        }
        self.segments = self.segments.min(self.limit).max(1);
        false
    }

    /// `head` is the first of `flight` segments in flight, all before `end`; returns `true` if it
    /// is lost.
    pub(super) fn duplicate(&mut self, flight: u16, head: u32, end: u32) -> bool {
        let Some(reno) = &mut self.reno else { return false };
        if reno.recovers {
            // One more segment has left the network.
            self.segments = self.segments.saturating_add(1).min(self.limit);
            return false;
        }
        reno.duplicates = reno.duplicates.saturating_add(1);
        // Segments sent before the last loss may arrive twice, which indicates no loss (RFC 6582
        // §3.2, step 2).
        if reno.duplicates < DUPLICATES || head <= reno.recover {
            return false;
        }
        reno.threshold = (flight / 2).max(LEAST_THRESHOLD);
        (reno.recover, reno.recovers) = (end, true);
        self.segments = reno.threshold.saturating_add(DUPLICATES).min(self.limit);
        true
    }

    /// All data sent is before `end`.
    ///
    /// `flight` is the data segments in flight, or `None`, which keeps the threshold, for a segment
    /// that was not data or had expired before (RFC 5681 §3.1).
    pub(super) fn timed_out(&mut self, flight: Option<u16>, end: u32) {
        self.segments = 1;
        if let Some(reno) = &mut self.reno {
            let threshold = flight.map_or(reno.threshold, |flight| (flight / 2).max(LEAST_THRESHOLD));
            *reno = Reno { threshold, new_acks: 0, duplicates: 0, recover: end, recovers: false };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_the_threshold_it_doubles_in_a_round_trip_and_above_it_grows_by_one() {
        let mut window = Window::reno(64);
        window.timed_out(Some(16), 0);
        let mut sizes = vec![window.segments()];
        let mut place = 0;
        for _ in 0..6 {
            for _ in 0..window.segments() {
                place += 1;
                assert!(!window.acknowledged(1, place));
            }
            sizes.push(window.segments());
        }
        assert_eq!(sizes, [1, 2, 4, 8, 9, 10, 11]);
    }

    #[test]
    fn three_duplicates_halve_it_once_for_all_that_was_on_its_way() {
        let mut window = Window::reno(64);
        (1..=19).for_each(|place| assert!(!window.acknowledged(1, place)));
        assert_eq!(window.segments(), 20);
        let lost: Vec<bool> = (0..4).map(|_| window.duplicate(20, 19, 39)).collect();
        assert_eq!((lost, window.segments()), (vec![false, false, true, false], 10 + 3 + 1));
        assert!(window.acknowledged(4, 23), "a second one is missing");
        assert!(!window.acknowledged(16, 39), "all has arrived");
        assert_eq!(window.segments(), 10);
        window.timed_out(Some(10), 49);
        assert_eq!(window.segments(), 1);
    }

    #[test]
    fn duplicates_of_what_was_sent_before_a_timeout_tell_of_no_loss() {
        let mut window = Window::reno(64);
        (1..=19).for_each(|place| assert!(!window.acknowledged(1, place)));
        window.timed_out(Some(20), 39);
        assert!((0..9).all(|_| !window.duplicate(1, 19, 39)), "they may be of copies");
        assert!(!window.acknowledged(20, 39));
        assert!((0..9).all(|_| !window.duplicate(2, 39, 41)), "all of it arrived, and nothing behind it");
        assert!(!window.acknowledged(1, 40));
        let lost: Vec<bool> = (0..3).map(|_| window.duplicate(3, 40, 43)).collect();
        assert_eq!(lost, [false, false, true], "this is news");
    }
}
