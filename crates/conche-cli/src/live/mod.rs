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
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant as WallInstant};

use conche_lab::scenario::Cell;
use conche_lab::trial::{Emulation, SharedObserver};
use conche_netsim::units::{BitRate, Span};
use conche_netsim::wired::{LinkConfig, Topology};
use conche_netsim::{LinkId, NodeId};
use serde::Serialize;

use crate::Global;
use crate::error::{ArgumentError, UsageError};
use crate::json;
use crate::packet_counts::group;
use crate::show;
pub use control::{Control, Refusal, Request};
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

/// Parses the address of the page.
pub fn parse_address(text: &str) -> Result<SocketAddr, ArgumentError> {
    let address = text.parse::<SocketAddr>().ok();
    address.filter(|address| address.ip().is_loopback()).ok_or(ArgumentError::Loopback)
}

/// Records the packets of a run, from its construction on.
#[derive(Clone, Debug, Default)]
pub struct Recording(Rc<RefCell<Option<Recorder>>>);

impl Recording {
    /// Starts, and returns the observer.
    pub fn start(&self, topology: &Topology) -> SharedObserver {
        *self.0.borrow_mut() = Some(Recorder::new(topology));
        Rc::<RefCell<Option<Recorder>>>::clone(&self.0)
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

/// A page, and what its latest frame has shown.
#[derive(Debug)]
pub struct View {
    server: Server,
    recording: Recording,
    settings: Vec<(LinkId, Option<LinkConfig>)>,
    paths: Vec<(NodeId, NodeId)>,
    frames: u64,
    due: WallInstant,
}

#[derive(Serialize)]
struct NetworkObject<'a> {
    schema: u32,
    scenario: &'a str,
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
struct Frame {
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
            rate: config.and_then(|config| config.rate).map(|rate: BitRate| rate.to_string()),
            delay: config.map(|config| Span(config.delay).to_string()),
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
        (cell, emulation): (&Cell, &Emulation<'_>),
        recording: Recording,
        is_simulation: bool,
        controls: Sink,
        global: &Global,
    ) -> anyhow::Result<Self> {
        let topology = emulation.topology();
        let links: Vec<LinkId> = topology.links().map(|(link, _)| link).collect();
        check_count("links", links.len(), MOST_LINKS)?;
        let paths: Vec<(NodeId, NodeId)> = emulation.paths().take(MOST_PATHS).collect();
        let settings = links.into_iter().map(|link| (link, emulation.link_config(link))).collect::<Vec<_>>();
        let network = network(cell, emulation, &settings, &paths, is_simulation);
        let server = Server::start(address, serde_json::to_value(&network)?, controls)?;
        let live = format!("http://{}/", server.address());
        if global.json {
            json::print(&AddressLine { schema: 1, live })?;
        } else if !global.quiet {
            show::note(format_args!("live view at {live}"));
        }
        Ok(Self { server, recording, settings, paths, frames: 0, due: WallInstant::now() })
    }

    /// Returns whether it is time for a frame.
    pub fn is_due(&self) -> bool {
        WallInstant::now() >= self.due
    }

    /// Returns the time of the next frame.
    pub fn due(&self) -> WallInstant {
        self.due
    }

    /// Returns the number of messages since the start.
    pub fn messages(&self) -> u64 {
        self.recording.0.borrow().as_ref().map_or(0, Recorder::seen)
    }

    /// Shows the current state.
    pub fn publish(&mut self, emulation: &Emulation<'_>, progress: Progress) -> anyhow::Result<()> {
        let mut recorder = self.recording.0.borrow_mut();
        let Some(recorder) = recorder.as_mut() else { return Ok(()) };
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
        let frame = Frame { n, t, state, speed, lateness_ms, links, changed, paths, messages, omitted };
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

fn network<'a>(
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
        scenario: &cell.scenario.name,
        scheme: cell.schemes.join("+"),
        seed: cell.scenario.seed,
        limit_s: (limit != Duration::MAX).then_some(limit.as_secs_f64()),
        is_simulation,
        nodes: topology.nodes().map(node).collect(),
        links: topology.links().zip(settings).filter_map(link).collect(),
        paths: paths.iter().map(|(from, to)| PathObject { from: from.index(), to: to.index() }).collect(),
    }
}
