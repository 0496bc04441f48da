//! Time series of a run, reduced to a few hundred times.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;

use conche_results::{CellId, RunId, read_series};

use crate::series::{Line, Of, RunSeries, whole};

/// More cannot be seen.
const MOST_TIMES: usize = 240;
/// More clients have a mean.
const MOST_CLIENTS: usize = 8;
/// Without a recorded interval.
const INTERVAL_S: f64 = 1.0;

/// Quantity, scheme, subject and peer.
type Key = (String, Option<String>, String, Option<String>);

pub(super) fn read(directory: &Path, run: RunId, place: &[u64], cell: &CellId) -> io::Result<RunSeries> {
    let mut lines: HashMap<Key, Vec<(f64, f64)>> = HashMap::new();
    let mut end_s = 0.0_f64;
    read_series(directory, run, place, |point| {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let key = (point.quantity.to_owned(), owned(point.scheme), point.subject.to_owned(), owned(point.peer));
        if point.time_s.is_finite() && point.value.is_finite() {
            end_s = end_s.max(point.time_s);
            lines.entry(key).or_default().push((point.time_s, point.value));
        }
    })?;
    let interval_s = place.get(2).map_or(INTERVAL_S, |nanos| *nanos as f64 / 1e9).max(1e-9);
    let step_s = interval_s * (end_s / interval_s / MOST_TIMES as f64).ceil().max(1.0);
    let times = whole((end_s / step_s + 1e-6).floor().min(MOST_TIMES as f64)) + 1;
    let paths: BTreeSet<(&str, &str)> =
        lines.keys().filter_map(|(_, _, subject, peer)| Some((subject.as_str(), peer.as_deref()?))).collect();
    let subjects: BTreeSet<&str> = paths.iter().map(|(subject, _)| *subject).collect();
    // A client with one server is named without it.
    let is_named_alone = subjects.len() == paths.len();
    let count = paths.len();
    let mut known: Vec<(Key, Vec<(f64, f64)>)> = lines.into_iter().collect();
    known.sort_by(|(one, _), (other, _)| one.cmp(other));
    let lines = known.into_iter().map(|((quantity, scheme, subject, peer), points)| {
        let of = match peer {
            None => Of::Link(subject),
            Some(_) if is_named_alone => Of::Client(subject),
            Some(peer) => Of::Client(format!("{subject} to {peer}")),
        };
        // Links have no drops until the first one.
        let start = if quantity == "drops" { Some(0.0) } else { None };
        Line { quantity, scheme, of, values: sampled(start, &points, step_s, times) }
    });
    let run = RunSeries { cell: cell.clone(), step_s, lines: lines.collect() };
    Ok(if count > MOST_CLIENTS { run.with_means() } else { run })
}

/// Returns the latest value at each time.
fn sampled(start: Option<f64>, points: &[(f64, f64)], step_s: f64, times: usize) -> Vec<Option<f64>> {
    let mut points = points.iter().peekable();
    let mut latest = start;
    let mut at = |place: usize| {
        let until = (place as f64 + 1e-6) * step_s;
        while let Some((_, value)) = points.next_if(|(time, _)| *time <= until) {
            latest = Some(*value);
        }
        latest
    };
    (0..times).map(&mut at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lasts_until_the_next_one() {
        let points = [(0.5, 1.0), (1.0, 2.0), (3.9, 3.0)];
        assert_eq!(sampled(None, &points, 1.0, 5), [None, Some(2.0), Some(2.0), Some(2.0), Some(3.0)]);
        assert_eq!(sampled(Some(0.0), &[], 1.0, 2), [Some(0.0), Some(0.0)]);
    }
}
