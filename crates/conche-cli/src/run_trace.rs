//! `conche run --trace`: the packets, or the endpoints' event log, of one run.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::rc::Rc;

use anyhow::Context;
use conche::watch::{DropReason, EventLog, EventLogWriter, Fact, LoggedEvent};
use conche::{Ecn, PeerSnapshot};
use conche_lab::experiment::Experiment;
use conche_lab::scenario::Scenario;
use conche_lab::trial::Trace;
use conche_netsim::node::{Monitor, ReceivedMessage};
use conche_netsim::pcapng::{Capture, PcapNg};
use conche_netsim::wired::{Addresses, Topology};
use conche_netsim::{Event, Instant, NodeId, Transmit};

use crate::Global;
use crate::error::UsageError;
use crate::show;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// Packets for Wireshark, in DIR/trace.pcapng.
    Pcapng,
    /// Messages and congestion state of the endpoints, in DIR/trace.sqlog, as --event-log.
    Qlog,
}

/// About 200 MB of packets, or 400 MB of events.
const MOST_RECORDS: u64 = 1_000_000;

#[derive(Debug, clap::Args)]
pub struct RunTrace {
    /// Also write a trace of one run to DIR.
    ///
    /// The file has at most a million records of the first replication of the first cell that
    /// --only selects. Results do not depend on it.
    #[arg(long, value_name = "FORMAT", requires = "output")]
    trace: Option<Format>,
    /// Trace only these nodes, as in client[3]; repeatable.
    #[arg(long, value_name = "NODES", requires = "trace")]
    trace_node: Vec<String>,
}

impl RunTrace {
    /// Checks the nodes, before the results' directory is opened.
    pub fn check(&self, experiment: &Experiment) -> anyhow::Result<()> {
        experiment.document().cells().first().map_or(Ok(()), |cell| self.nodes(&cell.scenario).map(drop))
    }

    fn nodes(&self, scenario: &Scenario) -> anyhow::Result<BTreeSet<String>> {
        let mut chosen = BTreeSet::new();
        for nodes in &self.trace_node {
            chosen.extend(scenario.selected("--trace-node", nodes).map_err(UsageError::of)?);
        }
        Ok(chosen)
    }

    /// Runs the experiment's first run, and writes its trace.
    pub fn write(&self, experiment: &Experiment, directory: &Path, global: &Global) -> anyhow::Result<()> {
        let Some(format) = self.trace else { return Ok(()) };
        let Some(cell) = experiment.document().cells().first() else { return Ok(()) };
        let chosen = self.nodes(&cell.scenario)?;
        let is_chosen = |name: &str| self.trace_node.is_empty() || chosen.contains(name);
        let path = directory.join(match format {
            Format::Pcapng => "trace.pcapng",
            Format::Qlog => "trace.sqlog",
        });
        let file = File::create(&path)
            .map_err(|error| UsageError(format!("{} cannot be written: {error}", path.display())))?;
        let traced = match format {
            Format::Pcapng => packets(experiment, &file, self.trace_node.is_empty(), &is_chosen),
            Format::Qlog => events(experiment, &file, &is_chosen),
        };
        let Some(Traced { run, records, omitted }) =
            traced.with_context(|| format!("{} cannot be written", path.display()))?
        else {
            return Ok(());
        };
        if !global.quiet {
            let omitted = if omitted > 0 { format!("; {omitted} more are left out") } else { String::new() };
            let (name, path) = (experiment.name(), path.display());
            show::note(format_args!("{name}: {path} has {records} records of {run}{omitted}"));
        }
        Ok(())
    }
}

struct Traced {
    run: String,
    records: u64,
    omitted: u64,
}

fn packets(
    experiment: &Experiment,
    file: &File,
    are_all: bool,
    is_chosen: &dyn Fn(&str) -> bool,
) -> io::Result<Option<Traced>> {
    let mut begun = None;
    let run = experiment.trace(&mut |topology: &Topology| {
        let nodes = topology.nodes().filter(|(_, name)| is_chosen(name)).map(|(node, _)| node).collect();
        let capture = file.try_clone().and_then(|file| {
            let capture = PcapNg::new(BufWriter::new(file), topology, Capture::Senders)?.at_most(MOST_RECORDS);
            Ok(Rc::new(RefCell::new(if are_all { capture } else { capture.only(nodes) })))
        });
        let trace = capture.as_ref().map_or_else(
            |_| Trace::Packets(Rc::new(RefCell::new(()))),
            |capture| Trace::Packets(Rc::<RefCell<PcapNg<BufWriter<File>>>>::clone(capture)),
        );
        begun = Some(capture);
        trace
    });
    let Some((run, capture)) = run.zip(sole(begun.transpose()?)) else { return Ok(None) };
    let (records, omitted) = capture.records();
    capture.finish()?;
    Ok(Some(Traced { run, records, omitted }))
}

fn events(experiment: &Experiment, file: &File, is_chosen: &dyn Fn(&str) -> bool) -> io::Result<Option<Traced>> {
    let mut log = Some(EventLog::simulation().title(experiment.name()).virtual_time(file.try_clone()?)?);
    let mut begun = None;
    let run = experiment.trace(&mut |topology: &Topology| {
        let name = |(_, name): (NodeId, &str)| Node { name: name.into(), is_chosen: is_chosen(name) };
        let (nodes, addresses) = (topology.nodes().map(name).collect(), topology.addresses());
        let events = Events { log: log.take(), nodes, addresses, records: 0, omitted: 0, failed: None };
        let events = Rc::new(RefCell::new(events));
        begun = Some(Rc::clone(&events));
        Trace::Endpoints(events)
    });
    let Some((run, Events { log, records, omitted, failed, .. })) = run.zip(sole(begun)) else { return Ok(None) };
    failed.map_or(Ok(()), Err)?;
    log.map(EventLogWriter::finish).transpose()?;
    Ok(Some(Traced { run, records, omitted }))
}

/// Unwraps an observer: the run has released its own reference.
fn sole<T>(observer: Option<Rc<RefCell<T>>>) -> Option<T> {
    observer.and_then(Rc::into_inner).map(RefCell::into_inner)
}

struct Events {
    log: Option<EventLogWriter<File, String>>,
    nodes: Vec<Node>,
    addresses: Addresses,
    records: u64,
    omitted: u64,
    failed: Option<io::Error>,
}

struct Node {
    name: String,
    is_chosen: bool,
}

impl Events {
    fn write(&mut self, now: Instant, node: NodeId, peer: NodeId, fact: Fact, datagram: &[u8]) {
        let Some(endpoint) = self.nodes.get(node.index()).filter(|node| node.is_chosen) else { return };
        let Some(log) = self.log.as_mut().filter(|_| self.failed.is_none()) else { return };
        if self.records == MOST_RECORDS {
            self.omitted += 1;
            return;
        }
        let name = |of: NodeId| self.nodes.get(of.index()).map_or("everyone", |node| &node.name);
        let peer = match self.addresses.port(peer) {
            None => name(peer).to_owned(),
            Some(port) => {
                format!("{} at {}:{port}", name(self.addresses.node(peer)), name(self.addresses.host(peer)))
            }
        };
        let at = now - Instant::ZERO;
        let event = LoggedEvent { at, endpoint: &endpoint.name, local: None, peer: &peer, fact, datagram };
        match log.write(&event) {
            Ok(is_written) => self.records += u64::from(is_written),
            Err(error) => self.failed = Some(error),
        }
    }

    fn path(&mut self, now: Instant, node: NodeId, peer: NodeId, path: Option<PeerSnapshot>) {
        if let Some(path) = path {
            self.write(now, node, peer, Fact::Path(path), &[]);
        }
    }
}

impl Monitor for Events {
    fn sent(
        &mut self,
        now: Instant,
        node: NodeId,
        transmit: &Transmit<NodeId>,
        message: &[u8],
        path: Option<PeerSnapshot>,
    ) {
        let Transmit { to, attempt, exchange, ecn, .. } = *transmit;
        let exchange = exchange.map(|exchange| exchange.as_u64());
        self.write(now, node, to, Fact::Sent { attempt, exchange, ecn }, message);
        self.path(now, node, to, path);
    }

    fn received(&mut self, now: Instant, node: NodeId, received: &ReceivedMessage<'_>) {
        let ReceivedMessage { from, message, before, after, path } = *received;
        self.write(now, node, from, Fact::Received { multicast: false, ecn: Ecn::NotCapable }, message);
        if let Some(reason) = DropReason::between(before, after) {
            self.write(now, node, from, Fact::Dropped { reason }, message);
        }
        self.path(now, node, from, path);
    }

    fn event(&mut self, now: Instant, node: NodeId, event: &Event<NodeId>) {
        if let Some((peer, fact)) = Fact::of_event(event) {
            self.write(now, node, peer, fact, &[]);
        }
    }
}
