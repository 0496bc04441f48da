//! [`EventLog`]: how an event log is made. What is in it says docs/event-log.md, and [`Qlog`] writes it.

use std::io::{self, Write};

use super::qlog::Qlog;
use super::recorder::{Recorder, Start};

/// A log of events in the main schema of qlog (draft-ietf-quic-qlog-main-schema), as JSON text sequences (RFC 7464): the
/// first record tells of the log, each other one of an event. `docs/event-log.md` describes the events and their members.
/// Such files end in `.sqlog`, and `jq --seq` reads them.
///
/// Payloads are not logged unless [`payloads`](Self::payloads) says so. Options are, and with them what applications put
/// into URIs.
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
    /// A log of a client.
    pub fn client() -> Self {
        Self { vantage_point: VantagePoint::Client, title: None, payloads: false }
    }

    /// A log of a server.
    pub fn server() -> Self {
        Self { vantage_point: VantagePoint::Server, ..Self::client() }
    }

    /// A log of a program between clients and servers.
    pub fn network() -> Self {
        Self { vantage_point: VantagePoint::Network, ..Self::client() }
    }

    /// Names the log.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Logs whole datagrams, with their payloads, in hexadecimal.
    pub fn payloads(mut self, payloads: bool) -> Self {
        self.payloads = payloads;
        self
    }

    /// Begins the log. What is written goes through a buffer, on a thread of its own.
    ///
    /// # Errors
    /// If the beginning cannot be written, or no thread be started.
    pub fn write_to(self, writer: impl Write + Send + 'static) -> io::Result<Recorder> {
        let Self { vantage_point, title, payloads } = self;
        let start = Start::now();
        let qlog = Qlog::begin(writer, start.wall_clock, vantage_point, title.as_deref(), payloads)?;
        Recorder::start(start, qlog)
    }
}
