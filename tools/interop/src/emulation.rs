//! [`Emulation`]: a client and a server as programs of `conche emulate`, each in a network
//! namespace.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tool_support::capture;
use tool_support::emulate::quoted;
use tool_support::peers::Process;

use crate::endpoint::{Client, Peer, Protection, Role};
use crate::ladder::Direction;
use crate::mode::{Mode, Network};
use crate::setup::Setup;
use crate::tap::Captured;

const PORT: u16 = 5683;

/// Maximum time between the end of the client and the end of the emulation.
const END: Duration = Duration::from_secs(10);

/// Limits concurrent emulations.
#[derive(Debug)]
pub struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Freed on drop.
pub struct Slot<'a>(&'a Slots);

impl Slots {
    pub fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for a free slot.
    pub fn take(&self) -> Slot<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.freed.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

pub struct Emulation {
    pub client: Client,
    network: Network,
    directory: PathBuf,
}

/// The datagrams between client and server, in the order in which they were sent.
pub struct Seen {
    pub captured: Vec<Captured>,
    /// From the first to the last.
    pub span: Duration,
}

impl Emulation {
    /// Starts the client once the server listens. `name` names the directory of the run.
    pub fn start(client: Peer, server: Peer, mode: Mode, network: Network, name: &str, setup: &Setup) -> Result<Self> {
        let directory = setup.emulation(name)?;
        let file = |name: &str| directory.join(name);
        let (input, output) = (file("input"), file("output"));
        let made = Command::new("mkfifo").arg(&input).arg(&output).status().context("cannot start mkfifo")?;
        if !made.success() {
            bail!("mkfifo ended with {made}");
        }
        let protection = Protection { mode, credentials: Path::new("") };
        let mut emulate = setup.conche();
        emulate.args(["emulate", network.scenario, "--gate", "namespaces", "--json", "--quiet"]);
        // The times of a case are far longer than the lateness of a busy machine.
        emulate.args(["--max-lateness", "1h", "--pcapng"]).arg(file("capture.pcapng"));
        let address = Self::server(network);
        let path = |path: &Path| quoted(&path.to_string_lossy());
        for (part, peer, place) in [(Role::Server, server, network.server), (Role::Client, client, network.client)] {
            let program = setup.program(peer, part, protection, address);
            let words: Vec<_> = std::iter::once(program.get_program()).chain(program.get_args()).collect();
            let words: Vec<_> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
            // The placeholder marks a server.
            let (before, behind) = match part {
                Role::Server => (": {bind};", String::new()),
                Role::Client => ("", format!("<{} >{}", path(&input), path(&output))),
            };
            emulate.arg("--node").arg(format!("{}={before} exec {} {behind}", place.node, words.join(" ")));
            emulate.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        }
        let (report, errors) = (file("report.json"), file("errors.txt"));
        let create = |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        emulate.stdin(Stdio::null()).stdout(create(&report)?).stderr(create(&errors)?);
        let process = Process(emulate.spawn().context("cannot start conche emulate")?);
        // These wait until the client has opened them.
        let open_input = move || File::options().write(true).open(input);
        let client = Client::of(process, mode.scheme(), open_input, move || File::open(output));
        Ok(Self { client, network, directory })
    }

    /// Returns the server's address.
    pub fn server(network: Network) -> SocketAddr {
        SocketAddr::from((network.server.address(), PORT))
    }

    /// Ends the client, and so the emulation.
    pub fn finish(self) -> Result<Seen> {
        let Self { client, network, directory } = self;
        client.finish(END);
        let (from, to) = (network.client.in_captures(), network.server.in_captures());
        let datagrams = capture::read(&directory.join("capture.pcapng"))?;
        let (dropped, sent): (Vec<_>, Vec<_>) = datagrams
            .into_iter()
            .filter(|datagram| [(from, to), (to, from)].contains(&(datagram.from, datagram.to)))
            .partition(|datagram| datagram.is_dropped);
        let times = || sent.iter().map(|datagram| datagram.at_ns);
        let span = times().max().unwrap_or_default() - times().min().unwrap_or_default();
        let span = Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
        let captured = sent.iter().map(|datagram| Captured {
            direction: if datagram.from == from { Direction::ToServer } else { Direction::ToClient },
            lost: dropped.iter().any(|lost| (lost.from, lost.number) == (datagram.from, datagram.number)),
            bytes: datagram.payload.clone(),
        });
        Ok(Seen { captured: captured.collect(), span })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn no_more_than_the_slots_are_taken_at_a_time() {
        let (slots, taken, most) = (Slots::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _slot = slots.take();
                    most.fetch_max(taken.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    taken.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
    }
}
