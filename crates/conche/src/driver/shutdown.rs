//! Shuts a driver down in time, with a response to every request.

use std::time::Duration;

use tokio::time::Instant;

use super::{Driver, Service, SharedController};

/// Fraction of the shutdown time that is reserved for answering unfinished requests.
const ANSWER_PART: u32 = 4;

/// Upper bound of that time, in which a response is retransmitted once.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(5);

/// Upper bound of the shutdown time, a year, which cannot overflow.
const MAX_SHUTDOWN: Duration = Duration::from_secs(365 * 86_400);

pub(super) struct Shutdown {
    /// When unfinished handlers are dropped; `None` after that.
    answer_at: Option<Instant>,
    end: Instant,
}

impl Shutdown {
    pub(super) fn within(within: Duration) -> Self {
        let end = Instant::now() + within.min(MAX_SHUTDOWN);
        Self { answer_at: Some(end - (within / ANSWER_PART).min(MAX_ANSWER_TIME)), end }
    }

    pub(super) fn due(&self) -> Instant {
        self.answer_at.unwrap_or(self.end)
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Drops unfinished handlers near the end of the shutdown, and answers their requests with
    /// 5.03. Returns `true` if this happened now.
    pub(super) fn answer_unfinished(&mut self) -> bool {
        let Some(shutdown) = self.shutdown.as_mut() else { return false };
        let now = Instant::now();
        if shutdown.answer_at.take_if(|answer_at| *answer_at <= now).is_none() {
            return false;
        }
        self.now = self.clock.now();
        for (request, response) in self.calls.give_up() {
            self.respond(request, response);
        }
        true
    }

    /// Whether the shutdown is complete, for this driver and its barrier, or its time has expired.
    /// Until then the driver answers requests, at least with 5.03.
    pub(super) fn is_done(&mut self) -> bool {
        let late = self.shutdown.as_ref().is_some_and(|shutdown| shutdown.end <= Instant::now());
        // A queued request will open an exchange, or its command is already sent.
        let idle = self.calls.is_idle()
            && !self.streams.has_responses()
            && self.admission.is_empty()
            && self.commands.is_empty();
        let occupancy = self.endpoint.occupancy();
        if idle && occupancy.exchanges == 0 && occupancy.awaiting_validation == 0 {
            self.barrier.finish();
        }
        late || self.barrier.have_all_done()
    }
}
