//! One measurement: a server and its load, or a client and its servers, each on its core.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::load::{DESTINATIONS, Load};
use super::machine::{self, CLIENT_CORE, SERVER_CORE, Used};
use super::peer::Peer;
use super::sample::{Report, Sample};
use super::setup::{self, KEY, Setup};
use crate::peers::Process;

/// Between changes of `/tick`, in milliseconds.
const TICK_MS: u32 = 5;

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(60);

/// Peers come in groups of so many: more at a time than a server's buffer holds would be lost.
const AT_ONCE: u32 = 200;

/// The address of the loopback network that the first group has; each has one of its own.
const FIRST_GROUP: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// How long measurements take.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Extent {
    /// Of each, how often it is made.
    pub rounds: u32,
    /// How long it measures.
    pub seconds: f64,
    /// How long it loads before that.
    pub warm_up: f64,
    /// Peers that are known in [`Load::Known`].
    pub known: u32,
}

/// Measures a server.
pub fn server(setup: &Setup<'_>, peer: Peer, load: Load, extent: Extent) -> Result<Sample> {
    let number = match (load, peer) {
        (Load::Observed, _) => TICK_MS,
        (_, Peer::Raw) => 1,
        _ => 0,
    };
    let server = Server::start(setup, peer, number, load.is_secured())?;
    let bytes_per_peer = match load {
        Load::Known => Some(introduce(setup, &server, extent.known)?),
        _ => None,
    };
    let run = |seconds: f64| {
        let time = format!("{seconds}s");
        generate(setup, &server, load, &[load.arguments(), &["--duration", &time]].concat(), seconds)
    };
    run(extent.warm_up)?;
    let (report, watched) = run(extent.seconds)?;
    Ok(Sample { bytes_per_peer, ..report.sample(load, watched.server_s, watched.foreign) })
}

/// Has each of so many peers ask a server once. The answer is how much its memory has grown for each of them.
fn introduce(setup: &Setup<'_>, server: &Server, known: u32) -> Result<f64> {
    let before = machine::resident(server.id())?;
    let (each, mut answered) = (AT_ONCE.to_string(), 0);
    for group in 0..known.div_ceil(AT_ONCE) {
        // No two of them can have the same port then.
        let from = Ipv4Addr::from_bits(FIRST_GROUP.to_bits() + group).to_string();
        let arguments = ["--endpoints", &each, "--requests", &each, "--bind", &from];
        answered += generate(setup, server, Load::Known, &arguments, 0.0)?.0.answered;
    }
    Ok((machine::resident(server.id())? - before) / answered.max(1) as f64)
}

/// Runs the generator with these arguments, and watches it for so long.
fn generate(
    setup: &Setup<'_>,
    server: &Server,
    load: Load,
    arguments: &[&str],
    seconds: f64,
) -> Result<(Report, Watched)> {
    let scheme = if load.is_secured() { "coaps" } else { "coap" };
    let uri = format!("{scheme}://{}{}", server.address, load.path());
    let common = ["bench", &uri, "--json", "--quiet"].map(str::to_owned);
    let credentials = if load.is_secured() { setup.credentials()?.to_vec() } else { Vec::new() };
    let arguments = arguments.iter().map(|&argument| argument.to_owned());
    let arguments: Vec<String> = common.into_iter().chain(credentials).chain(arguments).collect();
    let watched = watch(&[setup.generator()], &arguments, setup.errors("generator")?, server, seconds)
        .with_context(|| format!("`conche {}`", arguments.join(" ")))?;
    let text = &watched.text;
    let report = serde_json::from_str(text).with_context(|| format!("`conche bench` prints {text:?}"))?;
    Ok((report, watched))
}

/// Measures a client beside the floor's server.
pub fn client(setup: &Setup<'_>, peer: Peer, load: Load, extent: Extent) -> Result<Sample> {
    let [_, client] = setup.programs(peer)?;
    let destinations = load.destinations().unwrap_or(1);
    let server = Server::start(setup, Peer::Raw, destinations, false)?;
    let arguments = [server.address.port().to_string(), destinations.to_string()];
    let times = [extent.warm_up, extent.seconds].map(|time| time.to_string());
    let seconds = extent.warm_up + extent.seconds;
    let watched = watch(client, &[arguments, times].concat(), setup.errors(peer.word())?, &server, seconds)?;
    let answered = watched.text.trim().strip_prefix("answered ").and_then(|count| count.parse::<f64>().ok());
    let answered = answered.with_context(|| format!("the client prints {:?}", watched.text))?;
    Ok(Sample { per_s: answered / extent.seconds, foreign: watched.foreign, ..Sample::default() })
}

/// What came of a program that loads a server.
struct Watched {
    /// What it has printed.
    text: String,
    /// Seconds of a core that the server took while both were watched.
    server_s: f64,
    /// The share of one core that others used in that time.
    foreign: f64,
}

/// Starts a program that ends by itself, and watches it and its server for so long. Its end may come later: the generator
/// waits for what is in flight, and that is not measured.
fn watch(program: &[String], arguments: &[String], errors: File, server: &Server, seconds: f64) -> Result<Watched> {
    let before = Used::now(server.id(), None)?;
    let mut process = Process(setup::start(program, CLIENT_CORE, arguments, [Stdio::piped(), errors.into()])?);
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let after = Used::now(server.id(), Some(process.0.id()))?;
    let mut text = String::new();
    process.0.stdout.take().context("it is piped")?.read_to_string(&mut text)?;
    let status = process.0.wait()?;
    if !status.success() {
        bail!("it has ended with {status}; target/bench-peers/*.log says why");
    }
    Ok(Watched { text, server_s: after.by_server_since(&before), foreign: after.foreign_since(&before) })
}

/// A server that answers.
struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    /// Starts one, and waits until it answers. The number is what its programs take beside a port: of the floor how many ports
    /// there are, of others the interval of `/tick`.
    fn start(setup: &Setup<'_>, peer: Peer, number: u32, is_secured: bool) -> Result<Self> {
        let port = free_port(if peer == Peer::Raw { number } else { 1 })?;
        let mut arguments = vec![port.to_string(), number.to_string()];
        arguments.extend(is_secured.then(|| KEY.to_owned()));
        let [server, _] = setup.programs(peer)?;
        let outputs = [Stdio::null(), setup.errors(peer.word())?.into()];
        let process = Process(setup::start(server, SERVER_CORE, &arguments, outputs)?);
        let mut server = Self { process, address: (Ipv4Addr::LOCALHOST, port).into() };
        match is_secured {
            true => server.wait_for_sessions(setup)?,
            false => server.wait()?,
        }
        Ok(server)
    }

    fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Asks it through sessions until it answers.
    fn wait_for_sessions(&mut self, setup: &Setup<'_>) -> Result<()> {
        let uri = format!("coaps://{}/test", self.address);
        let asked = ["get", &uri, "--quiet", "--timeout", "1"].map(str::to_owned);
        let arguments = [asked.to_vec(), setup.credentials()?.to_vec()].concat();
        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            self.check()?;
            let outputs = [Stdio::null(), setup.errors("generator")?.into()];
            if setup::start(&[setup.generator()], CLIENT_CORE, &arguments, outputs)?.wait()?.success() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the server does not answer through sessions");
    }

    /// It still runs.
    fn check(&mut self) -> Result<()> {
        match self.process.0.try_wait()? {
            Some(status) => bail!("the server has ended with {status}; its log in target/bench-peers says why"),
            None => Ok(()),
        }
    }

    /// Asks it until it answers.
    fn wait(&mut self) -> Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let deadline = Instant::now() + START;
        for id in 0..=u8::MAX {
            if Instant::now() > deadline {
                break;
            }
            self.check()?;
            // A Confirmable GET of /test with a message ID of its own.
            let request = [&[0x41, 1, 0xbe, id, id, 0xb4], &b"test"[..]].concat();
            let mut answer = [0; 1500];
            // Until it listens, an error says so at once.
            let came = socket.send_to(&request, self.address).and_then(|_| socket.recv(&mut answer));
            match came {
                Ok(length) if length > 60 && answer[1] == 0x45 => return Ok(()),
                Ok(_) => bail!("the server answers GET /test with {:?}", &answer[..4]),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        bail!("the server does not answer");
    }
}

/// The first of so many ports that nobody has.
fn free_port(ports: u32) -> Result<u16> {
    for _ in 0..100 {
        let first = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let others = (0..ports.max(1)).map(|at| u16::try_from(u32::from(first) + at).ok());
        if others.into_iter().all(|port| port.is_some_and(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()))
        {
            return Ok(first);
        }
    }
    bail!("there are no {DESTINATIONS} free ports in a row")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_a_row_are_free() {
        let first = free_port(DESTINATIONS).expect("ports");
        let last = first + u16::try_from(DESTINATIONS).expect("few") - 1;
        assert!(UdpSocket::bind((Ipv4Addr::LOCALHOST, last)).is_ok());
    }
}
