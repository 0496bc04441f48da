//! When a flow opens exchanges, as the workload takes it.

use std::time::Duration;

use conche_netsim::Instant;
use conche_netsim::rng::Stream;

use crate::scenario::Pace;
use crate::workload::{self, Segment};

/// The pace of a flow between its start and the end of the run. `phases` is when the scenario's phases begin, `random` the
/// stream of when within an interval a clock first goes.
pub(super) fn of(pace: &Pace, start: Instant, end: Instant, phases: &[Instant], random: &mut Stream) -> workload::Pace {
    let mut clock = |from: Instant, interval: Duration| Segment {
        from: from + interval.mul_f64(random.unit()),
        interval: Some(interval),
    };
    match pace {
        Pace::Closed => workload::Pace::Closed,
        Pace::Every { interval, spread: true } => workload::Pace::Rate(vec![clock(start, interval.0)]),
        Pace::Every { interval, spread: false } => {
            workload::Pace::Rate(vec![Segment { from: start, interval: Some(interval.0) }])
        }
        Pace::Poisson { interval } => workload::Pace::Poisson(interval.0),
        Pace::Bursts { interval, exchanges } => {
            workload::Pace::Bursts { interval: interval.0, messages: exchanges.get() }
        }
        Pace::At(times) => workload::Pace::At(times.iter().map(|time| time.0).collect()),
        Pace::OnOff { interval, on, off } => {
            let first = clock(start, interval.0);
            let turn = on.0.saturating_add(off.0);
            let begins = std::iter::successors(Some(start), |begin| Some(*begin + turn));
            let turns = begins.take_while(|begin| *begin < end).flat_map(|begin| {
                let silence = Segment { from: begin + on.0, interval: None };
                [Segment { from: begin + (first.from - start), ..first }, silence]
            });
            workload::Pace::Rate(turns.take(MOST_SEGMENTS).collect())
        }
        Pace::Phases(intervals) => {
            let each = phases.iter().zip(intervals).map(|(from, interval)| clock(*from, interval.0));
            workload::Pace::Rate(each.collect())
        }
    }
}

/// More turns on and off nobody waits for.
const MOST_SEGMENTS: usize = 100_000;
