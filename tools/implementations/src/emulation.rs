//! Runs `conche emulate` for a stack's clients on a network, and keeps its report, the lines of the
//! clients, and the capture file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tool_support::capture::{self, Datagram};
use tool_support::emulate::quoted;
use tool_support::peers;

use crate::network::Network;
use crate::stack::Stack;

/// Seconds from the start of the programs until their first request, so that all are ready.
pub const SETTLE_S: f64 = 12.0;

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub stack: Stack,
    pub network: Network,
    pub seed: u32,
    /// Command line without the common arguments, and the argument after them.
    pub program: (Vec<String>, Option<&'static str>),
}

impl Plan {
    /// Name of its directory.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.stack.word(), self.network.word(), self.seed)
    }
}

/// Part of the report of `conche emulate`.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    pub is_valid: bool,
    pub lateness: Lateness,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Lateness {
    pub p99_ms: f64,
}

/// An exchange, as the client program reports it. Times are in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Line {
    pub start: f64,
    pub end: f64,
    pub answered: bool,
}

#[derive(Debug)]
pub struct Emulated {
    pub report: Report,
    /// Of each client.
    pub lines: Vec<Vec<Line>>,
    pub datagrams: Vec<Datagram>,
}

/// `conche emulate` in a checkout.
#[derive(Debug)]
pub struct Emulator {
    pub root: PathBuf,
    pub conche: PathBuf,
    /// Directory of the runs.
    pub runs: PathBuf,
    /// As in `--max-lateness`.
    pub max_lateness: String,
}

impl Emulator {
    /// Returns a run that is complete on disk.
    pub fn kept(&self, plan: &Plan) -> Option<Emulated> {
        read(&self.runs.join(plan.name()), plan.network).ok()
    }

    pub fn run(&self, plan: &Plan) -> Result<Emulated> {
        let directory = self.runs.join(plan.name());
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let (program, control) = &plan.program;
        let (network, start) = (plan.network, since.as_secs_f64() + SETTLE_S);
        let numbers = format!("{} 0 {start:.3}", network.exchanges());
        let program: Vec<String> = program.iter().map(|part| quoted(part)).collect();
        let mut command = process::Command::new(&self.conche);
        command.args(["emulate", &network.file(), "--json", "--quiet", "--seed", &plan.seed.to_string()]);
        command.args(["--max-lateness", &self.max_lateness, "--pcapng"]).arg(directory.join("capture.pcapng"));
        command.arg("--node").arg(format!(
            "client=exec {} {{server.host}} {{server.port}} {numbers} {}",
            program.join(" "),
            control.unwrap_or_default()
        ));
        peers::without_settings(&mut command);
        let output = command.current_dir(&self.root).stdin(Stdio::null()).output().context("cannot start conche")?;
        let write = |name: &str, bytes: &[u8]| {
            let path = directory.join(name);
            fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
        };
        write("clients.txt", &output.stderr)?;
        write("report.json", &output.stdout)?;
        read(&directory, network).with_context(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("conche emulate ended with {}: {}", output.status, errors.lines().last().unwrap_or_default())
        })
    }
}

fn read(directory: &Path, network: Network) -> Result<Emulated> {
    let text = |name: &str| {
        let path = directory.join(name);
        fs::read(&path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .with_context(|| format!("cannot read {}", path.display()))
    };
    let reports = text("report.json")?;
    let Some(report) = reports.lines().find_map(|line| serde_json::from_str(line).ok()) else {
        bail!("{} has no report", directory.display());
    };
    let lines = lines(&text("clients.txt")?, network.clients());
    Ok(Emulated { report, lines, datagrams: capture::read(&directory.join("capture.pcapng"))? })
}

/// Returns the exchanges of each client, from lines such as `client.3 | {"start": …}`.
fn lines(output: &str, clients: usize) -> Vec<Vec<Line>> {
    let mut of_clients = vec![Vec::new(); clients];
    for line in output.lines() {
        let Some((node, line)) = line.split_once('|') else { continue };
        let client = node.trim().strip_prefix("client.").and_then(|index| index.parse::<usize>().ok());
        let (Some(lines), Ok(line)) =
            (client.and_then(|client| of_clients.get_mut(client)), serde_json::from_str(line))
        else {
            continue;
        };
        lines.push(line);
    }
    of_clients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_clients_are_found_among_their_messages() {
        let output = "client.1 | {\"start\": 1.5, \"end\": 2.5, \"answered\": true}\nclient.0 | no reply\n\
                      client.0 | {\"start\": 1, \"end\": 94, \"answered\": false}\n{\"error\": \"late\"}\n";
        let line = |start, end, answered| Line { start, end, answered };
        let expected = [vec![line(1.0, 94.0, false)], vec![line(1.5, 2.5, true)], vec![]];
        assert_eq!(lines(output, 3), expected);
    }
}
