//! One measurement: a server and its load, or a client and its servers, each on its core.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::load::{BIG, DESTINATIONS, Load};
use super::machine::{self, CLIENT_CORE, SERVER_CORE, Used};
use super::peer::Peer;
use super::setup::{self, Setup};
use crate::peers::Process;

/// Between changes of `/tick`, in milliseconds.
const TICK_MS: u32 = 5;

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(60);

/// Peers come from so many addresses of the loopback network, since one has too few ports.
const ADDRESSES: u32 = 10;

/// Peers that make themselves known to any server do not come faster, so that none is lost.
const FASTEST_COMING: f64 = 20_000.0;

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

/// What one measurement gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Requests, notifications or bytes a second.
    pub per_s: f64,
    /// Microseconds of a core that the server took for a request, a notification or a body; of clients it is not known.
    pub cpu_us: Option<f64>,
    /// Of requests, from when they were due.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Memory for each known peer.
    pub bytes_per_peer: Option<f64>,
    /// Requests without a response 2.05, as a share.
    pub missing: f64,
    /// The share of its time that the generator was busy: near 1 it was the limit.
    pub generator: f64,
    /// The share of one core that others used meanwhile.
    pub foreign: f64,
}

/// What is needed of the generator's report.
#[derive(Debug, Deserialize)]
struct Report {
    requests: u64,
    answered: u64,
    codes: std::collections::BTreeMap<String, u64>,
    requests_per_s: f64,
    latency_ms: Option<Latency>,
    notifications: Option<Notifications>,
    generator: Generator,
}

#[derive(Debug, Deserialize)]
struct Latency {
    p50: f64,
    p99: f64,
}

#[derive(Debug, Deserialize)]
struct Notifications {
    count: u64,
    per_s: f64,
}

#[derive(Debug, Deserialize)]
struct Generator {
    busy: f64,
}

/// Measures a server; `fresh` are the requests a second that it has served in [`Load::Many`], if that is known.
pub fn server(setup: &Setup<'_>, peer: Peer, load: Load, extent: Extent, fresh: Option<f64>) -> Result<Sample> {
    let number = match (load, peer) {
        (Load::Observed, _) => TICK_MS,
        (_, Peer::Raw) => 1,
        _ => 0,
    };
    let server = Server::start(setup, peer, number)?;
    let bytes_per_peer = match load {
        Load::Known => Some(introduce(setup, &server, extent.known, fresh)?),
        _ => None,
    };
    let run = |seconds: f64| {
        let time = format!("{seconds}s");
        generate(setup, &server, load, &[load.arguments(), &["--duration", &time]].concat())
    };
    if extent.warm_up > 0.0 {
        run(extent.warm_up)?;
    }
    let before = Used::now(server.id())?;
    let report = run(extent.seconds)?;
    let after = Used::now(server.id())?;
    Ok(Sample {
        bytes_per_peer,
        ..sample(load, &report, after.by_process_since(&before), after.foreign_since(&before))
    })
}

/// What a report comes to, with the server's time on a core and others' share of one.
fn sample(load: Load, report: &Report, server_s: f64, foreign: f64) -> Sample {
    let (count, per_s) = match (&report.notifications, load) {
        (Some(notifications), _) => (notifications.count, notifications.per_s),
        (None, Load::Blocks) => (report.answered, report.requests_per_s * BIG),
        (None, _) => (report.answered, report.requests_per_s),
    };
    let good = report.codes.get("2.05").copied().unwrap_or_default();
    let latency = report.latency_ms.as_ref().filter(|_| load != Load::Observed);
    Sample {
        per_s,
        cpu_us: (count > 0).then(|| server_s * 1e6 / count as f64),
        p50_us: latency.map(|latency| latency.p50 * 1e3),
        p99_us: latency.map(|latency| latency.p99 * 1e3),
        bytes_per_peer: None,
        missing: 1.0 - good as f64 / report.requests.max(1) as f64,
        generator: report.generator.busy,
        foreign,
    }
}

/// Has each of so many peers ask a server once. The answer is how much its memory has grown for each of them.
fn introduce(setup: &Setup<'_>, server: &Server, known: u32, fresh: Option<f64>) -> Result<f64> {
    let before = machine::resident(server.id())?;
    // A server that is asked by all at once loses requests; these come at half of what it can.
    let rate = (fresh.unwrap_or(1000.0) / 2.0).clamp(100.0, FASTEST_COMING);
    let each = known.div_ceil(ADDRESSES);
    for address in 0..ADDRESSES {
        let (each, rate, from) = (each.to_string(), format!("{rate:.0}"), format!("127.0.1.{}", address + 1));
        generate(
            setup,
            server,
            Load::Known,
            &["--endpoints", &each, "--requests", &each, "--rate", &rate, "--bind", &from],
        )?;
    }
    Ok((machine::resident(server.id())? - before) / f64::from(each * ADDRESSES))
}

/// Runs the generator with these arguments.
fn generate(setup: &Setup<'_>, server: &Server, load: Load, arguments: &[&str]) -> Result<Report> {
    let uri = format!("coap://{}{}", server.address, load.path());
    let common = ["bench", &uri, "--json", "--quiet"];
    let arguments: Vec<String> = common.iter().chain(arguments).map(|&argument| argument.to_owned()).collect();
    let text = finish(&[setup.generator()], CLIENT_CORE, &arguments, setup.errors("generator")?)
        .with_context(|| format!("`conche {}`", arguments.join(" ")))?;
    serde_json::from_str(&text).with_context(|| format!("`conche bench` prints {text:?}"))
}

/// Measures a client beside the floor's server.
pub fn client(setup: &Setup<'_>, peer: Peer, load: Load, extent: Extent) -> Result<Sample> {
    let [_, client] = setup.programs(peer)?;
    let destinations = load.destinations().unwrap_or(1);
    let server = Server::start(setup, Peer::Raw, destinations)?;
    let arguments = [server.address.port().to_string(), destinations.to_string()];
    let times = [extent.warm_up, extent.seconds].map(|time| time.to_string());
    let before = Used::now(server.id())?;
    let text = finish(client, CLIENT_CORE, &[arguments, times].concat(), setup.errors(peer.word())?)?;
    let foreign = Used::now(server.id())?.foreign_since(&before);
    let answered = text.trim().strip_prefix("answered ").and_then(|count| count.parse::<f64>().ok());
    let answered = answered.with_context(|| format!("the client prints {text:?}"))?;
    Ok(Sample { per_s: answered / extent.seconds, foreign, ..Sample::default() })
}

/// What a program prints that ends by itself.
fn finish(program: &[String], core: &str, arguments: &[String], errors: File) -> Result<String> {
    let mut process = Process(setup::start(program, core, arguments, [Stdio::piped(), errors.into()])?);
    let mut text = String::new();
    process.0.stdout.take().context("it is piped")?.read_to_string(&mut text)?;
    let status = process.0.wait()?;
    if !status.success() {
        bail!("it has ended with {status}; target/bench-peers/*.log says why");
    }
    Ok(text)
}

/// A server that answers.
struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    /// Starts one, and waits until it answers. The number is what its programs take beside a port: of the floor how many ports
    /// there are, of others the interval of `/tick`.
    fn start(setup: &Setup<'_>, peer: Peer, number: u32) -> Result<Self> {
        let port = free_port(if peer == Peer::Raw { number } else { 1 })?;
        let arguments = [port.to_string(), number.to_string()];
        let [server, _] = setup.programs(peer)?;
        let outputs = [Stdio::null(), setup.errors(peer.word())?.into()];
        let process = Process(setup::start(server, SERVER_CORE, &arguments, outputs)?);
        let mut server = Self { process, address: (Ipv4Addr::LOCALHOST, port).into() };
        server.wait()?;
        Ok(server)
    }

    fn id(&self) -> u32 {
        self.process.0.id()
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
            if let Some(status) = self.process.0.try_wait()? {
                bail!("the server has ended with {status}; its log in target/bench-peers says why");
            }
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

    const REPORT: &str = r#"{"requests":1000,"answered":999,"codes":{"2.05":990,"5.03":9},"requests_per_s":500.0,
        "latency_ms":{"p50":0.25,"p99":4.0},"generator":{"busy":0.5}}"#;

    #[test]
    fn a_request_costs_what_the_server_took_for_all() {
        let report: Report = serde_json::from_str(REPORT).expect("a report");
        let sample = sample(Load::Many, &report, 0.0999, 0.02);
        assert!((sample.cpu_us.expect("answers") - 100.0).abs() < 1e-6);
        assert!((sample.missing - 0.01).abs() < 1e-9, "another code is no answer");
        assert_eq!((sample.p50_us, sample.p99_us), (Some(250.0), Some(4000.0)));
    }

    #[test]
    fn blocks_count_as_bytes_and_observations_by_their_notifications() {
        let mut report: Report = serde_json::from_str(REPORT).expect("a report");
        let blocks = sample(Load::Blocks, &report, 1.0, 0.0);
        assert!((blocks.per_s - 500.0 * 65536.0).abs() < 1e-6);
        report.notifications = Some(Notifications { count: 50_000, per_s: 25_000.0 });
        let observed = sample(Load::Observed, &report, 1.0, 0.0);
        assert!((observed.per_s - 25_000.0).abs() < 1e-6);
        assert!((observed.cpu_us.expect("notifications") - 20.0).abs() < 1e-9);
        assert_eq!(observed.p50_us, None, "a registration is not what is measured");
    }

    #[test]
    fn ports_in_a_row_are_free() {
        let first = free_port(DESTINATIONS).expect("ports");
        let last = first + u16::try_from(DESTINATIONS).expect("few") - 1;
        assert!(UdpSocket::bind((Ipv4Addr::LOCALHOST, last)).is_ok());
    }
}
