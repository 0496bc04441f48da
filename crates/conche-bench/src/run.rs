//! A load test from its start to its report.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::plan::{Plan, PlanError, Until};
use crate::report::Report;
use crate::schedule::Share;
use crate::tally::Interval;
use crate::worker::{Common, Done, Worker};

/// How long an interval is, unless the test is shorter than ten of them.
const INTERVAL: Duration = Duration::from_secs(1);

/// The same of a test of a number of requests, which may be over soon.
const INTERVAL_OF_COUNT: Duration = Duration::from_millis(250);

/// Of a test of a known time, so many intervals at least.
const LEAST_INTERVALS: u32 = 10;

/// How often somebody who watches is told something new.
const NEWS: Duration = Duration::from_millis(500);

/// Why a load test has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be run as it is.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A request can never be sent.
    #[error("{name} cannot be sent")]
    Request {
        /// The kind of request.
        name: String,
        /// Why.
        source: conche_proto::RequestError,
    },
    /// No further source port could be had.
    #[error(
        "no source port could be opened beside {open} others: fewer endpoints or more open files (ulimit -n) may help, and lower \
         rates, since each port is good for 257 messages a second"
    )]
    NoPort {
        /// How many this thread has.
        open: usize,
        /// What the operating system says.
        source: io::Error,
    },
    /// The sockets cannot be waited for.
    #[error("the operating system refuses what a load test needs")]
    Socket(#[source] io::Error),
    /// The network reports the server unreachable, and it has not answered before.
    #[error("nobody answers at {target}: the network reports it unreachable, or no server listens on that port")]
    Refused {
        /// The server.
        target: SocketAddr,
    },
    /// Tokens could be guessed.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandomness(String),
    /// A thread has ended before its time, which is a defect of this program.
    #[error("a thread of the load test has failed")]
    Thread,
}

/// What is known of a test that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Live {
    /// Since its start, the warm-up included.
    pub elapsed: Duration,
    /// Responses so far.
    pub answered: u64,
    /// Requests so far that will have none.
    pub lost: u64,
    /// Notifications so far.
    pub notifications: u64,
    /// Responses a second, of late.
    pub rate: f64,
    /// The median and the 99th percentile of latency, of late; `None` without responses.
    pub latency: Option<[Duration; 2]>,
}

/// Runs a test. It ends early when `stop` is set, with what was measured until then. `watch` is told now and then how it goes.
///
/// # Errors
/// If the test cannot be run, or the server cannot be reached at all.
pub fn run(plan: &Plan, stop: &AtomicBool, watch: &mut dyn FnMut(&Live)) -> Result<Report, Error> {
    plan.validate()?;
    allow_many_files();
    let start = Instant::now();
    let interval = interval(plan.until);
    let common = Common { plan, start, interval, stop };
    let (samples, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|index| {
                let (share, samples) = (Share { index, of: plan.threads }, samples.clone());
                scope.spawn(move || {
                    let done = Worker::new(common, share, samples).and_then(Worker::run);
                    if done.is_err() {
                        // The others would go on for nothing.
                        stop.store(true, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        drop(samples);
        let intervals = gather(&told, start, interval, watch);
        let done: Vec<_> =
            threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Thread))).collect::<Result<_, _>>()?;
        Ok(Report::new(plan, &done, &full_intervals(plan, interval, &done, intervals), interval))
    })
}

fn interval(until: Until) -> Duration {
    match until {
        Until::Elapsed(span) => INTERVAL.min(span / LEAST_INTERVALS).max(Duration::from_millis(1)),
        Until::Count(_) => INTERVAL_OF_COUNT,
    }
}

/// Adds up what the threads measure in each interval, until all of them are done.
fn gather(
    told: &mpsc::Receiver<Interval>,
    start: Instant,
    span: Duration,
    watch: &mut dyn FnMut(&Live),
) -> BTreeMap<u64, Interval> {
    let mut intervals = BTreeMap::<u64, Interval>::new();
    let (mut answered, mut lost, mut notifications, mut news) = (0, 0, 0, start);
    loop {
        match told.recv_timeout(NEWS) {
            Ok(sample) => {
                answered += sample.answered;
                lost += sample.lost;
                notifications += sample.notifications;
                match intervals.entry(sample.number) {
                    std::collections::btree_map::Entry::Occupied(mut sum) => sum.get_mut().add(&sample),
                    std::collections::btree_map::Entry::Vacant(first) => drop(first.insert(sample)),
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return intervals,
        }
        if news.elapsed() < NEWS {
            continue;
        }
        news = Instant::now();
        // Of the last one some threads may not have told yet.
        let last = intervals.values().rev().nth(1);
        let latency = last
            .filter(|last| !last.latency.is_empty())
            .map(|last| [0.5, 0.99].map(|share| Duration::from_nanos(last.latency.value_at_quantile(share))));
        let rate = last.map_or(0.0, |last| last.answered as f64 / span.as_secs_f64());
        watch(&Live { elapsed: start.elapsed(), answered, lost, notifications, rate, latency });
    }
}

/// The intervals that lie within the time in which all threads were measuring; those in which nothing came included.
fn full_intervals(plan: &Plan, span: Duration, done: &[Done], mut intervals: BTreeMap<u64, Interval>) -> Vec<Interval> {
    let measured = done.iter().map(|done| done.measured).min().unwrap_or_default();
    let count = |time: Duration| u64::try_from(time.as_nanos() / span.as_nanos().max(1)).unwrap_or(u64::MAX);
    // Number 0 ends when a whole number of intervals is left of the warm-up.
    let first = count(plan.warm_up) + 1;
    (first..first + count(measured))
        .map(|number| intervals.remove(&number).unwrap_or_else(|| Interval::new(number)))
        .collect()
}

/// Each endpoint has a socket. The usual limit of 1024 is for programs that use `select`, as this one does not.
fn allow_many_files() {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        // Where it is not allowed, opening too many sockets fails, and says so.
        if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
            && soft < hard
        {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
    }
}
