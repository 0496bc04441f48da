//! Clients and servers of conche and its peers, as processes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use conche_proto::codec::Hexadecimal;
use serde::{Deserialize, Serialize};

use crate::action::{self, Action, Stop};
use crate::mode::Mode;
use crate::setup::Setup;
use tool_support::peers::Process;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    Libcoap,
    /// libcoap on OpenSSL.
    LibcoapOpenssl,
    /// libcoap on GnuTLS.
    LibcoapGnutls,
    Aiocoap,
    Californium,
    GoCoap,
    NodeCoap,
    Conche,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Libcoap => "libcoap",
            Self::LibcoapOpenssl => "libcoap (OpenSSL)",
            Self::LibcoapGnutls => "libcoap (GnuTLS)",
            Self::Aiocoap => "aiocoap",
            Self::Californium => "Californium",
            Self::GoCoap => "go-coap",
            Self::NodeCoap => "node-coap",
            Self::Conche => "conche",
        }
    }
}

/// conche's role in a case; the peer has the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Client,
    Server,
}

/// Any port of the loopback.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[derive(Clone, Copy)]
pub struct Protection<'a> {
    pub mode: Mode,
    pub credentials: &'a Path,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOutput {
    /// Code as in `2.05`, and payload; `pong` for a ping.
    Response(String, Vec<u8>),
    Notification(String, Vec<u8>),
    Failure(String),
}

pub struct Server {
    _process: Process,
    pub address: SocketAddr,
}

impl Server {
    /// Waits until it listens.
    pub fn start(peer: Peer, protection: Protection<'_>, setup: &Setup) -> Result<Self> {
        let mut command = setup.program(peer, Role::Server, protection, ANY);
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = Process(process.with_context(|| format!("cannot start the server of {}", peer.name()))?);
        let lines = lines(process.0.stdout.take().context("it is piped")?);
        let line = lines.recv_timeout(Duration::from_secs(60)).unwrap_or_default();
        let address = line.rsplit(['/', ' ']).next().and_then(|address| address.parse().ok());
        let Some(address) = address else {
            bail!("the server of {} does not say where it listens, but {line:?}", peer.name());
        };
        Ok(Self { _process: process, address })
    }
}

pub struct Client {
    /// Lines for its standard input.
    input: Sender<String>,
    scheme: &'static str,
    outputs: Receiver<ClientOutput>,
    process: Process,
}

impl Client {
    pub fn start(peer: Peer, protection: Protection<'_>, setup: &Setup) -> Result<Self> {
        let mut command = setup.program(peer, Role::Client, protection, ANY);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = Process(process.with_context(|| format!("cannot start the client of {}", peer.name()))?);
        let input = process.0.stdin.take().context("it is piped")?;
        let output = process.0.stdout.take().context("it is piped")?;
        Ok(Self::of(process, protection.mode.scheme(), move || Ok(input), move || Ok(output)))
    }

    /// Creates a client from its process, and from the pipes of its standard input and output, which
    /// are opened in threads.
    pub fn of<I: Write, O: Read>(
        process: Process,
        scheme: &'static str,
        input: impl FnOnce() -> io::Result<I> + Send + 'static,
        output: impl FnOnce() -> io::Result<O> + Send + 'static,
    ) -> Self {
        let (to_program, lines) = mpsc::channel::<String>();
        thread::spawn(move || {
            let mut input = input()?;
            lines.iter().try_for_each(|line| writeln!(input, "{line}").and_then(|()| input.flush()))
        });
        let (sender, outputs) = mpsc::channel();
        thread::spawn(move || {
            // Reads to the end even without a receiver, so that the writer is never blocked.
            let lines = BufReader::new(output()?).lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.send(parse_output(&line))));
            io::Result::Ok(())
        });
        Self { input: to_program, scheme, outputs, process }
    }

    /// Closes its input, which ends it, and waits for the end of its process.
    pub fn finish(self, patience: Duration) {
        let Self { input, mut process, .. } = self;
        drop(input);
        let until = Instant::now() + patience;
        while matches!(process.0.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn act(&mut self, action: &Action, server: SocketAddr) -> Result<()> {
        if *action == Action::Off {
            return self.process.0.kill().context("the client cannot be switched off");
        }
        let Some(line) = line(action, self.scheme, server) else { return Ok(()) };
        self.input.send(line).context("the client has ended")
    }

    pub fn next_output(&self, wait: Duration) -> Option<ClientOutput> {
        self.outputs.recv_timeout(wait).ok()
    }
}

fn lines(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        // Reads to the end even without a receiver, so that the writer is never blocked.
        BufReader::new(pipe).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    lines
}

fn line(action: &Action, scheme: &str, server: SocketAddr) -> Option<String> {
    Some(match action {
        Action::Wait | Action::Off => return None,
        Action::Ping => format!("ping {scheme}://{server}"),
        Action::Stop(Stop::Get) => "stop get".to_owned(),
        Action::Stop(Stop::Reset) => "stop reset".to_owned(),
        Action::Request(request) => {
            let reliability = if request.confirmable { "CON" } else { "NON" };
            let mut line = format!("{reliability} {} {scheme}://{server}{}", request.method, request.path);
            for (number, value) in &request.options {
                line += &format!(" option={}:{}", number.0, Hexadecimal(value));
            }
            if let Some(token) = &request.token {
                line += &format!(" token={}", Hexadecimal(token));
            }
            if !request.payload.is_empty() {
                line += &format!(" payload={}", Hexadecimal(&request.payload));
            }
            line
        }
    })
}

/// Parses `response 2.05 PAYLOAD`, `notified 2.05 PAYLOAD` or `failed WHY`.
fn parse_output(line: &str) -> ClientOutput {
    let mut words = line.splitn(3, ' ');
    let (what, code, payload) = (words.next(), words.next(), words.next());
    let payload = payload.and_then(action::hexadecimal);
    match (what, code) {
        (Some("response"), Some(code)) => ClientOutput::Response(code.to_owned(), payload.unwrap_or_default()),
        (Some("notified"), Some(code)) => ClientOutput::Notification(code.to_owned(), payload.unwrap_or_default()),
        _ => ClientOutput::Failure(line.to_owned()),
    }
}
