//! [`OnPathAttacker`]: an on-path attacker that sees all datagrams and controls their forwarding.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::LONG;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Toward {
    Server,
    Client,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Act {
    #[default]
    Pass,
    Block,
    Hold,
}

/// An on-path attacker. Clients use its address as the server's.
pub struct OnPathAttacker {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    relay: JoinHandle<()>,
}

struct Shared {
    front: UdpSocket,
    back: UdpSocket,
    server: SocketAddr,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Option<SocketAddr>,
    toward_server: Way,
    toward_client: Way,
    seen: Vec<(Toward, Vec<u8>)>,
}

#[derive(Default)]
struct Way {
    passes: usize,
    then: Act,
    held: Vec<Vec<u8>>,
}

impl State {
    fn way(&mut self, toward: Toward) -> &mut Way {
        match toward {
            Toward::Server => &mut self.toward_server,
            Toward::Client => &mut self.toward_client,
        }
    }
}

impl OnPathAttacker {
    pub async fn before(server: SocketAddr) -> Self {
        let bind = async || UdpSocket::bind("127.0.0.1:0").await.expect("the loopback can be bound");
        let (front, back) = (bind().await, bind().await);
        let address = front.local_addr().expect("it is bound");
        let shared = Arc::new(Shared { front, back, server, state: Mutex::default() });
        let relay = tokio::spawn(relay(Arc::clone(&shared)));
        Self { address, shared, relay }
    }

    /// Applies an action in this direction after `passes` more datagrams.
    pub fn act(&self, toward: Toward, passes: usize, then: Act) {
        let mut state = self.shared.state.lock().expect("nobody panics");
        let way = state.way(toward);
        (way.passes, way.then) = (passes, then);
    }

    pub async fn holds(&self, toward: Toward, count: usize) {
        let held = || self.shared.state.lock().expect("nobody panics").way(toward).held.len();
        let enough = async {
            while held() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(LONG, enough).await.unwrap_or_else(|_| panic!("{} of {count} datagrams", held()));
    }

    pub fn take(&self, toward: Toward) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.shared.state.lock().expect("nobody panics").way(toward).held)
    }

    pub async fn release(&self, toward: Toward, datagrams: &[Vec<u8>]) {
        for datagram in datagrams {
            self.shared.pass(toward, datagram).await;
        }
    }

    pub fn seen(&self) -> Vec<(Toward, Vec<u8>)> {
        self.shared.state.lock().expect("nobody panics").seen.clone()
    }
}

impl Drop for OnPathAttacker {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

impl Shared {
    async fn pass(&self, toward: Toward, datagram: &[u8]) {
        let client = self.state.lock().expect("nobody panics").client;
        let (socket, to) = match toward {
            Toward::Server => (&self.back, self.server),
            Toward::Client => (&self.front, client.expect("a client has asked")),
        };
        let _ = socket.send_to(datagram, to).await;
    }

    fn judge(&self, toward: Toward, datagram: &[u8]) -> Act {
        let mut state = self.state.lock().expect("nobody panics");
        state.seen.push((toward, datagram.to_vec()));
        let way = state.way(toward);
        if way.passes > 0 {
            way.passes -= 1;
            return Act::Pass;
        }
        if way.then == Act::Hold {
            way.held.push(datagram.to_vec());
        }
        way.then
    }
}

async fn relay(shared: Arc<Shared>) {
    let (mut front, mut back) = ([0; 4096], [0; 4096]);
    loop {
        let (toward, datagram) = tokio::select! {
            Ok((len, from)) = shared.front.recv_from(&mut front) => {
                shared.state.lock().expect("nobody panics").client = Some(from);
                (Toward::Server, &front[..len])
            }
            Ok((len, _)) = shared.back.recv_from(&mut back) => (Toward::Client, &back[..len]),
        };
        if shared.judge(toward, datagram) == Act::Pass {
            shared.pass(toward, datagram).await;
        }
    }
}
