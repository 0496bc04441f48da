//! One measurement: a server and its load, or a client and its servers, each on its own core.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::load::{Load, Protection};
use crate::machine::{CLIENT_CORE, Used};
use crate::memory;
use crate::peer::Peer;
use crate::results::{Report, Sample};
use crate::server::Server;
use crate::setup::{self, Setup};
use tool_support::peers::Process;

/// Interval of changes of `/tick`, in milliseconds.
const TICK_MS: u32 = 5;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Extent {
    /// Repetitions of each measurement.
    pub rounds: u32,
    /// Duration of a measurement, in seconds.
    pub seconds: f64,
    /// Load before the measurement, in seconds.
    pub warm_up: f64,
    /// Peers to create in [`Load::Known`].
    pub known: u32,
    /// Maximum time to create them, in seconds.
    pub introducing: f64,
}

pub fn server(setup: &Setup<'_>, peer: Peer, load: Load, extent: Extent) -> Result<Sample> {
    let number = match (load, peer) {
        _ if load.is_observed() => TICK_MS,
        (_, Peer::Raw) => 1,
        _ => 0,
    };
    let started = || Server::start(setup, peer, number, load.protection());
    let sessions = match load {
        // A separate server, as closed sessions leave memory allocated.
        Load::Handshakes => Some(memory::sessions(setup, &started()?)?),
        _ => None,
    };
    let server = started()?;
    let peers = match load {
        Load::Known => Some(memory::peers(setup, &server, extent)?),
        _ => None,
    };
    let run = |seconds: f64| {
        let time = format!("{seconds}s");
        generate(setup, &server, load, &[load.arguments(), &["--duration", &time]].concat(), seconds)
    };
    run(extent.warm_up)?;
    let (report, watched) = run(extent.seconds)?;
    Ok(Sample {
        known: peers.as_ref().map(|peers| peers.count),
        bytes_per_peer: peers.map(|peers| peers.bytes_each),
        bytes_per_session: sessions.map(|sessions| sessions.bytes_each),
        ..report.sample(load, watched.server_s, watched.foreign)
    })
}

/// Measures CPU time for `seconds`, without the wait for requests in flight at the end.
pub fn generate(
    setup: &Setup<'_>,
    server: &Server,
    load: Load,
    arguments: &[&str],
    seconds: f64,
) -> Result<(Report, Watched)> {
    let (mut generator, watched) = watch(server, seconds, || generator(setup, server, load, arguments))?;
    Ok((report(&mut generator).with_context(|| format!("`conche bench … {}`", arguments.join(" ")))?, watched))
}

pub fn generator(setup: &Setup<'_>, server: &Server, load: Load, arguments: &[&str]) -> Result<Process> {
    let common = ["bench", &server.uri(load.path()), "--json", "--quiet"].map(str::to_owned);
    let arguments = arguments.iter().map(|&argument| argument.to_owned());
    let arguments: Vec<_> = common.into_iter().chain(server.credentials.of_generator()).chain(arguments).collect();
    let outputs = [Stdio::piped(), setup.errors("generator")?.into()];
    setup::start(&[setup.generator()], CLIENT_CORE, &arguments, outputs).map(Process)
}

pub fn report(generator: &mut Process) -> Result<Report> {
    let text = printed(generator)?;
    serde_json::from_str(&text).with_context(|| format!("it prints {text:?}"))
}

pub fn client(setup: &Setup<'_>, peer: Peer, load: Load, extent: Extent) -> Result<Sample> {
    let program = setup.client(peer)?;
    let destinations = load.destinations().unwrap_or(1);
    let server = Server::start(setup, Peer::Raw, destinations, Protection::Plain)?;
    let arguments = [server.address.port().to_string(), destinations.to_string()];
    let arguments = [arguments, [extent.warm_up, extent.seconds].map(|time| time.to_string())].concat();
    let arguments = arguments.into_iter().chain(peer.of_client().iter().map(|&argument| argument.to_owned()));
    let outputs = [Stdio::piped(), setup.errors(peer.word())?.into()];
    let mut client = Process(setup::start(program, CLIENT_CORE, &arguments.collect::<Vec<_>>(), outputs)?);
    std::thread::sleep(Duration::from_secs_f64(extent.warm_up));
    let used = || Used::now(server.id(), Some(client.0.id()));
    let before = used()?;
    std::thread::sleep(Duration::from_secs_f64(extent.seconds));
    let after = used()?;
    let text = printed(&mut client)?;
    let answered = text.trim().strip_prefix("answered ").and_then(|count| count.parse::<f64>().ok());
    let answered = answered.with_context(|| format!("the client prints {text:?}"))?;
    Ok(Sample {
        per_s: answered / extent.seconds,
        cpu_us: (answered > 0.0).then(|| after.by_load_since(&before) * 1e6 / answered),
        generator: after.by_server_since(&before) / extent.seconds,
        foreign: after.foreign_since(&before),
        ..Sample::default()
    })
}

pub struct Watched {
    server_s: f64,
    /// Share of one core that other processes used.
    foreign: f64,
}

fn watch(server: &Server, seconds: f64, start: impl FnOnce() -> Result<Process>) -> Result<(Process, Watched)> {
    let before = Used::now(server.id(), None)?;
    let process = start()?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let after = Used::now(server.id(), Some(process.0.id()))?;
    Ok((process, Watched { server_s: after.by_server_since(&before), foreign: after.foreign_since(&before) }))
}

fn printed(process: &mut Process) -> Result<String> {
    let mut text = String::new();
    process.0.stdout.take().context("it is piped")?.read_to_string(&mut text)?;
    match process.0.wait()? {
        status if status.success() => Ok(text),
        status => bail!("it has ended with {status}; target/bench-peers/*.log says why"),
    }
}
