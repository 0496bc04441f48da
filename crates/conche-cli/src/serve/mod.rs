//! `conche serve`: serves a directory's files, or demonstration resources.

mod demo;
mod directory;
mod metrics;
mod upload;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgGroup;
use conche::uri::{DEFAULT_PORT, DEFAULT_SECURED_PORT};
use conche::watch::EventLog;
use conche::{QBlock, Server, SourceValidation};
use serde::Serialize;

use crate::Global;
use crate::credentials::ServerSecurity;
use crate::error::ArgumentError;
use crate::json;
use crate::names::Control;
use crate::recording::Recording;
use crate::runtime;
use metrics::Exporter;

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("served").args(["directory", "demo"]).required(true))]
pub struct Args {
    /// Directory to serve.
    ///
    /// Files over 16 MiB are streamed.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Serve demonstration resources, such as /test.
    ///
    /// /.well-known/core lists them.
    #[arg(long)]
    demo: bool,
    /// Let clients write and delete files.
    ///
    /// Files have at most 16 MiB.
    #[arg(long, requires = "directory")]
    writable: bool,
    /// Address proof.
    ///
    /// Until a client proves that its UDP address is not forged, it receives at most three times
    /// the bytes that it sent.
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    source_validation: Proof,
    /// Send large bodies in bursts, on request (Q-Block, RFC 9177).
    #[arg(long)]
    q_block: bool,
    /// Threads, each with its own socket.
    ///
    /// All sockets have the same address, and each client stays with one. More than 1 needs Linux.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MOST_WORKERS))]
    workers: u16,
    /// Address to listen on; port 0 takes a free one.
    ///
    /// Default: [::]:5683, or [::]:5684 with keys or a certificate.
    #[arg(long, value_name = "ADDR:PORT", env = "CONCHE_BIND", value_parser = parse_bind)]
    bind: Option<String>,
    /// Serve metrics over HTTP on this address, for Prometheus.
    ///
    /// The text is OpenMetrics, the same for every path. It names the busiest clients, and HTTP has
    /// no protection here: choose an address that only the monitoring reaches.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_bind)]
    metrics: Option<String>,
    #[command(flatten)]
    credentials: ServerSecurity,
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    recording: Recording,
}

/// Proof that a client's address is not forged.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Proof {
    /// An answer to a ping, which RFC 7252 requires of every client, or an Echo value.
    #[default]
    Ping,
    /// An Echo value (RFC 9175); clients without it get small responses only.
    Echo,
    /// None, for networks without forged addresses.
    Off,
}

impl From<Proof> for SourceValidation {
    fn from(proof: Proof) -> Self {
        match proof {
            Proof::Ping => Self::Ping,
            Proof::Echo => Self::Echo,
            Proof::Off => Self::Off,
        }
    }
}

const MOST_WORKERS: i64 = 1024;

/// Maximum wait for requests in progress at a stop.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Listening {
    schema: u32,
    listening: String,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let records = args.recording.start(EventLog::server())?;
    let runtime = runtime::start()?;
    let outcome = runtime::run(&runtime, async {
        let (router, limit) = match &args.directory {
            Some(directory) => (directory::router(directory, args.writable)?, LARGEST),
            None => (demo::router(), demo::LARGEST),
        };
        let stop = runtime::stop_signal(GRACE + runtime::GRACE)?;
        let server = args.control.of(Server::builder()).router(router).body_limit(limit);
        let server = server.workers(args.workers.into());
        let server = server.source_validation(args.source_validation.into());
        let server = if args.q_block { server.q_block(QBlock::default()) } else { server };
        let (scheme, port) = match args.credentials.has_sessions() {
            true => ("coaps", DEFAULT_SECURED_PORT),
            false => ("coap", DEFAULT_PORT),
        };
        let bind = args.bind.unwrap_or_else(|| format!("[::]:{port}"));
        let server = Arc::new(records.watch(args.credentials.of(server, global)?).bind(&bind).await?);
        let exporter = Exporter::bind(args.metrics.as_deref()).await?;
        announce(format!("{scheme}://{}", server.local_addr()), global)?;
        if let Some(address) = exporter.local_addr() {
            announce(format!("http://{address}/metrics"), global)?;
        }
        tokio::select! {
            () = stop => server.shutdown(GRACE).await,
            ended = server.wait() => ended?,
            never = exporter.run(&server) => match never {},
        }
        Ok(())
    });
    runtime::run(&runtime, records.finish(outcome))
}

/// Maximum bytes of a body in memory, for at most four transfers per direction. Larger bodies are
/// streamed.
pub const LARGEST: usize = 16 << 20;

fn etag(content: &[u8]) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish().to_be_bytes()
}

/// Does not resolve the name.
pub fn parse_bind(text: &str) -> Result<String, ArgumentError> {
    if text.parse::<SocketAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Err(ArgumentError::PortMissing(SocketAddr::new(address, DEFAULT_PORT)));
    }
    match text.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && !name.contains(['[', ']', ':', '/']) => match port.parse::<u16>() {
            Ok(_) => Ok(text.to_owned()),
            Err(_) => Err(ArgumentError::Port(port.to_owned())),
        },
        _ => Err(ArgumentError::Address),
    }
}

/// Flushes, for scripts that wait for it.
pub fn announce(listening: String, global: &Global) -> io::Result<()> {
    if global.json {
        return json::print(&Listening { schema: 1, listening });
    }
    let mut out = io::stdout().lock();
    writeln!(out, "listening on {listening}")?;
    out.flush()
}
