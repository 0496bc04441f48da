//! `conche emulate-node`: the first process in the namespaces of a program.
//!
//! It gives the `tun` device the node's addresses, starts the program, and passes packets between
//! the device and the gate.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;
use tun_rs::DeviceBuilder;

use super::packets::framed;
use crate::runtime;

const DEVICE: &str = "sim0";

/// Ethernet's, so that programs need no other.
const MTU: u16 = 1500;

const LARGEST_PACKET: usize = 65_535;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Report when the program listens.
    #[arg(long)]
    server: bool,
    /// Number of the node.
    node: u32,
    /// Directory with the gate's socket, and the file of hosts.
    directory: PathBuf,
    /// Command of the program.
    command: String,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = runtime::start()?;
    let status = runtime::run(&runtime, serve(args))?;
    // Ends all processes of the namespace.
    std::process::exit(status);
}

async fn serve(args: &Args) -> anyhow::Result<i32> {
    let device = DeviceBuilder::new().name(DEVICE).mtu(MTU).build_async().context("the device cannot be made")?;
    let (v4, v6) = super::packets::addresses_of(args.node);
    let hosts = args.directory.join("hosts");
    let hosts = hosts.to_string_lossy();
    for command in [
        "ip link set lo up",
        &format!("ip address add {v4}/32 dev {DEVICE}"),
        &format!("ip link set {DEVICE} up"),
        &format!("ip route add default dev {DEVICE}"),
    ] {
        system(command).await?;
    }
    // A system without IPv6 has only the others.
    if system(&format!("ip -6 address add {v6}/128 dev {DEVICE} nodad")).await.is_ok() {
        system(&format!("ip -6 route add default dev {DEVICE}")).await?;
    }
    system(&format!("mount --bind {hosts} /etc/hosts")).await?;
    let gate = UnixStream::connect(args.directory.join("gate")).await.context("the gate cannot be reached")?;
    let (mut packets, mut sink) = gate.into_split();
    sink.write_u32(args.node).await?;
    let mut program = Command::new("/bin/sh").args(["-c", &args.command]).spawn()?;
    let mut is_awaited = args.server;
    let mut buffer = vec![0; LARGEST_PACKET];
    let mut timer = tokio::time::interval(Duration::from_millis(20));
    let from_gate = async {
        loop {
            let length = packets.read_u16().await?;
            let mut packet = vec![0; length.into()];
            packets.read_exact(&mut packet).await?;
            // The kernel may refuse a packet, as a router would.
            let _ = device.send(&packet).await;
        }
    };
    let from_program = async {
        loop {
            tokio::select! {
                received = device.recv(&mut buffer) => {
                    let packet = buffer.get(..received?).unwrap_or_default();
                    sink.write_all(&framed(packet)).await?;
                }
                _ = timer.tick(), if is_awaited => {
                    if is_listening() {
                        is_awaited = false;
                        sink.write_all(&framed(&[])).await?;
                    }
                }
            }
        }
    };
    let failed: std::io::Result<()> = tokio::select! {
        status = program.wait() => {
            use std::os::unix::process::ExitStatusExt;
            let status = status?;
            return Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1));
        }
        failed = from_gate => failed,
        failed = from_program => failed,
    };
    failed.context("the gate is closed").map(|()| 1)
}

async fn system(line: &str) -> anyhow::Result<()> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    let output = command.args(words).stdin(Stdio::null()).output().await.with_context(|| line.to_owned())?;
    if !output.status.success() {
        bail!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Returns whether a process of the namespace has a socket with a port.
fn is_listening() -> bool {
    let has_sockets = |table: &str| {
        // The first line names the columns.
        std::fs::read_to_string(format!("/proc/net/{table}")).is_ok_and(|text| text.lines().count() > 1)
    };
    ["udp", "udp6", "tcp", "tcp6"].into_iter().any(has_sockets)
}
