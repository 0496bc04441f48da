//! Progress of the measurements, and the remaining time.

use std::time::Duration;

use crate::load::Load;
use crate::measure::Extent;

/// Overhead of a measurement: start, end, and requests in flight.
const AROUND_S: f64 = 2.0;

/// Duration of measuring the memory per session.
const SESSIONS_S: f64 = 7.0;

/// Measurements in order, with their expected durations in seconds.
pub struct Progress {
    expected: Vec<f64>,
    done: usize,
}

impl Progress {
    /// Creates the progress of these loads.
    pub fn new(loads: impl IntoIterator<Item = Load>, extent: Extent) -> Self {
        let expected = loads.into_iter().map(|load| {
            let extra = match load {
                // The maximum: slow servers reach it, most are faster.
                Load::Known => extent.introducing,
                Load::Handshakes => SESSIONS_S,
                _ => 0.0,
            };
            extent.warm_up + extent.seconds + AROUND_S + extra
        });
        Self { expected: expected.collect(), done: 0 }
    }

    /// Starts the next measurement, `elapsed` after the first. Returns its number and the remaining
    /// time.
    pub fn next(&mut self, elapsed: Duration) -> String {
        let (done, left) = self.expected.split_at(self.done.min(self.expected.len()));
        let (was_expected, left): (f64, f64) = (done.iter().sum(), left.iter().sum());
        // Completed measurements calibrate the expectation to this machine.
        let pace = if was_expected > 0.0 { elapsed.as_secs_f64() / was_expected } else { 1.0 };
        self.done += 1;
        format!("{} of {}, {:.0} min to go", self.done, self.expected.len(), (left * pace / 60.0).ceil())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_follows_the_pace_of_what_is_done() {
        let extent = Extent { rounds: 1, seconds: 10.0, warm_up: 5.0, known: 100_000, introducing: 20.0 };
        // 17 s each, and 37 s.
        let mut progress = Progress::new([Load::Many, Load::Wide, Load::Known], extent);
        assert_eq!(progress.next(Duration::ZERO), "1 of 3, 2 min to go");
        assert_eq!(progress.next(Duration::from_secs(17)), "2 of 3, 1 min to go");
        assert_eq!(progress.next(Duration::from_secs(340)), "3 of 3, 7 min to go");
    }
}
