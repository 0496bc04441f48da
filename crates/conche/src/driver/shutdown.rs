//! Shuts a driver down in time, with a response to every request.

use std::time::Duration;

use tokio::time::Instant;

use super::Driver;
use crate::controllers::SharedController;

/// Fraction of the shutdown time that is reserved for answering unfinished requests.
const FAREWELL_PART: u32 = 4;

/// Upper bound of that time, in which a response is retransmitted once.
const LONGEST_FAREWELL: Duration = Duration::from_secs(5);

/// Upper bound of the shutdown time, a year, which cannot overflow.
const LONGEST_SHUTDOWN: Duration = Duration::from_secs(365 * 86_400);

pub(super) struct Closing {
    /// When unfinished handlers are dropped; `None` after that.
    farewell: Option<Instant>,
    end: Instant,
}

impl Closing {
    pub(super) fn within(within: Duration) -> Self {
        let end = Instant::now() + within.min(LONGEST_SHUTDOWN);
        Self { farewell: Some(end - (within / FAREWELL_PART).min(LONGEST_FAREWELL)), end }
    }

    pub(super) fn due(&self) -> Instant {
        self.farewell.unwrap_or(self.end)
    }
}

impl<C: SharedController> Driver<C> {
    /// Drops unfinished handlers near the end of the shutdown, and answers their requests with
    /// 5.03. Returns `true` if this happened now.
    pub(super) fn say_farewell(&mut self) -> bool {
        let Some(closing) = self.closing.as_mut() else { return false };
        let now = Instant::now();
        if closing.farewell.take_if(|farewell| *farewell <= now).is_none() {
            return false;
        }
        self.now = self.clock.now();
        for (request, response) in self.serving.give_up() {
            self.respond(request, response);
        }
        true
    }

    /// Whether the shutdown is complete, for this driver and its barrier, or its time has expired.
    /// Until then the driver answers requests, at least with 5.03.
    pub(super) fn is_done(&mut self) -> bool {
        let late = self.closing.as_ref().is_some_and(|closing| closing.end <= Instant::now());
        // A queued request will open an exchange, or its command is already sent.
        let idle =
            self.serving.is_idle() && !self.bodies.are_leaving() && self.turns.is_empty() && self.commands.is_empty();
        let occupancy = self.endpoint.occupancy();
        if idle && occupancy.exchanges == 0 && occupancy.awaiting_validation == 0 {
            self.company.has_done();
        }
        late || self.company.have_all_done()
    }
}
