//! A load test from its start to its report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::gather::{Live, gather};
use crate::plan::{Plan, Until};
use crate::report::Report;
use crate::schedule::Share;
use crate::worker::{Common, Worker};

/// How long an interval is, unless the test is shorter than ten of them.
const INTERVAL: Duration = Duration::from_secs(1);

/// The same of a test of a number of requests, which may be over soon.
const INTERVAL_OF_COUNT: Duration = Duration::from_millis(250);

/// Of a test of a known time, so many intervals at least.
const LEAST_INTERVALS: u32 = 10;

/// Runs a test. It ends early when `stop` is set, with what was measured until then. `watch` is told now and then how it goes.
///
/// # Errors
/// If the test cannot be run, or the server cannot be reached at all.
pub fn run(plan: &Plan, stop: &AtomicBool, watch: &mut dyn FnMut(&Live)) -> Result<Report, Error> {
    plan.validate()?;
    allow_many_files();
    let interval = interval(plan.until);
    let common = Common { plan, start: Instant::now(), interval, stop };
    let (samples, told) = mpsc::channel();
    // Nobody asks before all can: who is ready drops its sender, and waits until the start is told.
    let (preparing, prepared) = mpsc::channel::<()>();
    let start = RwLock::new(common.start);
    std::thread::scope(|scope| {
        let mut starts = start.write().unwrap_or_else(PoisonError::into_inner);
        let threads: Vec<_> = (0..plan.threads)
            .map(|index| {
                let (share, samples) = (Share { index, of: plan.threads }, samples.clone());
                let (preparing, start) = (preparing.clone(), &start);
                scope.spawn(move || {
                    let worker = Worker::new(common, share, samples).and_then(Worker::prepared);
                    // The others would go on for nothing.
                    let stop_all = || stop.store(true, Ordering::Relaxed);
                    let worker = worker.inspect_err(|_| stop_all());
                    drop(preparing);
                    let start = *start.read().unwrap_or_else(PoisonError::into_inner);
                    worker?.run(start).inspect_err(|_| stop_all())
                })
            })
            .collect();
        drop((samples, preparing));
        // Nothing is ever sent: it ends when all senders are gone.
        let _ = prepared.recv();
        *starts = Instant::now();
        let start = *starts;
        drop(starts);
        let gathered = gather(&told, start, interval, plan.threads, watch);
        let done: Vec<_> =
            threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Thread))).collect::<Result<_, _>>()?;
        let measured = done.iter().map(|done| done.measured).min().unwrap_or_default();
        let intervals = gathered.full_intervals(plan.warm_up, measured);
        Ok(Report::new(plan, &done, start - common.start, intervals))
    })
}

fn interval(until: Until) -> Duration {
    match until {
        Until::Elapsed(span) => INTERVAL.min(span / LEAST_INTERVALS).max(Duration::from_millis(1)),
        Until::Count(_) => INTERVAL_OF_COUNT,
    }
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
