//! When a flow opens exchanges, as the workload takes it.

use std::time::Duration;

use conche_netsim::Instant;
use conche_netsim::rng::Stream;

use crate::scenario::Pace;
use crate::workload::{self, Segment};

/// The pace of a flow from its start on. `phases` is when the scenario's phases begin, `random` the
/// stream of when within an interval a clock first goes.
pub(super) fn of(pace: &Pace, start: Instant, phases: &[Instant], random: &mut Stream) -> workload::Pace {
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
            let phase = clock(Instant::ZERO, interval.0).from - Instant::ZERO;
            workload::Pace::Turns { phase, interval: interval.0, on: on.0, off: off.0 }
        }
        Pace::Phases(intervals) => {
            let each = phases.iter().zip(intervals).map(|(from, interval)| clock(*from, interval.0));
            workload::Pace::Rate(each.collect())
        }
    }
}
