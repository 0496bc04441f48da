//! [`EventLog`] writes qlog with our own events (docs/event-log.md), framed by RFC 7464 §2.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use conche_proto::codec::{Hexadecimal, Message, RawOption};
use conche_proto::{Ecn, ExchangeStats, PeerSnapshot};
use serde::Serialize;

use super::recorder::{Format, Record, Recorder, Start};
use super::{DropReason, ExchangeState, Fact};

/// Configuration of an event log in qlog's main schema (draft-ietf-quic-qlog-main-schema-10), as
/// JSON text sequences (RFC 7464): a header record, then a record per event, which
/// `docs/event-log.md` describes. Such files end in `.sqlog`, and `jq --seq` reads them.
///
/// Payloads are logged only with [`payloads`](Self::payloads), but options always, with URIs.
///
/// ```
/// use conche::Client;
/// use conche::watch::EventLog;
///
/// // Any writer, such as a file.
/// let log = EventLog::client().title("firmware update").write_to(std::io::sink())?;
/// let client = Client::builder().watch(log.clone()).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct EventLog {
    vantage_point: VantagePoint,
    title: Option<String>,
    payloads: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VantagePoint {
    Client,
    Server,
    Network,
}

impl EventLog {
    /// Logs a client.
    pub fn client() -> Self {
        Self { vantage_point: VantagePoint::Client, title: None, payloads: false }
    }

    /// Logs a server.
    pub fn server() -> Self {
        Self { vantage_point: VantagePoint::Server, ..Self::client() }
    }

    /// Logs a program between clients and servers.
    pub fn network() -> Self {
        Self { vantage_point: VantagePoint::Network, ..Self::client() }
    }

    /// Sets the title of the log.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets whether whole datagrams are logged in hexadecimal, payloads included.
    pub fn payloads(mut self, payloads: bool) -> Self {
        self.payloads = payloads;
        self
    }

    /// Starts the log. A separate thread writes it, buffered.
    ///
    /// # Errors
    /// If the header cannot be written, or the thread cannot be started.
    pub fn write_to(self, writer: impl Write + Send + 'static) -> io::Result<Recorder> {
        let Self { vantage_point, title, payloads } = self;
        let start = Start::now();
        let qlog = Qlog::begin(writer, start.wall_clock, vantage_point, title.as_deref(), payloads)?;
        Recorder::start(start, qlog)
    }
}

const SCHEMA: &str = "https://github.com/conche/conche/blob/main/docs/event-log.md";

/// Paths with a last logged state. Beyond it all are logged again.
const PATHS: usize = 4096;

/// RFC 7464 §2.2.
const RECORD_SEPARATOR: u8 = 0x1e;

pub(super) struct Qlog<W: Write> {
    writer: BufWriter<W>,
    payloads: bool,
    paths: HashMap<(SocketAddr, SocketAddr), PeerSnapshot>,
}

impl<W: Write> Qlog<W> {
    pub(super) fn begin(
        writer: W,
        start: SystemTime,
        vantage_point: VantagePoint,
        title: Option<&str>,
        payloads: bool,
    ) -> io::Result<Self> {
        let mut log = Self { writer: BufWriter::new(writer), payloads, paths: HashMap::new() };
        log.write(&Header {
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
                        wall_clock_time: humantime::format_rfc3339_millis(start).to_string(),
                    },
                },
                event_schemas: [SCHEMA],
            },
        })?;
        log.writer.flush()?;
        Ok(log)
    }

    fn write(&mut self, record: &impl Serialize) -> io::Result<()> {
        self.writer.write_all(&[RECORD_SEPARATOR])?;
        serde_json::to_writer(&mut self.writer, record)?;
        self.writer.write_all(b"\n")
    }

    fn event(&mut self, record: &Record, name: &'static str, what: impl Serialize) -> io::Result<()> {
        let (time, group_id) = (milliseconds(record.at), Some(record.socket));
        self.write(&Event { time, name, group_id, data: PeerData { peer: record.peer, what } })
    }

    fn is_news(&mut self, record: &Record, path: PeerSnapshot) -> bool {
        if self.paths.len() >= PATHS {
            self.paths.clear();
        }
        self.paths.insert((record.socket, record.peer), path) != Some(path)
    }
}

impl<W: Write + Send + 'static> Format for Qlog<W> {
    fn wants(_: &Fact) -> bool {
        true
    }

    fn record(&mut self, record: &Record) -> io::Result<()> {
        let message = || MessageData::of(record, self.payloads);
        match record.fact {
            Fact::Sent { attempt, exchange, ecn } => {
                let data = message().sent(attempt, exchange).marked(ecn);
                self.event(record, "coap:message_sent", data)
            }
            Fact::NotSent { attempt, exchange, error } => {
                let data = message().sent(attempt, exchange).not_sent(error);
                self.event(record, "coap:message_dropped", data)
            }
            Fact::Received { multicast, ecn } => {
                let data = message().grouped(multicast).marked(ecn);
                self.event(record, "coap:message_received", data)
            }
            Fact::Dropped { reason } => {
                let data = message().dropped(reason);
                self.event(record, "coap:message_dropped", data)
            }
            Fact::Unreachable => self.event(record, "coap:peer_unreachable", NoData {}),
            Fact::Path(path) if !self.is_news(record, path) => Ok(()),
            Fact::Path(path) => self.event(record, "recovery:metrics_updated", Metrics::from(path)),
            Fact::Exchange { exchange, state, course } => {
                self.event(record, "coap:exchange_updated", ExchangeData::of(exchange, state, course))
            }
        }
    }

    fn lost(&mut self, count: u64, at: Duration) -> io::Result<()> {
        let time = milliseconds(at);
        self.write(&Event { time, name: "coap:events_lost", group_id: None, data: Lost { count } })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
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
    wall_clock_time: String,
}

#[derive(Serialize)]
struct Event<D> {
    time: f64,
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_id: Option<SocketAddr>,
    data: D,
}

#[derive(Serialize)]
struct PeerData<D> {
    peer: SocketAddr,
    #[serde(flatten)]
    what: D,
}

/// Data of `coap:message_sent`, `coap:message_received` and `coap:message_dropped`.
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
    fn of(record: &Record, payloads: bool) -> Self {
        let decoded = Message::decode_extended(&record.datagram);
        let (message, payload_length, error) = match &decoded {
            Ok(message) => (Some(MessageFields::of(message)), Some(message.payload().len()), None),
            Err(error) => (None, None, Some(error.to_string())),
        };
        let data = payloads.then(|| Hexadecimal(&record.datagram).to_string());
        let raw = Some(Raw { length: record.datagram.len(), payload_length, data });
        Self { local: record.local, error, message, raw, ..Self::default() }
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
