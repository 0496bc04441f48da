//! OpenMetrics text for Prometheus: counters, gauges and path state.
//!
//! [`Client::metrics`](crate::Client::metrics) and [`Server::metrics`](crate::Server::metrics)
//! return the text on demand. A program serves it over HTTP as [`CONTENT_TYPE`], or as a CoAP
//! resource, as in the example `metrics`.
//!
//! All names begin with `conche_`. The label `destination` is an address, also for DTLS sessions.
//! Peers can multiply label values, so the caller bounds their number.
//!
//! Finding the busiest destinations scans all with state: about 8 ns each, in batches of 2 048
//! between traffic. Measured with `cargo bench -p conche-proto --bench endpoint -- survey` and 32
//! places, on two cores with a load average of 7.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use conche_proto::{Occupancy, PeerSnapshot, Stats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};

use super::watch::DropReason;

/// The media type of the text, for HTTP. CoAP has no number for it and uses `text/plain`.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) stats: Stats,
    pub(crate) occupancy: Occupancy,
    #[cfg(feature = "oscore")]
    pub(crate) refused_protection: u64,
    /// `None` without credentials.
    #[cfg(feature = "dtls")]
    pub(crate) sessions: Option<SessionCounts>,
    pub(crate) paths: Vec<(SocketAddr, PeerSnapshot)>,
}

/// DTLS sessions and handshakes of one socket.
#[cfg(feature = "dtls")]
#[derive(Debug)]
pub(crate) struct SessionCounts {
    pub(crate) engine: conche_dtls::Stats,
    /// Failed handshakes: a row for each reason, in the same order for all sockets.
    pub(crate) failed: Vec<(&'static str, u64)>,
}

pub(crate) fn text(mut reports: Vec<Report>) -> String {
    once_each(&mut reports);
    let mut registry = Registry::with_prefix("conche");
    registry.register_collector(Box::new(Reports(reports)));
    let mut encoded = String::new();
    text::encode(&mut encoded, &registry).expect("writing to a String cannot fail");
    encoded
}

/// Keeps the busiest series per address, which two ports or a session may duplicate.
fn once_each(reports: &mut [Report]) {
    let load = |path: &PeerSnapshot| u64::from(path.outstanding).saturating_add(path.queued as u64);
    let mut told: HashMap<SocketAddr, u64> = HashMap::new();
    for (peer, path) in reports.iter().flat_map(|report| &report.paths) {
        let most = told.entry(*peer).or_default();
        *most = load(path).max(*most);
    }
    for report in reports {
        report.paths.retain(|(peer, path)| {
            let is_busiest = told.get(peer) == Some(&load(path));
            if is_busiest {
                told.remove(peer);
            }
            is_busiest
        });
    }
}

type Row<S, V> = (&'static str, &'static str, fn(&S) -> V);

const COUNTERS: [Row<Stats, u64>; 12] = [
    ("datagrams_received", "Datagrams that arrived.", |stats| stats.datagrams_received),
    ("datagrams_sent", "Datagrams that were to be sent.", |stats| stats.datagrams_sent),
    ("exchanges_opened", "Requests, pings, separate responses and notifications.", |stats| stats.exchanges),
    ("retransmissions", "Copies sent beyond the original ones.", |stats| stats.retransmissions),
    ("timeouts", "Exchanges given up because all retransmissions went unanswered.", |stats| stats.timeouts),
    ("requests_received", "Requests passed to handlers.", |stats| stats.requests_received),
    ("requests_challenged", "Requests answered with an Echo value.", |stats| stats.challenged),
    ("validation_pings", "Pings to unverified addresses.", |stats| stats.validation_pings),
    ("responses_expired", "Responses that never left for want of message IDs.", |stats| stats.responses_expired),
    ("resets_sent", "Reset messages sent.", |stats| stats.resets_sent),
    ("resets_limited", "Responses that got no Reset, because their sender has had many.", |stats| stats.resets_limited),
    ("panics", "Panics caught in code that serves one peer, such as a handler.", |stats| stats.panics),
];

const BYTES: [Row<Stats, u64>; 2] = [
    ("received", "Bytes of the datagrams that arrived.", |stats| stats.bytes_received),
    ("sent", "Bytes of the datagrams that were to be sent.", |stats| stats.bytes_sent),
];

const GAUGES: [Row<Occupancy, usize>; 13] = [
    ("peers", "Destinations and clients with state.", |held| held.peers),
    ("exchanges", "Exchanges that are not over.", |held| held.exchanges),
    ("exchanges_queued", "Exchanges that wait for admission by congestion control.", |held| held.queued),
    ("requests_pending", "Requests of peers that wait for a response.", |held| held.incoming),
    ("responses_pending", "Separate responses that are not over.", |held| held.responses),
    ("responses_at_leisure", "Responses to groups that wait for their time.", |held| held.at_leisure),
    ("observers", "Clients that observe a resource, once for each.", |held| held.observers),
    ("subscriptions", "Observations of resources elsewhere.", |held| held.subscriptions),
    ("transfers", "Requests of ours that take several blocks.", |held| held.transfers),
    ("assemblies", "Bodies of requests that are put together from blocks.", |held| held.assemblies),
    ("representations", "Bodies of responses that are kept for their blocks.", |held| held.representations),
    ("deduplication_entries", "Messages remembered for deduplication.", |held| held.deduplication_entries),
    ("outputs", "Datagrams and events that wait to be taken.", |held| held.outputs),
];

const GAUGES_OF_BYTES: [Row<Occupancy, usize>; 2] = [
    ("bodies", "Bytes of the bodies that go in blocks.", |held| held.body_bytes),
    ("deduplication", "Bytes of the messages remembered for deduplication.", |held| held.deduplication_bytes),
];

#[cfg(feature = "dtls")]
const GAUGES_OF_SESSIONS: [Row<SessionCounts, usize>; 2] = [
    ("dtls_sessions", "Open DTLS sessions.", |counts| counts.engine.sessions),
    ("dtls_handshakes", "DTLS handshakes in progress.", |counts| counts.engine.handshakes),
];

#[cfg(feature = "dtls")]
const COUNTERS_OF_SESSIONS: [Row<SessionCounts, u64>; 3] = [
    ("dtls_handshakes_completed", "DTLS handshakes that opened a session.", |counts| counts.engine.established),
    ("dtls_handshakes_refused", "DTLS handshakes of verified addresses that found no room.", |counts| {
        counts.engine.refused
    }),
    ("dtls_sessions_evicted", "DTLS sessions closed to make room for others.", |counts| counts.engine.evicted),
];

const DURATIONS_OF_PATHS: [Row<PeerSnapshot, Option<Duration>>; 3] = [
    ("path_rto", "Initial retransmission timeout toward the destination.", |path| Some(path.congestion.rto)),
    ("path_srtt", "Smoothed round-trip time.", |path| path.congestion.srtt),
    ("path_rttvar", "Variation of the round-trip time.", |path| path.congestion.rttvar),
];

const GAUGES_OF_PATHS: [Row<PeerSnapshot, Option<u64>>; 3] = [
    ("path_bandwidth_bytes_per_second", "Estimated bandwidth of the bottleneck.", |path| {
        path.congestion.bandwidth.map(u64::from)
    }),
    ("path_exchanges_in_flight", "Exchanges that count against NSTART.", |path| Some(path.outstanding.into())),
    ("path_messages_queued", "Messages that wait for admission by congestion control.", |path| {
        Some(path.queued as u64)
    }),
];

#[derive(Debug)]
struct Reports(Vec<Report>);

impl Collector for Reports {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.counters(&mut encoder, &COUNTERS, None)?;
        self.counters(&mut encoder, &BYTES, Some(&Unit::Bytes))?;
        self.dropped(&mut encoder)?;
        #[cfg(feature = "oscore")]
        self.refused_protection(&mut encoder)?;
        #[cfg(feature = "dtls")]
        self.sessions(&mut encoder)?;
        self.gauges(&mut encoder, &GAUGES, None)?;
        self.gauges(&mut encoder, &GAUGES_OF_BYTES, Some(&Unit::Bytes))?;
        for (name, help, value) in DURATIONS_OF_PATHS {
            self.paths(&mut encoder, name, help, Some(&Unit::Seconds), |path| {
                value(path).map(|span| ConstGauge::new(span.as_secs_f64()))
            })?;
        }
        for (name, help, value) in GAUGES_OF_PATHS {
            self.paths(&mut encoder, name, help, None, |path| value(path).map(ConstGauge::new))?;
        }
        Ok(())
    }
}

impl Reports {
    fn count(&self, counter: impl Fn(&Stats) -> u64) -> ConstCounter {
        ConstCounter::new(self.0.iter().map(|report| counter(&report.stats)).sum())
    }

    fn counters(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        rows: &[Row<Stats, u64>],
        unit: Option<&Unit>,
    ) -> fmt::Result {
        rows.iter().try_for_each(|(name, help, counter)| {
            self.count(counter).encode(encoder.encode_descriptor(name, help, unit, MetricType::Counter)?)
        })
    }

    fn dropped(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Datagrams that were not taken in as something new.";
        let mut family = encoder.encode_descriptor("datagrams_dropped", help, None, MetricType::Counter)?;
        DropReason::ALL.iter().try_for_each(|reason| {
            let counter = self.count(|stats| reason.count(stats));
            counter.encode(family.encode_family(&[("reason", reason.name())])?)
        })
    }

    #[cfg(feature = "oscore")]
    fn refused_protection(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Messages refused for their protection (OSCORE): replayed, forged, of unknown keys, or without it where it is due.";
        let refused: u64 = self.0.iter().map(|report| report.refused_protection).sum();
        let counter = encoder.encode_descriptor("protection_refused", help, None, MetricType::Counter)?;
        ConstCounter::new(refused).encode(counter)
    }

    #[cfg(feature = "dtls")]
    fn sessions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counts: Vec<_> = self.0.iter().filter_map(|report| report.sessions.as_ref()).collect();
        let Some(first) = counts.first() else { return Ok(()) };
        for (name, help, gauge) in GAUGES_OF_SESSIONS {
            let sum: usize = counts.iter().map(|counts| gauge(counts)).sum();
            ConstGauge::new(sum).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, counter) in COUNTERS_OF_SESSIONS {
            let sum: u64 = counts.iter().map(|counts| counter(counts)).sum();
            ConstCounter::new(sum).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let help = "DTLS handshakes that failed, of clients and toward servers.";
        let mut family = encoder.encode_descriptor("dtls_handshakes_failed", help, None, MetricType::Counter)?;
        for (row, (reason, _)) in first.failed.iter().enumerate() {
            let sum: u64 = counts.iter().filter_map(|counts| counts.failed.get(row)).map(|(_, failed)| failed).sum();
            ConstCounter::new(sum).encode(family.encode_family(&[("reason", *reason)])?)?;
        }
        Ok(())
    }

    fn gauges(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        rows: &[Row<Occupancy, usize>],
        unit: Option<&Unit>,
    ) -> fmt::Result {
        rows.iter().try_for_each(|(name, help, gauge)| {
            let sum: usize = self.0.iter().map(|report| gauge(&report.occupancy)).sum();
            ConstGauge::new(sum).encode(encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?)
        })
    }

    fn paths<G: EncodeMetric + TypedMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        gauge: impl Fn(&PeerSnapshot) -> Option<G>,
    ) -> fmt::Result {
        let paths = self.0.iter().flat_map(|report| &report.paths);
        let mut gauges = paths.filter_map(|(peer, path)| Some((peer.to_string(), gauge(path)?))).peekable();
        if gauges.peek().is_none() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(name, help, unit, G::TYPE)?;
        gauges.try_for_each(|(peer, gauge)| gauge.encode(family.encode_family(&[("destination", peer.as_str())])?))
    }
}
