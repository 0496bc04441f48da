//! Answers that are expected so soon that it is not worth to sleep until they come (busy polling).

use std::time::{Duration, Instant};

use super::{Address, Driver};
use crate::controllers::SharedController;

/// For how long after a request has left its answer is looked for, and until when that is of the last one.
#[derive(Debug)]
pub(super) struct Expecting {
    /// Zero: never.
    longest: Duration,
    /// By a clock that goes on while tokio's is paused, so that nothing is looked for for ever.
    until: Option<Instant>,
}

/// As good as for ever, and short enough that no clock ends before: a century.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl Expecting {
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest: longest.min(FOR_EVER), until: None }
    }
}

impl<C: SharedController> Driver<C> {
    /// A request leaves. What congestion control knows of the path tells whether its answer may come in time.
    pub(super) fn expect_answer(&mut self, from: &Address) {
        let longest = self.expecting.longest;
        if longest.is_zero() {
            return;
        }
        let round_trip = self.endpoint.snapshot(from).and_then(|peer| peer.congestion.srtt);
        if round_trip.is_none_or(|round_trip| round_trip <= longest) {
            self.expecting.until = Some(Instant::now() + longest);
        }
    }

    /// Until when answers are looked for without sleeping, if that is still to come and there are some to come.
    pub(super) fn looks_until(&mut self) -> Option<Instant> {
        let until = self.expecting.until?;
        if self.exchanges.is_empty() || until <= Instant::now() {
            self.expecting.until = None;
        }
        self.expecting.until
    }
}
