//! Writes events as qlog: the main schema of draft-ietf-quic-qlog-main-schema-10, with our own
//! events, which docs/event-log.md describes. Records are framed by RFC 7464 §2.

mod records;

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use conche_proto::PeerSnapshot;
use serde::Serialize;

use super::Fact;
use super::event_log::VantagePoint;
use super::recorder::{Format, Record};
use records::{
    About, CommonFields, Event, ExchangeData, Header, Lost, MessageData, Metrics, Nothing, Observer, ReferenceTime,
    Trace, milliseconds,
};

/// URI of the event schema's description.
const SCHEMA: &str = "https://github.com/conche/conche/blob/main/docs/event-log.md";

/// Maximum number of paths whose last logged state is kept. Beyond it all are cleared and logged
/// again on use.
const PATHS: usize = 4096;

/// Start of a record (RFC 7464 §2.2).
const RECORD_SEPARATOR: u8 = 0x1e;

pub(super) struct Qlog<W: Write> {
    writer: BufWriter<W>,
    payloads: bool,
    /// The last logged state of each path, by socket and peer.
    paths: HashMap<(SocketAddr, SocketAddr), PeerSnapshot>,
}

impl<W: Write> Qlog<W> {
    /// Writes the header record.
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
        self.write(&Event { time, name, group_id, data: About { peer: record.peer, what } })
    }

    /// Whether the state differs from the last logged one of its path.
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
            Fact::Unreachable => self.event(record, "coap:peer_unreachable", Nothing {}),
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
