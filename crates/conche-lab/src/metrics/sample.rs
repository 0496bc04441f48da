//! Metrics computed from the record of a run.

use std::time::Duration;

use conche_netsim::Instant;
use conche_proto::cc::features::Features;
use conche_results::Sample;
use conche_scenario::{Classes, Handshake, MOST_WINDOWS, Metric, Observed, Received, Transferred, Windows};

use crate::stats::jain_index;
use crate::trial::{Flow, Record, RecordOptions, Selection, enough};
use crate::units::Span;
use crate::workload::{Exchange, Tally};

/// Properties of the endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    /// MAX_RETRANSMIT.
    pub max_retransmit: u8,
    /// Features of their congestion control, if known.
    pub features: Option<Features>,
}

const NANOS_PER_SECOND: f64 = 1e9;

/// RFC 7252 §4.8.2, with the default parameters.
const EXCHANGE_LIFETIME: Duration = Duration::from_secs(247);

/// Returns the data that a run must record.
#[must_use]
pub fn wants(metric: &Metric) -> RecordOptions {
    match metric {
        Metric::Classes(classes) => wants(&classes.of),
        metric => RecordOptions {
            timeouts: matches!(
                metric,
                Metric::InitialRto | Metric::Rto | Metric::RtoOverTime(_) | Metric::RetransmissionShare
            ),
            arrivals: matches!(metric, Metric::Received(_)),
            link_drops: false,
        },
    }
}

/// Computes a metric of a run.
#[must_use]
pub fn sample(metric: &Metric, run: &Record, of: Selection, endpoints: Endpoints) -> Sample {
    let flows = || run.flows_of(of);
    let exchanges = || flows().flat_map(|flow| &flow.exchanges);
    let succeeded = || exchanges().filter(|exchange| exchange.answered);
    let timeouts = || run.nodes_of(of).flat_map(|node| &node.timeouts);
    let tallied = |count: fn(&Flow) -> u64| flows().map(count).sum::<u64>() as f64;
    match metric {
        Metric::CompletionTime => {
            let times = flows().filter_map(|flow| Some((flow.tally.done? - flow.start).as_nanos()));
            seconds(times)
        }
        Metric::Unnecessary => {
            let of_flow = |flow: &Flow| flow.exchanges.iter().map(|exchange| u64::from(exchange.unnecessary)).sum();
            Sample::each(flows().map(of_flow), 1.0)
        }
        Metric::WastedShare => {
            let wasted = |exchange: &Exchange| {
                u64::from(if exchange.answered { exchange.unnecessary } else { exchange.transmissions })
            };
            let copies = exchanges().map(|exchange| u64::from(exchange.transmissions)).sum::<u64>();
            share(exchanges().map(wasted).sum::<u64>() as f64, copies as f64)
        }
        Metric::Retransmissions => {
            let mut counts = vec![0.0; usize::from(endpoints.max_retransmit) + 1];
            for exchange in succeeded() {
                if let Some(count) = counts.get_mut(usize::from(exchange.transmissions.saturating_sub(1))) {
                    *count += 1.0;
                }
            }
            Sample::Labelled(counts.into_iter().enumerate().map(|(k, count)| (k.to_string(), count)).collect())
        }
        Metric::Copies => Sample::One(run.nodes_of(of).map(|node| node.copies).sum::<u64>() as f64),
        Metric::Drops => Sample::One(run.nodes_of(of).map(|node| node.dropped.all).sum::<u64>() as f64),
        Metric::QueueDrops => Sample::One(run.nodes_of(of).map(|node| node.dropped.queue).sum::<u64>() as f64),
        Metric::RandomDrops => Sample::One(run.nodes_of(of).map(|node| node.dropped.random).sum::<u64>() as f64),
        Metric::Failed => Sample::One(tallied(|flow| flow.tally.failed)),
        Metric::Succeeded => Sample::One(tallied(|flow| flow.tally.answered)),
        Metric::Loss => {
            let (failed, good) = (tallied(|flow| flow.tally.failed), tallied(|flow| flow.tally.answered));
            share(failed, failed + good)
        }
        Metric::Throughput => quotient(succeeded().count() as f64, run.elapsed.as_secs_f64()),
        Metric::ExchangeTime => seconds(succeeded().map(|exchange| (exchange.ended - exchange.began).as_nanos())),
        Metric::DueTime => seconds(succeeded().map(|exchange| (exchange.ended - exchange.due).as_nanos())),
        Metric::DueTimeOfAll => seconds(exchanges().map(|exchange| {
            let time = exchange.ended - exchange.due;
            if exchange.answered { time } else { time.max(EXCHANGE_LIFETIME) }.as_nanos()
        })),
        Metric::Offered => quotient(requested(flows(), |tally| tally.generated), run.elapsed.as_secs_f64()),
        Metric::Delivered => {
            share(requested(flows(), |tally| tally.answered), requested(flows(), |tally| tally.generated))
        }
        Metric::RoundTrip => seconds(succeeded().filter_map(|exchange| Some(exchange.round_trip?.as_nanos()))),
        Metric::RttSample => {
            let samples = |retransmissions| endpoints.features.is_some_and(|of| of.samples(retransmissions));
            let used = succeeded().filter(|exchange| samples(exchange.transmissions.saturating_sub(1)));
            seconds(used.filter_map(|exchange| Some(exchange.round_trip?.as_nanos())))
        }
        Metric::RetransmissionShare => {
            let repeated = timeouts().filter(|timeout| timeout.attempt > 0).count();
            share(repeated as f64, timeouts().count() as f64)
        }
        Metric::Retries => {
            let copies: u64 = exchanges().map(|exchange| u64::from(exchange.transmissions)).sum();
            let requests = exchanges().count() as f64;
            quotient(copies as f64 - requests, requests)
        }
        Metric::RetransmissionIndex => {
            let copies: u64 = exchanges().map(|exchange| u64::from(exchange.transmissions)).sum();
            let repeated = exchanges().map(|exchange| u64::from(exchange.transmissions.saturating_sub(1)));
            quotient(repeated.sum::<u64>() as f64, copies as f64)
        }
        Metric::Hops => Sample::each(flows().map(|flow| flow.hops.into()), 1.0),
        Metric::StandingQueue { link, above } => {
            let queues = run.queues.iter().filter(|queue| queue.link == *link && queue.above == above.0);
            seconds(queues.map(|queue| queue.longest.as_nanos()))
        }
        Metric::Received(received) => received_sample(*received, run, of),
        Metric::Observed(observed) => observed_sample(*observed, run, of),
        Metric::Handshake(of_them) => handshake_sample(*of_them, run, of),
        Metric::Transfer(transferred) => transfer_sample(*transferred, run, of),
        Metric::InitialRto => {
            seconds(timeouts().filter(|timeout| timeout.attempt == 0).map(|timeout| timeout.after.as_nanos()))
        }
        Metric::Rto => seconds(timeouts().map(|timeout| timeout.after.as_nanos())),
        Metric::Jain => {
            let shares: Vec<f64> = flows().map(|flow| flow.tally.answered as f64).collect();
            jain_index(&shares).map_or(Sample::None, Sample::One)
        }
        Metric::Settling { share } => settling(run, of, *share),
        Metric::FlowSuccesses => Sample::each(flows().map(|flow| flow.tally.answered), 1.0),
        Metric::Classes(classes) => classed(classes, &sample(&classes.of, run, of, endpoints)),
        Metric::Done(windows) => successes_over_time(run, of, *windows, false),
        Metric::DoneUntil(windows) => successes_over_time(run, of, *windows, true),
        Metric::RtoOverTime(windows) => timeouts_over_time(run, of, *windows),
        Metric::TimePerSuccess => quotient(client_time(flows()), succeeded().count() as f64),
        Metric::ClientThroughput => quotient(succeeded().count() as f64, client_time(flows())),
        Metric::UsefulTime => {
            let slots: f64 = flows().map(|flow| f64::from(flow.outstanding)).sum();
            share(flows().map(useful_s).sum(), slots * run.elapsed.as_secs_f64())
        }
        Metric::Completed => {
            let planned =
                |count: fn(&Flow) -> u64| flows().filter(|flow| flow.wanted.is_some()).map(count).sum::<u64>();
            let answered = planned(|flow| flow.tally.answered) as f64;
            share(answered, planned(|flow| flow.wanted.unwrap_or_default()) as f64)
        }
    }
}

fn classed(classes: &Classes, sample: &Sample) -> Sample {
    let Sample::Each(values, base) = sample else { return Sample::None };
    if values.is_empty() {
        return Sample::None;
    }
    let mut counts = vec![0_u32; classes.from.len()];
    for value in values.iter().map(|value| *value as f64 / base) {
        let begun = classes.from.iter().take_while(|from| **from <= value).count();
        if let Some(class) = begun.checked_sub(1) {
            counts[class] += 1;
        }
    }
    let share = |count: u32| 100.0 * (f64::from(count) / values.len() as f64);
    Sample::Labelled(classes.names.iter().cloned().zip(counts.into_iter().map(share)).collect())
}

fn requested<'a>(flows: impl Iterator<Item = &'a Flow>, count: fn(&Tally) -> u64) -> f64 {
    flows.filter(|flow| flow.observed.is_none()).map(|flow| count(&flow.tally)).sum::<u64>() as f64
}

fn seconds(nanos: impl Iterator<Item = u128>) -> Sample {
    Sample::each(nanos.map(|nanos| u64::try_from(nanos).unwrap_or(u64::MAX)), NANOS_PER_SECOND)
}

fn quotient(above: f64, below: f64) -> Sample {
    if below > 0.0 { Sample::Ratio(above, below) } else { Sample::None }
}

fn share(part: f64, whole: f64) -> Sample {
    quotient(100.0 * part, whole)
}

fn settling(run: &Record, of: Selection, share: f64) -> Sample {
    let Some(start) = run.flows_of(of).map(|flow| flow.start).min() else { return Sample::None };
    let all: u64 = run.flows_of(of).filter_map(|flow| flow.wanted).sum();
    let enough = usize::try_from(enough(share, all)).unwrap_or(usize::MAX);
    let answered = run.flows_of(of).flat_map(|flow| &flow.exchanges).filter(|exchange| exchange.answered);
    let mut ends: Vec<_> = answered.map(|exchange| exchange.ended).collect();
    ends.sort_unstable();
    let end = ends.get(enough - 1).copied();
    let settled =
        end.map_or((run.began - Instant::ZERO + run.elapsed).saturating_sub(start - Instant::ZERO), |end| end - start);
    Sample::One(settled.as_secs_f64())
}

fn useful_s(flow: &Flow) -> f64 {
    let succeeded = flow.exchanges.iter().filter(|exchange| exchange.answered);
    succeeded.map(|exchange| (exchange.ended - exchange.began).as_secs_f64()).sum()
}

/// Returns seconds of successful exchanges, each divided by its flow's concurrency.
fn client_time<'a>(flows: impl Iterator<Item = &'a Flow>) -> f64 {
    flows.map(|flow| useful_s(flow) / f64::from(flow.outstanding)).sum()
}

fn window_ends(windows: Windows, elapsed: Duration) -> Vec<Duration> {
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

/// Counts successes per window, or until its end.
fn successes_over_time(run: &Record, of: Selection, windows: Windows, so_far: bool) -> Sample {
    let ends = window_ends(windows, run.elapsed);
    let mut counts = vec![0_u64; ends.len()];
    let exchanges = run.flows_of(of).flat_map(|flow| &flow.exchanges);
    for exchange in exchanges.filter(|exchange| exchange.answered) {
        let at = exchange.ended - run.began;
        // An exchange at a window's end counts for it in cumulative counts, else for the next.
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

fn timeouts_over_time(run: &Record, of: Selection, windows: Windows) -> Sample {
    let ends = window_ends(windows, run.elapsed);
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

fn labelled(ends: &[Duration], values: impl Iterator<Item = Option<f64>>) -> Sample {
    let label = |end: &Duration| format!("{}s", end.as_secs_f64());
    Sample::Labelled(ends.iter().zip(values).filter_map(|(end, value)| Some((label(end), value?))).collect())
}

fn received_sample(received: Received, run: &Record, of: Selection) -> Sample {
    let flows: Vec<&Flow> = run.flows_of(of).collect();
    let seconds = run.elapsed.as_secs_f64();
    let number = |flow: &Flow| flow.arrivals.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    // Integers are summed before any division.
    let goodput =
        |flows: &mut dyn Iterator<Item = &&Flow>| flows.map(|flow| number(flow) * bits(flow)).sum::<f64>() / seconds;
    if flows.is_empty() || seconds <= 0.0 {
        return Sample::None;
    }
    match received {
        Received::Goodput => Sample::One(goodput(&mut flows.iter())),
        Received::GoodputOfFlow => Sample::One(goodput(&mut flows.iter()) / flows.len() as f64),
        Received::GoodputByHops => {
            let farthest = flows.iter().map(|flow| flow.hops).max().unwrap_or(0);
            let of_hops = |hops: u16| {
                let of = || flows.iter().filter(|flow| flow.hops == hops);
                let count = of().count();
                (count > 0).then(|| (hops.to_string(), goodput(&mut of()) / count as f64))
            };
            Sample::Labelled((0..=farthest).filter_map(of_hops).collect())
        }
        Received::GoodputOfEach => {
            // Thousandths of a bit per second: not negative, below 2^53 up to 9 Tbit/s.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let thousandths = |flow: &Flow| (1e3 * number(flow) * bits(flow) / seconds).round() as u64;
            Sample::each(flows.iter().map(|flow| thousandths(flow)), 1e3)
        }
        Received::GoodputOverTime { window, hops } => {
            let Some(flow) = flows.iter().find(|flow| flow.hops == hops) else { return Sample::None };
            let end = |place: u32| format!("{}s", window.0.saturating_mul(place).as_secs_f64());
            let counts = arrivals_by_window(run, flow, window.0).into_iter();
            let goodput = |count: f64| count * bits(flow) / window.0.as_secs_f64();
            Sample::Labelled((1..).zip(counts).map(|(place, count)| (end(place), goodput(count))).collect())
        }
        Received::Jain { window: None } => some(jain_index(&flows.iter().map(|flow| number(flow)).collect::<Vec<_>>())),
        Received::Jain { window: Some(window) } => {
            let of_flows: Vec<Vec<f64>> = flows.iter().map(|flow| arrivals_by_window(run, flow, window.0)).collect();
            let places = 0..of_flows[0].len();
            let in_window = |place: usize| of_flows.iter().map(|of_flow| of_flow[place]).collect::<Vec<_>>();
            let indices: Vec<f64> = places.filter_map(|place| jain_index(&in_window(place))).collect();
            some((!indices.is_empty()).then(|| mean(&indices)))
        }
        Received::Starving { share } => {
            let all: f64 = flows.iter().map(|flow| number(flow)).sum();
            let enough = share * all / flows.len() as f64;
            Sample::One(flows.iter().filter(|flow| number(flow) < enough).count() as f64)
        }
        Received::Silent { window, hops } => {
            let counted = flows.iter().filter(|flow| hops.is_none_or(|hops| flow.hops == hops));
            let all: Vec<f64> = counted.flat_map(|flow| arrivals_by_window(run, flow, window.0)).collect();
            let silent = all.iter().filter(|count| **count == 0.0).count() as f64;
            some((!all.is_empty()).then(|| 100.0 * silent / all.len() as f64))
        }
        Received::Frames => {
            let frames: u64 = run.radios.iter().map(|radio| radio.frames).sum();
            let all: f64 = flows.iter().map(|flow| number(flow)).sum();
            some((all > 0.0).then(|| frames as f64 / all))
        }
    }
}

fn some(value: Option<f64>) -> Sample {
    value.map_or(Sample::None, Sample::One)
}

fn bits(flow: &Flow) -> f64 {
    8.0 * flow.request_bytes as f64
}

fn arrivals_by_window(run: &Record, flow: &Flow, window: Duration) -> Vec<f64> {
    let nanos = window.min(run.elapsed).as_nanos().max(1);
    let mut counts = vec![0.0; usize::try_from(run.elapsed.as_nanos() / nanos).unwrap_or(0)];
    for at in &flow.arrivals {
        let place = usize::try_from((*at - run.began).as_nanos() / nanos).unwrap_or(usize::MAX);
        if let Some(count) = counts.get_mut(place) {
            *count += 1.0;
        }
    }
    counts
}

fn observed_sample(observed: Observed, run: &Record, of: Selection) -> Sample {
    let ages: Vec<Option<u128>> = run.flows_of(of).flat_map(ages).collect();
    match observed {
        Observed::Age => seconds(ages.into_iter().flatten()),
        Observed::Known => share(ages.iter().flatten().count() as f64, ages.len() as f64),
    }
}

/// Returns, per change since registration, nanoseconds until the observer received that or a later
/// state; `None` if never.
fn ages(flow: &Flow) -> Vec<Option<u128>> {
    let Some(observed) = &flow.observed else { return Vec::new() };
    let registered = observed.received.first().map(|received| received.at);
    let counts = observed.changes.iter().filter(|change| registered.is_none_or(|at| at <= **change));
    let age = |change: &conche_netsim::Instant| {
        let known = observed.received.partition_point(|received| received.changed < *change);
        observed.received.get(known).map(|received| (received.at - *change).as_nanos())
    };
    counts.map(age).collect()
}

fn handshake_sample(handshake: Handshake, run: &Record, of: Selection) -> Sample {
    let each = || run.flows_of(of).map(|flow| &flow.handshakes);
    let done = each().map(|handshakes| handshakes.done.len()).sum::<usize>() as f64;
    let failed = each().map(|handshakes| handshakes.failed).sum::<u64>() as f64;
    match handshake {
        Handshake::Time => seconds(each().flat_map(|handshakes| &handshakes.done).map(Duration::as_nanos)),
        Handshake::Failed => share(failed, failed + done),
        Handshake::Datagrams => quotient(each().map(|handshakes| handshakes.datagrams).sum::<u64>() as f64, done),
        Handshake::Bytes => quotient(each().map(|handshakes| handshakes.bytes).sum::<u64>() as f64, done),
    }
}

fn transfer_sample(transferred: Transferred, run: &Record, of: Selection) -> Sample {
    let flows = || run.flows_of(of);
    let goodput = |flow: &Flow| {
        let seconds = (flow.tally.done? - flow.start).as_secs_f64();
        Some(8.0 * flow.transfer.as_ref()?.bytes as f64 / seconds)
    };
    let end = run.began + run.elapsed;
    let arrived = |flow: &Flow| {
        let seconds = (flow.tally.done.unwrap_or(end) - flow.start).as_secs_f64();
        Some(8.0 * flow.transfer.as_ref()?.arrived as f64 / seconds).filter(|rate| rate.is_finite())
    };
    match transferred {
        Transferred::Arrived => Sample::OfFlows(flows().map(arrived).collect()),
        Transferred::Goodput => Sample::OfFlows(flows().map(goodput).collect()),
        Transferred::RoundTrip => {
            Sample::OfFlows(flows().map(|flow| flow.transfer.as_ref()?.mean_round_trip_s).collect())
        }
        Transferred::RouteHops => {
            let lengths = flows().filter_map(|flow| flow.transfer.as_ref()).flat_map(|transfer| &transfer.routes);
            Sample::each(lengths.map(|hops| u64::from(*hops)), 1.0)
        }
        Transferred::GivenUp => share(run.given_up as f64, run.handed_over as f64),
    }
}

#[cfg(test)]
mod tests {
    use conche_netsim::wired::Topology;

    use super::*;
    use crate::trial;
    use crate::workload::ReceivedState;

    fn classes(from: &[f64]) -> Classes {
        let names = from.iter().map(|from| format!("from {from}")).collect();
        Classes { of: Box::new(Metric::FlowSuccesses), from: from.to_vec(), names }
    }

    #[test]
    fn each_value_is_in_one_class_and_lower_values_in_none() {
        let sample = Sample::Each(vec![0, 9, 10, 99, 100, 250, 300, 400], 1.0);
        let shares = |from: &[f64]| match classed(&classes(from), &sample) {
            Sample::Labelled(shares) => shares.into_iter().map(|(_, share)| share).collect::<Vec<f64>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shares(&[0.0, 10.0, 100.0]), [25.0, 25.0, 50.0]);
        assert_eq!(shares(&[100.0]), [50.0]);
        assert_eq!(classed(&classes(&[0.0]), &Sample::Each(Vec::new(), 1.0)), Sample::None);
    }

    fn windows(window: Option<&str>, stretches: Option<u32>) -> Windows {
        Windows { window: window.map(|text| text.parse().expect("a time")), stretches }
    }

    #[test]
    fn windows_have_their_length_and_stretches_divide_the_run() {
        let ends = |windows: Windows| -> Vec<u128> {
            window_ends(windows, Duration::from_secs(10)).iter().map(Duration::as_millis).collect()
        };
        assert_eq!(ends(windows(Some("4s"), None)), [4000, 8000, 12_000]);
        assert_eq!(ends(windows(None, Some(4))), [2500, 5000, 7500, 10_000]);
    }

    #[test]
    fn a_skipped_state_is_known_with_the_next_and_earlier_ones_do_not_count() {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut topology = Topology::new();
        let [observer, server] = ["observer", "server"].map(|name| topology.node(name));
        let changes = [1, 10, 20, 30].map(at).to_vec();
        let received =
            [(5, 1), (23, 20)].map(|(when, changed)| ReceivedState { at: at(when), changed: at(changed) }).to_vec();
        let flow = |received| Flow {
            observed: Some(trial::Observed { changes: changes.clone(), received }),
            ..Flow::new(observer, server)
        };
        let run = Record { flows: vec![flow(received), flow(Vec::new())], ..Record::default() };
        let all = Selection { scheme: 0, traffic: None };
        let second = 1_000_000_000;
        assert_eq!(observed_sample(Observed::Age, &run, all), Sample::Each(vec![3 * second, 13 * second], 1e9));
        assert_eq!(observed_sample(Observed::Known, &run, all), Sample::Ratio(200.0, 7.0), "2 of 3, and none of 4");
    }
}
