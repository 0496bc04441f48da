//! Links whose rate changes as in a recording.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::rng::Stream;
use crate::units::nanos;
use crate::{BitRate, Instant};

/// A rate over time, which repeats at the time of its last step.
///
/// Within a frame, the rate may change: its transmission ends when all bits have left.
///
/// ```
/// use conche_netsim::wired::RateTrace;
///
/// // 1 Mbit/s for 2 s, an outage of 1 s, 3 Mbit/s for 1 s; and again.
/// let trace = RateTrace::new(&[(0.0, 1e6), (2.0, 0.0), (3.0, 3e6), (4.0, 0.0)])?;
/// assert_eq!(trace.mean_rate().as_bits(), 1_250_000);
/// # Ok::<(), conche_netsim::wired::RateTraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTrace {
    steps: Arc<[Step]>,
    period: u64,
    /// Of a period, in bits·ns/s.
    work: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    from: u64,
    bits_per_second: u64,
}

/// Why rows are not a trace of rates.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RateTraceError {
    /// There are not enough rows.
    #[error("a trace has at least two rows: the first rate, and the time at which the trace repeats")]
    TooShort,
    /// A time is not above the previous one, or no time.
    #[error("row {row}: {time_s} s is no time after that of the row above; write seconds that rise")]
    Time {
        /// Number of the row, from 1.
        row: usize,
        /// Its time.
        time_s: f64,
    },
    /// A rate is negative or no number.
    #[error("row {row}: {rate} bit/s is no rate; write bits per second, and 0 for an outage")]
    Rate {
        /// Number of the row, from 1.
        row: usize,
        /// Its rate.
        rate: f64,
    },
    /// The trace never sends.
    #[error("all rates are 0 bit/s; write at least one that sends")]
    Silent,
}

const NANOS: f64 = 1e9;
/// 100 years, in seconds.
const LONGEST_S: f64 = 100.0 * 366.0 * 86_400.0;
const FASTEST: f64 = 1e15;

impl RateTrace {
    /// Creates a trace from rows of time in seconds and rate in bit/s, which holds from that time
    /// on. The last row only ends the trace.
    ///
    /// # Errors
    /// If times do not rise, a rate is negative, or all are 0.
    pub fn new(rows: &[(f64, f64)]) -> Result<Self, RateTraceError> {
        let [(first, _), .., (last, _)] = rows else { return Err(RateTraceError::TooShort) };
        let (mut before, mut steps) = (None, Vec::with_capacity(rows.len()));
        for (row, (time_s, rate)) in (1..).zip(rows) {
            if !(0.0..=LONGEST_S).contains(time_s) || before.is_some_and(|before| before >= whole(time_s * NANOS)) {
                return Err(RateTraceError::Time { row, time_s: *time_s });
            }
            if !(0.0..=FASTEST).contains(rate) {
                return Err(RateTraceError::Rate { row, rate: *rate });
            }
            before = Some(whole(time_s * NANOS));
            steps.push(Step { from: whole(time_s * NANOS) - whole(first * NANOS), bits_per_second: whole(*rate) });
        }
        steps.pop();
        let period = whole(last * NANOS) - whole(first * NANOS);
        let mut trace = Self { steps: steps.into(), period, work: 0 };
        trace.work = (0..trace.steps.len()).map(|step| trace.work_from(step, trace.steps[step].from)).sum();
        if trace.work == 0 { Err(RateTraceError::Silent) } else { Ok(trace) }
    }

    /// Returns the long-run rate, at least 1 bit/s.
    #[must_use]
    pub fn mean_rate(&self) -> BitRate {
        BitRate::bit(u64::try_from(self.work / u128::from(self.period)).unwrap_or(u64::MAX).max(1))
    }

    /// Returns the work from a time within a step to its end.
    fn work_from(&self, step: usize, at: u64) -> u128 {
        let end = self.steps.get(step + 1).map_or(self.period, |next| next.from);
        u128::from(end - at) * u128::from(self.steps[step].bits_per_second)
    }
}

/// A trace on a link, from a point in it.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    trace: RateTrace,
    start: u64,
}

impl Rates {
    /// Without a `start`, it is random.
    pub(super) fn new(trace: RateTrace, start: Option<Duration>, mut stream: Stream) -> Self {
        let start = start.map_or_else(|| stream.below(trace.period), |start| nanos(start) % trace.period);
        Self { trace, start }
    }

    pub(super) fn mean_rate(&self) -> BitRate {
        self.trace.mean_rate()
    }

    /// Returns the transmission time of a frame from `now` on. `nanos_at_one` is its duration at
    /// one bit per second.
    pub(super) fn nanos(&self, now: Instant, nanos_at_one: u64) -> u64 {
        let trace = &self.trace;
        let mut left = u128::from(nanos_at_one);
        // All but the last period.
        let periods = left.saturating_sub(1) / trace.work;
        left -= periods * trace.work;
        let mut nanos = periods * u128::from(trace.period);
        let at = (u128::from(now.as_nanos()) + u128::from(self.start)) % u128::from(trace.period);
        let mut at = u64::try_from(at).unwrap_or(0);
        let mut step = trace.steps.partition_point(|step| step.from <= at).saturating_sub(1);
        loop {
            let work = trace.work_from(step, at);
            if left <= work {
                let rate = u128::from(trace.steps[step].bits_per_second).max(1);
                return u64::try_from(nanos + (left + rate / 2) / rate).unwrap_or(u64::MAX);
            }
            left -= work;
            let end = trace.steps.get(step + 1).map_or(trace.period, |next| next.from);
            nanos += u128::from(end - at);
            (step, at) = if end == trace.period { (0, 0) } else { (step + 1, end) };
        }
    }
}

// Not negative, and casts saturate.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: f64) -> u64 {
    (value + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    fn rates(rows: &[(f64, f64)], start_s: u64) -> Rates {
        let stream = Streams::new(1).stream(Entity::Run, Purpose::named("test"));
        Rates::new(RateTrace::new(rows).expect("a trace"), Some(Duration::from_secs(start_s)), stream)
    }

    /// 1000 bit at 1 kbit/s for 2 s, 0 for 1 s, 4 kbit/s for 1 s.
    #[test]
    fn a_frame_takes_until_the_rates_have_sent_its_bits() {
        let rows = [(5.0, 1e3), (7.0, 0.0), (8.0, 4e3), (9.0, 9.0)];
        for (start, now_ms, bits, expected_ms) in [
            (0, 0, 1000, 1000),
            (0, 1500, 1000, 1500 + 125),
            (0, 2000, 4000, 1000 + 1000),
            (0, 2500, 4000, 500 + 1000),
            (0, 3500, 3000, 500 + 1000),
            (0, 4000, 2000, 2000),
            (0, 0, 6000, 4000),
            (0, 0, 600_001, 400_001),
            (3, 0, 1000, 250),
            (4, 0, 1000, 1000),
            (7, 4000, 1000, 250),
        ] {
            let nanos = rates(&rows, start).nanos(Instant::from_millis(now_ms), bits * 1_000_000_000);
            assert_eq!(nanos, expected_ms * 1_000_000, "{bits} bits from {now_ms} ms after {start} s");
        }
        assert_eq!(rates(&rows, 0).mean_rate(), BitRate::bit(1500));
    }

    #[test]
    fn a_constant_trace_takes_the_time_of_its_rate() {
        let constant = rates(&[(0.0, 30_000.0), (1e-3, 30_000.0), (2e-3, 0.0)], 0);
        for (now, bytes) in [(0, 94), (12_345, 1500), (999, 1)] {
            let bits = u64::from(bytes) * 8 * 1_000_000_000;
            let expected = BitRate::kbit(30).serialisation_nanos(bytes);
            assert_eq!(constant.nanos(Instant::from_nanos(now), bits), expected);
        }
    }

    #[test]
    fn rows_that_are_no_trace_are_refused_with_their_number() {
        let error = |rows: &[(f64, f64)]| RateTrace::new(rows).expect_err("no trace").to_string();
        assert!(error(&[(0.0, 1.0)]).contains("at least two rows"));
        assert!(error(&[(1.0, 1.0), (1.0, 1.0)]).starts_with("row 2: 1 s is no time after that of the row above"));
        assert!(error(&[(-1.0, 1.0), (1.0, 1.0)]).starts_with("row 1: -1 s is no time"));
        assert!(error(&[(0.0, 1.0), (f64::NAN, 1.0)]).starts_with("row 2: NaN s is no time"));
        assert!(error(&[(0.0, -1.0), (1.0, 1.0)]).starts_with("row 1: -1 bit/s is no rate"));
        assert!(error(&[(0.0, 0.0), (1.0, 1.0)]).contains("all rates are 0"));
    }
}
