//! Reasons to doubt a report.

use super::Report;

/// Busy share of a bottleneck.
const BUSY: f64 = 0.9;

/// Minimum delay blamed on the generator.
const LATE_MS: f64 = 1.0;

/// Latency over service time that indicates queueing in a closed loop.
const HELD_BACK: f64 = 2.0;

/// Fewer are not significant.
const FEW_INTERVALS: usize = 5;

pub(super) fn of(report: &Report) -> Vec<String> {
    let generator = &report.generator;
    let mut warnings = Vec::new();
    if generator.busy >= BUSY {
        let waited = if generator.waited_s > generator.cpu_s / 4.0 {
            "; they waited for a core for a good part of it, so other programs, such as the server, may have been in their way"
        } else {
            "; --threads gives it more, if there are cores"
        };
        warnings.push(format!(
            "the generator may be the limit, not the server: its threads were busy {:.0} % of the time{waited}",
            generator.busy * 100.0
        ));
    }
    if let Some(late) = generator.late_ms.filter(|late| late.p99 > LATE_MS) {
        warnings.push(format!(
            "the generator was late: one in a hundred requests left {:.1} ms or more after it was due, which counts as latency",
            late.p99
        ));
    }
    if generator.held > 0 || report.unsent > 0 {
        let all = u64::from(report.plan.endpoints) * u64::from(report.plan.in_flight);
        warnings.push(format!(
            "{} of {} requests had to wait, and {} of these never left, because {all} were in flight: the server does not keep \
             up, or more endpoints are needed. Percentiles of latency know only of requests that were answered",
            generator.held + report.unsent,
            report.requests,
            report.unsent
        ));
    }
    if let (None, Some(latency), Some(service)) = (report.plan.rate, report.latency_ms, report.service_ms) {
        warnings.extend(held_back(latency.mean, service.mean));
    }
    if report.lost.all() > 0 {
        warnings.push(format!(
            "{} of {} requests have no answer and never will, and percentiles of latency know only of those that were answered",
            report.lost.all(),
            report.requests
        ));
    }
    if report.unfinished > 0 {
        warnings.push(format!("{} requests were not over when the test was", report.unfinished));
    }
    if generator.datagrams_dropped > 0 {
        warnings.push(format!("the operating system would not send {} datagrams", generator.datagrams_dropped));
    }
    if report.intervals.len() < FEW_INTERVALS {
        warnings.push("the test was short: two of its kind differ by chance".to_owned());
    }
    warnings
}

/// Warns that congestion control held back a closed loop. Means in ms: since due, and since sent.
fn held_back(latency: f64, service: f64) -> Option<String> {
    (latency > HELD_BACK * service).then(|| {
        format!(
            "congestion control held requests back: of {latency:.1} ms on average they waited {:.1} ms for their turn. That is its \
             work; --cc chooses another one, and `default` holds no Non-confirmable requests back",
            latency - service
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_wait_as_long_as_they_take_are_not_held_back() {
        assert_eq!(held_back(8.0, 4.0), None);
        let warning = held_back(9.0, 4.0).expect("they wait longer");
        assert!(warning.contains("of 9.0 ms on average they waited 5.0 ms"), "{warning}");
    }
}
