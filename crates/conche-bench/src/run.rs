//! Runs a load test from start to report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

use crate::collector::{Live, collect};
use crate::error::Error;
use crate::plan::{Plan, Until};
use crate::report::Report;
use crate::schedule::Share;
use crate::worker::{Worker, WorkerContext};

/// Unless shorter than ten.
const INTERVAL: Duration = Duration::from_secs(1);

/// May end soon.
const INTERVAL_OF_COUNT: Duration = Duration::from_millis(250);

const LEAST_INTERVALS: u32 = 10;

/// Runs a test. `stop` ends it early, with the measurements so far; `watch` receives progress.
///
/// # Errors
/// If the test cannot run, or the server is unreachable from the start.
pub fn run(plan: &Plan, stop: &AtomicBool, watch: &mut dyn FnMut(&Live)) -> Result<Report, Error> {
    plan.validate()?;
    allow_many_files();
    let interval = interval(plan.until);
    let common = WorkerContext { plan, start: Instant::now(), interval, stop };
    let (samples, received) = mpsc::channel();
    // Prepared threads drop their sender.
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
                    let stop_all = || stop.store(true, Ordering::Relaxed);
                    let worker = worker.inspect_err(|_| stop_all());
                    drop(preparing);
                    let start = *start.read().unwrap_or_else(PoisonError::into_inner);
                    worker?.run(start).inspect_err(|_| stop_all())
                })
            })
            .collect();
        drop((samples, preparing));
        // Returns when all senders are dropped.
        let _ = prepared.recv();
        *starts = Instant::now();
        let start = *starts;
        drop(starts);
        let collector = collect(&received, start, interval, plan.threads, watch);
        let done: Vec<_> =
            threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Thread))).collect::<Result<_, _>>()?;
        let measured = done.iter().map(|done| done.measured).min().unwrap_or_default();
        let intervals = collector.full_intervals(plan.warm_up, measured);
        Ok(Report::new(plan, &done, start - common.start, intervals))
    })
}

fn interval(until: Until) -> Duration {
    match until {
        Until::Elapsed(span) => INTERVAL.min(span / LEAST_INTERVALS).max(Duration::from_millis(1)),
        Until::Count(_) => INTERVAL_OF_COUNT,
    }
}

/// One socket per endpoint.
fn allow_many_files() {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
            && soft < hard
        {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
    }
}
