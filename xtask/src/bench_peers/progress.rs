//! How far the measurements are, and how long those that remain will take.

use std::time::Duration;

use super::load::Load;
use super::measure::Extent;

/// What a measurement takes beside its load: a start, an end, and what is in flight then.
const AROUND_S: f64 = 2.0;

/// What it takes to find out how much memory a session needs.
const SESSIONS_S: f64 = 7.0;

/// Measurements in their order, with how long they are to take in seconds.
pub struct Progress {
    expected: Vec<f64>,
    done: usize,
}

impl Progress {
    /// None of these has been made.
    pub fn new(loads: impl IntoIterator<Item = Load>, extent: Extent) -> Self {
        let expected = loads.into_iter().map(|load| {
            let extra = match load {
                // Most servers are faster. Those that are not end it.
                Load::Known => extent.introducing,
                Load::Handshakes => SESSIONS_S,
                _ => 0.0,
            };
            extent.warm_up + extent.seconds + AROUND_S + extra
        });
        Self { expected: expected.collect(), done: 0 }
    }

    /// The next begins, so long after the first did. The answer is which it is and what remains.
    pub fn next(&mut self, elapsed: Duration) -> String {
        let (done, left) = self.expected.split_at(self.done.min(self.expected.len()));
        let (was_expected, left): (f64, f64) = (done.iter().sum(), left.iter().sum());
        // Those that are done say how much this machine differs from what is expected.
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
