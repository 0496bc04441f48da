//! [`Fence`]: contains a panic in code that serves one peer, and so ends only that peer's request
//! or session. [`Throttle`]: limits the rate of a log message that peers can cause.
//!
//! A panic drops the state of the fenced code: a handler's future, one EDHOC message's
//! computations, or a DTLS session. A fence never surrounds the endpoint, whose state all peers
//! share. `docs/decisions/0042-panics.md` lists the places.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::error;

/// Logs at most one panic per second. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence(Arc<PanicLog>);

#[derive(Debug, Default)]
struct PanicLog {
    panics: AtomicU64,
    log: Mutex<Throttle>,
    #[cfg(test)]
    injected: Mutex<Option<&'static str>>,
}

impl Fence {
    /// Returns `None` if `serve` panics. `what` names the code in the log.
    pub(crate) fn run<T>(&self, what: &'static str, serve: impl FnOnce() -> T) -> Option<T> {
        #[cfg(test)]
        let serve = || {
            let injected = self.0.injected.lock().expect("no panic while locked").take_if(|injected| *injected == what);
            assert!(injected.is_none(), "an injected panic in {what}");
            serve()
        };
        let result = catch_unwind(AssertUnwindSafe(serve)).ok();
        if result.is_none() {
            self.count(what, 1);
        }
        result
    }

    pub(crate) fn count(&self, what: &'static str, panics: u64) {
        self.0.panics.fetch_add(panics, Ordering::Relaxed);
        let mut log = self.0.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held_back) = log.passes(Instant::now()) {
            error!(what, held_back, "code that serves one peer panicked: its request or session ends");
        }
    }

    #[cfg(test)]
    pub(crate) fn inject_panic(&self, what: &'static str) {
        *self.0.injected.lock().expect("no panic while locked") = Some(what);
    }

    pub(crate) fn panics(&self) -> u64 {
        self.0.panics.load(Ordering::Relaxed)
    }
}

const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Throttle {
    last: Option<Instant>,
    held_back: u64,
}

impl Throttle {
    /// Returns the number of suppressed messages, or `None` to suppress this one.
    pub(crate) fn passes(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            self.held_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_counted_and_later_code_runs() {
        let fence = Fence::default();
        assert_eq!(fence.run("a test", || 7), Some(7));
        fence.inject_panic("a test");
        assert_eq!(fence.run("another", || 6), Some(6));
        assert_eq!(fence.run("a test", || 7), None);
        assert_eq!(fence.clone().run("a test", || 8), Some(8));
        assert_eq!(fence.panics(), 1);
    }

    #[test]
    fn one_message_a_second_passes_with_the_number_of_those_held_back() {
        let mut throttle = Throttle::default();
        let start = Instant::now();
        assert_eq!(throttle.passes(start), Some(0));
        assert_eq!(throttle.passes(start), None);
        assert_eq!(throttle.passes(start + PAUSE / 2), None);
        assert_eq!(throttle.passes(start + PAUSE), Some(2));
        assert_eq!(throttle.passes(start + PAUSE * 5), Some(0));
    }
}
