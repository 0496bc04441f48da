//! [`Clock`]: virtual time as the wall clock shows it, and the lateness of events.

use std::time::{Duration, Instant as WallInstant};

use conche_netsim::Instant;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::links::milliseconds;

/// Longer ones count as a day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Durations, in microseconds, with an error of a thousandth.
#[derive(Clone, Debug)]
pub struct Delays(Histogram<u64>);

impl Default for Delays {
    fn default() -> Self {
        Self(Histogram::new(3).unwrap_or_else(|_| unreachable!("3 digits are valid")))
    }
}

impl Delays {
    pub fn record(&mut self, delay: Duration) {
        // The histogram grows as needed.
        let _ = self.0.record(u64::try_from(delay.min(LONGEST).as_micros()).unwrap_or(u64::MAX));
    }

    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns a percentile; `None` without durations.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_micros(self.0.value_at_percentile(percent)))
    }
}

/// Too many events happened too late.
#[derive(Debug, thiserror::Error)]
#[error(
    "the run is invalid: 1 % of the events were more than {:.1} ms late, and at most {:.1} ms are allowed; use a \
     faster or less loaded machine, fewer programs, or a larger --stagger or --max-lateness",
    milliseconds(*p99),
    milliseconds(*limit)
)]
pub struct Late {
    p99: Duration,
    limit: Duration,
}

/// The lateness of events: the difference between the wall clock and their time.
#[derive(Clone, Debug, Serialize)]
pub struct Lateness {
    pub events: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    pub limit_ms: f64,
}

#[derive(Debug)]
pub struct Clock {
    began: WallInstant,
    lateness: Delays,
}

impl Clock {
    /// Starts virtual time.
    pub fn start() -> Self {
        Self { began: WallInstant::now(), lateness: Delays::default() }
    }

    /// Returns the virtual time of a moment.
    pub fn at(&self, moment: WallInstant) -> Instant {
        Instant::ZERO + moment.saturating_duration_since(self.began)
    }

    pub fn now(&self) -> Instant {
        self.at(WallInstant::now())
    }

    /// Records the lateness of an event that happens now and was due at this time.
    pub fn happens(&mut self, due: Instant) {
        let now = self.now();
        self.lateness.record(now.max(due) - due);
    }

    /// Returns the 99th percentile of the lateness so far, in milliseconds.
    pub fn p99_ms(&self) -> Option<f64> {
        self.lateness.percentile(99.0).map(milliseconds)
    }

    pub fn lateness(&self, limit: Duration) -> Lateness {
        let ms = |percent| self.lateness.percentile(percent).map_or(0.0, milliseconds);
        let (p50_ms, p99_ms, max_ms) = (ms(50.0), ms(99.0), ms(100.0));
        Lateness { events: self.lateness.len(), p50_ms, p99_ms, max_ms, limit_ms: milliseconds(limit) }
    }

    /// Fails if the 99th percentile of the lateness exceeds the limit.
    pub fn check(&self, limit: Duration) -> Result<(), Late> {
        match self.lateness.percentile(99.0) {
            Some(p99) if p99 > limit => Err(Late { p99, limit }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_invalid_if_one_percent_of_its_events_is_too_late() {
        let mut clock = Clock::start();
        let limit = Duration::from_millis(10);
        clock.check(limit).expect("no event was late");
        let with = |clock: &mut Clock, count, delay| (0..count).for_each(|_| clock.lateness.record(delay));
        with(&mut clock, 995, Duration::from_millis(1));
        with(&mut clock, 5, Duration::from_millis(40));
        clock.check(limit).expect("0.5 % were late");
        with(&mut clock, 6, Duration::from_millis(40));
        let error = clock.check(limit).expect_err("more than 1 % were late");
        assert!(error.to_string().contains("more than 40.0 ms late, and at most 10.0 ms"), "{error}");
        let Lateness { events, p50_ms, max_ms, .. } = clock.lateness(limit);
        assert!(events == 1006 && (0.99..1.01).contains(&p50_ms) && (39.9..40.1).contains(&max_ms));
    }
}
