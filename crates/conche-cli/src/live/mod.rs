//! The live view of a run: a page on this machine that shows nodes, links, messages and paths.
//!
//! The thread of the run owns the network and makes frames; a second one has the HTTP server.
//! `docs/guide/src/live.md` describes the page.

mod control;
mod frames;
mod recorder;
mod server;
pub mod simulation;

use std::cell::RefCell;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant as WallInstant, SystemTime};

use conche_lab::scenario::Cell;
use conche_lab::trial::{Emulation, Trace};
use conche_netsim::units::{BitRate, Span};
use conche_netsim::wired::{LinkConfig, Topology};
use conche_netsim::{LinkId, NodeId};
use serde::Serialize;

use crate::Global;
use crate::error::{ArgumentError, UsageError};
use crate::json;
use crate::packet_counts::group;
pub use control::{Control, LinkChange, Refusal, Request};
use recorder::{MessageEvent, Recorder, seconds};
use server::Server;
pub use server::Sink;

/// Time between frames of a run in progress.
const FRAME: Duration = Duration::from_millis(100);

/// How long pages may take to read the last frame.
const LAST: Duration = Duration::from_secs(1);

const MOST_NODES: usize = 2000;
const MOST_LINKS: usize = 4000;
const MOST_PATHS: usize = 1024;

/// Where the page is, by default.
pub const ANY_PORT: &str = "127.0.0.1:0";

/// Parses the address of the page: with a port, or a port alone.
pub fn parse_address(text: &str) -> Result<SocketAddr, ArgumentError> {
    let port = text.strip_prefix("localhost:").unwrap_or(text).parse();
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let address = port.map(here).or_else(|_| text.parse::<SocketAddr>()).ok();
    address.filter(|address| address.ip().is_loopback()).ok_or(ArgumentError::Loopback)
}

/// Returns how to write the address of a page that follows `--live` without `=`.
pub fn separated(arguments: impl IntoIterator<Item = String>) -> Option<String> {
    let mut rest = arguments.into_iter().skip_while(|argument| argument != "--live").skip(1);
    let address = rest.next().filter(|next| parse_address(next).is_ok())?;
    Some(format!("the address follows `=`: write --live={address}"))
}

/// Records the packets of a run, from its construction on.
#[derive(Clone, Debug, Default)]
pub struct Recording(Rc<RefCell<Recorder>>);

impl Recording {
    /// Starts, and returns the observers of packets and endpoints.
    pub fn start(&self, topology: &Topology) -> [Trace; 2] {
        *self.0.borrow_mut() = Recorder::new(topology);
        let recorder = || Rc::<RefCell<Recorder>>::clone(&self.0);
        [Trace::Packets(recorder()), Trace::Endpoints(recorder())]
    }
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Paused,
    Running,
    Ended,
}

/// Progress of a run beside its network.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub state: State,
    /// Simulated seconds per second; `None` for as fast as possible.
    pub speed: Option<f64>,
    /// 99th percentile of the lateness of an emulation.
    pub lateness_ms: Option<f64>,
}

/// The run that a page shows.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    pub cell: &'a Cell,
    /// Number of cells to choose from.
    pub cells: usize,
    pub emulation: &'a Emulation<'a>,
    pub is_simulation: bool,
    /// The next step of the user.
    pub advice: &'static str,
}

/// A page, and what its latest frame has shown.
#[derive(Debug)]
pub struct View {
    server: Server,
    recording: Recording,
    /// Identifies this run among others at the same address.
    run: String,
    settings: Vec<(LinkId, Option<LinkConfig>)>,
    paths: Vec<(NodeId, NodeId)>,
    frames: u64,
    due: WallInstant,
}

#[derive(Serialize)]
struct NetworkObject<'a> {
    schema: u32,
    run: &'a str,
    scenario: &'a str,
    cell: String,
    scheme: String,
    seed: u64,
    limit_s: Option<f64>,
    is_simulation: bool,
    nodes: Vec<NodeObject<'a>>,
    links: Vec<LinkObject<'a>>,
    paths: Vec<PathObject>,
}

#[derive(Serialize)]
struct NodeObject<'a> {
    name: &'a str,
    group: String,
    role: &'static str,
    is_program: bool,
}

#[derive(Serialize)]
struct LinkObject<'a> {
    name: &'a str,
    group: String,
    from: usize,
    to: usize,
    is_radio: bool,
    can_change: bool,
    #[serde(flatten)]
    settings: Settings,
}

/// Settings of a link, as a scenario has them.
#[derive(Serialize)]
struct Settings {
    rate: Option<String>,
    delay: Option<String>,
    loss: Option<String>,
    queue: Option<String>,
}

#[derive(Serialize)]
struct PathObject {
    from: usize,
    to: usize,
}

#[derive(Serialize)]
struct Frame<'a> {
    run: &'a str,
    n: u64,
    t: f64,
    state: State,
    speed: Option<f64>,
    lateness_ms: Option<f64>,
    links: Vec<LinkState>,
    changed: Vec<ChangedLink>,
    paths: Vec<PathState>,
    messages: Vec<MessageEvent>,
    omitted: u64,
}

/// Packets and bytes in the queue, packets sent, lost, dropped by the queue, dropped otherwise;
/// whether it is up.
type LinkState = (Option<u64>, Option<u64>, u64, u64, u64, u64, bool);

/// RTO and SRTT in seconds, exchanges in progress, transmissions, retransmissions.
type PathState = (Option<f64>, Option<f64>, u16, u64, u64);

#[derive(Serialize)]
struct ChangedLink {
    link: usize,
    #[serde(flatten)]
    settings: Settings,
}

#[derive(Serialize)]
struct AddressLine {
    schema: u32,
    live: String,
}

impl Settings {
    fn of(config: Option<&LinkConfig>) -> Self {
        Self {
            rate: config.and_then(|config| config.rate).map(|rate: BitRate| format!("{rate:#}")),
            delay: config.map(|config| format!("{:#}", Span(config.delay))),
            loss: config.map(|config| config.loss.to_string()),
            queue: config.map(|config| config.queue.to_string()),
        }
    }
}

/// Refuses a scenario with more nodes than a page shows, before it is built.
pub fn check(cell: &Cell) -> Result<(), UsageError> {
    let nodes: usize = cell.scenario.nodes.iter().map(|nodes| nodes.size() as usize).sum();
    check_count("nodes", nodes, MOST_NODES)
}

fn check_count(what: &str, count: usize, most: usize) -> Result<(), UsageError> {
    if count <= most {
        return Ok(());
    }
    Err(UsageError(format!(
        "--live: the scenario has {count} {what}, and the view shows at most {most}; make a group smaller, as by --set \
         nodes.client.count=100, or select a smaller cell by --only"
    )))
}

impl View {
    /// Serves the page, and prints its address. `controls` receives what its user does.
    pub fn open(
        address: SocketAddr,
        Shown { cell, cells, emulation, is_simulation, advice }: Shown<'_>,
        recording: Recording,
        controls: Sink,
        global: &Global,
    ) -> anyhow::Result<Self> {
        let topology = emulation.topology();
        let links: Vec<LinkId> = topology.links().map(|(link, _)| link).collect();
        check_count("links", links.len(), MOST_LINKS)?;
        let paths: Vec<(NodeId, NodeId)> = emulation.paths().take(MOST_PATHS).collect();
        let settings = links.into_iter().map(|link| (link, emulation.link_config(link))).collect::<Vec<_>>();
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let run = format!("{:x}", started.as_nanos());
        let network = network(&run, cell, emulation, &settings, &paths, is_simulation);
        let server = Server::start(address, serde_json::to_value(&network)?, controls)?;
        let live = format!("http://{}/", server.address());
        if global.json {
            json::print(&AddressLine { schema: 1, live })?;
        } else {
            let (name, row) = (&cell.scenario.name, row(cell));
            let of_several = if cells > 1 { format!(", 1 of {cells} cells") } else { String::new() };
            let mut out = io::stdout().lock();
            writeln!(out, "live view of {name} ({row}{of_several}) at {live} ({advice})")?;
            out.flush()?;
        }
        Ok(Self { server, recording, run, settings, paths, frames: 0, due: WallInstant::now() })
    }

    /// Returns whether a page has read a frame.
    pub fn has_page(&self) -> bool {
        self.server.frames().has_page()
    }

    /// Returns whether it is time for a frame.
    pub fn is_due(&self) -> bool {
        WallInstant::now() >= self.due
    }

    /// Returns the time of the next frame.
    pub fn due(&self) -> WallInstant {
        self.due
    }

    /// Counts events of messages from and to these nodes anew; of all nodes if `nodes` is empty.
    pub fn count(&self, nodes: Vec<usize>) {
        self.recording.0.borrow_mut().count(nodes);
    }

    /// Returns the number of events of counted messages.
    pub fn counted(&self) -> u64 {
        self.recording.0.borrow().seen()
    }

    /// Shows the current state.
    pub fn publish(&mut self, emulation: &Emulation<'_>, progress: Progress) -> anyhow::Result<()> {
        let mut recorder = self.recording.0.borrow_mut();
        let mut changed = Vec::new();
        for (link, shown) in &mut self.settings {
            let current = emulation.link_config(*link);
            if *shown != current {
                let settings = Settings::of(current.as_ref());
                self.server.network().set_link(link.index(), serde_json::to_value(&settings)?);
                changed.push(ChangedLink { link: link.index(), settings });
                *shown = current;
            }
        }
        let link = |link: LinkId| {
            let (packets, bytes) = emulation.queue(link).unzip();
            let counts = recorder.link(link);
            let dropped = (counts.queue_drops, counts.other_drops);
            (packets, bytes, counts.sent, counts.lost, dropped.0, dropped.1, emulation.is_link_up(link))
        };
        let path = |(from, to): &(NodeId, NodeId)| {
            let state = emulation.path(*from, *to);
            let rto = state.as_ref().map(|state| state.congestion.rto.as_secs_f64());
            let srtt = state.as_ref().and_then(|state| state.congestion.srtt).map(|srtt| srtt.as_secs_f64());
            let sent = recorder.path(*from, *to);
            (rto, srtt, state.map_or(0, |state| state.outstanding), sent.all, sent.again)
        };
        let Progress { state, speed, lateness_ms } = progress;
        let (links, paths) =
            (self.settings.iter().map(|(id, _)| link(*id)).collect(), self.paths.iter().map(path).collect());
        let (messages, omitted) = recorder.take();
        let (n, t) = (self.frames, seconds(emulation.now()));
        let frame = Frame { run: &self.run, n, t, state, speed, lateness_ms, links, changed, paths, messages, omitted };
        self.server.frames().push(serde_json::to_string(&frame)?.into());
        self.frames += 1;
        self.due = WallInstant::now() + FRAME;
        Ok(())
    }

    /// Lets the pages read the last frame, and ends the server.
    pub fn close(self) {
        self.server.close(LAST);
    }
}

fn row(cell: &Cell) -> String {
    cell.row(None, &cell.schemes.join("+"))
}

fn network<'a>(
    run: &'a str,
    cell: &'a Cell,
    emulation: &'a Emulation<'_>,
    settings: &[(LinkId, Option<LinkConfig>)],
    paths: &[(NodeId, NodeId)],
    is_simulation: bool,
) -> NetworkObject<'a> {
    let topology = emulation.topology();
    let role = |node| match (emulation.servers_of(node).next().is_some(), emulation.has_clients(node)) {
        (true, true) => "both",
        (true, false) => "client",
        (false, true) => "server",
        (false, false) if emulation.is_program(node) => "both",
        (false, false) => "router",
    };
    let node = |(node, name): (NodeId, &'a str)| NodeObject {
        name,
        group: group(name),
        role: role(node),
        is_program: emulation.is_program(node),
    };
    let link = |((link, name), (_, config)): ((LinkId, &'a str), &(LinkId, Option<LinkConfig>))| {
        let (from, to) = topology.ends(link)?;
        Some(LinkObject {
            name,
            group: group(name),
            from: from.index(),
            to: to.index(),
            is_radio: topology.is_hop(link),
            can_change: config.is_some(),
            settings: Settings::of(config.as_ref()),
        })
    };
    let limit = emulation.limit();
    NetworkObject {
        schema: 1,
        run,
        scenario: &cell.scenario.name,
        cell: row(cell),
        scheme: cell.schemes.join("+"),
        seed: cell.scenario.seed,
        limit_s: (limit != Duration::MAX).then_some(limit.as_secs_f64()),
        is_simulation,
        nodes: topology.nodes().map(node).collect(),
        links: topology.links().zip(settings).filter_map(link).collect(),
        paths: paths.iter().map(|(from, to)| PathObject { from: from.index(), to: to.index() }).collect(),
    }
}
