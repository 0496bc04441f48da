//! A relay on the loopback that keeps every datagram which passes it, and can lose some.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::ladder::{Direction, Line};

/// How long a thread waits for a datagram before it looks whether the tap is closed.
const STEP: Duration = Duration::from_millis(100);

/// A datagram that came by.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Which way it went.
    pub direction: Direction,
    /// It was not passed on.
    pub lost: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A relay between clients and one server. It ends when it is dropped.
pub struct Tap {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    record: Mutex<Record>,
    changed: Condvar,
    closed: AtomicBool,
}

#[derive(Default)]
struct Record {
    captured: Vec<Captured>,
    /// How many came by before the step that is being taken.
    earlier: usize,
    /// The first datagram that fits one of them is lost, and uses it up.
    to_lose: Vec<Line>,
}

impl Tap {
    /// Relays what comes to a free port to `server`.
    pub fn open(server: SocketAddr) -> io::Result<Self> {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        front.set_read_timeout(Some(STEP))?;
        let address = front.local_addr()?;
        let shared =
            Arc::new(Shared { record: Mutex::default(), changed: Condvar::new(), closed: AtomicBool::new(false) });
        let relaying = shared.clone();
        thread::spawn(move || relaying.relay(&Arc::new(front), server));
        Ok(Self { address, shared })
    }

    /// Where clients reach the server through it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins a step, in which the first datagrams that fit these lines are lost.
    pub fn begin(&self, to_lose: Vec<Line>) {
        let mut record = self.shared.locked();
        record.earlier = record.captured.len();
        record.to_lose = to_lose;
    }

    /// What came by in this step.
    pub fn captured(&self) -> Vec<Captured> {
        self.shared.locked().of_step().to_vec()
    }

    /// What came by in all steps.
    pub fn everything(&self) -> Vec<Captured> {
        self.shared.locked().captured.clone()
    }

    /// Waits until what came by in this step is as `wanted` has it; false if it is not when the time is over.
    pub fn wait(&self, until: Instant, mut wanted: impl FnMut(&[Captured]) -> bool) -> bool {
        let mut record = self.shared.locked();
        loop {
            if wanted(record.of_step()) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(record, left.min(STEP));
            (record, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Record {
    fn of_step(&self) -> &[Captured] {
        self.captured.get(self.earlier..).unwrap_or_default()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the datagram may go on.
    fn passes(&self, direction: Direction, bytes: &[u8]) -> bool {
        let mut record = self.locked();
        let captured = Captured { direction, lost: true, bytes: bytes.to_vec() };
        let fits = record.to_lose.iter().position(|line| line.fits(&captured, record.of_step()));
        let lost = fits.map(|at| record.to_lose.remove(at)).is_some();
        record.captured.push(Captured { lost, ..captured });
        self.changed.notify_all();
        !lost
    }

    /// From clients to the server. Each client gets a socket of its own, so that the server can tell them apart.
    fn relay(self: Arc<Self>, front: &Arc<UdpSocket>, server: SocketAddr) {
        let mut buffer = vec![0; 65536];
        let mut backs = HashMap::<SocketAddr, Arc<UdpSocket>>::new();
        while !self.closed.load(Ordering::Relaxed) {
            // The loopback reports ports that nobody listens on any more as errors; whoever is left goes on.
            let Ok((length, client)) = front.recv_from(&mut buffer) else { continue };
            let back = match backs.get(&client) {
                Some(back) => back.clone(),
                None => match self.clone().open_back(front.clone(), client, server) {
                    Ok(back) => backs.entry(client).or_insert(back).clone(),
                    Err(_) => continue,
                },
            };
            if self.passes(Direction::ToServer, &buffer[..length]) {
                let _ = back.send(&buffer[..length]);
            }
        }
    }

    /// A socket to the server for one client, with a thread that takes what comes back to that client.
    fn open_back(
        self: Arc<Self>,
        front: Arc<UdpSocket>,
        client: SocketAddr,
        server: SocketAddr,
    ) -> io::Result<Arc<UdpSocket>> {
        let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        back.set_read_timeout(Some(STEP))?;
        back.connect(server)?;
        let back = Arc::new(back);
        let receiving = back.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while !self.closed.load(Ordering::Relaxed) {
                let Ok(length) = receiving.recv(&mut buffer) else { continue };
                if self.passes(Direction::ToClient, &buffer[..length]) {
                    let _ = front.send_to(&buffer[..length], client);
                }
            }
        });
        Ok(back)
    }
}
