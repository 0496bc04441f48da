//! Computes metrics from a run's record.

use conche_netsim::Instant;
use conche_proto::cc::features::Features;
use conche_results::Sample;
use conche_scenario::{Classes, Metric};

use super::{handshakes, observed, over_time, received, transferred};
use crate::stats::jain_index;
use crate::trial::{Flow, Record, Selection, Wanted, enough};

/// Endpoint properties that metrics need.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    /// MAX_RETRANSMIT.
    pub max_retransmit: u8,
    /// Their congestion control's features, if known.
    pub features: Option<Features>,
}

const NANOS_PER_SECOND: f64 = 1e9;

/// Returns the data that a run must record.
#[must_use]
pub fn wants(metric: &Metric) -> Wanted {
    match metric {
        Metric::Classes(classes) => wants(&classes.of),
        metric => Wanted {
            timeouts: matches!(
                metric,
                Metric::InitialRto | Metric::Rto | Metric::RtoOverTime(_) | Metric::RetransmissionShare
            ),
            arrivals: matches!(metric, Metric::Received(_)),
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
            Sample::Each(flows().map(of_flow).collect(), 1.0)
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
        Metric::Drops => Sample::One(run.nodes_of(of).map(|node| node.dropped).sum::<u64>() as f64),
        Metric::Failed => Sample::One(tallied(|flow| flow.tally.failed)),
        Metric::Succeeded => Sample::One(tallied(|flow| flow.tally.answered)),
        Metric::Loss => {
            let (failed, good) = (tallied(|flow| flow.tally.failed), tallied(|flow| flow.tally.answered));
            share(failed, failed + good)
        }
        Metric::Throughput => quotient(succeeded().count() as f64, run.elapsed.as_secs_f64()),
        Metric::ExchangeTime => seconds(succeeded().map(|exchange| (exchange.ended - exchange.began).as_nanos())),
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
            // An exchange given up before transmission has no retransmission.
            let repeated = exchanges().map(|exchange| u64::from(exchange.transmissions.saturating_sub(1)));
            quotient(repeated.sum::<u64>() as f64, copies as f64)
        }
        Metric::Hops => Sample::Each(flows().map(|flow| flow.hops.into()).collect(), 1.0),
        Metric::StandingQueue { link, above } => {
            let queues = run.queues.iter().filter(|queue| queue.link == *link && queue.above == above.0);
            seconds(queues.map(|queue| queue.longest.as_nanos()))
        }
        Metric::Received(received) => received::sample(*received, run, of),
        Metric::Observed(observed) => observed::sample(*observed, run, of),
        Metric::Handshake(of_them) => handshakes::sample(*of_them, run, of),
        Metric::Transfer(transferred) => transferred::sample(*transferred, run, of),
        Metric::InitialRto => {
            seconds(timeouts().filter(|timeout| timeout.attempt == 0).map(|timeout| timeout.after.as_nanos()))
        }
        Metric::Rto => seconds(timeouts().map(|timeout| timeout.after.as_nanos())),
        Metric::Jain => {
            let shares: Vec<f64> = flows().map(|flow| flow.tally.answered as f64).collect();
            jain_index(&shares).map_or(Sample::None, Sample::One)
        }
        Metric::Settling { share } => settling(run, of, *share),
        Metric::FlowSuccesses => Sample::Each(flows().map(|flow| flow.tally.answered).collect(), 1.0),
        Metric::Classes(classes) => classed(classes, &sample(&classes.of, run, of, endpoints)),
        Metric::Done(windows) => over_time::successes(run, of, *windows, false),
        Metric::DoneUntil(windows) => over_time::successes(run, of, *windows, true),
        Metric::RtoOverTime(windows) => over_time::timeouts(run, of, *windows),
        Metric::TimePerSuccess => quotient(client_time(flows()), succeeded().count() as f64),
        Metric::ClientThroughput => quotient(succeeded().count() as f64, client_time(flows())),
        Metric::UsefulTime => {
            let slots: f64 = flows().map(|flow| f64::from(flow.outstanding)).sum();
            share(flows().map(useful_s).sum(), slots * run.elapsed.as_secs_f64())
        }
        Metric::Completed => {
            share(tallied(|flow| flow.tally.answered), tallied(|flow| flow.wanted.unwrap_or_default()))
        }
    }
}

/// Each class's share; none for an empty sample.
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

pub(super) fn seconds(nanos: impl Iterator<Item = u128>) -> Sample {
    Sample::Each(nanos.map(|nanos| u64::try_from(nanos).unwrap_or(u64::MAX)).collect(), NANOS_PER_SECOND)
}

pub(super) fn quotient(above: f64, below: f64) -> Sample {
    if below > 0.0 { Sample::Ratio(above, below) } else { Sample::None }
}

pub(super) fn share(part: f64, whole: f64) -> Sample {
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

/// Seconds of successful exchanges.
fn useful_s(flow: &Flow) -> f64 {
    let succeeded = flow.exchanges.iter().filter(|exchange| exchange.answered);
    succeeded.map(|exchange| (exchange.ended - exchange.began).as_secs_f64()).sum()
}

/// Each exchange over its flow's concurrency.
fn client_time<'a>(flows: impl Iterator<Item = &'a Flow>) -> f64 {
    flows.map(|flow| useful_s(flow) / f64::from(flow.outstanding)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(from: &[f64]) -> Classes {
        let names = from.iter().map(|from| format!("from {from}")).collect();
        Classes { of: Box::new(Metric::FlowSuccesses), from: from.to_vec(), names }
    }

    #[test]
    fn each_value_is_in_one_class_and_what_is_below_all_in_none() {
        let sample = Sample::Each(vec![0, 9, 10, 99, 100, 250, 300, 400], 1.0);
        let shares = |from: &[f64]| match classed(&classes(from), &sample) {
            Sample::Labelled(shares) => shares.into_iter().map(|(_, share)| share).collect::<Vec<f64>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shares(&[0.0, 10.0, 100.0]), [25.0, 25.0, 50.0]);
        assert_eq!(shares(&[100.0]), [50.0]);
        assert_eq!(classed(&classes(&[0.0]), &Sample::Each(Vec::new(), 1.0)), Sample::None);
    }
}
