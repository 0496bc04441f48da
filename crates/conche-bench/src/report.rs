//! The result of a load test, as a program reads it: what `conche bench --json` prints. Names stay; new ones may come.

mod warnings;

use std::collections::BTreeMap;
use std::time::Duration;

use conche_proto::codec::Code;
use serde::{Deserialize, Serialize};

use crate::plan::{Arrivals, Load, Plan};
use crate::secured::Counts;
use crate::tally::{Interval as Measured, OfKind, Tally, Times};
use crate::told::Done;

/// The version of these names.
pub const SCHEMA: u32 = 1;

/// The result of a load test. Times are in milliseconds where the name ends in `_ms`, and in seconds where it ends in `_s`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The version of these names.
    pub schema: u32,
    /// What the test was.
    pub plan: Setup,
    /// How long it was measuring.
    pub measured_s: f64,
    /// Requests that were due in that time; those below add up to it.
    pub requests: u64,
    /// Requests that have a response, whatever its code.
    pub answered: u64,
    /// Requests that will have none.
    pub lost: Lost,
    /// Requests of an open loop that were due and never left, since all were in flight that may be.
    pub unsent: u64,
    /// Requests that were not over 5 s after the end.
    pub unfinished: u64,
    /// Responses by code, such as `2.05`.
    pub codes: BTreeMap<String, u64>,
    /// Responses a second that came while it was measuring.
    pub requests_per_s: f64,
    /// Bytes of datagrams a second, with CoAP's headers and without those of UDP and IP.
    pub bytes_sent_per_s: f64,
    /// The same for what came.
    pub bytes_received_per_s: f64,
    /// Copies of requests that were sent beyond the first ones.
    pub retransmissions: u64,
    /// From when a request was due to its response, retransmissions included; in a closed loop it is due when it is asked for.
    /// `null` if there was no response.
    pub latency_ms: Option<Latency>,
    /// From the departure of a request's first copy to its response: without what it waited for its turn.
    pub service_ms: Option<Latency>,
    /// Latencies by count, upward: how many were at most so many milliseconds, and above those of the bar before.
    pub histogram: Vec<Bar>,
    /// By kind of request, if there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindReport>,
    /// With `--observe`: what came beside first responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Notifications>,
    /// Over DTLS: what became of handshakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
    /// What was measured interval by interval, to tell chance from change.
    pub intervals: Vec<Interval>,
    /// How busy the generator itself was.
    pub generator: Generator,
    /// What puts the numbers in doubt.
    pub warnings: Vec<String>,
}

/// What a test was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The server's address.
    pub target: String,
    /// The kinds of requests.
    pub requests: Vec<String>,
    /// `closed`, `constant` or `poisson`.
    pub load: String,
    /// Requests a second that were due in an open loop.
    pub rate: Option<f64>,
    /// CoAP endpoints.
    pub endpoints: u32,
    /// Exchanges at a time of each.
    pub in_flight: u16,
    /// Threads of the generator.
    pub threads: u32,
    /// Requests went over DTLS.
    #[serde(default)]
    pub secured: bool,
    /// Requests were protected with OSCORE.
    #[serde(default)]
    pub protected: bool,
    /// Seconds before anything counted.
    pub warm_up_s: f64,
}

/// Requests without a response, by reason.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Lost {
    /// All retransmissions went unanswered, or the time given ran out.
    pub timed_out: u64,
    /// The server answered with a Reset.
    pub reset: u64,
    /// The network reported the server unreachable.
    pub unreachable: u64,
    /// The response could not be used.
    pub other: u64,
}

impl Lost {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        [self.timed_out, self.reset, self.unreachable, self.other].into_iter().fold(0, u64::saturating_add)
    }
}

/// What is told of many times, in milliseconds.
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
    /// 99.9 of a hundred are at most so long.
    pub p999: f64,
    pub max: f64,
}

/// A bar of the histogram.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Bar {
    /// These took so long at most.
    pub to_ms: f64,
    /// How many.
    pub count: u64,
}

/// Of one kind of request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KindReport {
    /// Method and path.
    pub name: String,
    /// Those that were due.
    pub requests: u64,
    /// Those with a response.
    pub answered: u64,
    /// Those with a response 2.xx.
    pub succeeded: u64,
    /// As that of all.
    pub latency_ms: Option<Latency>,
}

/// What observations brought.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Notifications {
    /// How many came while the test was measuring.
    pub count: u64,
    /// How many a second.
    pub per_s: f64,
    /// Registrations that the server did not agree to, or ended.
    pub refused: u64,
    /// From one notification of an observation to the next.
    pub gap_ms: Option<Latency>,
}

/// What one interval has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Interval {
    /// How long it was.
    pub seconds: f64,
    /// Responses that came in it.
    pub answered: u64,
    /// Requests that were given up in it.
    pub lost: u64,
    /// Notifications that came in it.
    pub notifications: u64,
    /// The latency of those responses.
    pub latency_ms: Option<Latency>,
}

/// How busy the generator itself was while the test was measuring.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Generator {
    /// Seconds that its threads were on a core.
    pub cpu_s: f64,
    /// Seconds that its threads were ready, and waited for a core.
    pub waited_s: f64,
    /// The share of their time that its threads were busy, or waited for a core: near 1 the generator is the limit.
    pub busy: f64,
    /// Microseconds of a core for each response.
    pub cpu_us_per_request: Option<f64>,
    /// How late requests of an open loop left that nothing held up but the generator.
    pub late_ms: Option<Latency>,
    /// Requests of an open loop that had to wait since all were in flight that may be.
    pub held: u64,
    /// Source ports that were taken when the message IDs of others were used up.
    pub ports_renewed: u64,
    /// Datagrams that the operating system would not send.
    pub datagrams_dropped: u64,
}

/// What became of handshakes (DTLS): those that opened the endpoints' sessions before the test, and any later; or, with `--handshakes`,
/// those of the time that was measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Handshakes {
    /// Those that have opened a session.
    pub opened: u64,
    /// Those that have not.
    pub failed: u64,
    /// Sessions that the server has ended.
    pub lost: u64,
    /// Sessions a second that were opened, before the test as fast as that goes with 64 at a time. `null` where an interrupted test had no time.
    pub per_s: Option<f64>,
    /// Bytes of the datagrams of a handshake, in both directions, without the headers of UDP and IP.
    pub bytes: Option<f64>,
    /// How long they took.
    pub time_ms: Option<Latency>,
}

impl Handshakes {
    fn of(plan: &Plan, done: &[Done], opened_in: Duration, measured_s: f64) -> Option<Self> {
        let mut counts = Counts::new();
        done.iter().filter_map(|done| done.handshakes.as_ref()).for_each(|of| counts.add(of));
        plan.credentials.as_ref()?;
        let time = if plan.handshakes { measured_s } else { opened_in.as_secs_f64() };
        // Those of endpoints whose message IDs were used up came later.
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
    pub(crate) fn new(plan: &Plan, done: &[Done], opened_in: Duration, intervals: Vec<Interval>) -> Self {
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
            codes: codes.map(|(code, count)| (Code(code).to_string(), *count)).collect(),
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
        report.warnings = warnings::of(&report);
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
        // The middle of what the histogram does not tell apart, as of its mean: of one sample all are the same.
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

    /// Of one in which nothing came.
    pub(crate) fn empty(span: Duration) -> Self {
        Self { seconds: span.as_secs_f64(), answered: 0, lost: 0, notifications: 0, latency_ms: None }
    }
}

impl Generator {
    fn of(tally: &Tally, done: &[Done], answered: u64) -> Self {
        let sum = |of: fn(&Done) -> Duration| done.iter().map(of).sum::<Duration>().as_secs_f64();
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

fn kinds(plan: &Plan, measured: &[OfKind]) -> Vec<KindReport> {
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

/// Bars whose ends grow by a factor, from the fastest to the slowest: a dozen or two, whatever was measured.
fn bars(times: &Times) -> Vec<Bar> {
    /// Bars for each doubling, unless there would be too many.
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
        // Above 0, and a longer one saturates.
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
