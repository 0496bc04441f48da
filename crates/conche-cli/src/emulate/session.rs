//! One run: programs start, datagrams pass through the network, programs end.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant as WallInstant};

use anyhow::{Context, bail};
use conche_lab::campaign::Replication;
use conche_lab::scenario::{Cell, ChangeEvent, ScenarioError};
use conche_lab::trial::{ArrivedAtProgram, Emulation, Trace};
use conche_netsim::pcapng::{Capture, PcapNg};
use conche_netsim::wired::Topology;
use conche_netsim::{Instant, NodeId};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use tokio::runtime::Handle;

use super::clock::Clock;
use super::gate::{self, Concurrent, DoorFull, Entering, Gate};
use super::links::LinkMeter;
#[cfg(target_os = "linux")]
use super::packets::{self, FromNode, PacketGate};
use super::processes::{Ended, Output, Processes};
use super::program::{Assignment, Program, expanded};
use super::report::{End, LiveChanges, ProgramRow, Report, traffic_rows};
use super::{Args, CaptureFile, GateKind, Input};
use crate::Global;
use crate::error::{Interrupted, UsageError};
use crate::json;
use crate::live;
use crate::runtime;
use crate::show;

/// How long a server program may take to listen.
const START: Duration = Duration::from_secs(10);

/// An Empty Confirmable message, which a CoAP server answers with a Reset (RFC 7252 §4.3).
const PING: [u8; 4] = [0x40, 0x00, 0x50, 0x49];

/// How long programs may take to end, and the report to be written.
const STOP: Duration = Duration::from_secs(10);

/// Client programs that start together by default; starting more would delay the first events.
const TOGETHER: usize = 20;

/// Time between the starts of more client programs, by default.
const STAGGER: Duration = Duration::from_millis(20);

/// Longest pause of the main thread.
const TICK: Duration = Duration::from_millis(100);

/// Maximum number of inputs between two looks at the time limit.
const INPUTS: usize = 1_000;

/// Time between looks for an open page.
const PAGE: Duration = Duration::from_millis(20);

/// Servers in a note.
const MOST_NAMED: usize = 3;

/// After this time the progress is shown.
const SHORT: Duration = Duration::from_secs(2);

/// A program failed; the command ends with its exit status.
#[derive(Debug, thiserror::Error)]
#[error("the program of {node} ended with exit status {status}")]
pub struct ProgramFailed {
    node: String,
    pub status: u8,
}

pub struct Plan<'a> {
    pub args: &'a Args,
    pub cell: &'a Cell,
    /// Number of cells to choose from.
    pub cells: usize,
    pub assignments: Vec<Assignment>,
    pub replication: Replication,
    pub pcapng: Option<std::fs::File>,
    pub global: &'a Global,
}

/// A command on a node.
struct Command {
    node: NodeId,
    name: String,
    text: String,
    /// Where it should listen, if it is a server.
    listens: Option<SocketAddr>,
    /// It listens, in its namespace.
    is_ready: bool,
    /// Its process, once started.
    process: Option<usize>,
    status: Option<u8>,
    /// It ended by itself.
    is_done: bool,
    /// Its node reboots: it starts again once it has ended.
    is_rebooting: bool,
}

impl Command {
    /// Starts it, held back.
    fn start(&mut self, processes: &mut Processes) -> anyhow::Result<()> {
        let number = processes.start(&self.name, &self.text);
        self.process = Some(number.with_context(|| format!("the program of {} cannot be started", self.name))?);
        (self.status, self.is_done, self.is_rebooting) = (None, false, false);
        Ok(())
    }

    fn release(&self, processes: &Processes) {
        self.process.iter().for_each(|number| processes.release(*number));
    }

    /// Starts and releases it.
    fn begin(&mut self, processes: &mut Processes) -> anyhow::Result<()> {
        self.start(processes)?;
        self.release(processes);
        Ok(())
    }
}

struct Session<'a> {
    plan: &'a Plan<'a>,
    emulation: Emulation<'a>,
    view: Option<live::View>,
    gate: Gate,
    #[cfg(target_os = "linux")]
    packets: Option<PacketGate>,
    commands: Vec<Command>,
    /// Addresses for external clients, by group and server.
    doors: Vec<(String, String, SocketAddr)>,
    /// Nodes of programs that have sent something.
    senders: BTreeSet<NodeId>,
    inputs: Receiver<Input>,
    live_changes: LiveChanges,
    bar: ProgressBar,
}

pub fn run(plan: &Plan<'_>) -> anyhow::Result<()> {
    allow_many_files();
    let (sender, inputs) = channel();
    let runtime = runtime::start()?;
    let handle = runtime.handle().clone();
    let interrupted = sender.clone();
    let stop = runtime::stop_signal(STOP)?;
    // Ends with the process.
    thread::Builder::new().name("sockets".to_owned()).spawn(move || {
        runtime::run(&runtime, async move {
            stop.await;
            // The receiver has gone if the run is over.
            let _ = interrupted.send(Input::Stop);
            std::future::pending::<()>().await;
        });
    })?;
    let meter = Rc::new(RefCell::new(None::<LinkMeter>));
    let capture = Rc::new(RefCell::new(None::<CaptureFile>));
    let recording = live::Recording::default();
    let references: Vec<String> = plan.assignments.iter().map(|assignment| assignment.nodes.clone()).collect();
    let mut unwritable = None;
    let mut observe = |topology: &Topology| -> Vec<Trace> {
        *meter.borrow_mut() = Some(LinkMeter::new(topology));
        let file = plan.pcapng.as_ref().map(|file| {
            let file = BufWriter::new(file.try_clone()?);
            *capture.borrow_mut() = Some(PcapNg::new(file, topology, Capture::Senders)?);
            io::Result::Ok(())
        });
        unwritable = file.and_then(Result::err);
        let meter = Trace::Packets(Rc::<RefCell<Option<LinkMeter>>>::clone(&meter));
        let mut observers = vec![meter, Trace::Packets(Rc::<RefCell<Option<CaptureFile>>>::clone(&capture))];
        observers.extend(plan.args.live.into_iter().flat_map(|_| recording.start(topology)));
        observers
    };
    let emulation = match plan.args.live {
        None => Emulation::new(plan.cell, plan.replication, &references, &mut observe),
        Some(_) => {
            live::check(plan.cell)?;
            Emulation::changeable(plan.cell, plan.replication, &references, &mut observe)
        }
    };
    let emulation = emulation.map_err(|error| UsageError::of(plan.cell.locate(ScenarioError::from(error))))?;
    unwritable.map_or(Ok(()), Err).context("the capture cannot be written")?;
    let gate = Gate::new(handle.clone(), sender.clone(), emulation.addresses().clone());
    #[cfg(target_os = "linux")]
    let packets = (plan.args.gate == GateKind::Namespaces).then(|| {
        let names = emulation.all_nodes().map(|node| (node, shown(emulation.name(node)).0));
        PacketGate::new(&handle, sender.clone(), names)
    });
    #[cfg(target_os = "linux")]
    let packets = packets.transpose()?;
    let controls = sender.clone();
    let view = plan.args.live.map(|address| {
        let controls = Box::new(move |request| controls.send(Input::Control(request)).is_ok());
        let advice = if plan.has_commands() { "programs start once the page is open" } else { "Ctrl-C ends the run" };
        let (cell, cells) = (plan.cell, plan.cells);
        let shown = live::Shown { cell, cells, emulation: &emulation, is_simulation: false, advice };
        live::View::open(address, shown, recording, controls, plan.global)
    });
    let mut session = Session {
        plan,
        emulation,
        view: view.transpose()?,
        gate,
        #[cfg(target_os = "linux")]
        packets,
        commands: Vec::new(),
        doors: Vec::new(),
        senders: BTreeSet::new(),
        inputs,
        live_changes: LiveChanges::default(),
        bar: ProgressBar::hidden(),
    };
    session.open_gate()?;
    session.show(&Clock::start(), live::State::Running)?;
    let ended = session.run(handle, sender);
    let started = Clock::start();
    session.show(ended.as_ref().map_or(&started, |(clock, _)| clock), live::State::Ended)?;
    if let Some(view) = session.view.take() {
        view.close();
    }
    let (clock, end) = ended?;
    let undelivered = session.undelivered();
    let silent = session.silent()?;
    let Session { emulation, commands, live_changes, .. } = session;
    let elapsed = emulation.now() - Instant::ZERO;
    let traffic = traffic_rows(&plan.cell.scenario, &emulation.into_record());
    let capture = capture.borrow_mut().take();
    capture.map(CaptureFile::finish).transpose().context("the capture cannot be written")?;
    let report = Report {
        schema: 1,
        scenario: plan.cell.scenario.name.clone(),
        cell: plan.cell.row(None, &plan.cell.schemes.join("+")),
        seed: plan.cell.scenario.seed,
        elapsed_s: elapsed.as_secs_f64(),
        end,
        is_valid: clock.check(plan.args.max_lateness).is_ok(),
        lateness: clock.lateness(plan.args.max_lateness),
        undelivered,
        live_changes: plan.args.live.map(|_| live_changes),
        links: meter.borrow().as_ref().map(LinkMeter::rows).unwrap_or_default(),
        traffic,
        programs: commands
            .iter()
            .map(|of| ProgramRow { node: of.name.clone(), status: of.status, has_ended: of.is_done })
            .collect(),
    };
    report.print(plan.global)?;
    show::notes(&silent, plan.global);
    // Only a signal ends a run of external programs before its time.
    if end == End::Interrupted && plan.has_commands() {
        return Err(Interrupted::default().into());
    }
    clock.check(plan.args.max_lateness)?;
    let failed = commands.iter().find(|of| of.is_done && of.status.is_some_and(|status| status != 0));
    failed.map_or(Ok(()), |of| Err(ProgramFailed { node: of.name.clone(), status: of.status.unwrap_or(1) }.into()))
}

#[derive(Serialize)]
struct DoorLine<'a> {
    schema: u32,
    nodes: &'a str,
    server: &'a str,
    address: SocketAddr,
}

impl Session<'_> {
    /// Opens a door for each program and server, and completes the commands.
    fn open_gate(&mut self) -> anyhow::Result<()> {
        let mut programs: BTreeMap<NodeId, &Assignment> = BTreeMap::new();
        for assignment in &self.plan.assignments {
            let nodes = self.emulation.nodes("--node", &assignment.nodes).map_err(UsageError::of)?;
            programs.extend(nodes.into_iter().map(|node| (node, assignment)));
            if self.plan.args.gate != GateKind::Udp && !matches!(assignment.program, Program::Command(_)) {
                let nodes = &assignment.nodes;
                let problem =
                    format!("--node {nodes}=…: a program that already runs is in no namespace; use --gate udp");
                return Err(UsageError(problem).into());
            }
        }
        let nats = self.emulation.addresses();
        let is_outside = |node: &&NodeId| nats.nat_of(**node).is_none();
        if let Some(node) = programs.keys().find(is_outside).filter(|_| self.plan.has_unwritten_nats()) {
            return Err(UsageError(format!(
                "--gate namespaces: the program of {} is outside the NATs of the scenario, and this gate writes no \
                 addresses of NATs into packets; use --gate udp, or put programs on nodes inside only",
                shown(self.emulation.name(*node)).0
            ))
            .into());
        }
        for (node, Assignment { program, .. }) in programs.iter().filter(|(_, of)| of.program.is_server()) {
            let address = match program {
                Program::Listening(address) => *address,
                _ if self.address(*node).is_some() => self.address(*node).context("a node in namespaces")?,
                // The program binds it next.
                _ => gate::bind(*node, 0).and_then(|socket| socket.local_addr()).context("loopback cannot be bound")?,
            };
            self.gate.listens(*node, address);
        }
        for change in &self.plan.cell.scenario.changes {
            let ChangeEvent::Reboot { nodes } = &change.event else { continue };
            let rebooted = self.emulation.nodes("changes", nodes).map_err(UsageError::of)?;
            let program = rebooted.iter().find_map(|node| programs.get(node));
            if let Some(Assignment { nodes, .. }) = program.filter(|of| !matches!(of.program, Program::Command(_))) {
                let problem = format!(
                    "--node {nodes}=…: the scenario reboots it, but conche can start only commands anew; write a \
                     command, or --set changes=[]"
                );
                return Err(UsageError(problem).into());
            }
        }
        let mut doors: BTreeMap<(NodeId, NodeId), SocketAddr> = BTreeMap::new();
        for (node, Assignment { program, .. }) in &programs {
            let Program::Command(command) = program else { continue };
            let listens = self.gate.address(*node).filter(|_| program.is_server());
            let (name, index) = shown(self.emulation.name(*node));
            let text = expanded(command, index, |server| match server {
                "bind" => listens.ok_or_else(|| UsageError(format!("{name} has no address"))),
                server => self.door(*node, index, server, &mut doors),
            });
            let text = text.map_err(|UsageError(problem)| UsageError(format!("the program of {name}: {problem}")))?;
            let text = self.in_namespaces(*node, listens.is_some(), text);
            self.commands.push(Command {
                node: *node,
                name,
                text,
                listens,
                is_ready: false,
                process: None,
                status: None,
                is_done: false,
                is_rebooting: false,
            });
        }
        for assignment in self.plan.assignments.iter().filter(|of| of.program.is_server()) {
            let is_asked = |node: &NodeId| self.emulation.has_clients(*node) || doors.keys().any(|(_, to)| to == node);
            let nodes = &assignment.nodes;
            let all = self.emulation.nodes("--node", nodes).map_err(UsageError::of)?;
            let is_client = |node: &NodeId| self.emulation.servers_of(*node).next().is_some();
            if !all.iter().any(is_asked) {
                if let (Program::Listening(_), true) = (&assignment.program, all.iter().any(is_client)) {
                    let problem =
                        format!("--node {nodes}=…: {nodes} is a client; an address is for servers; write external");
                    return Err(UsageError(problem).into());
                }
                let problem = format!(
                    "--node {nodes}=…: a server there has no clients: no traffic leads to {nodes}, and no program has \
                     {{{nodes}}}; a client that already runs is `external`"
                );
                return Err(UsageError(problem).into());
            }
        }
        for assignment in self.plan.assignments.iter().filter(|of| of.program == Program::External) {
            let nodes: Vec<NodeId> =
                programs.iter().filter(|(_, of)| std::ptr::eq(**of, assignment)).map(|(node, _)| *node).collect();
            self.open_to_external(assignment, &nodes)?;
        }
        Ok(())
    }

    /// Returns the address of a server for the program on a node.
    fn door(
        &mut self,
        node: NodeId,
        index: usize,
        server: &str,
        doors: &mut BTreeMap<(NodeId, NodeId), SocketAddr>,
    ) -> Result<SocketAddr, UsageError> {
        let servers = self.emulation.nodes(format_args!("{{{server}}}"), server).map_err(|error| {
            UsageError(format!("{error}. {{index}} and {{bind}} are placeholders, too, and {{{{ is a brace"))
        })?;
        let to = servers[index % servers.len()];
        if let Some(address) = doors.get(&(node, to)) {
            return Ok(*address);
        }
        let name = self.emulation.name(to);
        if !self.emulation.is_server(to) && !self.gate.is_listening(to) {
            return Err(UsageError(format!(
                "{{{server}}} is no server: no traffic of the scenario leads to {name}, and it has no program with \
                 {{bind}}"
            )));
        }
        if to == node || !self.emulation.are_connected(node, to) {
            return Err(UsageError(format!("{{{server}}}: no path leads to {name} and back")));
        }
        if let Some(address) = self.address(to) {
            return Ok(address);
        }
        let address = self.gate.open(&[node], to, 0);
        let address =
            address.map_err(|error| UsageError(format!("{{{server}}}: loopback cannot be bound: {error}")))?;
        doors.insert((node, to), address);
        Ok(address)
    }

    /// Opens a door to each server of external clients, and prints its address.
    fn open_to_external(&mut self, assignment: &Assignment, nodes: &[NodeId]) -> anyhow::Result<()> {
        let mut members: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for node in nodes {
            for server in self.emulation.servers_of(*node) {
                members.entry(server).or_default().push(*node);
            }
        }
        if members.is_empty() {
            let nodes = &assignment.nodes;
            let problem =
                format!("--node {nodes}=external: no traffic leads from {nodes}; add [[traffic]] to a server");
            return Err(UsageError(problem).into());
        }
        for (server, members) in members {
            let address = self.gate.open(&members, server, self.plan.args.port);
            let address = address.map_err(|error| match self.plan.args.port {
                0 => UsageError(format!("loopback cannot be bound: {error}")),
                port => UsageError(format!(
                    "--port {port}: {error}; end the program that has the port, or write another --port, or none for a \
                     free one"
                )),
            })?;
            let (server, nodes) = (self.emulation.name(server).to_owned(), &assignment.nodes);
            self.doors.push((nodes.clone(), server.clone(), address));
            let server = server.as_str();
            if self.plan.global.json {
                json::print(&DoorLine { schema: 1, nodes, server, address })?;
            } else {
                let count = members.len();
                self.plan.print(format_args!("{nodes} ({count}): send to coap://{address}, which is {server}"))?;
            }
        }
        Ok(())
    }

    fn run(&mut self, handle: Handle, sender: Sender<Input>) -> anyhow::Result<(Clock, End)> {
        if !self.await_page() {
            return Ok((Clock::start(), End::Interrupted));
        }
        let limit = self.emulation.limit();
        self.bar = ProgressBar::with_draw_target(u64::try_from(limit.as_millis()).ok(), ProgressDrawTarget::hidden());
        let output = Output { to_stderr: self.plan.global.json, bar: self.bar.clone() };
        let mut processes =
            Processes::new(handle, sender, output, self.directory()).context("no shell can be started")?;
        let (servers, clients): (Vec<_>, Vec<_>) =
            (0..self.commands.len()).partition(|number| self.commands[*number].listens.is_some());
        for number in servers {
            self.commands[number].begin(&mut processes)?;
        }
        let clock = match self.await_servers()? {
            Some(end) => Ok((Clock::start(), end)),
            None => {
                for number in &clients {
                    self.commands[*number].start(&mut processes)?;
                }
                let starts = starts(clients, self.plan.args.stagger);
                self.run_until_end(Clock::start(), &mut processes, starts)
            }
        };
        processes.stop();
        let deadline = WallInstant::now() + STOP;
        while self.commands.iter().any(|of| of.process.is_some() && of.status.is_none()) {
            match self.inputs.recv_timeout(deadline.saturating_duration_since(WallInstant::now())) {
                Ok(Input::Ended(ended)) => drop(self.note_end(ended)),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.bar.finish_and_clear();
        clock
    }

    /// Waits for the live view, which would miss programs that end soon. Returns `false`
    /// after Ctrl-C.
    fn await_page(&self) -> bool {
        let Some(view) = self.view.as_ref().filter(|_| self.plan.has_commands()) else { return true };
        while !view.has_page() {
            match self.inputs.recv_timeout(PAGE) {
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
                // The network has not started: datagrams get lost, and unanswered controls are refused.
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
        true
    }

    /// Waits until the server programs listen.
    fn await_servers(&mut self) -> anyhow::Result<Option<End>> {
        let deadline = WallInstant::now() + START;
        let awaited: Vec<(NodeId, String, SocketAddr)> =
            self.commands.iter().filter_map(|of| Some((of.node, of.name.clone(), of.listens?))).collect();
        for (node, name, address) in awaited {
            while !self.is_ready(node, address).with_context(|| format!("{address} cannot be sent to"))? {
                while let Ok(input) = self.inputs.try_recv() {
                    match input {
                        Input::Stop => return Ok(Some(End::Interrupted)),
                        Input::Ended(ended) => {
                            if let Some(of) = self.note_end(ended) {
                                of.is_done = true;
                                let (node, status) = (of.name.clone(), of.status.unwrap_or_default());
                                return Err(anyhow::Error::from(ProgramFailed { node, status: status.max(1) })
                                    .context(format!("it was to listen at {address}")));
                            }
                        }
                        #[cfg(target_os = "linux")]
                        Input::Node(FromNode::Ready(node)) => {
                            self.commands.iter_mut().filter(|of| of.node == node).for_each(|of| of.is_ready = true);
                        }
                        #[cfg(target_os = "linux")]
                        Input::Node(FromNode::Packet { .. }) => {}
                        // An unanswered control is refused.
                        Input::Datagram(_) | Input::Control(_) => {}
                    }
                }
                if WallInstant::now() > deadline {
                    bail!("the program of {name} does not listen at {address}, its {{bind}}");
                }
            }
        }
        Ok(None)
    }

    fn is_ready(&self, node: NodeId, address: SocketAddr) -> io::Result<bool> {
        if self.address(node).is_none() {
            return is_listening(address);
        }
        let is_ready = self.commands.iter().any(|of| of.node == node && of.is_ready);
        if !is_ready {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(is_ready)
    }

    fn run_until_end(
        &mut self,
        mut clock: Clock,
        processes: &mut Processes,
        mut starts: Vec<(Instant, usize)>,
    ) -> anyhow::Result<(Clock, End)> {
        let limit = Instant::ZERO + self.emulation.limit();
        let has_clients = self.commands.iter().any(|of| of.listens.is_none());
        let is_awaited = !has_clients && !self.plan.assignments.iter().any(|of| of.program == Program::External);
        let mut ticked = Instant::ZERO;
        loop {
            let now = clock.now();
            if now >= limit {
                self.advance(&mut clock, limit)?;
                return Ok((clock, End::Time));
            }
            while let Some((_, number)) = starts.pop_if(|(at, _)| *at <= now) {
                self.commands[number].release(processes);
            }
            let next = self.emulation.next_time().unwrap_or(limit).min(limit).min(now + TICK);
            let next = starts.last().map_or(next, |(at, _)| next.min(*at));
            let first = match self.inputs.recv_timeout(next.max(now) - now) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok((clock, End::Programs)),
            };
            let (mut input, mut left) = (first, INPUTS);
            while let Some(one) = input {
                match one {
                    Input::Datagram(entering) => self.enter(&mut clock, entering)?,
                    #[cfg(target_os = "linux")]
                    Input::Node(input) => self.enter_packet(&mut clock, input)?,
                    Input::Control(request) => self.control(&mut clock, request, limit)?,
                    Input::Stop => return Ok((clock, End::Interrupted)),
                    Input::Ended(ended) => {
                        if let Some(of) = self.note_end(ended) {
                            of.is_done = !of.is_rebooting;
                            if of.is_rebooting {
                                of.begin(processes)?;
                            }
                        }
                        let clients = || self.commands.iter().filter(|of| of.listens.is_none());
                        if has_clients && clients().all(|of| of.is_done) {
                            return Ok((clock, End::Programs));
                        }
                    }
                }
                left -= 1;
                input = if left > 0 { self.inputs.try_recv().ok() } else { None };
            }
            let now = clock.now().min(limit);
            self.advance(&mut clock, now)?;
            for node in self.emulation.take_rebooted() {
                self.reboot(processes, node)?;
            }
            if self.view.as_ref().is_some_and(live::View::is_due) {
                self.show(&clock, live::State::Running)?;
            }
            if now > ticked + TICK {
                ticked = now;
                self.show_progress(now - Instant::ZERO);
                if is_awaited && self.emulation.are_clients_done() {
                    return Ok((clock, End::Clients));
                }
            }
        }
    }

    /// Changes links as a page asks.
    fn control(&mut self, clock: &mut Clock, request: live::Request, limit: Instant) -> anyhow::Result<()> {
        let live::Request { control, answer } = request;
        let outcome = match control {
            live::Control::Link(link) => {
                let now = clock.now().min(limit);
                self.advance(clock, now)?;
                let change = link.apply(&mut self.emulation);
                change.map(|change| self.live_changes.add(now - Instant::ZERO, change))
            }
            _ => Err(live::Refusal::Now("programs run on the wall clock: an emulation has no pause, step or speed")),
        };
        // The page has gone.
        let _ = answer.send(outcome);
        Ok(())
    }

    fn show(&mut self, clock: &Clock, state: live::State) -> anyhow::Result<()> {
        let Some(view) = &mut self.view else { return Ok(()) };
        let lateness_ms = clock.p99_ms();
        view.publish(&self.emulation, live::Progress { state, speed: Some(1.0), lateness_ms })
    }

    /// Starts the command of a node again, once its processes have ended.
    fn reboot(&mut self, processes: &mut Processes, node: NodeId) -> anyhow::Result<()> {
        for command in self.commands.iter_mut().filter(|of| of.node == node) {
            match (command.process, command.status) {
                (Some(number), None) => {
                    command.is_rebooting = true;
                    processes.kill(number);
                }
                _ => command.begin(processes)?,
            }
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn undelivered(&self) -> u64 {
        self.packets.as_ref().map_or(self.gate.undelivered, |packets| packets.undelivered)
    }

    /// Returns the directory of the namespaces.
    #[cfg(target_os = "linux")]
    fn directory(&self) -> Option<&Path> {
        self.packets.as_ref().map(PacketGate::directory)
    }

    #[cfg(not(target_os = "linux"))]
    fn directory(&self) -> Option<&Path> {
        None
    }

    #[cfg(not(target_os = "linux"))]
    fn undelivered(&self) -> u64 {
        self.gate.undelivered
    }

    /// Returns a node's address, if programs are in namespaces.
    #[cfg(target_os = "linux")]
    fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.packets.as_ref().map(|_| (packets::addresses(node).0, packets::PORT).into())
    }

    #[cfg(not(target_os = "linux"))]
    fn address(&self, _: NodeId) -> Option<SocketAddr> {
        None
    }

    #[cfg(target_os = "linux")]
    fn in_namespaces(&self, node: NodeId, is_server: bool, command: String) -> String {
        match &self.packets {
            Some(packets) => packets.command(node, is_server, &command),
            None => command,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn in_namespaces(&self, _: NodeId, _: bool, command: String) -> String {
        command
    }

    /// Sends a packet of a program in namespaces at the time of its arrival.
    #[cfg(target_os = "linux")]
    fn enter_packet(&mut self, clock: &mut Clock, input: FromNode) -> anyhow::Result<()> {
        if let FromNode::Packet { at, from, packet } = input {
            let at = clock.at(at);
            self.advance(clock, at)?;
            clock.happens(at);
            self.senders.insert(from);
            if let Some(packets) = &mut self.packets {
                packets.enter(&mut self.emulation, from, packet)?;
            }
        }
        Ok(())
    }

    fn hand_out(&mut self, arrived: &ArrivedAtProgram) {
        #[cfg(target_os = "linux")]
        if let Some(packets) = &mut self.packets {
            return packets.leave(arrived);
        }
        self.gate.leave(arrived.from, arrived.to, &arrived.bytes);
    }

    fn note_end(&mut self, Ended { number, status }: Ended) -> Option<&mut Command> {
        let command = self.commands.iter_mut().find(|of| of.process == Some(number))?;
        command.status = Some(status);
        Some(command)
    }

    /// Sends a datagram of a program at the time of its arrival.
    fn enter(&mut self, clock: &mut Clock, entering: Entering) -> anyhow::Result<()> {
        let Entering { at, entrance, source, bytes } = entering;
        let at = clock.at(at);
        self.advance(clock, at)?;
        clock.happens(at);
        match self.gate.enter(entrance, source) {
            Ok((from, to)) => {
                self.senders.insert(from);
                self.emulation.send(from, to, &bytes)?;
            }
            Err(DoorFull { server, node, nodes, source, is_new: true }) => show::note(format_args!(
                "{source} sends to {}, but each of its {nodes} nodes has another address already; make the group \
                 larger, as by {}",
                self.emulation.name(server),
                self.larger(node, nodes + 1)
            )),
            Err(_) => {}
        }
        for Concurrent { node, server, sources: [one, other] } in std::mem::take(&mut self.gate.concurrent) {
            show::note(format_args!(
                "{one} and {other} send to {} at the same time, but both are {}: replies reach the latest sender; give \
                 each a node, as by {}",
                self.emulation.name(server),
                shown(self.emulation.name(node)).0,
                self.larger(node, 2)
            ));
        }
        Ok(())
    }

    /// Returns the option that gives a node's group this size.
    fn larger(&self, node: NodeId, count: usize) -> String {
        let group = self.emulation.name(node).split('[').next().unwrap_or_default();
        let path = format!("nodes.{group}.count");
        match self.plan.cell.scenario.sweep.iter().find(|axis| axis.path.as_ref() == Some(&path)) {
            Some(axis) => format!("--set 'sweep.{}.values=[{count}]'", axis.name),
            None => format!("--set {path}={count}"),
        }
    }

    /// Returns a note for each group of client programs without a datagram.
    fn silent(&self) -> Result<Vec<String>, UsageError> {
        let mut notes = Vec::new();
        for Assignment { nodes, program } in self.plan.assignments.iter().filter(|of| !of.program.is_server()) {
            let all = self.emulation.nodes("--node", nodes).map_err(UsageError::of)?;
            if all.iter().any(|node| self.senders.contains(node)) {
                continue;
            }
            let servers: BTreeSet<NodeId> = all.iter().flat_map(|node| self.emulation.servers_of(*node)).collect();
            let mut addresses: Vec<String> = match program {
                Program::External => {
                    let own = self.doors.iter().filter(|(group, ..)| group == nodes);
                    own.map(|(_, server, address)| format!("coap://{address}, which is {server}")).collect()
                }
                _ => servers.into_iter().map(|server| format!("{{{}}}", self.emulation.name(server))).collect(),
            };
            addresses.truncate(MOST_NAMED);
            let advice = if addresses.is_empty() { "a placeholder of a server".into() } else { addresses.join(" or ") };
            notes.push(format!("no datagram of {nodes} entered the network; send to {advice}"));
        }
        Ok(notes)
    }

    /// Runs the events until `until`, and hands out arrivals.
    fn advance(&mut self, clock: &mut Clock, until: Instant) -> anyhow::Result<()> {
        while let Some(due) = self.emulation.next_time().filter(|due| *due <= until) {
            clock.happens(due);
            self.emulation.advance_to(due)?;
            while let Some(arrived) = self.emulation.take_arrived() {
                self.hand_out(&arrived);
            }
        }
        self.emulation.advance_to(until)?;
        Ok(())
    }

    fn show_progress(&self, elapsed: Duration) {
        if self.plan.global.quiet || elapsed < SHORT {
            return;
        }
        if self.bar.is_hidden() {
            let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed} elapsed, {msg}");
            self.bar.set_style(style.expect("a fixed template"));
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let running = self.commands.iter().filter(|of| of.process.is_some() && of.status.is_none()).count();
        self.bar.set_message(format!("{running} programs run"));
        self.bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
    }
}

impl Plan<'_> {
    fn has_commands(&self) -> bool {
        self.assignments.iter().any(|of| matches!(of.program, Program::Command(_)))
    }

    /// Returns whether the programs' packets pass NATs, and keep their addresses.
    fn has_unwritten_nats(&self) -> bool {
        self.args.gate != GateKind::Udp && !self.cell.scenario.nats.is_empty()
    }

    fn print(&self, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        use std::io::Write;
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }
}

/// Returns the start times of client programs, in reverse order.
fn starts(clients: Vec<usize>, stagger: Option<Duration>) -> Vec<(Instant, usize)> {
    let stagger = stagger.unwrap_or(if clients.len() > TOGETHER { STAGGER } else { Duration::ZERO });
    let start = |(place, number)| (Instant::ZERO + stagger.saturating_mul(place), number);
    let mut starts: Vec<_> = (0..).zip(clients).map(start).collect();
    starts.reverse();
    starts
}

/// Each program takes about five files. Without the permission, the usual limit stays.
fn allow_many_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Returns `client.3` and 3 for `client[3]`.
fn shown(name: &str) -> (String, usize) {
    let parts = name.strip_suffix(']').and_then(|name| name.split_once('['));
    match parts.and_then(|(group, index)| Some((group, index.parse::<usize>().ok()?))) {
        Some((group, index)) => (format!("{group}.{index}"), index),
        None => (name.to_owned(), 0),
    }
}

/// Returns whether the system accepts datagrams at a loopback address.
fn is_listening(address: SocketAddr) -> io::Result<bool> {
    // Nodes have other addresses, so it takes no port of theirs.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    if socket.local_addr()? == address {
        return Ok(false);
    }
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_millis(10)))?;
    for _ in 0..2 {
        // A refusal is an error of the next call.
        match socket.send(&PING).and_then(|_| socket.recv(&mut [0; 64])) {
            Ok(_) => return Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                thread::sleep(Duration::from_millis(10));
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_client_programs_start_one_after_another_unless_a_stagger_says_otherwise() {
        let last = |count: usize, stagger| starts((0..count).collect(), stagger).first().map(|(at, _)| *at);
        let after = |span| Some(Instant::ZERO + span);
        assert_eq!(last(TOGETHER, None), Some(Instant::ZERO));
        assert_eq!(last(100, None), after(99 * STAGGER));
        assert_eq!(last(100, Some(Duration::ZERO)), Some(Instant::ZERO));
        assert_eq!(last(2, Some(Duration::from_secs(5))), after(Duration::from_secs(5)));
        assert_eq!(last(3, Some(Duration::MAX)), after(Duration::MAX), "times saturate");
        assert_eq!(last(0, None), None);
    }
}
