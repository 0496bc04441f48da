//! Ends and a wire in virtual time, with losses, duplicates and delays from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_dtls::{
    BUFFER, ClientCredentials, Config, Ended, Failure, Identity, Output, Progress, Secret, ServerCredentials,
    ServerKeys, SessionId, Sessions,
};
use conche_proto::Instant;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

pub type Address = u32;
pub const CLIENT: Address = 1;
pub const SERVER: Address = 2;

#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u32,
    pub twice: u32,
    pub jitter: Duration,
}

#[derive(Debug, Default)]
pub struct Outputs {
    pub established: Vec<(SessionId, Identity)>,
    pub closed: Vec<(SessionId, Ended)>,
    pub received: Vec<(SessionId, Vec<u8>)>,
    pub wanted: Vec<(SessionId, Vec<u8>)>,
    pub failed: Vec<(Option<Vec<u8>>, Failure)>,
    pub flights: Vec<(SessionId, Progress)>,
    pub sent: Vec<Vec<u8>>,
}

pub struct End {
    pub sessions: Sessions<Address>,
    pub outputs: Outputs,
    pub address: Address,
}

impl End {
    pub fn new(address: Address, config: Config, seed: u64) -> Self {
        let mut bytes = [0; 32];
        ChaCha8Rng::seed_from_u64(seed ^ u64::from(address) << 40).fill_bytes(&mut bytes);
        Self { sessions: Sessions::new(at(0), config, bytes).unwrap(), outputs: Outputs::default(), address }
    }
}

pub struct Wire {
    pub now: Instant,
    pub ends: Vec<End>,
    pub faults: Faults,
    /// Delay of all datagrams beyond 10 ms.
    pub delay: Duration,
    /// Sees, changes or drops each datagram.
    pub tap: Option<Tap>,
    random: ChaCha8Rng,
    under_way: BTreeMap<(Instant, u64), (Address, Address, Vec<u8>)>,
    sent: u64,
    buffer: Vec<u8>,
}

/// Sender, receiver, datagram; `false` drops it.
pub type Tap = Box<dyn FnMut(Address, Address, &mut Vec<u8>) -> bool>;

impl Wire {
    pub fn new(server: Config, client: Config, seed: u64, faults: Faults) -> Self {
        Self {
            now: at(0),
            ends: vec![End::new(SERVER, server, seed), End::new(CLIENT, client, seed)],
            faults,
            delay: Duration::ZERO,
            tap: None,
            random: ChaCha8Rng::seed_from_u64(seed),
            under_way: BTreeMap::new(),
            sent: 0,
            buffer: vec![0; BUFFER],
        }
    }

    pub fn server(&mut self) -> &mut End {
        &mut self.ends[0]
    }

    pub fn client(&mut self) -> &mut End {
        &mut self.ends[1]
    }

    pub fn connect(&mut self, credentials: &ClientCredentials) -> SessionId {
        let now = self.now;
        self.client().sessions.connect(now, SERVER, credentials, None).unwrap()
    }

    pub fn send(&mut self, from: Address, to: Address, mut datagram: Vec<u8>) {
        if self.tap.as_mut().is_some_and(|tap| !tap(from, to, &mut datagram)) {
            return;
        }
        let copies = if self.percent(self.faults.twice) { 2 } else { 1 };
        for _ in 0..copies {
            if self.percent(self.faults.loss) {
                continue;
            }
            let jitter = u64::try_from(self.faults.jitter.as_nanos()).unwrap();
            let late = if jitter == 0 { 0 } else { self.random.next_u64() % jitter };
            let when = self.now + Duration::from_millis(10) + self.delay + Duration::from_nanos(late);
            self.sent += 1;
            self.under_way.insert((when, self.sent), (from, to, datagram.clone()));
        }
    }

    fn percent(&mut self, chance: u32) -> bool {
        chance > 0 && self.random.next_u32() % 100 < chance
    }

    /// Polls all ends; returns the next event's time.
    fn poll(&mut self) -> Option<Instant> {
        let mut next = self.under_way.first_key_value().map(|((when, _), _)| *when);
        for index in 0..self.ends.len() {
            for turn in 0.. {
                assert!(turn < 10_000, "an end that always has something to do");
                let end = &mut self.ends[index];
                match end.sessions.poll(self.now, &mut self.buffer) {
                    Output::Transmit { to, len } => {
                        let (from, datagram) = (end.address, self.buffer[..len].to_vec());
                        end.outputs.sent.push(datagram.clone());
                        self.send(from, to, datagram);
                        next =
                            self.under_way.first_key_value().map(|((when, _), _)| *when).into_iter().chain(next).min();
                    }
                    Output::Established { session, identity, .. } => end.outputs.established.push((session, identity)),
                    Output::Received { session, len } => {
                        end.outputs.received.push((session, self.buffer[..len].to_vec()));
                    }
                    Output::KeyWanted { session, identity, .. } => end.outputs.wanted.push((session, identity)),
                    Output::Closed { session, why, .. } => end.outputs.closed.push((session, why)),
                    Output::HandshakeFailed { identity, why, .. } => end.outputs.failed.push((identity, why)),
                    Output::Flight { session, progress, .. } => end.outputs.flights.push((session, progress)),
                    Output::Wait(wait) => {
                        assert!(wait.is_none_or(|wait| wait > self.now), "it waits for what is past");
                        next = next.into_iter().chain(wait).min();
                        break;
                    }
                }
            }
        }
        next
    }

    /// Runs until `done`, `until`, or no events are left; returns whether it is done.
    pub fn run(&mut self, until: Instant, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            let next = self.poll();
            if done(self) {
                return true;
            }
            let Some(next) = next.filter(|next| *next <= until) else {
                self.now = self.now.max(until);
                return false;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (from, to, datagram) = entry.remove();
                if let Some(end) = self.ends.iter_mut().find(|end| end.address == to) {
                    end.sessions.handle(self.now, from, &datagram);
                    break;
                }
            }
        }
    }

    pub fn settle(&mut self) {
        let until = self.now + Duration::from_secs(200);
        self.run(until, |_| false);
    }

    pub fn handshake(&mut self, credentials: &ClientCredentials) -> bool {
        self.connect(credentials);
        let until = self.now + Duration::from_secs(100);
        self.run(until, |wire| wire.ends[..2].iter().all(|end| end.sessions.stats().sessions > 0))
    }

    pub fn assert_nothing_is_left(&mut self) {
        for end in &mut self.ends {
            for (session, _) in end.outputs.established.clone() {
                end.sessions.close(session);
            }
        }
        self.settle();
        for end in &self.ends {
            assert!(end.sessions.is_empty(), "{:?}", end.sessions);
            let stats = end.sessions.stats();
            assert_eq!((stats.sessions, stats.handshakes), (0, 0));
        }
    }
}

pub fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1_000)
}

pub fn key() -> Secret {
    Secret::new(*b"0123456789abcdef")
}

pub fn known() -> ClientCredentials {
    ClientCredentials::psk(*b"lamp", key()).unwrap()
}

pub fn psk_server(seed: u64) -> Config {
    let psk = ServerKeys::new(|identity: &[u8]| (identity == b"lamp").then(key));
    let server = Some(ServerCredentials { psk: Some(psk), ..Default::default() });
    Config { server, seed: Some(seed), ..Default::default() }
}

pub fn client(seed: u64) -> Config {
    Config { seed: Some(seed ^ 0x5555), ..Default::default() }
}
