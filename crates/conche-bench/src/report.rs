//! A load test's result, as `conche bench --json` prints it. Names are stable.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_proto::codec::Code;
use serde::{Deserialize, Serialize};

use crate::dtls::Counts;
use crate::plan::{Arrivals, Load, Plan};
use crate::tally::{Interval as Measured, KindTally, Tally, Times};
use crate::worker_result::WorkerResult;

/// Version of the field names.
pub const SCHEMA: u32 = 1;

/// A load test's result. `_ms` are milliseconds, `_s` seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Version of the field names.
    pub schema: u32,
    /// Parameters of the test.
    pub plan: Setup,
    /// Duration of the measurement.
    pub measured_s: f64,
    /// Requests due: the sum of `answered`, `lost`, `unsent` and `unfinished`.
    pub requests: u64,
    /// Requests with a response, whatever its code.
    pub answered: u64,
    /// Requests that will get none.
    pub lost: Lost,
    /// Requests of an open loop due but never sent, for lack of slots.
    pub unsent: u64,
    /// Requests still open 5 s after the end.
    pub unfinished: u64,
    /// Responses by code, such as `2.05`.
    pub codes: BTreeMap<String, u64>,
    /// Responses per second of measurement.
    pub requests_per_s: f64,
    /// Datagram bytes sent per second, with CoAP headers only.
    pub bytes_sent_per_s: f64,
    /// Datagram bytes received per second.
    pub bytes_received_per_s: f64,
    /// Retransmissions of requests.
    pub retransmissions: u64,
    /// Time from due (in a closed loop, submission) to response, with retransmissions; `null`
    /// without responses.
    pub latency_ms: Option<Latency>,
    /// Time from first transmission to response, without queueing.
    pub service_ms: Option<Latency>,
    /// Latency histogram, ascending: each bar counts up to its bound.
    pub histogram: Vec<Bar>,
    /// Results per kind, if several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindReport>,
    /// Notifications, with `--observe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Notifications>,
    /// Handshakes, over DTLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
    /// Measurements per interval, to separate chance from change.
    pub intervals: Vec<Interval>,
    /// Load of the generator itself.
    pub generator: Generator,
    /// Reasons to doubt the results.
    pub warnings: Vec<String>,
}

/// The parameters of a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Address of the server.
    pub target: String,
    /// Kinds of requests.
    pub requests: Vec<String>,
    /// `closed`, `constant` or `poisson`.
    pub load: String,
    /// Requests per second due in an open loop.
    pub rate: Option<f64>,
    /// CoAP endpoints.
    pub endpoints: u32,
    /// Concurrent exchanges per endpoint.
    pub in_flight: u16,
    /// Threads of the generator.
    pub threads: u32,
    /// Whether requests used DTLS.
    #[serde(default)]
    pub secured: bool,
    /// Whether requests were protected with OSCORE.
    #[serde(default)]
    pub protected: bool,
    /// Warm-up in seconds.
    pub warm_up_s: f64,
}

/// Requests without a response, by reason.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Lost {
    /// No response to any transmission, or timeout.
    pub timed_out: u64,
    /// The server answered with a Reset.
    pub reset: u64,
    /// The network reported the server unreachable.
    pub unreachable: u64,
    /// The response could not be used.
    pub other: u64,
}

impl Lost {
    /// Returns the sum.
    #[must_use]
    pub fn all(&self) -> u64 {
        [self.timed_out, self.reset, self.unreachable, self.other].into_iter().fold(0, u64::saturating_add)
    }
}

/// Statistics of times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Latency {
    pub min: f64,
    pub mean: f64,
    pub stdev: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    pub max: f64,
}

/// A bar of the histogram.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Bar {
    /// Upper bound.
    pub to_ms: f64,
    /// Count.
    pub count: u64,
}

/// One kind's results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KindReport {
    /// Method and path.
    pub name: String,
    /// Requests due.
    pub requests: u64,
    /// Requests with a response.
    pub answered: u64,
    /// Requests with a 2.xx response.
    pub succeeded: u64,
    /// Latency, as in [`Report::latency_ms`].
    pub latency_ms: Option<Latency>,
}

/// Results of observations.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Notifications {
    /// Notifications during the measurement.
    pub count: u64,
    /// Notifications per second.
    pub per_s: f64,
    /// Registrations refused or ended by the server.
    pub refused: u64,
    /// Time between an observation's notifications.
    pub gap_ms: Option<Latency>,
}

/// One interval's measurements.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Interval {
    /// Length.
    pub seconds: f64,
    /// Responses received.
    pub answered: u64,
    /// Requests lost.
    pub lost: u64,
    /// Notifications received.
    pub notifications: u64,
    /// Latency of the responses.
    pub latency_ms: Option<Latency>,
}

/// The generator's load during the measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Generator {
    /// CPU seconds of its threads.
    pub cpu_s: f64,
    /// Seconds its threads waited for a core.
    pub waited_s: f64,
    /// Share of time its threads were busy or waited for a core; near 1, it is the bottleneck.
    pub busy: f64,
    /// CPU microseconds per response.
    pub cpu_us_per_request: Option<f64>,
    /// Delay of an open loop's requests by the generator only.
    pub late_ms: Option<Latency>,
    /// Requests of an open loop delayed for lack of slots.
    pub held: u64,
    /// Source ports opened for lack of message IDs.
    pub ports_renewed: u64,
    /// Datagrams not sent by the operating system.
    pub datagrams_dropped: u64,
}

/// DTLS handshakes, before the test and later; with `--handshakes`, during the measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Handshakes {
    /// Handshakes completed.
    pub opened: u64,
    /// Handshakes failed.
    pub failed: u64,
    /// Sessions that the server ended.
    pub lost: u64,
    /// Sessions opened per second; before the test at most 64 handshakes are concurrent. `null` if
    /// interrupted too early.
    pub per_s: Option<f64>,
    /// Mean datagram bytes of a handshake, both directions, without UDP and IP headers.
    pub bytes: Option<f64>,
    /// Duration.
    pub time_ms: Option<Latency>,
}

impl Handshakes {
    fn of(plan: &Plan, done: &[WorkerResult], opened_in: Duration, measured_s: f64) -> Option<Self> {
        let mut counts = Counts::new();
        done.iter().filter_map(|done| done.handshakes.as_ref()).for_each(|of| counts.add(of));
        plan.credentials.as_ref()?;
        let time = if plan.handshakes { measured_s } else { opened_in.as_secs_f64() };
        // Replacement ports' handshakes came later.
        let renewed: u64 = done.iter().map(|done| done.renewed).sum();
        let timed = if plan.handshakes { counts.opened } else { counts.opened.saturating_sub(renewed) };
        Some(Self {
            opened: counts.opened,
            failed: counts.failed,
            lost: counts.lost,
            per_s: (time > 0.0).then(|| timed as f64 / time),
            bytes: (counts.opened > 0).then(|| counts.bytes as f64 / counts.opened as f64),
            time_ms: Latency::of(&counts.times),
        })
    }
}

impl Report {
    pub(crate) fn new(plan: &Plan, done: &[WorkerResult], opened_in: Duration, intervals: Vec<Interval>) -> Self {
        let mut tally = Tally::new(plan.kinds.len());
        done.iter().for_each(|done| tally.add(&done.tally));
        let measured_s = done.iter().map(|done| done.measured).max().unwrap_or_default().as_secs_f64();
        let per_s = |count: u64| if measured_s > 0.0 { count as f64 / measured_s } else { 0.0 };
        let answered_in_time = done.iter().map(|done| done.answered).sum();
        let codes = (0..=u8::MAX).zip(tally.codes.iter()).filter(|(_, count)| **count > 0);
        let [timed_out, reset, unreachable, other] = tally.lost;
        let mut report = Self {
            schema: SCHEMA,
            plan: Setup::of(plan),
            measured_s,
            requests: tally.requests + tally.unsent,
            answered: tally.answered(),
            lost: Lost { timed_out, reset, unreachable, other },
            unsent: tally.unsent,
            unfinished: tally.unfinished,
            codes: codes.map(|(code, count)| (format!("{:?}", Code(code)), *count)).collect(),
            requests_per_s: per_s(answered_in_time),
            bytes_sent_per_s: per_s(done.iter().map(|done| done.traffic.bytes_sent).sum()),
            bytes_received_per_s: per_s(done.iter().map(|done| done.traffic.bytes_received).sum()),
            retransmissions: tally.retransmissions,
            latency_ms: Latency::of(&tally.latency),
            service_ms: Latency::of(&tally.service),
            histogram: bars(&tally.latency),
            kinds: if plan.kinds.len() > 1 { kinds(plan, &tally.kinds) } else { Vec::new() },
            notifications: plan.observe.then(|| Notifications {
                count: tally.notifications,
                per_s: per_s(tally.notifications),
                refused: tally.not_observed,
                gap_ms: Latency::of(&tally.gaps),
            }),
            handshakes: Handshakes::of(plan, done, opened_in, measured_s),
            intervals,
            generator: Generator::of(&tally, done, answered_in_time),
            warnings: Vec::new(),
        };
        report.warnings = warnings(&report);
        report
    }
}

impl Setup {
    fn of(plan: &Plan) -> Self {
        let (load, rate) = match plan.load {
            Load::Closed => ("closed", None),
            Load::Open { rate, arrivals: Arrivals::Constant } => ("constant", Some(rate)),
            Load::Open { rate, arrivals: Arrivals::Poisson } => ("poisson", Some(rate)),
        };
        Self {
            target: plan.target.to_string(),
            requests: plan.kinds.iter().map(|kind| kind.name.clone()).collect(),
            load: load.to_owned(),
            rate,
            endpoints: plan.endpoints,
            in_flight: plan.in_flight,
            threads: plan.threads,
            secured: plan.credentials.is_some(),
            protected: !plan.oscore.is_empty(),
            warm_up_s: plan.warm_up.as_secs_f64(),
        }
    }
}

impl Latency {
    fn of(times: &Times) -> Option<Self> {
        // The bucket's middle: a single sample's values are equal.
        let middle = |nanos| milliseconds(times.median_equivalent(nanos));
        let at = |share| middle(times.value_at_quantile(share));
        (!times.is_empty()).then(|| Self {
            min: middle(times.min()),
            mean: times.mean() / 1e6,
            stdev: times.stdev() / 1e6,
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: middle(times.max()),
        })
    }
}

impl Interval {
    pub(crate) fn of(measured: &Measured, span: Duration) -> Self {
        Self {
            seconds: span.as_secs_f64(),
            answered: measured.answered,
            lost: measured.lost,
            notifications: measured.notifications,
            latency_ms: Latency::of(&measured.latency),
        }
    }

    pub(crate) fn empty(span: Duration) -> Self {
        Self { seconds: span.as_secs_f64(), answered: 0, lost: 0, notifications: 0, latency_ms: None }
    }
}

impl Generator {
    fn of(tally: &Tally, done: &[WorkerResult], answered: u64) -> Self {
        let sum = |of: fn(&WorkerResult) -> Duration| done.iter().map(of).sum::<Duration>().as_secs_f64();
        let (cpu_s, waited_s) = (sum(|done| done.usage.cpu), sum(|done| done.usage.waiting));
        let time = sum(|done| done.used_in);
        Self {
            cpu_s,
            waited_s,
            busy: if time > 0.0 { (cpu_s + waited_s) / time } else { 0.0 },
            cpu_us_per_request: (answered > 0).then(|| cpu_s * 1e6 / answered as f64),
            late_ms: Latency::of(&tally.late),
            held: tally.held,
            ports_renewed: done.iter().map(|done| done.renewed).sum(),
            datagrams_dropped: done.iter().map(|done| done.dropped).sum(),
        }
    }
}

fn kinds(plan: &Plan, measured: &[KindTally]) -> Vec<KindReport> {
    let of = plan.kinds.iter().zip(measured);
    of.map(|(kind, measured)| KindReport {
        name: kind.name.clone(),
        requests: measured.requests,
        answered: measured.answered,
        succeeded: measured.succeeded,
        latency_ms: Latency::of(&measured.latency),
    })
    .collect()
}

/// Bars grow by a constant factor.
fn bars(times: &Times) -> Vec<Bar> {
    /// Unless that exceeds `MOST`.
    const PER_DOUBLING: f64 = 4.0;
    const MOST: f64 = 20.0;
    if times.is_empty() {
        return Vec::new();
    }
    let (low, high) = (times.min().max(1) as f64, times.max().max(2) as f64);
    let doublings = (high / low).log2().max(0.1);
    let factor = (doublings / MOST).max(1.0 / PER_DOUBLING).exp2();
    let mut bars: Vec<Bar> = Vec::new();
    let (mut end, mut counted) = (low, 0);
    while counted < times.len() {
        end *= factor;
        // Above 0; a longer one saturates.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let below = times.count_between(0, end.min(high) as u64).min(times.len());
        let below = if end >= high { times.len() } else { below };
        bars.push(Bar { to_ms: end.min(high) / 1e6, count: below - counted });
        counted = below;
    }
    bars
}

fn milliseconds(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Busy share of a bottleneck.
const BUSY: f64 = 0.9;

/// Minimum delay blamed on the generator.
const LATE_MS: f64 = 1.0;

/// Latency over service time that indicates queueing.
const HELD_BACK: f64 = 2.0;

/// Fewer are not significant.
const FEW_INTERVALS: usize = 5;

fn warnings(report: &Report) -> Vec<String> {
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

/// Means in ms since due and since sent.
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
