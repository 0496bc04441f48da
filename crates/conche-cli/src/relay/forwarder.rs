//! [`Relay`]: forwards datagrams between clients and one upstream with losses and delays.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use conche_netsim::rng::{Entity, Purpose, Streams};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Impairment;
use super::impairment::Direction;

/// Impairments of a relay.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelayConfig {
    /// From clients to the upstream.
    pub to_upstream: Impairment,
    /// From the upstream to clients.
    pub to_client: Impairment,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// A datagram that a relay receives or forwards.
#[derive(Clone, Copy, Debug)]
pub struct RelayedDatagram<'a> {
    /// The relay's socket.
    pub socket: SocketAddr,
    /// The client or the upstream.
    pub peer: SocketAddr,
    /// It was received; otherwise it is forwarded. A lost datagram is only received.
    pub received: bool,
    /// Its bytes.
    pub datagram: &'a [u8],
}

/// Called with each datagram; the relay waits for its return.
pub type RelayObserver = Box<dyn Fn(&RelayedDatagram<'_>) + Send>;

/// A running relay, which ends when dropped.
///
/// ```
/// use conche_cli::relay::{Impairment, Relay, RelayConfig};
/// use conche_netsim::wired::Loss;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let lossy = Impairment { loss: Loss::Bernoulli(0.1), ..Impairment::default() };
/// let config = RelayConfig { to_upstream: lossy, to_client: lossy, seed: 1 };
/// let relay = Relay::start("127.0.0.1:0".parse().unwrap(), "127.0.0.1:5683".parse().unwrap(), config).await?;
/// println!("clients may use coap://{} instead of the server", relay.local_addr());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Relay {
    local: SocketAddr,
    counters: Arc<Counters>,
    task: JoinHandle<()>,
}

/// Counts of forwarded and lost datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Forwarded to the upstream.
    pub to_upstream: u64,
    /// Lost on the way to the upstream.
    pub lost_to_upstream: u64,
    /// Forwarded to clients.
    pub to_client: u64,
    /// Lost on the way to clients.
    pub lost_to_client: u64,
}

#[derive(Debug, Default)]
struct Counters {
    to_upstream: AtomicU64,
    lost_to_upstream: AtomicU64,
    to_client: AtomicU64,
    lost_to_client: AtomicU64,
}

/// Maximum number of clients; a new one replaces the one silent longest.
const CLIENTS: usize = 1024;

/// Further delayed datagrams are lost, as in a router with a full queue.
const UNDER_WAY: usize = 65_536;

const LARGEST_DATAGRAM: usize = 65_535;

impl Relay {
    /// Starts a relay between `listen` and `upstream`, to which each client has its own port.
    ///
    /// # Errors
    /// If `listen` cannot be bound.
    pub async fn start(listen: SocketAddr, upstream: SocketAddr, config: RelayConfig) -> io::Result<Self> {
        Self::start_watched(listen, upstream, config, Box::new(|_| {})).await
    }

    /// Like [`start`](Self::start), and calls `watch` with each datagram.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_watched(
        listen: SocketAddr,
        upstream: SocketAddr,
        config: RelayConfig,
        watch: RelayObserver,
    ) -> io::Result<Self> {
        let listen = UdpSocket::bind(listen).await?;
        let local = listen.local_addr()?;
        let counters = Arc::<Counters>::default();
        let streams = Streams::new(config.seed);
        let direction = |impairment, name| {
            let stream = |of: &str| streams.stream(Entity::Run, Purpose::named(&format!("{name}: {of}")));
            Direction::new(impairment, stream)
        };
        let forwarder = Forwarder {
            local,
            watch,
            listen,
            upstream,
            to_upstream: direction(config.to_upstream, "relay to upstream"),
            to_client: direction(config.to_client, "relay to client"),
            clients: HashMap::new(),
            under_way: BTreeMap::new(),
            sequence: 0,
            counters: Arc::clone(&counters),
        };
        Ok(Self { local, counters, task: tokio::spawn(forwarder.run()) })
    }

    /// Returns the address for clients.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            to_upstream: count(&self.counters.to_upstream),
            lost_to_upstream: count(&self.counters.lost_to_upstream),
            to_client: count(&self.counters.to_client),
            lost_to_client: count(&self.counters.lost_to_client),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Forwarder {
    local: SocketAddr,
    watch: RelayObserver,
    listen: UdpSocket,
    upstream: SocketAddr,
    to_upstream: Direction,
    to_client: Direction,
    clients: HashMap<SocketAddr, Client>,
    under_way: BTreeMap<(Instant, u64), Datagram>,
    sequence: u64,
    counters: Arc<Counters>,
}

struct Client {
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    reader: JoinHandle<()>,
    heard: Instant,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

enum Datagram {
    ToUpstream(Arc<UdpSocket>, Vec<u8>),
    ToClient(SocketAddr, Vec<u8>),
}

impl Forwarder {
    async fn run(mut self) {
        let (replies, mut returning) = mpsc::channel::<(SocketAddr, Vec<u8>)>(CLIENTS);
        let mut buffer = vec![0; LARGEST_DATAGRAM];
        loop {
            let next = self.under_way.first_key_value().map(|((due, _), _)| *due);
            let arrives = async {
                match next {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                received = self.listen.recv_from(&mut buffer) => {
                    // An error reports that a client refused an earlier datagram.
                    if let Ok((length, client)) = received {
                        self.forward(client, buffer.get(..length).unwrap_or_default(), &replies).await;
                    }
                }
                Some((client, datagram)) = returning.recv() => self.send_back(client, datagram),
                () = arrives => self.deliver().await,
            }
        }
    }

    async fn forward(&mut self, client: SocketAddr, datagram: &[u8], replies: &mpsc::Sender<(SocketAddr, Vec<u8>)>) {
        (self.watch)(&RelayedDatagram { socket: self.local, peer: client, received: true, datagram });
        let Some(delay) = self.to_upstream.fate(client, datagram) else {
            self.counters.lost_to_upstream.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // Without ports or memory, the datagram is lost.
        let Ok(socket) = self.socket_for(client, replies).await else { return };
        self.counters.to_upstream.fetch_add(1, Ordering::Relaxed);
        self.put_under_way(Instant::now() + delay, Datagram::ToUpstream(socket, datagram.to_vec()));
    }

    fn send_back(&mut self, client: SocketAddr, datagram: Vec<u8>) {
        if let Some(Client { local, .. }) = self.clients.get(&client) {
            (self.watch)(&RelayedDatagram { socket: *local, peer: self.upstream, received: true, datagram: &datagram });
        }
        let Some(delay) = self.to_client.fate(client, &datagram) else {
            self.counters.lost_to_client.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.counters.to_client.fetch_add(1, Ordering::Relaxed);
        self.put_under_way(Instant::now() + delay, Datagram::ToClient(client, datagram));
    }

    fn put_under_way(&mut self, due: Instant, datagram: Datagram) {
        if self.under_way.len() < UNDER_WAY {
            self.under_way.insert((due, self.sequence), datagram);
            self.sequence += 1;
        }
    }

    async fn deliver(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            // A failed send is a loss.
            let _ = match entry.remove() {
                Datagram::ToUpstream(socket, bytes) => {
                    let from = socket.local_addr().unwrap_or(self.local);
                    let peer = self.upstream;
                    (self.watch)(&RelayedDatagram { socket: from, peer, received: false, datagram: &bytes });
                    socket.send(&bytes).await
                }
                Datagram::ToClient(client, bytes) => {
                    (self.watch)(&RelayedDatagram {
                        socket: self.local,
                        peer: client,
                        received: false,
                        datagram: &bytes,
                    });
                    self.listen.send_to(&bytes, client).await
                }
            };
        }
    }

    async fn socket_for(
        &mut self,
        address: SocketAddr,
        replies: &mpsc::Sender<(SocketAddr, Vec<u8>)>,
    ) -> io::Result<Arc<UdpSocket>> {
        let heard = Instant::now();
        if let Some(client) = self.clients.get_mut(&address) {
            client.heard = heard;
            return Ok(Arc::clone(&client.socket));
        }
        if self.clients.len() >= CLIENTS {
            // order-free: the address decides ties.
            let silent = self.clients.iter().map(|(address, client)| (client.heard, *address)).min();
            silent.map(|(_, address)| self.clients.remove(&address));
        }
        let any: SocketAddr = match self.upstream {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = Arc::new(UdpSocket::bind(any).await?);
        socket.connect(self.upstream).await?;
        let local = socket.local_addr()?;
        let reader = tokio::spawn(read(Arc::clone(&socket), address, replies.clone()));
        self.clients.insert(address, Client { socket: Arc::clone(&socket), local, reader, heard });
        Ok(socket)
    }
}

async fn read(socket: Arc<UdpSocket>, client: SocketAddr, replies: mpsc::Sender<(SocketAddr, Vec<u8>)>) {
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    loop {
        // A closed port upstream may open again.
        let Ok(length) = socket.recv(&mut buffer).await else { continue };
        if replies.send((client, buffer.get(..length).unwrap_or_default().to_vec())).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
