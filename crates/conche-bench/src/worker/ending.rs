//! Phases of a test: intervals, the measurement's begin, and the end.

use std::sync::atomic::Ordering;

use conche_proto::{Instant, Stats};

use super::{GRACE, Phase, Worker};
use crate::error::Error;
use crate::plan::Until;
use crate::sample::{Done, Sample};
use crate::secured::Counts;
use crate::tally::Interval;
use crate::usage::Usage;

impl Worker<'_> {
    pub(super) fn run_timers(&mut self) -> Result<(), Error> {
        while let Some(&(until, slot)) = self.pausing.front()
            && until <= self.now
        {
            self.pausing.pop_front();
            self.free.push_back(slot);
        }
        if self.now >= self.interval_end {
            self.close_interval();
        }
        if self.phase == Phase::WarmingUp && self.now >= self.counts_from {
            self.phase = Phase::Measuring;
            self.at_start = self.mark();
            // With `handshakes`, earlier ones do not count.
            if let Some(secured) = self.secured.as_mut().filter(|_| self.common.plan.handshakes) {
                secured.counts = Counts::new();
            }
        }
        let interrupted = self.common.stop.load(Ordering::Relaxed);
        let counted = self.schedule.left == 0;
        if !matches!(self.phase, Phase::Ending(_)) && (interrupted || counted || self.now >= self.until) {
            // Requests due in time, if only this thread is late.
            while !interrupted && self.issue()? {}
            self.end();
        }
        if interrupted {
            self.phase = Phase::Ending(self.now);
        }
        Ok(())
    }

    /// Closes the current interval, and missed ones.
    fn close_interval(&mut self) {
        let number = self.number;
        while self.now >= self.interval_end {
            self.number += 1;
            self.interval_end += self.common.interval;
        }
        self.send_sample(number, self.number);
    }

    /// Nothing before `next` follows.
    fn send_sample(&mut self, number: u64, next: u64) {
        // Events after the end belong to no interval.
        let has_counts = !self.interval.is_empty() && self.at_end.is_none();
        let interval = has_counts.then(|| (number, std::mem::replace(&mut self.interval, Interval::new())));
        // Without a receiver the test is over.
        let _ = self.samples.send(Sample { thread: self.thread, interval, next });
    }

    fn end(&mut self) {
        self.tally.unsent = self.schedule.stop(self.now);
        let deadline = match self.common.plan.until {
            // As long as the protocol waits.
            Until::Count(_) => Instant::FAR_FUTURE,
            Until::Elapsed(_) => {
                self.at_end = Some(self.mark());
                if let Some(secured) = &mut self.secured {
                    secured.is_counting = false;
                }
                self.now + GRACE
            }
        };
        self.phase = Phase::Ending(deadline);
        self.end_observations();
    }

    fn mark(&self) -> (Instant, Stats, Usage) {
        let stats = *self.endpoint.stats();
        let stats = self.secured.as_ref().map_or(stats, |secured| secured.on_the_wire(stats));
        (self.now, stats, Usage::of_this_thread())
    }

    pub(super) fn is_over(&self) -> bool {
        match self.phase {
            Phase::Ending(deadline) => self.in_flight == 0 || self.now >= deadline,
            _ => false,
        }
    }

    pub(super) fn finish(mut self) -> Done {
        let (ended, stats, usage) = self.at_end.unwrap_or_else(|| self.mark());
        let (started, before, used) = self.at_start;
        let open = self.slots.iter().filter(|slot| slot.open && slot.counts).count();
        self.tally.unfinished = u64::try_from(open).unwrap_or(u64::MAX);
        let measured = match self.common.plan.until {
            Until::Elapsed(_) => ended.min(self.until) - self.counts_from,
            Until::Count(_) => self.last_end - self.counts_from,
        };
        self.send_sample(self.number, u64::MAX);
        self.close_sessions();
        self.protecting.close(&mut self.endpoint);
        Done {
            tally: self.tally,
            measured,
            answered: self.answered,
            traffic: difference(stats, before),
            usage: usage.since(used),
            used_in: ended - started,
            renewed: self.renewed,
            dropped: self.sockets.dropped,
            handshakes: self.secured.map(|secured| secured.counts),
        }
    }
}

fn difference(now: Stats, before: Stats) -> Stats {
    let mut difference = now;
    difference.datagrams_sent -= before.datagrams_sent;
    difference.datagrams_received -= before.datagrams_received;
    difference.bytes_sent -= before.bytes_sent;
    difference.bytes_received -= before.bytes_received;
    difference
}
