//! Recorded links: a trace lists the times at which bytes may leave.
//!
//! Source: the traces of mahimahi's `mm-link` (Netravali et al.: Mahimahi: accurate
//! record-and-replay for HTTP, USENIX ATC 2015), in the format of Winstein, Sivaraman,
//! Balakrishnan: Stochastic forecasts achieve high throughput and low delay over cellular networks,
//! NSDI 2013. Divergence: a frame may be longer than an opportunity.

use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::{BitRate, Instant};

/// mahimahi's MTU of 1500 plus its interface's header.
pub(super) const OPPORTUNITY_BYTES: u32 = 1504;

/// A trace of a link in mahimahi's format.
///
/// Each line is an opportunity to send 1504 bytes, in ascending milliseconds from the start. The
/// trace repeats at its last line's time.
///
/// Small frames may share an opportunity; a large one takes several. Unused bytes are lost.
///
/// ```
/// use conche_netsim::wired::LinkTrace;
///
/// let trace: LinkTrace = "0\n4\n4\n10\n".parse()?;
/// assert_eq!(trace.mean_rate().as_bits(), 4 * 1504 * 8 * 100);
/// let error = "0\n4.5\n".parse::<LinkTrace>().unwrap_err();
/// assert_eq!(error.to_string(), "line 2: \"4.5\" is not a whole number of milliseconds, such as 17");
/// # Ok::<(), conche_netsim::wired::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTrace {
    opportunities_ms: Arc<[u64]>,
}

/// Why a text is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// A line is not a number.
    #[error("line {line}: {text:?} is not a whole number of milliseconds, such as 17")]
    NoTime {
        /// Line number, from 1.
        line: usize,
        /// Contents of the line.
        text: String,
    },
    /// The times are not in ascending order.
    #[error("line {line}: {time_ms} ms is before the {before_ms} ms of the line above; times do not fall")]
    Falling {
        /// Line number, from 1.
        line: usize,
        /// Time of the line.
        time_ms: u64,
        /// Time of the previous line.
        before_ms: u64,
    },
    /// A time is later than the longest possible run.
    #[error("line {line}: {time_ms} ms is more than 500 years")]
    TooLate {
        /// Line number, from 1.
        line: usize,
        /// Time of the line.
        time_ms: u64,
    },
    /// No lines, or all are 0.
    #[error("a trace lasts until the time of its last line, which must be at least 1 ms")]
    Empty,
}

const NANOS_A_MILLISECOND: u64 = 1_000_000;
/// 500 years.
const LATEST_MS: u64 = 500 * 366 * 86_400_000;

impl FromStr for LinkTrace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut opportunities_ms: Vec<u64> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let no_time = || TraceError::NoTime { line, text: text.to_owned() };
            let time_ms: u64 = text.trim().parse().map_err(|_| no_time())?;
            match opportunities_ms.last() {
                Some(&before_ms) if time_ms < before_ms => {
                    return Err(TraceError::Falling { line, time_ms, before_ms });
                }
                _ if time_ms > LATEST_MS => return Err(TraceError::TooLate { line, time_ms }),
                _ => opportunities_ms.push(time_ms),
            }
        }
        if opportunities_ms.last().is_none_or(|last| *last == 0) {
            return Err(TraceError::Empty);
        }
        Ok(Self { opportunities_ms: opportunities_ms.into() })
    }
}

impl LinkTrace {
    /// Returns the long-run rate of the link.
    #[must_use]
    pub fn mean_rate(&self) -> BitRate {
        let bits = self.opportunities_ms.len() as u128 * u128::from(OPPORTUNITY_BYTES) * 8;
        BitRate::bit(u64::try_from(bits * 1_000 / u128::from(self.period_ms())).unwrap_or(u64::MAX))
    }

    fn period_ms(&self) -> u64 {
        self.opportunities_ms.last().copied().unwrap_or(1)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Opportunities {
    trace: LinkTrace,
    round: u64,
    /// Line of the next opportunity.
    line: usize,
}

impl Opportunities {
    pub(super) fn new(trace: LinkTrace) -> Self {
        Self { trace, round: 0, line: 0 }
    }

    pub(super) fn mean_rate(&self) -> BitRate {
        self.trace.mean_rate()
    }

    pub(super) fn next(&self) -> Instant {
        let begin_ms = self.round.saturating_mul(self.trace.period_ms());
        let at_ms = begin_ms.saturating_add(self.trace.opportunities_ms[self.line]);
        Instant::from_nanos(at_ms.saturating_mul(NANOS_A_MILLISECOND))
    }

    pub(super) fn take(&mut self) {
        self.line += 1;
        if self.line == self.trace.opportunities_ms.len() {
            (self.round, self.line) = (self.round + 1, 0);
        }
    }

    pub(super) fn pass(&mut self, now: Instant) {
        let period = self.trace.period_ms() * NANOS_A_MILLISECOND;
        let (round, within) = (now.as_nanos() / period, now.as_nanos() % period);
        // A period's last line coincides with the next one's start.
        let line = self.trace.opportunities_ms.partition_point(|ms| ms * NANOS_A_MILLISECOND <= within);
        (self.round, self.line) = (self.round, self.line).max((round, line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opportunities(text: &str) -> Opportunities {
        Opportunities::new(text.parse().expect("a trace"))
    }

    fn times<const N: usize>(opportunities: &mut Opportunities) -> [u128; N] {
        std::array::from_fn(|_| {
            let at = opportunities.next();
            opportunities.take();
            (at - Instant::ZERO).as_millis()
        })
    }

    #[test]
    fn a_trace_begins_anew_at_the_time_of_its_last_line() {
        assert_eq!(times(&mut opportunities("1\n")), [1, 2, 3, 4]);
        assert_eq!(times(&mut opportunities("0\n3\n3\n10\n")), [0, 3, 3, 10, 10, 13, 13, 20]);
    }

    #[test]
    fn passed_opportunities_cannot_be_used() {
        for (now_ms, next) in
            [(0, [3, 3, 10]), (2, [3, 3, 10]), (3, [10, 10, 13]), (10, [13, 13, 20]), (19, [20, 20, 23])]
        {
            let mut opportunities = opportunities("0\n3\n3\n10\n");
            opportunities.pass(Instant::from_millis(now_ms));
            assert_eq!(times(&mut opportunities), next, "after {now_ms} ms");
        }
        let mut used = opportunities("0\n3\n3\n10\n");
        let _: [u128; 5] = times(&mut used);
        used.pass(Instant::from_millis(3));
        assert_eq!(times(&mut used), [13], "what was used is not there again");
    }

    #[test]
    fn trace_errors_name_their_line() {
        let error = |text: &str| text.parse::<LinkTrace>().expect_err("no trace").to_string();
        assert_eq!(error("5\n\n7"), "line 2: \"\" is not a whole number of milliseconds, such as 17");
        assert_eq!(error("5\n4"), "line 2: 4 ms is before the 5 ms of the line above; times do not fall");
        assert!(error("").contains("at least 1 ms"));
        assert!(error("0\n0\n").contains("at least 1 ms"));
        assert!(error("18446744073709551615").contains("more than 500 years"));
    }
}
