//! The metrics.

use conche_netsim::Instant;
use conche_proto::cc::features::Features;
use conche_results::Sample;
use serde::Deserialize;

use super::{Classes, Received, Statistic, Transferred, Windows, over_time};
use crate::results::Unit;
use crate::stats::jain_index;
use crate::trial::{Flow, Record, Selection, Wanted, enough};
use crate::units::Span;

/// Something that is measured of the flows of one run. An exchange is what a request opens; it succeeds if it is answered.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Metric {
    /// Of each flow that had all its exchanges: how long that took.
    CompletionTime,
    /// Of each flow: copies of requests that were sent although an earlier one had got through, both ways.
    Unnecessary,
    /// How many exchanges succeeded after 0, 1, 2, … retransmissions, by that number.
    Retransmissions,
    /// Copies of requests that were sent, first ones and retransmissions.
    Copies,
    /// Of these, and of the responses to them, those that were lost.
    Drops,
    /// Exchanges that failed.
    Failed,
    /// Exchanges that succeeded.
    Succeeded,
    /// The share of exchanges that failed, of those that are over.
    Loss,
    /// Exchanges that succeeded, a second of the run.
    Throughput,
    /// Of each exchange that succeeded: from its first copy to its response.
    ExchangeTime,
    /// Of each exchange that was acknowledged: from its first copy to the acknowledgement.
    RoundTrip,
    /// Of each exchange that succeeded and whose round-trip time the congestion control uses: that time. Which exchanges these
    /// are is in its row of the feature table.
    RttSample,
    /// Retransmissions among all copies of Confirmable requests.
    RetransmissionShare,
    /// Retransmissions for a request.
    Retries,
    /// Retransmissions among all copies of the exchanges that are over.
    RetransmissionIndex,
    /// Of each flow: how many radio hops it is long.
    Hops,
    /// Of each exchange: its first timeout, as drawn.
    InitialRto,
    /// Of each copy: its timeout.
    Rto,
    /// Jain's index of the flows' successes (Jain, Chiu, Hawe 1984): 1 if all have the same, 1/n if one has everything.
    Jain,
    /// From the begin of the flows until a share of all exchanges that they are to have has succeeded, or until the end.
    Settling {
        /// The share, from 0 to 1.
        share: f64,
    },
    /// Of each flow: exchanges that succeeded.
    FlowSuccesses,
    /// Which share of another metric's numbers is in each class.
    Classes(Classes),
    /// Exchanges that succeeded within each such time, by its end.
    Done(Windows),
    /// Exchanges that had succeeded until the end of each such time.
    DoneUntil(Windows),
    /// The mean timeout of the copies that were sent within each such time, by its end.
    RtoOverTime(Windows),
    /// The time that an exchange which succeeds takes of its client: of a flow with several at a time, a share of it.
    TimePerSuccess,
    /// One over that: the exchanges a second of a client.
    ClientThroughput,
    /// The share of the clients' time that goes into exchanges that succeed. A flow has its time once for each exchange that
    /// it may have at a time.
    UsefulTime,
    /// Exchanges that succeeded, of those that flows were to have.
    Completed,
    /// What arrived at the servers.
    Received(Received),
    /// What became of bulk transfers.
    Transfer(Transferred),
}

/// What a metric must know of the endpoints, beside what they did.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    /// MAX_RETRANSMIT.
    pub max_retransmit: u8,
    /// What distinguishes their congestion control, if that is known.
    pub features: Option<Features>,
}

const NANOS_PER_SECOND: f64 = 1e9;

impl Metric {
    /// What it counts.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Self::CompletionTime | Self::ExchangeTime | Self::InitialRto | Self::Rto => Unit::Seconds,
            Self::RoundTrip | Self::RttSample => Unit::Seconds,
            Self::Settling { .. } | Self::RtoOverTime(_) | Self::TimePerSuccess => Unit::Seconds,
            Self::Unnecessary | Self::Copies | Self::Drops => Unit::Copies,
            Self::Retransmissions | Self::Failed | Self::Succeeded | Self::FlowSuccesses => Unit::Exchanges,
            Self::Done(_) | Self::DoneUntil(_) => Unit::Exchanges,
            Self::Loss | Self::RetransmissionShare => Unit::Percent,
            Self::Classes(_) | Self::UsefulTime | Self::Completed => Unit::Percent,
            Self::Throughput | Self::ClientThroughput => Unit::PerSecond,
            Self::Retries | Self::RetransmissionIndex | Self::Jain => Unit::Ratio,
            Self::Hops => Unit::Count,
            Self::Received(received) => received.unit(),
            Self::Transfer(transferred) => transferred.unit(),
        }
    }

    /// What a run must remember for it.
    #[must_use]
    pub fn wants(&self) -> Wanted {
        match self {
            Self::Classes(classes) => classes.of.wants(),
            metric => Wanted {
                timeouts: matches!(
                    metric,
                    Self::InitialRto | Self::Rto | Self::RtoOverTime(_) | Self::RetransmissionShare
                ),
                arrivals: matches!(metric, Self::Received(_)),
            },
        }
    }

    /// Refuses what no run can answer.
    pub(crate) fn validate(&self, statistic: Statistic, longest: Span) -> Result<(), String> {
        match self {
            Self::Classes(classes) => classes.validate()?,
            Self::Settling { share } => share_fits(*share)?,
            Self::Received(received) => received.validate(longest)?,
            metric => metric.windows().map_or(Ok(()), |windows| windows.validate(longest))?,
        }
        match statistic {
            Statistic::Percentile(percent) if !(0.0..=100.0).contains(&percent) => {
                Err(format!("a percentile of {percent}; it must be between 0 and 100"))
            }
            Statistic::Percentile(_) | Statistic::Median | Statistic::Deviation if !self.has_many() => {
                Err("it is one number a run, which has no percentiles; leave the statistic out for its mean".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The windows that it has a number of each of.
    #[must_use]
    pub(crate) const fn windows(&self) -> Option<Windows> {
        match self {
            Self::Done(windows) | Self::DoneUntil(windows) | Self::RtoOverTime(windows) => Some(*windows),
            _ => None,
        }
    }

    /// Whether it gives a number of each flow or exchange.
    pub(super) const fn has_many(&self) -> bool {
        matches!(
            self,
            Self::CompletionTime
                | Self::Unnecessary
                | Self::ExchangeTime
                | Self::RoundTrip
                | Self::RttSample
                | Self::InitialRto
                | Self::Rto
                | Self::Hops
                | Self::FlowSuccesses
                | Self::Received(Received::GoodputOfEach)
                | Self::Transfer(Transferred::RouteHops)
        )
    }

    /// Whether it has a meaning for several runs together.
    pub(crate) const fn can_be_pooled(&self) -> bool {
        let is_ratio = matches!(self, Self::Loss | Self::Completed | Self::Retries | Self::Transfer(_));
        is_ratio || self.has_many() || matches!(self, Self::RetransmissionShare | Self::RetransmissionIndex)
    }

    /// Whether it is counted for whole runs only, or is of all that flows have: no phase has it.
    #[must_use]
    pub const fn needs_the_whole(&self) -> bool {
        matches!(
            self,
            Self::CompletionTime
                | Self::Settling { .. }
                | Self::Copies
                | Self::Drops
                | Self::Received(Received::Frames)
        )
    }

    /// What it is in a run.
    #[must_use]
    pub fn sample(&self, run: &Record, of: Selection, endpoints: Endpoints) -> Sample {
        let flows = || run.flows_of(of);
        let exchanges = || flows().flat_map(|flow| &flow.exchanges);
        let succeeded = || exchanges().filter(|exchange| exchange.answered);
        let timeouts = || run.nodes_of(of).flat_map(|node| &node.timeouts);
        let tallied = |count: fn(&Flow) -> u64| flows().map(count).sum::<u64>() as f64;
        match self {
            Self::CompletionTime => {
                let times = flows().filter_map(|flow| Some((flow.tally.done? - flow.start).as_nanos()));
                seconds(times)
            }
            Self::Unnecessary => {
                let of_flow = |flow: &Flow| flow.exchanges.iter().map(|exchange| u64::from(exchange.unnecessary)).sum();
                Sample::Each(flows().map(of_flow).collect(), 1.0)
            }
            Self::Retransmissions => {
                let mut counts = vec![0.0; usize::from(endpoints.max_retransmit) + 1];
                for exchange in succeeded() {
                    if let Some(count) = counts.get_mut(usize::from(exchange.transmissions.saturating_sub(1))) {
                        *count += 1.0;
                    }
                }
                Sample::Labelled(counts.into_iter().enumerate().map(|(k, count)| (k.to_string(), count)).collect())
            }
            Self::Copies => Sample::One(run.nodes_of(of).map(|node| node.copies).sum::<u64>() as f64),
            Self::Drops => Sample::One(run.nodes_of(of).map(|node| node.dropped).sum::<u64>() as f64),
            Self::Failed => Sample::One(tallied(|flow| flow.tally.failed)),
            Self::Succeeded => Sample::One(tallied(|flow| flow.tally.answered)),
            Self::Loss => {
                let (failed, good) = (tallied(|flow| flow.tally.failed), tallied(|flow| flow.tally.answered));
                share(failed, failed + good)
            }
            Self::Throughput => quotient(succeeded().count() as f64, run.elapsed.as_secs_f64()),
            Self::ExchangeTime => seconds(succeeded().map(|exchange| (exchange.ended - exchange.began).as_nanos())),
            Self::RoundTrip => seconds(succeeded().filter_map(|exchange| Some(exchange.round_trip?.as_nanos()))),
            Self::RttSample => {
                let samples = |retransmissions| endpoints.features.is_some_and(|of| of.samples(retransmissions));
                let used = succeeded().filter(|exchange| samples(exchange.transmissions.saturating_sub(1)));
                seconds(used.filter_map(|exchange| Some(exchange.round_trip?.as_nanos())))
            }
            Self::RetransmissionShare => {
                let repeated = timeouts().filter(|timeout| timeout.attempt > 0).count();
                share(repeated as f64, timeouts().count() as f64)
            }
            Self::Retries => {
                let copies: u64 = exchanges().map(|exchange| u64::from(exchange.transmissions)).sum();
                let requests = exchanges().count() as f64;
                quotient(copies as f64 - requests, requests)
            }
            Self::RetransmissionIndex => {
                let copies: u64 = exchanges().map(|exchange| u64::from(exchange.transmissions)).sum();
                // One that was given up before its first copy could leave has none.
                let repeated = exchanges().map(|exchange| u64::from(exchange.transmissions.saturating_sub(1)));
                quotient(repeated.sum::<u64>() as f64, copies as f64)
            }
            Self::Hops => Sample::Each(flows().map(|flow| flow.hops.into()).collect(), 1.0),
            Self::Received(received) => received.sample(run, of),
            Self::Transfer(transferred) => transferred.sample(run, of),
            Self::InitialRto => {
                seconds(timeouts().filter(|timeout| timeout.attempt == 0).map(|timeout| timeout.after.as_nanos()))
            }
            Self::Rto => seconds(timeouts().map(|timeout| timeout.after.as_nanos())),
            Self::Jain => {
                let shares: Vec<f64> = flows().map(|flow| flow.tally.answered as f64).collect();
                jain_index(&shares).map_or(Sample::None, Sample::One)
            }
            Self::Settling { share } => settling(run, of, *share),
            Self::FlowSuccesses => Sample::Each(flows().map(|flow| flow.tally.answered).collect(), 1.0),
            Self::Classes(classes) => classes.of(&classes.of.sample(run, of, endpoints)),
            Self::Done(windows) => over_time::successes(run, of, *windows, false),
            Self::DoneUntil(windows) => over_time::successes(run, of, *windows, true),
            Self::RtoOverTime(windows) => over_time::timeouts(run, of, *windows),
            Self::TimePerSuccess => quotient(client_time(flows()), succeeded().count() as f64),
            Self::ClientThroughput => quotient(succeeded().count() as f64, client_time(flows())),
            Self::UsefulTime => {
                let slots: f64 = flows().map(|flow| f64::from(flow.outstanding)).sum();
                share(flows().map(useful_s).sum(), slots * run.elapsed.as_secs_f64())
            }
            Self::Completed => {
                share(tallied(|flow| flow.tally.answered), tallied(|flow| flow.wanted.unwrap_or_default()))
            }
        }
    }
}

fn seconds(nanos: impl Iterator<Item = u128>) -> Sample {
    Sample::Each(nanos.map(|nanos| u64::try_from(nanos).unwrap_or(u64::MAX)).collect(), NANOS_PER_SECOND)
}

pub(super) fn quotient(above: f64, below: f64) -> Sample {
    if below > 0.0 { Sample::Ratio(above, below) } else { Sample::None }
}

/// Refuses what is no share.
pub(super) fn share_fits(share: f64) -> Result<(), String> {
    let is_share = (0.0..=1.0).contains(&share);
    if is_share { Ok(()) } else { Err(format!("a share of {share}; it must be between 0 and 1")) }
}

/// In per cent.
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

/// Seconds of a flow's exchanges that succeeded.
fn useful_s(flow: &Flow) -> f64 {
    let succeeded = flow.exchanges.iter().filter(|exchange| exchange.answered);
    succeeded.map(|exchange| (exchange.ended - exchange.began).as_secs_f64()).sum()
}

/// The same of all flows, each divided by its exchanges at a time.
fn client_time<'a>(flows: impl Iterator<Item = &'a Flow>) -> f64 {
    flows.map(|flow| useful_s(flow) / f64::from(flow.outstanding)).sum()
}
