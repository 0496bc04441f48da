//! Converts a scenario's pace into that of the workload.

use std::time::Duration;

use conche_netsim::Instant;
use conche_netsim::rng::Stream;

use crate::scenario::Pace;
use crate::units::Span;
use crate::workload::{self, Segment};

/// `start` is the flow's, `phases` the scenario's; `random` draws a clock's first tick within its
/// interval.
pub(super) fn of(pace: &Pace, start: Instant, phases: &[Instant], random: &mut Stream) -> workload::Pace {
    let tick = |from: Instant, interval: Duration, messages: u32| Segment { from, interval, messages };
    let mut within = |interval: Duration| interval.mul_f64(random.unit());
    match pace {
        Pace::Closed => workload::Pace::Closed,
        Pace::Every { interval: Span(interval), spread } => {
            let from = if *spread { start + within(*interval) } else { start };
            workload::Pace::Clock(vec![tick(from, *interval, 1)])
        }
        Pace::Poisson { interval } => workload::Pace::Poisson(interval.0),
        Pace::Bursts { interval, exchanges } => workload::Pace::Clock(vec![tick(start, interval.0, exchanges.get())]),
        Pace::At(times) => workload::Pace::At(times.iter().map(|time| time.0).collect()),
        Pace::OnOff { interval: Span(interval), on, off } => {
            workload::Pace::Turns { phase: within(*interval), interval: *interval, on: on.0, off: off.0 }
        }
        Pace::Phases(intervals) => {
            let each = phases.iter().zip(intervals);
            let each = each.map(|(from, Span(interval))| tick(*from + within(*interval), *interval, 1));
            workload::Pace::Clock(each.collect())
        }
    }
}
