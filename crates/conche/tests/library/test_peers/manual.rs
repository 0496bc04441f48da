//! [`ManualEndpoint`]: one end of `coaps`; the test writes and reads its messages.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conche::security::Secret;
use conche_dtls::{BUFFER, ClientCredentials, Config, Output, ServerCredentials, ServerKeys, SessionId, Sessions};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use super::{LONG, keys};

/// One end, and any session.
pub struct ManualEndpoint {
    socket: UdpSocket,
    sessions: Sessions<SocketAddr>,
    began: Instant,
    open: Option<(SessionId, SocketAddr)>,
    received: VecDeque<Vec<u8>>,
    buffer: Vec<u8>,
}

impl ManualEndpoint {
    pub async fn client(server: SocketAddr) -> Self {
        Self::on(socket().await, Config::default()).connected(server).await
    }

    /// The client after a restart: same address, no session.
    pub async fn restarted(self, server: SocketAddr) -> Self {
        Self::on(self.socket, Config::default()).connected(server).await
    }

    pub async fn server() -> Self {
        let server = Some(ServerCredentials { psk: Some(ServerKeys::new(keys)), ..Default::default() });
        Self::on(socket().await, Config { server, ..Config::default() })
    }

    fn on(socket: UdpSocket, config: Config) -> Self {
        static SEEDS: AtomicU64 = AtomicU64::new(1);
        let seed = [SEEDS.fetch_add(1, Ordering::SeqCst).to_be_bytes(); 4].concat();
        let seed = seed.try_into().expect("32 bytes");
        let sessions = Sessions::new(conche_proto::Instant::ZERO, config, seed).expect("legal settings");
        let (received, buffer) = (VecDeque::new(), vec![0; BUFFER]);
        Self { socket, sessions, began: Instant::now(), open: None, received, buffer }
    }

    async fn connected(mut self, server: SocketAddr) -> Self {
        let known = ClientCredentials::psk(*b"lamp", Secret::new(*b"sesame")).expect("legal");
        let now = self.now();
        self.sessions.connect(now, server, &known, None).expect("the first one");
        self.turn_until(LONG, |hand| hand.open.is_some()).await;
        assert!(self.open.is_some(), "no session");
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("it is bound")
    }

    pub async fn send(&mut self, message: &[u8]) {
        let (session, _) = self.open.expect("a session");
        self.sessions.send(session, message).expect("it is open");
        self.say().await;
    }

    pub async fn send_plain(&self, bytes: &[u8]) {
        let (_, peer) = self.open.expect("a session");
        self.socket.send_to(bytes, peer).await.expect("it can be sent");
    }

    pub async fn receive(&mut self) -> Vec<u8> {
        self.turn_until(LONG, |hand| !hand.received.is_empty()).await;
        self.received.pop_front().expect("a message")
    }

    pub async fn hear(&mut self, within: Duration) -> Vec<Vec<u8>> {
        self.turn_until(within, |_| false).await;
        self.received.drain(..).collect()
    }

    fn now(&self) -> conche_proto::Instant {
        conche_proto::Instant::ZERO + self.began.elapsed()
    }

    async fn say(&mut self) -> Option<conche_proto::Instant> {
        loop {
            let now = self.now();
            match self.sessions.poll(now, &mut self.buffer) {
                Output::Transmit { to, len } => {
                    self.socket.send_to(&self.buffer[..len], to).await.expect("it can be sent");
                }
                Output::Established { session, peer, .. } => self.open = Some((session, peer)),
                Output::Received { len, .. } => self.received.push_back(self.buffer[..len].to_vec()),
                Output::Wait(due) => return due,
                _ => {}
            }
        }
    }

    async fn turn_until(&mut self, within: Duration, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + within;
        let mut datagram = vec![0; BUFFER];
        loop {
            let due = self.say().await.map(|due| self.began + (due - conche_proto::Instant::ZERO));
            if done(self) || Instant::now() >= end {
                return;
            }
            let until = due.map_or(end, |due| due.min(end));
            if let Ok(Ok((len, from))) = timeout_at(until, self.socket.recv_from(&mut datagram)).await {
                let now = self.now();
                self.sessions.handle(now, from, &datagram[..len]);
            }
        }
    }
}

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.expect("the loopback can be bound")
}
