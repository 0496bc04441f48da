//! DTLS sessions on a socket, for CoAP or plain text, as a server or a client.
//!
//! ```text
//! udp serve 127.0.0.1:5684 lamp sesame           answers CoAP requests, and echoes what is none
//! udp serve 127.0.0.1:5684 cert.der key.der      the same, with a certificate
//! udp ask 127.0.0.1:5684 /path lamp sesame       GET
//! udp ask 127.0.0.1:5684 /path root.der name     GET of a server with a certificate
//! udp talk 127.0.0.1:5684 text lamp sesame       sends text, and prints what comes back
//! ```
//!
//! Appends secrets to `SSLKEYLOGFILE`, if set, for Wireshark.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant as Clock, SystemTime};

use conche_dtls::{
    BUFFER, ClientCredentials, Config, Identity, KeyLog, Output, OwnCertificate, Secret, ServerCertificate,
    ServerCredentials, ServerKeys, SessionId, Sessions, Trust,
};
use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code};
use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Output as Coap, Request, Response};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", address, first, second] => Node::new(address, Some(server(first, second)?))?.run(),
        ["ask", address, path, first, second] => {
            let mut node = Node::new("0.0.0.0:0", None)?;
            node.ask = Some(path.to_owned());
            node.connect(address.parse()?, &client(first, second)?)?;
            node.run()
        }
        ["talk", address, text, first, second] => {
            let mut node = Node::new("0.0.0.0:0", None)?;
            node.talk = Some(text.to_owned());
            node.connect(address.parse()?, &client(first, second)?)?;
            node.run()
        }
        _ => Err("serve ADDRESS, ask ADDRESS PATH or talk ADDRESS TEXT, each with IDENTITY KEY or files".into()),
    }
}

fn server(first: &str, second: &str) -> Result<ServerCredentials, Box<dyn Error>> {
    if first.ends_with(".der") {
        let own = OwnCertificate::new(std::fs::read(first)?, Secret::new(std::fs::read(second)?))?;
        let certificate = Some(ServerCertificate { own, clients: None });
        return Ok(ServerCredentials { certificate, ..ServerCredentials::default() });
    }
    let (known, key) = (first.as_bytes().to_vec(), Secret::new(second));
    let keys = move |identity: &[u8]| (identity == known).then(|| key.clone());
    Ok(ServerCredentials { psk: Some(ServerKeys::new(keys)), ..ServerCredentials::default() })
}

fn client(first: &str, second: &str) -> Result<ClientCredentials, Box<dyn Error>> {
    if first.ends_with(".der") {
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let trust = Trust::new([std::fs::read(first)?.as_slice()], epoch)?;
        return Ok(ClientCredentials::certificate(None, trust, second)?);
    }
    Ok(ClientCredentials::psk(first, Secret::new(second))?)
}

struct Node {
    socket: UdpSocket,
    started: Clock,
    sessions: Sessions<SocketAddr>,
    coap: Endpoint<SessionId, AnyController>,
    ask: Option<String>,
    talk: Option<String>,
    done: bool,
}

impl Node {
    fn new(address: &str, server: Option<ServerCredentials>) -> Result<Self, Box<dyn Error>> {
        // The hasher has random keys from the system.
        let seed = || {
            use std::hash::{BuildHasher, RandomState};
            let mut seed = [0; 32];
            for (at, word) in seed.chunks_exact_mut(8).enumerate() {
                word.copy_from_slice(&RandomState::new().hash_one(at).to_ne_bytes());
            }
            seed
        };
        let key_log = std::env::var_os("SSLKEYLOGFILE").map(|path| {
            KeyLog::new(move |line| {
                let file = OpenOptions::new().append(true).create(true).open(&path);
                if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
                    eprintln!("{}: {error}", path.display());
                }
            })
        });
        let config = Config { server, key_log, ..Config::default() };
        Ok(Self {
            socket: UdpSocket::bind(address)?,
            started: Clock::now(),
            sessions: Sessions::new(Instant::ZERO, config, seed())?,
            coap: Endpoint::new(EndpointConfig::default(), AnyController::by_name("default")?, seed())?,
            ask: None,
            talk: None,
            done: false,
        })
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.started.elapsed()
    }

    fn connect(&mut self, to: SocketAddr, credentials: &ClientCredentials) -> Result<(), Box<dyn Error>> {
        self.sessions.connect(self.now(), to, credentials, None)?;
        Ok(())
    }

    fn run(mut self) -> Result<(), Box<dyn Error>> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let wait = self.poll(&mut buffer)?;
            if self.done {
                return Ok(());
            }
            let patience = wait.map_or(Duration::from_secs(60), |wait| wait.since(self.now()));
            self.socket.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
            match self.socket.recv_from(&mut buffer) {
                Ok((len, from)) => self.sessions.handle(self.now(), from, &buffer[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => eprintln!("the socket says: {error}"),
            }
        }
    }

    fn poll(&mut self, buffer: &mut [u8]) -> Result<Option<Instant>, Box<dyn Error>> {
        loop {
            let now = self.now();
            let wait = match self.sessions.poll(now, buffer) {
                Output::Transmit { to, len } => {
                    self.socket.send_to(&buffer[..len], to)?;
                    continue;
                }
                Output::Established { session, peer, identity, .. } => {
                    let identity = match identity {
                        Identity::Psk(identity) => String::from_utf8_lossy(&identity).into_owned(),
                        Identity::Certificate(der) => format!("a certificate of {} bytes", der.len()),
                        other => format!("{other:?}"),
                    };
                    eprintln!("session {session} with {peer}: {identity}");
                    self.begin(session)?;
                    continue;
                }
                Output::Received { session, len } => {
                    self.received(session, &buffer[..len])?;
                    continue;
                }
                Output::Closed { session, peer, why } => {
                    eprintln!("session {session} with {peer} is over: {why}");
                    self.done |= self.ask.is_some() || self.talk.is_some();
                    continue;
                }
                // Its flights have their own timers.
                Output::Flight { .. } | Output::KeyWanted { .. } | Output::HandshakeFailed { .. } => continue,
                Output::Wait(wait) => wait,
            };
            match self.coap.poll(now, buffer) {
                Coap::Transmit(datagram) => self.sessions.send(datagram.to, &buffer[..datagram.len])?,
                Coap::Event(event) => self.event(event)?,
                Coap::Wait(other) => return Ok(wait.into_iter().chain(other).min()),
            }
        }
    }

    fn begin(&mut self, session: SessionId) -> Result<(), Box<dyn Error>> {
        if let Some(path) = &self.ask {
            let request = Request::new(Code::GET, Body::builder().path(path).build()?);
            self.coap.request(self.now(), session, request)?;
        }
        if let Some(text) = &self.talk {
            self.sessions.send(session, format!("{text}\n").as_bytes())?;
        }
        Ok(())
    }

    fn received(&mut self, session: SessionId, plaintext: &[u8]) -> Result<(), Box<dyn Error>> {
        let is_coap = plaintext.first().is_some_and(|first| first >> 6 == 1) && plaintext.len() >= 4;
        if self.talk.is_some() || (!is_coap && self.ask.is_none()) {
            print!("{}", String::from_utf8_lossy(plaintext));
            if self.talk.is_none() {
                self.sessions.send(session, plaintext)?;
            } else {
                self.sessions.close(session);
            }
            return Ok(());
        }
        self.coap.handle(self.now(), Input::datagram(session, plaintext))?;
        Ok(())
    }

    fn event(&mut self, event: Event<SessionId>) -> Result<(), Box<dyn Error>> {
        match event {
            Event::Request { id, message, .. } => {
                let payload = format!("you asked for {}", message.uri_path());
                let response = Response::new(Code::CONTENT, Body::builder().payload(payload).build()?);
                self.coap.respond(self.now(), id, response)?;
            }
            Event::Response { from, message, .. } => {
                println!("{:?} {}", message.code(), String::from_utf8_lossy(message.payload()));
                self.sessions.close(from);
            }
            other => eprintln!("{other:?}"),
        }
        Ok(())
    }
}
