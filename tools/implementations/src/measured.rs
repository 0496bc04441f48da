//! [`Measured`]: the numbers of a run; and their means over runs.

use std::time::Duration;

use conche_stats::{mean_interval, percentile};

use crate::emulation::{Emulated, Line};
use crate::exchange::{self, Exchange};

/// Clients must start within this time of each other.
const SPREAD_S: f64 = 1.0;

#[derive(Clone, Debug)]
pub struct Measured {
    pub lateness_p99_ms: f64,
    /// Time between the first requests of the first and the last client.
    pub spread_s: f64,
    pub is_valid: bool,
    /// Of clients that completed all exchanges, in seconds, sorted.
    pub completion_s: Vec<f64>,
    pub answered: usize,
    pub failed: usize,
    /// Exchanges without an outcome at the end of the run.
    pub unfinished: usize,
    /// Durations of failed exchanges, in seconds.
    pub gave_up_s: Vec<f64>,
    pub exchanges: Vec<Exchange>,
}

impl Measured {
    /// `exchanges` is the number for each client.
    pub fn of(run: &Emulated, exchanges: usize) -> Self {
        let first = || run.lines.iter().filter_map(|lines| Some(lines.first()?.start));
        let spread_s = first().fold(f64::MIN, f64::max) - first().fold(f64::MAX, f64::min);
        let complete = run.lines.iter().filter(|lines| lines.len() == exchanges);
        let mut completion_s: Vec<f64> =
            complete.filter_map(|lines| Some(lines.last()?.end - lines.first()?.start)).collect();
        completion_s.sort_by(f64::total_cmp);
        let failed = || run.lines.iter().flatten().filter(|line| !line.answered);
        let ended: usize = run.lines.iter().map(Vec::len).sum();
        Self {
            lateness_p99_ms: run.report.lateness.p99_ms,
            spread_s,
            is_valid: run.report.is_valid && spread_s <= SPREAD_S,
            completion_s,
            answered: ended - failed().count(),
            failed: failed().count(),
            unfinished: (exchanges * run.lines.len()).saturating_sub(ended),
            gave_up_s: failed().map(|Line { start, end, .. }| end - start).collect(),
            exchanges: exchange::exchanges(&run.datagrams),
        }
    }

    /// Returns a percentile of the completion times of clients; `None` if no client has completed.
    pub fn completion_s(&self, share: f64) -> Option<f64> {
        quantile_s(&self.completion_s, share)
    }

    pub fn transmissions(&self) -> Option<f64> {
        per_exchange(&self.exchanges, |exchange| exchange.transmissions.len())
    }

    pub fn unnecessary(&self) -> Option<f64> {
        per_exchange(&self.exchanges, Exchange::unnecessary)
    }
}

pub fn per_exchange(exchanges: &[Exchange], count: impl Fn(&Exchange) -> usize) -> Option<f64> {
    let sum: usize = exchanges.iter().map(count).sum();
    (!exchanges.is_empty()).then(|| sum as f64 / exchanges.len() as f64)
}

/// Returns a quantile of sorted seconds; `None` without values.
pub fn quantile_s(sorted: &[f64], share: f64) -> Option<f64> {
    let microseconds = |seconds: &f64| Duration::try_from_secs_f64(*seconds).unwrap_or_default().as_micros();
    let microseconds: Vec<u64> =
        sorted.iter().map(|seconds| u64::try_from(microseconds(seconds)).unwrap_or(u64::MAX)).collect();
    (!sorted.is_empty()).then(|| percentile(&microseconds, share) / 1e6)
}

/// Returns the mean over runs, with the half of its 95 % interval, as `1.23 ± 0.04`.
pub fn mean(values: &[f64]) -> String {
    if values.is_empty() {
        return "–".to_owned();
    }
    let (mean, interval) = mean_interval(values);
    match interval {
        Some(interval) => format!("{mean:.2} ± {:.2}", interval.high - mean),
        None => format!("{mean:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulation::{Lateness, Report};

    fn emulated(is_valid: bool, lines: Vec<Vec<Line>>) -> Emulated {
        Emulated { report: Report { is_valid, lateness: Lateness { p99_ms: 1.0 } }, lines, datagrams: Vec::new() }
    }

    fn line(start: f64, end: f64, answered: bool) -> Line {
        Line { start, end, answered }
    }

    #[test]
    fn clients_that_did_not_end_have_no_completion_time() {
        let lines = vec![vec![line(0.0, 1.0, true), line(1.0, 4.0, false)], vec![line(0.5, 9.0, true)]];
        let measured = Measured::of(&emulated(true, lines), 2);
        assert_eq!(measured.completion_s, [4.0]);
        assert_eq!((measured.answered, measured.failed, measured.unfinished), (2, 1, 1));
        assert_eq!(measured.gave_up_s, [3.0]);
        assert!(measured.is_valid && (measured.spread_s - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_late_run_or_a_late_client_is_invalid() {
        let lines = |late| vec![vec![line(0.0, 1.0, true)], vec![line(late, 2.0, true)]];
        assert!(Measured::of(&emulated(true, lines(0.9)), 1).is_valid);
        assert!(!Measured::of(&emulated(true, lines(1.1)), 1).is_valid);
        assert!(!Measured::of(&emulated(false, lines(0.9)), 1).is_valid);
    }

    #[test]
    fn a_mean_of_several_runs_has_an_interval() {
        assert_eq!(mean(&[]), "–");
        assert_eq!(mean(&[1.5]), "1.50");
        assert_eq!(mean(&[1.0, 2.0, 3.0]), "2.00 ± 2.48");
    }
}
