//! Metrics per window of a run.

use std::time::Duration;

use conche_scenario::{MOST_WINDOWS, Windows};

use super::Sample;
use crate::trial::{Record, Selection};
use crate::units::Span;

/// Returns the windows' ends since the start.
fn ends(windows: Windows, elapsed: Duration) -> Vec<Duration> {
    match (windows.window, windows.stretches) {
        (Some(Span(window)), _) => {
            let count = elapsed.as_nanos().div_ceil(window.as_nanos().max(1)).clamp(1, MOST_WINDOWS + 1);
            (1..=u32::try_from(count).unwrap_or(u32::MAX)).map(|end| window.saturating_mul(end)).collect()
        }
        (None, stretches) => {
            let stretches = stretches.unwrap_or(1).max(1);
            (1..=stretches).map(|end| elapsed.saturating_mul(end) / stretches).collect()
        }
    }
}

/// Counts successes in each window, or until its end.
pub(super) fn successes(run: &Record, of: Selection, windows: Windows, so_far: bool) -> Sample {
    let ends = ends(windows, run.elapsed);
    let mut counts = vec![0_u64; ends.len()];
    let exchanges = run.flows_of(of).flat_map(|flow| &flow.exchanges);
    for exchange in exchanges.filter(|exchange| exchange.answered) {
        let at = exchange.ended - run.began;
        // An exchange that ends with a window counts for it in cumulative counts, otherwise for the
        // next.
        let place = ends.partition_point(|end| if so_far { *end < at } else { *end <= at });
        counts[place.min(ends.len() - 1)] += 1;
    }
    if so_far {
        counts.iter_mut().fold(0, |sum, count| {
            *count += sum;
            *count
        });
    }
    labelled(&ends, counts.into_iter().map(|count| Some(count as f64)))
}

/// Returns the mean per window, in seconds; none without transmissions.
pub(super) fn timeouts(run: &Record, of: Selection, windows: Windows) -> Sample {
    let ends = ends(windows, run.elapsed);
    let mut sums = vec![(0.0, 0_u32); ends.len()];
    for timeout in run.nodes_of(of).flat_map(|node| &node.timeouts) {
        let at = timeout.at - run.began;
        if let Some((sum, count)) = sums.get_mut(ends.partition_point(|end| *end <= at)) {
            *sum += timeout.after.as_secs_f64();
            *count += 1;
        }
    }
    labelled(&ends, sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))))
}

/// Labels values by their window's end, such as `60s`.
fn labelled(ends: &[Duration], values: impl Iterator<Item = Option<f64>>) -> Sample {
    let label = |end: &Duration| format!("{}s", end.as_secs_f64());
    Sample::Labelled(ends.iter().zip(values).filter_map(|(end, value)| Some((label(end), value?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(window: Option<&str>, stretches: Option<u32>) -> Windows {
        Windows { window: window.map(|text| text.parse().expect("a time")), stretches }
    }

    #[test]
    fn windows_are_as_long_as_they_say_and_stretches_share_the_run() {
        let ends = |windows: Windows| -> Vec<u128> {
            super::ends(windows, Duration::from_secs(10)).iter().map(Duration::as_millis).collect()
        };
        assert_eq!(ends(windows(Some("4s"), None)), [4000, 8000, 12_000]);
        assert_eq!(ends(windows(None, Some(4))), [2500, 5000, 7500, 10_000]);
    }
}
