//! Statistics of the pings.

use std::fmt;
use std::time::{Duration, Instant};

use conche::Course;
use serde::Serialize;

/// Counts pings, and sums up round-trip times of those without retransmission: otherwise the
/// answered transmission is ambiguous (Karn's algorithm).
#[derive(Debug, Default)]
pub struct Statistics {
    first: Option<Instant>,
    last: Option<Instant>,
    sent: u64,
    answered: u64,
    repeated: u64,
    /// All in milliseconds.
    least: f64,
    most: f64,
    sum: f64,
    squares: f64,
}

impl Statistics {
    /// Records the start of a ping.
    pub fn start(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.sent += 1;
    }

    /// Records the end of the last ping, answered or not.
    pub fn end(&mut self, answer: Option<Course>) {
        let Some(course) = answer else { return };
        self.answered += 1;
        if course.transmissions > 1 {
            self.repeated += 1;
            return;
        }
        let rtt = course.elapsed.as_secs_f64() * 1e3;
        self.least = if self.measured() == 1 { rtt } else { self.least.min(rtt) };
        self.most = self.most.max(rtt);
        self.sum += rtt;
        self.squares += rtt * rtt;
    }

    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Returns the time since the last ping began.
    pub fn since_last(&self) -> Duration {
        self.last.map(|last| last.elapsed()).unwrap_or_default()
    }

    /// Pings with a round-trip time.
    fn measured(&self) -> u64 {
        self.answered - self.repeated
    }

    /// Returns the summary to print.
    pub fn summary(&self) -> Summary {
        let count = self.measured() as f64;
        let mean = self.sum / count;
        let rtt_ms = (self.measured() > 0).then(|| Rtt {
            min: self.least,
            avg: mean,
            max: self.most,
            mdev: (self.squares / count - mean * mean).max(0.0).sqrt(),
        });
        Summary { schema: 1, sent: self.sent, answered: self.answered, repeated: self.repeated, rtt_ms }
    }
}

#[derive(Debug, Serialize)]
pub struct Summary {
    schema: u32,
    sent: u64,
    answered: u64,
    /// Answered after a retransmission.
    repeated: u64,
    /// Round-trip times of pings answered without retransmission; `mdev` is the standard deviation,
    /// as in ping(8).
    rtt_ms: Option<Rtt>,
}

#[derive(Debug, Serialize)]
struct Rtt {
    min: f64,
    avg: f64,
    max: f64,
    mdev: f64,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { sent, answered, repeated, rtt_ms, .. } = self.summary();
        let lost = if sent == 0 { 0.0 } else { 100.0 * (sent - answered) as f64 / sent as f64 };
        let elapsed = self.first.map(|first| first.elapsed()).unwrap_or_default();
        let pings = if sent == 1 { "ping" } else { "pings" };
        write!(f, "{sent} {pings}, {answered} answered, {lost:.0} % not, {:.1} s", elapsed.as_secs_f64())?;
        if let Some(Rtt { min, avg, max, mdev }) = rtt_ms {
            write!(f, "\nRTT min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms")?;
        }
        match repeated {
            0 => Ok(()),
            repeated => write!(f, "\n{repeated} answered after a retransmission, and so without a definite RTT"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(milliseconds: u64, transmissions: u32) -> Course {
        Course { transmissions, elapsed: Duration::from_millis(milliseconds), ..Course::default() }
    }

    #[test]
    fn repeated_pings_count_as_answered_but_have_no_rtt() {
        let mut statistics = Statistics::default();
        for answer in [Some(course(10, 1)), None, Some(course(2500, 2)), Some(course(20, 1)), Some(course(30, 1))] {
            statistics.start(Instant::now());
            statistics.end(answer);
        }
        let text = statistics.to_string();
        for part in ["5 pings, 4 answered, 20 % not", "= 10.000/20.000/30.000/8.165 ms", "\n1 answered after"] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }

    #[test]
    fn without_answers_there_is_no_rtt() {
        let mut statistics = Statistics::default();
        statistics.start(Instant::now());
        statistics.end(None);
        assert!(statistics.to_string().starts_with("1 ping, 0 answered, 100 % not"));
        assert!(statistics.summary().rtt_ms.is_none());
    }
}
