//! Records of an event log. Absent members are unknown or have their usual value.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use conche_proto::codec::{Hexadecimal, Message, RawOption};
use conche_proto::{Course, Ecn, PeerSnapshot};
use serde::Serialize;

use super::super::event_log::VantagePoint;
use super::super::recorder::Record;
use super::super::{DropReason, ExchangeState};

/// The header record (§3.2, §5.2 of the schema).
#[derive(Serialize)]
pub(super) struct Header<'a> {
    pub(super) file_schema: &'a str,
    pub(super) serialization_format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    pub(super) trace: Trace<'a>,
}

#[derive(Serialize)]
pub(super) struct Trace<'a> {
    pub(super) vantage_point: Observer<'a>,
    pub(super) common_fields: CommonFields<'a>,
    pub(super) event_schemas: [&'a str; 1],
}

#[derive(Serialize)]
pub(super) struct Observer<'a> {
    pub(super) name: &'a str,
    pub(super) r#type: VantagePoint,
}

#[derive(Serialize)]
pub(super) struct CommonFields<'a> {
    pub(super) time_format: &'a str,
    pub(super) reference_time: ReferenceTime<'a>,
}

#[derive(Serialize)]
pub(super) struct ReferenceTime<'a> {
    pub(super) clock_type: &'a str,
    pub(super) epoch: &'a str,
    pub(super) wall_clock_time: String,
}

/// An event record.
#[derive(Serialize)]
pub(super) struct Event<D> {
    /// In milliseconds.
    pub(super) time: f64,
    pub(super) name: &'static str,
    /// The socket, identified by its bound address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group_id: Option<SocketAddr>,
    pub(super) data: D,
}

/// Data of an event about a peer.
#[derive(Serialize)]
pub(super) struct About<D> {
    pub(super) peer: SocketAddr,
    #[serde(flatten)]
    pub(super) what: D,
}

/// Data of `coap:message_sent`, `coap:message_received` and `coap:message_dropped`.
#[derive(Serialize, Default)]
pub(super) struct MessageData {
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    multicast: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ecn: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<Raw>,
}

#[derive(Serialize)]
struct MessageFields {
    r#type: String,
    code: String,
    message_id: u16,
    token: String,
    options: Vec<OptionFields>,
}

#[derive(Serialize)]
struct OptionFields {
    number: u16,
    text: String,
}

/// The type `RawInfo` of the schema (§8).
#[derive(Serialize)]
struct Raw {
    length: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_length: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

impl MessageData {
    /// Returns a record's datagram; in full only if `payloads` is set.
    pub(super) fn of(record: &Record, payloads: bool) -> Self {
        let decoded = Message::decode_extended(&record.datagram);
        let (message, payload_length, error) = match &decoded {
            Ok(message) => (Some(MessageFields::of(message)), Some(message.payload().len()), None),
            Err(error) => (None, None, Some(error.to_string())),
        };
        let data = payloads.then(|| Hexadecimal(&record.datagram).to_string());
        let raw = Some(Raw { length: record.datagram.len(), payload_length, data });
        Self { local: record.local, error, message, raw, ..Self::default() }
    }

    pub(super) fn sent(self, attempt: u8, exchange: Option<u64>) -> Self {
        Self { attempt: Some(attempt), exchange, ..self }
    }

    pub(super) fn marked(self, codepoint: Ecn) -> Self {
        let ecn = match codepoint {
            Ecn::NotCapable => None,
            Ecn::Capable0 => Some("ECT(0)"),
            Ecn::Capable1 => Some("ECT(1)"),
            Ecn::CongestionExperienced => Some("CE"),
        };
        Self { ecn, ..self }
    }

    pub(super) fn grouped(self, multicast: bool) -> Self {
        Self { multicast, ..self }
    }

    pub(super) fn not_sent(self, error: std::io::ErrorKind) -> Self {
        Self { trigger: Some("not_sent"), error: Some(error.to_string()), ..self }
    }

    pub(super) fn dropped(self, reason: DropReason) -> Self {
        Self { trigger: Some(reason.name()), ..self }
    }
}

impl MessageFields {
    fn of(message: &Message<'_>) -> Self {
        let option = |option: RawOption<'_>| OptionFields { number: option.number.0, text: option.to_string() };
        Self {
            r#type: message.ty().to_string(),
            code: message.code().to_string(),
            message_id: message.id().0,
            token: Hexadecimal(message.token_bytes()).to_string(),
            options: message.options().map(option).collect(),
        }
    }
}

/// Data of `recovery:metrics_updated`: times in milliseconds.
#[derive(Serialize)]
pub(super) struct Metrics {
    rto: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    smoothed_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_variance: Option<f64>,
    /// In bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<u32>,
    exchanges_in_flight: u16,
    messages_queued: usize,
}

impl From<PeerSnapshot> for Metrics {
    fn from(path: PeerSnapshot) -> Self {
        Self {
            rto: milliseconds(path.congestion.rto),
            smoothed_rtt: path.congestion.srtt.map(milliseconds),
            rtt_variance: path.congestion.rttvar.map(milliseconds),
            bandwidth: path.congestion.bandwidth,
            exchanges_in_flight: path.outstanding,
            messages_queued: path.queued,
        }
    }
}

/// Data of `coap:exchange_updated`: times in milliseconds.
#[derive(Serialize)]
pub(super) struct ExchangeData {
    exchange: u64,
    #[serde(flatten)]
    state: State,
    messages: u32,
    transmissions: u32,
    queued: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged_after: Option<f64>,
    elapsed: f64,
}

#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum State {
    Acknowledged,
    Responded { code: String },
    GroupOver { responses: usize },
    Unanswered,
    Failed { failure: String },
}

impl ExchangeData {
    pub(super) fn of(exchange: u64, state: ExchangeState, course: Course) -> Self {
        let state = match state {
            ExchangeState::Acknowledged => State::Acknowledged,
            ExchangeState::Responded(code) => State::Responded { code: code.to_string() },
            ExchangeState::GroupTimeout { responses } => State::GroupOver { responses },
            ExchangeState::Unanswered => State::Unanswered,
            ExchangeState::Failed(failure) => State::Failed { failure: failure.to_string() },
        };
        Self {
            exchange,
            state,
            messages: course.messages,
            transmissions: course.transmissions,
            queued: milliseconds(course.queued),
            acknowledged_after: course.acknowledged_after.map(milliseconds),
            elapsed: milliseconds(course.elapsed),
        }
    }
}

/// Data of `coap:peer_unreachable`.
#[derive(Serialize)]
pub(super) struct Nothing {}

/// Data of `coap:events_lost`.
#[derive(Serialize)]
pub(super) struct Lost {
    pub(super) count: u64,
}

/// Converts to a fractional number, precise to the nanosecond for ten days and to the microsecond
/// for many years.
pub(super) fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
