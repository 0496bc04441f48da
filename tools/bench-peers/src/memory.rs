//! Memory of servers per known peer and per open session.

use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::load::Load;
use crate::machine::{self, CLIENT_CORE};
use crate::measure::{self, Extent};
use crate::peer::Peer;
use crate::server::Server;
use crate::setup::{self, Setup};

/// Number of open DTLS sessions.
pub const SESSIONS: u32 = 2000;

/// Peers per group: more would overflow a server's socket buffer.
const AT_ONCE: u32 = 200;

/// Loopback address; each group has its own.
const FIRST_GROUP: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// Idle time of sessions, and the window before its end for reading memory.
const IDLE: Duration = Duration::from_secs(4);
const READ_BEFORE_END: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(3000)];

const PERIOD: Duration = Duration::from_millis(250);

pub struct MemoryUse {
    pub count: f64,
    pub bytes_each: f64,
}

/// Sends one request from each of many peers, within a time limit: some servers slow down with
/// their number.
pub fn peers(setup: &Setup<'_>, server: &Server, extent: Extent) -> Result<MemoryUse> {
    let before = machine::resident(server.id())?;
    let deadline = Instant::now() + Duration::from_secs_f64(extent.introducing);
    let (each, mut answered) = (AT_ONCE.to_string(), 0);
    for group in 0..extent.known.div_ceil(AT_ONCE) {
        if Instant::now() > deadline {
            break;
        }
        // Separate addresses: no two peers share a port.
        let from = Ipv4Addr::from_bits(FIRST_GROUP.to_bits() + group).to_string();
        // A late peer is not counted and does not delay the others.
        let arguments = ["--endpoints", &each, "--requests", &each, "--bind", &from, "--timeout", "10s"];
        answered += measure::generate(setup, server, Load::Known, &arguments, 0.0)?.0.answered;
    }
    let count = answered.max(1) as f64;
    Ok(MemoryUse { count, bytes_each: (machine::resident(server.id())? - before) / count })
}

/// Opens sessions and leaves them idle, except for ten requests per second over all of them.
pub fn sessions(setup: &Setup<'_>, server: &Server) -> Result<MemoryUse> {
    let before = used(setup, server)?;
    let (endpoints, duration) = (SESSIONS.to_string(), format!("{}s", IDLE.as_secs()));
    let arguments = ["--endpoints", &endpoints, "--rate", "10", "--duration", &duration];
    let mut load = measure::generator(setup, server, Load::Handshakes, &arguments)?;
    let mut read = Vec::new();
    while load.0.try_wait()?.is_none() {
        std::thread::sleep(PERIOD);
        read.push((Instant::now(), used(setup, server)?));
    }
    let (report, ended) = (measure::report(&mut load)?, Instant::now());
    let is_idle = |at: &Instant| {
        let [least, most] = READ_BEFORE_END;
        (least..most).contains(&ended.duration_since(*at))
    };
    let (_, after) = read.into_iter().rfind(|(at, _)| is_idle(at)).context("no memory was read in time")?;
    match report.sessions() {
        count if count < u64::from(SESSIONS) => bail!("of {SESSIONS} sessions {count} are open"),
        count => Ok(MemoryUse { count: count as f64, bytes_each: (after - before) / count as f64 }),
    }
}

/// Bytes of memory: resident or, with a garbage collector, live in the heap.
fn used(setup: &Setup<'_>, server: &Server) -> Result<f64> {
    if server.peer != Peer::Californium {
        return machine::resident(server.id());
    }
    let asked = [server.id().to_string(), "GC.class_histogram".to_owned()];
    let outputs = [Stdio::piped(), setup.errors("jcmd")?.into()];
    let output = setup::start(&["jcmd".to_owned()], CLIENT_CORE, &asked, outputs)?.wait_with_output()?;
    alive(&String::from_utf8_lossy(&output.stdout))
        .context("jcmd does not say how many bytes are alive; its log in target/bench-peers may")
}

fn alive(histogram: &str) -> Option<f64> {
    let total = histogram.lines().rev().find_map(|line| line.trim().strip_prefix("Total"))?;
    total.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_bytes_are_read_from_the_total_of_a_histogram() {
        let histogram = "1234:\n num     #instances         #bytes  class name (module)\n\
            -------------------------------------------------------\n   1:         23144        1986400  [B (java.base@17.0.18)\n\
            Total        100871        6049640\n";
        assert_eq!(alive(histogram), Some(6_049_640.0));
        assert_eq!(alive("1234:\njava.io.IOException: no such process"), None);
    }
}
