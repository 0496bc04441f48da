//! A script loses, repeats, changes and forges datagrams of DTLS sessions. Only sent data is
//! received, bounds hold, and nothing remains.

use std::collections::VecDeque;
use std::time::Duration;

use conche_dtls::{
    BUFFER, ClientCredentials, Config, Output, OwnCertificate, Secret, ServerCertificate, ServerCredentials,
    ServerKeys, SessionId, Sessions, Trust,
};
use conche_proto::Instant;

const CLIENT: u8 = 1;
const SERVER: u8 = 2;
const MOST_HANDSHAKES: usize = 4;
const MOST_SESSIONS: usize = 2;

struct Wire {
    now: Instant,
    ends: [Sessions<u8>; 2],
    open: [Vec<SessionId>; 2],
    controlled: Option<SessionId>,
    under_way: VecDeque<(u8, u8, Vec<u8>)>,
    said: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

/// Runs a script.
pub fn run(script: &[u8]) {
    let mut script = script.iter().copied();
    let Some(first) = script.next() else { return };
    let (server, credentials) = if first == 255 { by_certificate() } else { by_key() };
    let mtu = if first & 8 == 0 { 1280 } else { 127 };
    // Without a seed: checking the settings per association would take most of the time.
    let config = |server| Config {
        server,
        mtu,
        max_handshakes: MOST_HANDSHAKES,
        max_sessions: MOST_SESSIONS,
        ..Config::default()
    };
    let end = |server, seed: u8| Sessions::new(Instant::ZERO, config(server), [seed; 32]).unwrap();
    let mut wire = Wire {
        now: Instant::ZERO,
        ends: [end(None, CLIENT), end(Some(server), SERVER)],
        open: [Vec::new(), Vec::new()],
        controlled: None,
        under_way: VecDeque::new(),
        said: Vec::new(),
        buffer: vec![0; BUFFER],
    };
    let _ = wire.ends[0].connect(wire.now, SERVER, &credentials, None);
    wire.poll();
    // Each step takes an operation and up to three bytes.
    for _ in 0..500 {
        let Some(operation) = script.next() else { break };
        let mut next = || script.next().unwrap_or_default();
        match operation % 12 {
            0..=2 => wire.deliver(|_| {}),
            3 => drop(wire.under_way.pop_front()),
            4 => wire.under_way.extend(wire.under_way.front().cloned()),
            5 => wire.under_way.rotate_left(usize::from(!wire.under_way.is_empty())),
            6 => {
                let (at, bits) = (usize::from(next()), next());
                wire.deliver(|datagram| {
                    if let Some(length) = datagram.len().checked_sub(1) {
                        datagram[at.min(length)] ^= bits;
                    }
                });
            }
            7 => {
                let left = usize::from(next());
                wire.deliver(|datagram| datagram.truncate(left));
            }
            8 => {
                let bytes: Vec<u8> = (0..next()).map(|_| next()).collect();
                let (from, to) = if operation & 16 == 0 { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
                wire.under_way.push_front((from, to, if operation & 32 == 0 { record(&bytes) } else { bytes }));
                wire.deliver(|_| {});
            }
            9 => {
                wire.now += Duration::from_millis(50 * u64::from(next()));
                if let Some(session) = wire.controlled {
                    wire.ends[0].repeat(session);
                }
                wire.poll();
            }
            10 => {
                let end = usize::from(operation & 16 == 0);
                if let Some(session) = wire.open[end].last() {
                    let said = vec![next(); usize::from(next())];
                    let _ = wire.ends[end].send(*session, &said);
                    wire.said.push(said);
                }
                wire.poll();
            }
            _ => {
                if operation & 16 == 0 {
                    let _ = match operation & 32 {
                        0 => wire.ends[0].connect(wire.now, SERVER, &credentials, None),
                        _ => wire.ends[0].connect_controlled(wire.now, SERVER, &credentials),
                    };
                } else if let Some(session) = wire.open[usize::from(next()) % 2].pop() {
                    wire.ends.iter_mut().for_each(|end| end.close(session));
                }
                wire.poll();
            }
        }
    }
    wire.end();
}

fn record(bytes: &[u8]) -> Vec<u8> {
    let [content, epoch, number, fragment @ ..] = bytes else { return bytes.to_vec() };
    let length = u8::try_from(fragment.len()).unwrap_or(u8::MAX);
    let header = [20 + content % 5, 254, 253, 0, epoch % 3, 0, 0, 0, 0, 0, *number, 0, length];
    [&header, fragment].concat()
}

impl Wire {
    fn deliver(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let Some((from, to, mut datagram)) = self.under_way.pop_front() else { return };
        change(&mut datagram);
        self.ends[usize::from(to == SERVER)].handle(self.now, from, &datagram);
        self.poll();
    }

    fn poll(&mut self) {
        for (index, end) in self.ends.iter_mut().enumerate() {
            for turn in 0.. {
                assert!(turn < 10_000, "an end that always has something to do");
                match end.poll(self.now, &mut self.buffer) {
                    Output::Transmit { to, len } => {
                        let from = if index == 0 { CLIENT } else { SERVER };
                        if self.under_way.len() < 64 {
                            self.under_way.push_back((from, to, self.buffer[..len].to_vec()));
                        }
                    }
                    Output::Established { session, .. } => self.open[index].push(session),
                    Output::Received { len, .. } => {
                        let received = &self.buffer[..len];
                        assert!(self.said.iter().any(|said| said == received), "{received:?} was never said");
                    }
                    Output::Closed { session, .. } => self.open[index].retain(|open| *open != session),
                    Output::Flight { session, .. } => self.controlled = Some(session),
                    Output::KeyWanted { .. } | Output::HandshakeFailed { .. } => {}
                    Output::Wait(wait) => {
                        assert!(wait.is_none_or(|wait| wait > self.now));
                        break;
                    }
                }
            }
            let stats = end.stats();
            assert!(stats.handshakes <= MOST_HANDSHAKES && stats.sessions <= MOST_SESSIONS, "{stats:?}");
        }
    }

    fn end(&mut self) {
        for (end, open) in self.ends.iter_mut().zip(&self.open) {
            open.iter().for_each(|session| end.close(*session));
        }
        self.poll();
        self.now += Duration::from_secs(300);
        self.poll();
        for end in &self.ends {
            assert!(end.is_empty(), "{end:?}");
        }
    }
}

fn by_key() -> (ServerCredentials, ClientCredentials) {
    let key = || Secret::new(*b"sesame");
    let psk = Some(ServerKeys::new(move |identity: &[u8]| (identity == b"lamp").then(key)));
    let client = ClientCredentials::psk(*b"lamp", key()).unwrap();
    (ServerCredentials { psk, ..Default::default() }, client)
}

fn by_certificate() -> (ServerCredentials, ClientCredentials) {
    let certificate = include_bytes!("../../crates/conche-dtls/tests/data/server.der");
    let key = include_bytes!("../../crates/conche-dtls/tests/data/server.key");
    let root = include_bytes!("../../crates/conche-dtls/tests/data/root.der");
    let own = OwnCertificate::new(*certificate, Secret::new(*key)).unwrap();
    let trust = Trust::new([root.as_slice()], Duration::from_secs(1_893_456_000)).unwrap();
    let certificate = Some(ServerCertificate { own: own.clone(), clients: None });
    let client = ClientCredentials::certificate(None, trust, "coap.example").unwrap();
    (ServerCredentials { certificate, ..Default::default() }, client)
}
