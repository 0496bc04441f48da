//! The simulation of a network by `conche run`, for comparison with its emulation.

use std::fs;
use std::path::Path;
use std::process::{self, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tool_support::{capture, peers};

use crate::exchange::{self, Exchange};
use crate::network::Network;

#[derive(Debug)]
pub struct Simulated {
    pub completion_p50_s: f64,
    pub completion_p95_s: f64,
    pub exchanges: Vec<Exchange>,
}

#[derive(Deserialize)]
struct Value {
    column: String,
    measured: f64,
}

/// Runs one replication with RFC 7252's default controller, and writes it into a directory.
pub fn run(root: &Path, conche: &Path, network: Network, seed: u32, directory: &Path) -> Result<Simulated> {
    let _ = fs::remove_dir_all(directory);
    let mut command = process::Command::new(conche);
    command.args(["run", &network.file(), "--json", "--quiet", "--seed", &seed.to_string()]);
    // The sizes of the emulation: conche's program has tokens of 8 bytes, and the simulated server fills
    // its responses up to 66 bytes for tokens of 4.
    command.args(["--set", "endpoint.token_length=8", "--set", "traffic.gets.response=70B"]);
    command.args(["--trace", "pcapng", "-o"]).arg(directory);
    peers::without_settings(&mut command);
    let output = command.current_dir(root).stdin(Stdio::null()).output().context("cannot start conche")?;
    if !output.status.success() {
        bail!("conche run ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let values: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let value = |column: &str| {
        let value = values.iter().find(|value| value.column == column);
        value.map(|value| value.measured).with_context(|| format!("conche run printed no {column}"))
    };
    let datagrams = capture::read(&directory.join("trace.pcapng"))?;
    Ok(Simulated {
        completion_p50_s: value("completion_p50_s")?,
        completion_p95_s: value("completion_p95_s")?,
        exchanges: exchange::exchanges(&datagrams),
    })
}
