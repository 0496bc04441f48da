//! Results from reports of `conche bench --json`: medians over rounds, and their ratios.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::load::{BIG, Load};
use crate::peer::Peer;

/// Share of a core for other processes above which a round is disturbed.
pub const MOST_FOREIGN: f64 = 0.05;

/// Busy share above which a generator, or a client's server, is the bottleneck.
pub const MOST_BUSY: f64 = 0.95;

/// Maximum share of requests without a proper response in reliable results.
pub const MOST_MISSING: f64 = 0.001;

#[derive(Clone, Debug, Default)]
pub struct Results {
    samples: BTreeMap<(Load, Peer), Vec<Sample>>,
}

pub type Of = fn(&Sample) -> Option<f64>;

/// A reason to doubt a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// Other processes used the machine in all rounds.
    Disturbed,
    /// The generator, or a client's server, was the bottleneck.
    Generator,
    /// Requests lacked the expected response.
    Missing,
}

impl Doubt {
    pub const ALL: [Self; 3] = [Self::Disturbed, Self::Generator, Self::Missing];

    pub fn mark(self) -> char {
        match self {
            Self::Disturbed => '~',
            Self::Generator => '†',
            Self::Missing => '‡',
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            Self::Disturbed => "other processes used more than 5 % of a core in every round",
            Self::Generator => "the measuring end was busy all the time: a lower bound",
            Self::Missing => "more than one request in 1000 had no response 2.05",
        }
    }
}

impl Results {
    pub fn add(&mut self, load: Load, peer: Peer, sample: Sample) {
        self.samples.entry((load, peer)).or_default().push(sample);
    }

    pub fn samples(&self, load: Load, peer: Peer) -> &[Sample] {
        self.samples.get(&(load, peer)).map_or(&[], Vec::as_slice)
    }

    /// In the order of the tables.
    pub fn measured(&self, load: Load) -> impl Iterator<Item = Peer> {
        Peer::value_variants().iter().copied().filter(move |&peer| !self.samples(load, peer).is_empty())
    }

    /// Median over undisturbed rounds, or over all if none is.
    pub fn median(&self, load: Load, peer: Peer, of: Of) -> Option<f64> {
        let samples = self.samples(load, peer);
        let quiet: Vec<f64> = samples.iter().filter(|sample| !is_disturbed(sample)).filter_map(of).collect();
        median(if quiet.is_empty() { samples.iter().filter_map(of).collect() } else { quiet })
    }

    pub fn peer_ratio(&self, load: Load, peer: Peer, other: Peer, of: Of) -> Option<f64> {
        ratio(self.median(load, peer, of)?, self.median(load, other, of)?)
    }

    /// Ratio of a peer's value to its own with another load.
    pub fn load_ratio(&self, peer: Peer, load: Load, other: Load, of: Of) -> Option<f64> {
        ratio(self.median(load, peer, of)?, self.median(other, peer, of)?)
    }

    pub fn doubts(&self, load: Load, peer: Peer) -> Vec<Doubt> {
        let samples = self.samples(load, peer);
        let is_in = |doubt: &Doubt| match doubt {
            Doubt::Disturbed => !samples.is_empty() && samples.iter().all(is_disturbed),
            Doubt::Generator => self.median(load, peer, |sample| Some(sample.generator)) > Some(MOST_BUSY),
            Doubt::Missing => self.median(load, peer, |sample| Some(sample.missing)) > Some(MOST_MISSING),
        };
        Doubt::ALL.into_iter().filter(is_in).collect()
    }
}

fn ratio(number: f64, other: f64) -> Option<f64> {
    (other > 0.0).then(|| number / other)
}

fn is_disturbed(sample: &Sample) -> bool {
    sample.foreign > MOST_FOREIGN
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    Some(if numbers.len() % 2 == 1 { upper } else { f64::midpoint(numbers[middle - 1], upper) })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Requests, notifications or bytes per second.
    pub per_s: f64,
    /// CPU microseconds of the measured server or client per request, notification or body.
    pub cpu_us: Option<f64>,
    /// Latency from the due time.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Peers known before the load.
    pub known: Option<f64>,
    /// Memory per known peer.
    pub bytes_per_peer: Option<f64>,
    /// Memory per idle DTLS session.
    pub bytes_per_session: Option<f64>,
    /// Share of requests without a response 2.05.
    pub missing: f64,
    /// Busy share of the generator, or of a client's server.
    pub generator: f64,
    /// Share of one core that other processes used.
    pub foreign: f64,
}

#[derive(Debug, Deserialize)]
pub struct Report {
    requests: u64,
    /// Requests with a response of any code.
    pub answered: u64,
    codes: BTreeMap<String, u64>,
    requests_per_s: f64,
    latency_ms: Option<Latency>,
    notifications: Option<Notifications>,
    handshakes: Option<Handshakes>,
    generator: Generator,
}

impl Report {
    pub fn sessions(&self) -> u64 {
        self.handshakes.as_ref().map_or(0, |handshakes| handshakes.opened.saturating_sub(handshakes.lost))
    }

    /// `server_s` is the server's CPU time, `foreign` the share of other processes.
    pub fn sample(&self, load: Load, server_s: f64, foreign: f64) -> Sample {
        let (count, per_s) = match (&self.notifications, load) {
            (Some(notifications), _) => (notifications.count, notifications.per_s),
            (None, Load::Blocks) => (self.answered, self.requests_per_s * BIG),
            (None, _) => (self.answered, self.requests_per_s),
        };
        let good = self.codes.get("2.05").copied().unwrap_or_default();
        let latency = self.latency_ms.as_ref().filter(|_| !load.is_observed());
        Sample {
            per_s,
            cpu_us: (count > 0).then(|| server_s * 1e6 / count as f64),
            p50_us: latency.map(|latency| latency.p50 * 1e3),
            p99_us: latency.map(|latency| latency.p99 * 1e3),
            missing: 1.0 - good as f64 / self.requests.max(1) as f64,
            generator: self.generator.busy,
            foreign,
            ..Sample::default()
        }
    }
}

#[derive(Debug, Deserialize)]
struct Latency {
    p50: f64,
    p99: f64,
}

#[derive(Debug, Deserialize)]
struct Notifications {
    count: u64,
    per_s: f64,
}

#[derive(Debug, Deserialize)]
struct Handshakes {
    opened: u64,
    lost: u64,
}

#[derive(Debug, Deserialize)]
struct Generator {
    busy: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Of = |sample| Some(sample.per_s);

    fn results(rounds: &[(f64, f64)]) -> Results {
        let mut results = Results::default();
        for &(per_s, foreign) in rounds {
            results.add(Load::Many, Peer::Conche, Sample { per_s, foreign, ..Sample::default() });
        }
        results
    }

    fn rate(results: &Results) -> f64 {
        results.median(Load::Many, Peer::Conche, RATE).expect("a median")
    }

    #[test]
    fn medians_are_of_undisturbed_rounds_if_there_are_any() {
        assert!((rate(&results(&[(3.0, 0.0), (1.0, 0.0), (2.0, 0.0)])) - 2.0).abs() < 1e-9);
        assert!((rate(&results(&[(3.0, 0.0), (2.0, 0.0)])) - 2.5).abs() < 1e-9);
        let mixed = results(&[(3.0, 0.0), (1.0, 0.5), (2.0, 0.5)]);
        assert!((rate(&mixed) - 3.0).abs() < 1e-9);
        assert_eq!(mixed.doubts(Load::Many, Peer::Conche), []);
        let disturbed = results(&[(3.0, 0.5), (1.0, 0.5), (2.0, 0.5)]);
        assert!((rate(&disturbed) - 2.0).abs() < 1e-9);
        assert_eq!(disturbed.doubts(Load::Many, Peer::Conche), [Doubt::Disturbed]);
    }

    #[test]
    fn ratios_need_both_and_no_division_by_nothing() {
        let mut results = results(&[(30.0, 0.0)]);
        let ratio = |results: &Results| results.peer_ratio(Load::Many, Peer::Conche, Peer::Libcoap, RATE);
        assert_eq!(ratio(&results), None);
        results.add(Load::Many, Peer::Libcoap, Sample::default());
        assert_eq!(ratio(&results), None);
        results.add(Load::Many, Peer::Libcoap, Sample { per_s: 20.0, ..Sample::default() });
        assert!((ratio(&results).expect("both are there") - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_busy_generator_and_missing_responses_are_doubts() {
        let mut results = Results::default();
        let sample = Sample { generator: 0.99, missing: 0.01, ..Sample::default() };
        results.add(Load::Wide, Peer::Raw, sample);
        assert_eq!(results.doubts(Load::Wide, Peer::Raw), [Doubt::Generator, Doubt::Missing]);
        assert_eq!(results.doubts(Load::Wide, Peer::Conche), [], "of nothing nothing is said");
    }

    const REPORT: &str = r#"{"requests":1000,"answered":999,"codes":{"2.05":990,"5.03":9},"requests_per_s":500.0,
        "latency_ms":{"p50":0.25,"p99":4.0},"generator":{"busy":0.5}}"#;

    #[test]
    fn cpu_time_per_request_is_server_time_over_answered_requests() {
        let report: Report = serde_json::from_str(REPORT).expect("a report");
        let sample = report.sample(Load::Many, 0.0999, 0.02);
        assert!((sample.cpu_us.expect("answers") - 100.0).abs() < 1e-6);
        assert!((sample.missing - 0.01).abs() < 1e-9, "another code is no answer");
        assert_eq!((sample.p50_us, sample.p99_us), (Some(250.0), Some(4000.0)));
    }

    #[test]
    fn sessions_that_the_server_has_ended_are_not_open() {
        let mut report: Report = serde_json::from_str(REPORT).expect("a report");
        assert_eq!(report.sessions(), 0);
        report.handshakes = Some(Handshakes { opened: 2000, lost: 3 });
        assert_eq!(report.sessions(), 1997);
    }

    #[test]
    fn blocks_count_as_bytes_and_observations_by_their_notifications() {
        let mut report: Report = serde_json::from_str(REPORT).expect("a report");
        let blocks = report.sample(Load::Blocks, 1.0, 0.0);
        assert!((blocks.per_s - 500.0 * 65536.0).abs() < 1e-6);
        report.notifications = Some(Notifications { count: 50_000, per_s: 25_000.0 });
        let observed = report.sample(Load::Observed, 1.0, 0.0);
        assert!((observed.per_s - 25_000.0).abs() < 1e-6);
        assert!((observed.cpu_us.expect("notifications") - 20.0).abs() < 1e-9);
        assert_eq!(observed.p50_us, None, "a registration is not what is measured");
    }
}
