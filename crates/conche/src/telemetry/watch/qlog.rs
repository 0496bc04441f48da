//! [`EventLogWriter`] writes qlog with our own events (docs/event-log.md), framed by RFC 7464 §2.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use conche_proto::codec::{Hexadecimal, Message, RawOption};
use conche_proto::{Ecn, ExchangeStats, PeerSnapshot};
use serde::Serialize;

use super::{DropReason, ExchangeState, Fact};

const SCHEMA: &str = "https://github.com/conche/conche/blob/main/docs/event-log.md";

/// Paths with a last logged state. Beyond it all are logged again.
const PATHS: usize = 4096;

const RECORD_SEPARATOR: u8 = 0x1e;

/// Writes an event log in the calling thread, without a queue: for a program with a clock of its
/// own, such as a simulator. [`EventLog::virtual_time`](super::EventLog::virtual_time) starts one.
///
/// `P` names an endpoint: an address, or the name of a simulated node.
pub struct EventLogWriter<W: Write, P> {
    writer: BufWriter<W>,
    payloads: bool,
    paths: HashMap<(P, P), PeerSnapshot>,
}

/// An event for an [`EventLogWriter`].
#[derive(Clone, Copy, Debug)]
pub struct LoggedEvent<'a, P> {
    /// Time since the start of the log.
    pub at: Duration,
    /// The endpoint that logs the event.
    pub endpoint: &'a P,
    /// The endpoint's local address, if it has several and this one is known.
    pub local: Option<IpAddr>,
    /// The other end.
    pub peer: &'a P,
    /// The event.
    pub fact: Fact,
    /// The event's datagram; empty if none.
    pub datagram: &'a [u8],
}

pub(super) struct LogStart<'a> {
    pub(super) vantage_point: VantagePoint,
    pub(super) title: Option<&'a str>,
    pub(super) payloads: bool,
    /// Absent in virtual time.
    pub(super) wall_clock: Option<SystemTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VantagePoint {
    Client,
    Server,
    Network,
    Unknown,
}

impl<W: Write, P: Serialize + Clone + Eq + Hash> EventLogWriter<W, P> {
    pub(super) fn begin(writer: W, start: &LogStart<'_>) -> io::Result<Self> {
        let LogStart { vantage_point, title, payloads, wall_clock } = *start;
        let mut log = Self { writer: BufWriter::new(writer), payloads, paths: HashMap::new() };
        log.record(&Header {
            file_schema: "urn:ietf:params:qlog:file:sequential",
            serialization_format: "application/qlog+json-seq",
            title,
            trace: Trace {
                vantage_point: Observer { name: concat!("conche ", env!("CARGO_PKG_VERSION")), r#type: vantage_point },
                common_fields: CommonFields {
                    time_format: "relative_to_epoch",
                    reference_time: ReferenceTime {
                        clock_type: "monotonic",
                        epoch: "unknown",
                        wall_clock_time: wall_clock.map(|start| humantime::format_rfc3339_millis(start).to_string()),
                    },
                },
                event_schemas: [SCHEMA],
            },
        })?;
        log.writer.flush()?;
        Ok(log)
    }

    /// Writes an event, and returns `true`; `false` if it is path state equal to the last one of the
    /// same ends, which is omitted.
    ///
    /// # Errors
    /// If the event cannot be written.
    pub fn write(&mut self, logged: &LoggedEvent<'_, P>) -> io::Result<bool> {
        let message = || MessageData::of(logged, self.payloads);
        match logged.fact {
            Fact::Sent { attempt, exchange, ecn } => {
                let data = message().sent(attempt, exchange).marked(ecn);
                self.event(logged, "coap:message_sent", data)
            }
            Fact::NotSent { attempt, exchange, error } => {
                let data = message().sent(attempt, exchange).not_sent(error);
                self.event(logged, "coap:message_dropped", data)
            }
            Fact::Received { multicast, ecn } => {
                let data = message().grouped(multicast).marked(ecn);
                self.event(logged, "coap:message_received", data)
            }
            Fact::Dropped { reason } => {
                let data = message().dropped(reason);
                self.event(logged, "coap:message_dropped", data)
            }
            Fact::Unreachable => self.event(logged, "coap:peer_unreachable", NoData {}),
            Fact::Path(path) if !self.is_news(logged, path) => return Ok(false),
            Fact::Path(path) => self.event(logged, "recovery:metrics_updated", Metrics::from(path)),
            Fact::Exchange { exchange, state, course } => {
                self.event(logged, "coap:exchange_updated", ExchangeData::of(exchange, state, course))
            }
        }?;
        Ok(true)
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// If the last events cannot be written.
    pub fn finish(self) -> io::Result<W> {
        self.writer.into_inner().map_err(io::IntoInnerError::into_error)
    }

    pub(super) fn lost(&mut self, count: u64, at: Duration) -> io::Result<()> {
        let time = milliseconds(at);
        self.record(&Event::<&P, _> { time, name: "coap:events_lost", group_id: None, data: Lost { count } })
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        self.writer.write_all(&[RECORD_SEPARATOR])?;
        serde_json::to_writer(&mut self.writer, record)?;
        self.writer.write_all(b"\n")
    }

    fn event(&mut self, logged: &LoggedEvent<'_, P>, name: &'static str, what: impl Serialize) -> io::Result<()> {
        let (time, group_id) = (milliseconds(logged.at), Some(logged.endpoint));
        self.record(&Event { time, name, group_id, data: PeerData { peer: logged.peer, what } })
    }

    fn is_news(&mut self, logged: &LoggedEvent<'_, P>, path: PeerSnapshot) -> bool {
        if self.paths.len() >= PATHS {
            self.paths.clear();
        }
        self.paths.insert((logged.endpoint.clone(), logged.peer.clone()), path) != Some(path)
    }
}

impl<W: Write, P> fmt::Debug for EventLogWriter<W, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLogWriter").field("payloads", &self.payloads).finish_non_exhaustive()
    }
}

/// The header record (§3.2, §5.2 of the schema).
#[derive(Serialize)]
struct Header<'a> {
    file_schema: &'a str,
    serialization_format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    trace: Trace<'a>,
}

#[derive(Serialize)]
struct Trace<'a> {
    vantage_point: Observer<'a>,
    common_fields: CommonFields<'a>,
    event_schemas: [&'a str; 1],
}

#[derive(Serialize)]
struct Observer<'a> {
    name: &'a str,
    r#type: VantagePoint,
}

#[derive(Serialize)]
struct CommonFields<'a> {
    time_format: &'a str,
    reference_time: ReferenceTime<'a>,
}

#[derive(Serialize)]
struct ReferenceTime<'a> {
    clock_type: &'a str,
    epoch: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_clock_time: Option<String>,
}

#[derive(Serialize)]
struct Event<P, D> {
    time: f64,
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_id: Option<P>,
    data: D,
}

#[derive(Serialize)]
struct PeerData<P, D> {
    peer: P,
    #[serde(flatten)]
    what: D,
}

#[derive(Serialize, Default)]
struct MessageData {
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

#[derive(Serialize)]
struct Raw {
    length: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_length: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

impl MessageData {
    fn of<P>(logged: &LoggedEvent<'_, P>, payloads: bool) -> Self {
        let decoded = Message::decode_extended(logged.datagram);
        let (message, payload_length, error) = match &decoded {
            Ok(message) => (Some(MessageFields::of(message)), Some(message.payload().len()), None),
            Err(error) => (None, None, Some(error.to_string())),
        };
        let data = payloads.then(|| Hexadecimal(logged.datagram).to_string());
        let raw = Some(Raw { length: logged.datagram.len(), payload_length, data });
        Self { local: logged.local, error, message, raw, ..Self::default() }
    }

    fn sent(self, attempt: u8, exchange: Option<u64>) -> Self {
        Self { attempt: Some(attempt), exchange, ..self }
    }

    fn marked(self, codepoint: Ecn) -> Self {
        let ecn = match codepoint {
            Ecn::NotCapable => None,
            Ecn::Capable0 => Some("ECT(0)"),
            Ecn::Capable1 => Some("ECT(1)"),
            Ecn::CongestionExperienced => Some("CE"),
        };
        Self { ecn, ..self }
    }

    fn grouped(self, multicast: bool) -> Self {
        Self { multicast, ..self }
    }

    fn not_sent(self, error: std::io::ErrorKind) -> Self {
        Self { trigger: Some("not_sent"), error: Some(error.to_string()), ..self }
    }

    fn dropped(self, reason: DropReason) -> Self {
        Self { trigger: Some(reason.name()), ..self }
    }
}

impl MessageFields {
    fn of(message: &Message<'_>) -> Self {
        let option = |option: RawOption<'_>| OptionFields { number: option.number.0, text: option.to_string() };
        Self {
            r#type: message.ty().to_string(),
            code: format!("{:?}", message.code()),
            message_id: message.id().0,
            token: Hexadecimal(message.token_bytes()).to_string(),
            options: message.options().map(option).collect(),
        }
    }
}

/// Data of `recovery:metrics_updated`: times in milliseconds.
#[derive(Serialize)]
struct Metrics {
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

#[derive(Serialize)]
struct ExchangeData {
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
    fn of(exchange: u64, state: ExchangeState, course: ExchangeStats) -> Self {
        let state = match state {
            ExchangeState::Acknowledged => State::Acknowledged,
            ExchangeState::Responded(code) => State::Responded { code: format!("{code:?}") },
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

#[derive(Serialize)]
struct NoData {}

#[derive(Serialize)]
struct Lost {
    count: u64,
}

/// A fractional number, precise to the nanosecond for ten days, to the microsecond for many years.
fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
