//! Collects samples per interval, and reports progress. An interval's large histogram is kept until
//! all threads have passed it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::report;
use crate::tally::Interval;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// The progress of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Live {
    /// Time since the start, with warm-up.
    pub elapsed: Duration,
    /// Responses so far.
    pub answered: u64,
    /// Requests lost so far.
    pub lost: u64,
    /// Notifications so far.
    pub notifications: u64,
    /// Recent responses per second.
    pub rate: f64,
    /// Recent median and 99th percentile of latency, if any.
    pub latency: Option<[Duration; 2]>,
}

#[derive(Debug)]
pub(crate) struct Collector {
    span: Duration,
    /// Each thread's current interval.
    next: Vec<u64>,
    open: BTreeMap<u64, Interval>,
    closed: BTreeMap<u64, report::Interval>,
    answered: u64,
    lost: u64,
    notifications: u64,
}

pub(crate) fn collect(
    samples: &Receiver<Sample>,
    start: Instant,
    span: Duration,
    threads: u32,
    watch: &mut dyn FnMut(&Live),
) -> Collector {
    let mut collector = Collector::new(span, threads);
    let mut last_report = start;
    loop {
        match samples.recv_timeout(PROGRESS_INTERVAL) {
            Ok(sample) => collector.add(sample),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return collector,
        }
        if last_report.elapsed() >= PROGRESS_INTERVAL {
            last_report = Instant::now();
            watch(&collector.live(start.elapsed()));
        }
    }
}

impl Collector {
    fn new(span: Duration, threads: u32) -> Self {
        Self {
            span,
            next: (0..threads).map(|_| 0).collect(),
            open: BTreeMap::new(),
            closed: BTreeMap::new(),
            answered: 0,
            lost: 0,
            notifications: 0,
        }
    }

    fn add(&mut self, sample: Sample) {
        if let Some((number, interval)) = sample.interval {
            self.answered += interval.answered;
            self.lost += interval.lost;
            self.notifications += interval.notifications;
            self.open.entry(number).and_modify(|sum| sum.add(&interval)).or_insert(interval);
        }
        if let Some(next) = self.next.get_mut(sample.thread as usize) {
            *next = sample.next;
        }
        let reached = self.reached();
        while let Some(oldest) = self.open.first_entry().filter(|oldest| *oldest.key() < reached) {
            let (number, interval) = oldest.remove_entry();
            self.closed.insert(number, report::Interval::of(&interval, self.span));
        }
    }

    fn reached(&self) -> u64 {
        self.next.iter().copied().min().unwrap_or_default()
    }

    fn live(&self, elapsed: Duration) -> Live {
        let last = self.reached().checked_sub(1).and_then(|last| self.closed.get(&last));
        let time = |milliseconds: f64| Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default();
        Live {
            elapsed,
            answered: self.answered,
            lost: self.lost,
            notifications: self.notifications,
            rate: last.map_or(0.0, |last| last.answered as f64 / last.seconds),
            latency: last.and_then(|last| last.latency_ms).map(|latency| [latency.p50, latency.p99].map(time)),
        }
    }

    /// Returns intervals in which all threads measured.
    pub(crate) fn full_intervals(mut self, warm_up: Duration, measured: Duration) -> Vec<report::Interval> {
        let span = self.span;
        let count = |time: Duration| u64::try_from(time.as_nanos() / span.as_nanos().max(1)).unwrap_or(u64::MAX);
        // Number 0 ends before the warm-up's end.
        let first = count(warm_up) + 1;
        let all = first..first + count(measured);
        all.map(|number| self.closed.remove(&number).unwrap_or_else(|| report::Interval::empty(span))).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) thread: u32,
    pub(crate) interval: Option<(u64, Interval)>,
    pub(crate) next: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(1);

    fn sample(thread: u32, number: u64, answered: u64) -> Sample {
        let interval = Interval { answered, ..Interval::new() };
        Sample { thread, interval: Some((number, interval)), next: number + 1 }
    }

    #[test]
    fn a_histogram_is_kept_until_all_threads_are_past_it() {
        let mut collector = Collector::new(SPAN, 2);
        for number in 0..1_000 {
            collector.add(sample(0, number, 3));
            assert_eq!(collector.open.len(), 1, "the other thread has sent nothing");
            let silent = Sample { thread: 1, interval: None, next: number + 1 };
            collector.add(if number % 2 == 0 { silent } else { sample(1, number, 4) });
            assert_eq!(collector.open.len(), 0);
        }
        let intervals = collector.full_intervals(SPAN, SPAN * 10);
        let answered: Vec<_> = intervals.iter().map(|interval| interval.answered).collect();
        assert_eq!(answered, [3, 7, 3, 7, 3, 7, 3, 7, 3, 7], "2 to 11, after the warm-up");
    }

    #[test]
    fn a_thread_that_is_done_holds_no_histogram_up() {
        let mut collector = Collector::new(SPAN, 2);
        collector.add(Sample { thread: 0, interval: None, next: u64::MAX });
        collector.add(sample(1, 5, 1));
        assert_eq!(collector.open.len(), 0);
        assert!(collector.live(SPAN).rate > 0.0);
        collector.add(Sample { thread: 1, interval: None, next: 9 });
        assert!(collector.live(SPAN).rate <= 0.0, "of late nothing came");
    }

    #[test]
    fn empty_intervals_are_reported() {
        let mut collector = Collector::new(SPAN, 1);
        collector.add(sample(0, 1, 5));
        collector.add(sample(0, 3, 6));
        let intervals = collector.full_intervals(Duration::ZERO, SPAN * 3);
        let answered: Vec<_> = intervals.iter().map(|interval| interval.answered).collect();
        assert_eq!(answered, [5, 0, 6]);
    }
}
