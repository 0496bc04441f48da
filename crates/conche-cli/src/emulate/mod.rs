//! `conche emulate SCENARIO`: a scenario's network against the wall clock, with programs as nodes.
//!
//! The main thread has the simulated network, and waits for its next event or for a datagram of a
//! program. A second thread has the sockets, the programs and the signals.

mod clock;
mod gate;
mod links;
#[cfg(target_os = "linux")]
pub mod node;
#[cfg(target_os = "linux")]
mod orphans;
#[cfg(target_os = "linux")]
mod packets;
mod processes;
mod program;
mod report;
mod session;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use conche_lab::campaign::{Replication, seed_of};
use conche_lab::experiment::Experiment;
use conche_lab::scenario::{Cell, Effort};
use conche_netsim::pcapng::PcapNg;

use crate::Global;
use crate::error::{ArgumentError, UsageError};
use crate::experiment::{labels, merged, setting};
use crate::flags::{parse_time, parse_time_or_0};
use crate::live;
use crate::run::read_unchecked;
use clock::Delays;
pub use clock::Late;
use gate::Entering;
use processes::Ended;
use program::Assignment;
pub use session::ProgramFailed;

const EXAMPLES: &str = "\
Examples:
  conche emulate gprs --node 'meter=coap-client-notls -m get coap://{server}/'   20 clients behind a GPRS modem
  conche emulate gprs --node 'server=coap-server-notls -A {bind.host} -p {bind.port}'   a server, for simulated clients
  conche emulate star --node 'sensor[0]=./my-sensor {coordinator}'   one program among simulated sensors
  conche emulate gprs --node meter=external --port 5683   programs that run already, on this machine
  conche emulate gprs --node meter=external --live   also a page that shows the run and changes links

Placeholders in a command: {index}, the number of its node; {bind}, the address for a server to
listen at; {NODES}, the address of a server's node; {NODES.host} and {NODES.port}, its parts; {{, a
brace.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Scenario file, or a network of `conche compare networks`.
    #[arg(value_name = "SCENARIO.toml|NETWORK")]
    file: PathBuf,
    /// Program on each of these nodes; repeatable.
    ///
    /// A command, `external` for clients that already run on this machine, or the address of a
    /// server that already runs. Nodes are a group such as client, or client[3] or client[0..5].
    /// Replaces a `program` of the scenario. A command with {bind} is a server, any other one a
    /// client.
    #[arg(long = "node", value_name = "NODES=PROGRAM")]
    nodes: Vec<Assignment>,
    /// Port of the addresses for external clients; by default a free one.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Way of programs into the network.
    #[arg(long, value_enum, default_value = "udp", hide_default_value = true)]
    gate: GateKind,
    /// Seed of all random numbers of the network.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Change a value, as in links.uplink.wire.loss=5%; repeatable.
    #[arg(long, value_name = "PATH=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Select a cell of the sweep, as in clients=50; by default the first.
    #[arg(long, value_name = "AXIS=LABEL", value_parser = labels)]
    only: Vec<(String, Vec<String>)>,
    /// Time between the starts of client programs.
    ///
    /// By default they start together, and more than 20 every 20 ms, because starting programs load
    /// the machine.
    #[arg(long, value_name = "TIME", value_parser = parse_time_or_0)]
    stagger: Option<Duration>,
    /// Maximum lateness of 99 % of the events.
    ///
    /// Beyond it, the run is invalid, and the exit status is 7.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_time)]
    max_lateness: Duration,
    /// Also write the packets in the network to FILE, for Wireshark.
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Also show the run on a page of this machine.
    ///
    /// Programs start once the page is open. It can change links, and keeps its last state when the
    /// run ends. The port is a free one, or as in --live=8080.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = live::ANY_PORT,
        value_parser = live::parse_address
    )]
    live: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GateKind {
    /// UDP sockets on loopback; the default.
    Udp,
    /// A network namespace for each program, with addresses and names of the nodes (Linux).
    ///
    /// UDP, TCP and ICMP pass. {server} is the address of the server's node, and its name is a
    /// host name, as in coap://server/ or client.3.
    #[cfg(target_os = "linux")]
    Namespaces,
}

/// Wakes the main thread.
#[derive(Debug)]
enum Input {
    Datagram(Entering),
    Ended(Ended),
    /// From the page.
    Control(live::Request),
    /// From a program in namespaces.
    #[cfg(target_os = "linux")]
    Node(packets::FromNode),
    /// Ctrl-C or SIGTERM.
    Stop,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<()> {
    let experiment = args.experiment(global)?;
    let Some(cell) = experiment.document().cells().first() else {
        return Err(UsageError("no cell is left to emulate; select one by --only".to_owned()).into());
    };
    let assignments = args.assignments(cell)?;
    let seed = cell.scenario.seed;
    let count = cell.scenario.replications.get();
    let replication = Replication { index: 0, count, seed: seed_of(seed, 0) };
    let pcapng = args.pcapng.as_deref().map(create).transpose()?;
    let cells = experiment.document().cells().len();
    session::run(&session::Plan { args, cell, cells, assignments, replication, pcapng, global })
        .with_context(|| format!("scenario {}", args.file.display()))
}

fn create(path: &Path) -> Result<File, UsageError> {
    File::create(path).map_err(|error| UsageError(format!("{} cannot be written: {error}", path.display())))
}

/// A capture file of the network.
type CaptureFile = PcapNg<BufWriter<File>>;

impl Args {
    /// Reads the scenario, and applies the options.
    fn experiment(&self, global: &Global) -> anyhow::Result<Experiment> {
        let mut experiment = read_unchecked(&self.file, &global.controllers)?;
        let effort = Effort {
            quick: false,
            runs: None,
            seed: self.seed,
            controllers: Vec::new(),
            also: Vec::new(),
            set: self.set.clone(),
            compares: false,
            only: merged(&self.only),
        };
        experiment.adjust(&effort).map_err(UsageError::of)?;
        Experiment::check_labels(std::slice::from_ref(&experiment)).map_err(UsageError::of)?;
        Ok(experiment)
    }

    /// Returns the programs of the scenario and the command line; the last one of a node counts.
    fn assignments(&self, cell: &Cell) -> anyhow::Result<Vec<Assignment>> {
        let mut all: BTreeMap<&str, usize> = BTreeMap::new();
        let mut assignments = Vec::new();
        for nodes in &cell.scenario.nodes {
            if let Some(program) = &nodes.program {
                let place = format!("nodes.{}.program", nodes.name);
                let failed = |error| UsageError(format!("scenario {}: {place}: {error}", self.file.display()));
                if program.trim().is_empty() {
                    return Err(failed("it is empty; write a command, or leave it out".to_owned()).into());
                }
                assignments.push(
                    format!("{}={program}", nodes.name)
                        .parse()
                        .map_err(|error: ArgumentError| failed(error.to_string()))?,
                );
            }
        }
        assignments.extend(self.nodes.iter().cloned());
        for (number, assignment) in self.nodes.iter().enumerate() {
            if all.insert(&assignment.nodes, number).is_some() {
                let nodes = &assignment.nodes;
                return Err(UsageError(format!("--node {nodes}=… is there twice; write it once")).into());
            }
        }
        if assignments.is_empty() {
            let groups: Vec<&str> = cell.scenario.nodes.iter().map(|nodes| nodes.name.as_str()).collect();
            let problem = format!(
                "no node has a program; write --node NODES=PROGRAM, or `program` in the scenario; the nodes are {}",
                groups.join(", ")
            );
            return Err(UsageError(problem).into());
        }
        Ok(assignments)
    }
}
