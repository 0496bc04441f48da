//! The result of one measurement, and its source, the report of `conche bench --json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::load::{BIG, Load};

/// The result of one measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Requests, notifications or bytes per second.
    pub per_s: f64,
    /// CPU microseconds of the measured server or client per request, notification or body.
    pub cpu_us: Option<f64>,
    /// Latency of requests, from their due time.
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
    /// Share of time in which the generator, or a client's server, was busy; near 1 it was the
    /// bottleneck.
    pub generator: f64,
    /// Share of one core that other processes used.
    pub foreign: f64,
}

/// The required parts of the generator's report.
#[derive(Debug, Deserialize)]
pub struct Report {
    requests: u64,
    /// Requests with a response of any code.
    pub answered: u64,
    codes: BTreeMap<String, u64>,
    requests_per_s: f64,
    latency_ms: Option<Latency>,
    notifications: Option<Notifications>,
    /// Over DTLS only.
    handshakes: Option<Handshakes>,
    generator: Generator,
}

impl Report {
    /// Returns the number of sessions open at the end.
    pub fn sessions(&self) -> u64 {
        self.handshakes.as_ref().map_or(0, |handshakes| handshakes.opened.saturating_sub(handshakes.lost))
    }

    /// Computes the sample; `server_s` is the server's CPU time, `foreign` the share of other
    /// processes.
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

    const REPORT: &str = r#"{"requests":1000,"answered":999,"codes":{"2.05":990,"5.03":9},"requests_per_s":500.0,
        "latency_ms":{"p50":0.25,"p99":4.0},"generator":{"busy":0.5}}"#;

    #[test]
    fn a_request_costs_what_the_server_took_for_all() {
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
