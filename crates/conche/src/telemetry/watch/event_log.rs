//! [`EventLog`]: an event log's settings, and its thread.

use std::hash::Hash;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::Fact;
use super::qlog::{EventLogWriter, LogStart, LoggedEvent, VantagePoint};
use super::recorder::{Format, Record, Recorder, Start};

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

    /// Logs a simulated run, which has several clients and servers.
    pub fn simulation() -> Self {
        Self { vantage_point: VantagePoint::Unknown, ..Self::client() }
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
        let start = Start::now();
        let log: EventLogWriter<_, SocketAddr> = self.begin(writer, Some(start.wall_clock))?;
        Recorder::start(start, log)
    }

    /// Starts a log that the calling thread writes, with times from the caller.
    ///
    /// ```
    /// use std::time::Duration;
    /// use conche::watch::{EventLog, Fact, LoggedEvent};
    ///
    /// let mut log = EventLog::simulation().virtual_time(Vec::new())?;
    /// let (endpoint, peer, fact) = (&"client[3]", &"server", Fact::Unreachable);
    /// log.write(&LoggedEvent { at: Duration::from_secs(1), endpoint, local: None, peer, fact, datagram: &[] })?;
    /// let text = String::from_utf8(log.finish()?)?;
    /// let event = r#"{"time":1000.0,"name":"coap:peer_unreachable","group_id":"client[3]","data":{"peer":"server"}}"#;
    /// assert!(text.ends_with(&format!("\x1e{event}\n")), "{text}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn virtual_time<W, P>(self, writer: W) -> io::Result<EventLogWriter<W, P>>
    where
        W: Write,
        P: Serialize + Clone + Eq + Hash,
    {
        self.begin(writer, None)
    }

    fn begin<W, P>(self, writer: W, wall_clock: Option<SystemTime>) -> io::Result<EventLogWriter<W, P>>
    where
        W: Write,
        P: Serialize + Clone + Eq + Hash,
    {
        let Self { vantage_point, title, payloads } = self;
        EventLogWriter::begin(writer, &LogStart { vantage_point, title: title.as_deref(), payloads, wall_clock })
    }
}

impl<W: Write + Send + 'static> Format for EventLogWriter<W, SocketAddr> {
    fn wants(_: &Fact) -> bool {
        true
    }

    fn record(&mut self, record: &Record) -> io::Result<()> {
        let Record { at, ref socket, local, ref peer, fact, ref datagram } = *record;
        self.write(&LoggedEvent { at, endpoint: socket, local, peer, fact, datagram }).map(drop)
    }

    fn lost(&mut self, count: u64, at: Duration) -> io::Result<()> {
        self.lost(count, at)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush()
    }
}
