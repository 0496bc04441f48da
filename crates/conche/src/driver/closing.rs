//! How a driver ends: in time, and with an answer for whoever waits for one.

use std::time::Duration;

use tokio::time::Instant;

use super::Driver;
use crate::controllers::SharedController;

/// Of the time for a shutdown, one part in so many is left for telling those whose handlers have not ended.
const FAREWELL_PART: u32 = 4;

/// It is no more than this, in which a farewell is retransmitted once.
const LONGEST_FAREWELL: Duration = Duration::from_secs(5);

/// As good as for ever, and no time that overflows.
const LONGEST_SHUTDOWN: Duration = Duration::from_secs(365 * 86_400);

/// A shutdown is under way.
pub(super) struct Closing {
    /// When handlers that have not ended are given up. `None`: they were.
    farewell: Option<Instant>,
    end: Instant,
}

impl Closing {
    pub(super) fn within(within: Duration) -> Self {
        let end = Instant::now() + within.min(LONGEST_SHUTDOWN);
        Self { farewell: Some(end - (within / FAREWELL_PART).min(LONGEST_FAREWELL)), end }
    }

    /// When something is to be done next.
    pub(super) fn due(&self) -> Instant {
        self.farewell.unwrap_or(self.end)
    }
}

impl<C: SharedController> Driver<C> {
    /// The time of a shutdown is nearly over: whoever still waits for a response is told to come back later, instead of
    /// waiting in vain. `true` if this was done now.
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

    /// Nothing is left to do after a shutdown, here and by its company, or its time is over. Until then it answers, if only that it serves
    /// no more.
    pub(super) fn is_done(&mut self) -> bool {
        let late = self.closing.as_ref().is_some_and(|closing| closing.end <= Instant::now());
        // Who has a place in a line will open an exchange, or has told so already.
        let idle =
            self.serving.is_idle() && !self.bodies.are_leaving() && self.turns.is_empty() && self.commands.is_empty();
        let occupancy = self.endpoint.occupancy();
        if idle && occupancy.exchanges == 0 && occupancy.awaiting_validation == 0 {
            self.company.has_done();
        }
        late || self.company.have_all_done()
    }
}
