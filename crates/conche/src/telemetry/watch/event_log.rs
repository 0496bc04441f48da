//! [`EventLog`]: configuration of an event log. [`Qlog`] writes it; docs/event-log.md describes its
//! content.

use std::io::{self, Write};

use super::qlog::Qlog;
use super::recorder::{Recorder, Start};

/// Configuration of an event log in qlog's main schema (draft-ietf-quic-qlog-main-schema), as JSON
/// text sequences (RFC 7464): a header record, then one record per event. `docs/event-log.md`
/// describes the events and their members. Such files end in `.sqlog`, and `jq --seq` reads them.
///
/// Payloads are logged only with [`payloads`](Self::payloads). Options are always logged, including
/// data that applications put into URIs.
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

/// Where events are observed.
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

    /// Starts the log. Writing is buffered, on a thread of its own.
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
