//! `conche run --trace`: the packets of one run.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context;
use conche_lab::experiment::Experiment;
use conche_lab::scenario::Scenario;
use conche_lab::trial::SharedObserver;
use conche_netsim::pcapng::{Capture, PcapNg};
use conche_netsim::wired::Topology;

use crate::Global;
use crate::error::UsageError;
use crate::show;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// For Wireshark.
    Pcapng,
}

/// About 200 MB.
const MOST_RECORDS: u64 = 1_000_000;

#[derive(Debug, clap::Args)]
pub struct PacketTrace {
    /// Also write the packets of one run to DIR.
    ///
    /// DIR/trace.pcapng has at most a million records of the first replication of the first cell
    /// that --only selects. Results do not depend on it.
    #[arg(long, value_name = "FORMAT", requires = "output")]
    trace: Option<Format>,
    /// Trace only the packets of these nodes, as in client[3]; repeatable.
    #[arg(long, value_name = "NODES", requires = "trace")]
    trace_node: Vec<String>,
}

impl PacketTrace {
    /// Checks the nodes, before the results' directory is opened.
    pub fn check(&self, experiment: &Experiment) -> anyhow::Result<()> {
        experiment.document().cells().first().map_or(Ok(()), |cell| self.nodes(&cell.scenario).map(drop))
    }

    /// Returns the names of the chosen nodes.
    fn nodes(&self, scenario: &Scenario) -> anyhow::Result<BTreeSet<String>> {
        let mut chosen = BTreeSet::new();
        for nodes in &self.trace_node {
            chosen.extend(scenario.selected("--trace-node", nodes).map_err(UsageError::of)?);
        }
        Ok(chosen)
    }

    /// Runs the experiment's first run, and writes its packets.
    pub fn write(&self, experiment: &Experiment, directory: &Path, global: &Global) -> anyhow::Result<()> {
        let Some(Format::Pcapng) = self.trace else { return Ok(()) };
        let Some(cell) = experiment.document().cells().first() else { return Ok(()) };
        let chosen = self.nodes(&cell.scenario)?;
        let path = directory.join("trace.pcapng");
        let file = File::create(&path)
            .map_err(|error| UsageError(format!("{} cannot be written: {error}", path.display())))?;
        let mut begun = None;
        let mut observer = |topology: &Topology| -> SharedObserver {
            let nodes = topology.nodes().filter(|(_, name)| chosen.contains(*name)).map(|(node, _)| node).collect();
            let capture = file.try_clone().and_then(|file| {
                let capture = PcapNg::new(BufWriter::new(file), topology, Capture::Senders)?.at_most(MOST_RECORDS);
                Ok(Rc::new(RefCell::new(if self.trace_node.is_empty() { capture } else { capture.only(nodes) })))
            });
            let shared: SharedObserver = match &capture {
                Ok(capture) => Rc::<RefCell<PcapNg<BufWriter<File>>>>::clone(capture),
                Err(_) => Rc::new(RefCell::new(())),
            };
            begun = Some(capture);
            shared
        };
        let Some(run) = experiment.trace(&mut observer) else { return Ok(()) };
        let unwritten = || format!("{} cannot be written", path.display());
        // The run has released its own reference.
        let capture = begun.transpose().with_context(unwritten)?.and_then(Rc::into_inner).map(RefCell::into_inner);
        let Some(capture) = capture else { return Ok(()) };
        let (records, omitted) = capture.records();
        capture.finish().with_context(unwritten)?;
        if !global.quiet {
            let omitted = if omitted > 0 { format!("; {omitted} more are left out") } else { String::new() };
            let (name, path) = (experiment.name(), path.display());
            show::note(format_args!("{name}: {path} has {records} records of {run}{omitted}"));
        }
        Ok(())
    }
}
