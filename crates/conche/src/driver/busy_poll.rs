//! Busy polling for responses that are expected soon, instead of sleeping.

use std::time::{Duration, Instant};

use super::{Address, Driver, Service, SharedController};

/// How long responses are polled for after a request has left.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// Maximum polling time; zero disables polling.
    max: Duration,
    /// On a clock that runs while tokio's is paused, so that polling always ends.
    until: Option<Instant>,
}

/// Upper bound of `max`, a century, which no clock overflows.
const MAX_POLL: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl BusyPoll {
    pub(super) fn new(max: Duration) -> Self {
        Self { max: max.min(MAX_POLL), until: None }
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Starts polling after a request left, if the path's RTT is short enough.
    pub(super) fn expect_answer(&mut self, from: &Address) {
        let max = self.busy_poll.max;
        if max.is_zero() {
            return;
        }
        let round_trip = self.endpoint.snapshot(from).and_then(|peer| peer.congestion.srtt);
        if round_trip.is_none_or(|round_trip| round_trip <= max) {
            self.busy_poll.until = Some(Instant::now() + max);
        }
    }

    /// Returns the end of polling, if it is in the future and exchanges are outstanding.
    pub(super) fn looks_until(&mut self) -> Option<Instant> {
        let until = self.busy_poll.until?;
        if self.exchanges.is_empty() || until <= Instant::now() {
            self.busy_poll.until = None;
        }
        self.busy_poll.until
    }
}
