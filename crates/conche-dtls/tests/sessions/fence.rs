//! A panicking engine ends only its peer's session.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use conche_dtls::engine::{Dimpl, DimplEngines, Engine, Engines, Opening, Step};
use conche_dtls::{
    BUFFER, ClientCredentials, Config, ConfigError, Ended, Failure, Identity, Output, Secret, ServerCredentials,
    ServerKeys, SessionId, Sessions,
};
use conche_proto::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Accept,
    Receive,
    Poll,
    Repeat,
    Send,
    Close,
}

type Planted = Arc<Mutex<Option<Call>>>;

fn trigger(planted: &Planted, call: Call) {
    let is_planted = planted.lock().unwrap().take_if(|planted| *planted == call).is_some();
    assert!(!is_planted, "a planted panic in {call:?}");
}

struct Faulty {
    engine: Dimpl,
    planted: Planted,
}

impl Engine for Faulty {
    fn receive(&mut self, record: &[u8]) -> Result<(), Failure> {
        trigger(&self.planted, Call::Receive);
        self.engine.receive(record)
    }

    fn repeat(&mut self) -> Result<(), Failure> {
        trigger(&self.planted, Call::Repeat);
        self.engine.repeat()
    }

    fn poll(&mut self, buffer: &mut [u8]) -> Result<Step, Failure> {
        trigger(&self.planted, Call::Poll);
        self.engine.poll(buffer)
    }

    fn send(&mut self, plaintext: &[u8]) -> Result<(), Failure> {
        trigger(&self.planted, Call::Send);
        self.engine.send(plaintext)
    }

    fn close(&mut self) {
        trigger(&self.planted, Call::Close);
        self.engine.close();
    }

    fn identity(&self) -> Option<&[u8]> {
        self.engine.identity()
    }
}

struct FaultyEngines {
    engines: DimplEngines,
    planted: Planted,
}

impl Engines for FaultyEngines {
    type Engine = Faulty;

    fn connect(&mut self, now: Instant, credentials: &ClientCredentials) -> Result<Faulty, ConfigError> {
        let engine = self.engines.connect(now, credentials)?;
        Ok(Faulty { engine, planted: Arc::clone(&self.planted) })
    }

    fn accept(&mut self, now: Instant, opening: &Opening<'_>) -> Result<Faulty, Failure> {
        trigger(&self.planted, Call::Accept);
        let engine = self.engines.accept(now, opening)?;
        Ok(Faulty { engine, planted: Arc::clone(&self.planted) })
    }
}

const ALL: usize = usize::MAX;

struct Site<E: Engines> {
    now: Instant,
    server: Sessions<usize, E>,
    clients: Vec<Sessions<&'static str>>,
    established: Vec<(SessionId, usize, Identity)>,
    received: Vec<(usize, Vec<u8>)>,
    closed: Vec<Ended>,
}

fn config(keys: impl Fn(&[u8]) -> Option<Secret> + Send + Sync + 'static) -> Config {
    let psk = Some(ServerKeys::new(keys));
    Config { server: Some(ServerCredentials { psk, ..Default::default() }), ..Default::default() }
}

fn credentials(identity: &str) -> ClientCredentials {
    ClientCredentials::psk(identity.as_bytes(), Secret::new(*b"sesame")).unwrap()
}

impl<E: Engines> Site<E> {
    fn new(server: Sessions<usize, E>) -> Self {
        let client = |seed| Sessions::new(Instant::ZERO, Config::default(), [seed; 32]).unwrap();
        let (established, received, closed) = Default::default();
        Self { now: Instant::ZERO, server, clients: vec![client(2), client(3)], established, received, closed }
    }

    /// Delivers datagrams; after `of_server`, the server's are lost.
    fn carry(&mut self, mut of_server: usize) {
        let mut buffer = vec![0; BUFFER];
        loop {
            let mut is_idle = true;
            loop {
                match self.server.poll(self.now, &mut buffer) {
                    Output::Transmit { to, len } if of_server > 0 => {
                        of_server -= 1;
                        self.clients[to].handle(self.now, "server", &buffer[..len]);
                    }
                    Output::Received { session, len } => {
                        // An echo.
                        let _ = self.server.send(session, &buffer[..len]);
                    }
                    Output::Established { session, peer, identity, .. } => {
                        self.established.push((session, peer, identity));
                    }
                    Output::Closed { why, .. } => self.closed.push(why),
                    Output::Wait(_) => break,
                    _ => {}
                }
                is_idle = false;
            }
            for at in 0..self.clients.len() {
                loop {
                    match self.clients[at].poll(self.now, &mut buffer) {
                        Output::Transmit { len, .. } => self.server.handle(self.now, at, &buffer[..len]),
                        Output::Received { len, .. } => self.received.push((at, buffer[..len].to_vec())),
                        Output::Wait(_) => break,
                        _ => {}
                    }
                    is_idle = false;
                }
            }
            if is_idle {
                return;
            }
        }
    }

    fn connect(&mut self, client: usize, identity: &str) {
        self.clients[client].connect(self.now, "server", &credentials(identity), None).unwrap();
    }

    fn is_served(&mut self, client: usize) -> bool {
        let session = self.clients[client].open(&"server").unwrap();
        self.clients[client].send(session, b"on").unwrap();
        self.received.clear();
        self.carry(ALL);
        self.received == [(client, b"on".to_vec())]
    }
}

#[test]
fn a_panic_in_any_call_of_an_engine_ends_the_session_of_its_peer_alone() {
    for call in [Call::Accept, Call::Receive, Call::Poll, Call::Repeat, Call::Send, Call::Close] {
        let planted = Planted::default();
        let config = config(|_| Some(Secret::new(*b"sesame")));
        let engines = DimplEngines::new(&config).unwrap();
        let engines = FaultyEngines { engines, planted: Arc::clone(&planted) };
        let mut site = Site::new(Sessions::with_engines(Instant::ZERO, config, [1; 32], engines).unwrap());
        site.connect(0, "lamp");
        site.carry(ALL);
        assert!(site.is_served(0), "{call:?}: before");

        if matches!(call, Call::Send | Call::Close) {
            site.connect(1, "mallory");
            site.carry(ALL);
            let session = site.established.pop().unwrap().0;
            *planted.lock().unwrap() = Some(call);
            match call {
                Call::Send => assert_eq!(site.server.send(session, b"x"), Err(Failure::Panicked.into())),
                _ => site.server.close(session),
            }
        } else {
            site.connect(1, "mallory");
            if call == Call::Repeat {
                site.carry(1);
            }
            *planted.lock().unwrap() = Some(call);
            site.now += Duration::from_secs(if call == Call::Repeat { 5 } else { 0 });
        }
        site.carry(if call == Call::Repeat { 0 } else { ALL });
        assert_eq!(*planted.lock().unwrap(), None, "{call:?}: it has panicked");
        assert_eq!((site.server.stats().panicked, site.server.stats().sessions), (1, 1), "{call:?}");
        match call {
            Call::Send => assert_eq!(site.closed, [Ended::Failed(Failure::Panicked)]),
            Call::Close => assert_eq!(site.closed, [Ended::Closed]),
            _ => assert!(site.closed.is_empty(), "{call:?}: handshakes of peers are only counted"),
        }
        assert!(site.is_served(0), "{call:?}: the other session goes on");

        site.now += Duration::from_secs(60);
        site.clients[1] = Sessions::new(site.now, Config::default(), [4; 32]).unwrap();
        site.connect(1, "mallory");
        site.carry(ALL);
        assert!(site.is_served(1), "{call:?}: afterwards");
    }
}

#[test]
fn an_identity_whose_lookup_panicked_is_not_taken_for_that_of_the_next_client() {
    let keys = |identity: &[u8]| {
        assert_ne!(identity, b"mallory", "a planted panic");
        Some(Secret::new(*b"sesame"))
    };
    let mut site = Site::new(Sessions::new(Instant::ZERO, config(keys), [1; 32]).unwrap());
    site.connect(0, "lamp");
    // The server's flight is lost; the other client's handshake panics.
    site.carry(1);
    site.connect(1, "mallory");
    site.carry(ALL);
    assert_eq!(site.server.stats().panicked, 1);
    site.now += Duration::from_secs(5);
    site.carry(ALL);
    let identities: Vec<_> = site.established.iter().map(|(_, peer, identity)| (*peer, identity.clone())).collect();
    assert_eq!(identities, [(0, Identity::Psk(b"lamp".to_vec()))]);
    assert!(site.is_served(0));
}
