//! Handshakes and records per second on one core, with both ends in this process, and an idle
//! session's memory. `cargo run --release -p conche-dtls --example cost`

use std::error::Error;
use std::time::{Duration, Instant as Clock};

use conche_dtls::{
    BUFFER, ClientCredentials, Config, Output, OwnCertificate, Secret, ServerCertificate, ServerCredentials,
    ServerKeys, SessionId, Sessions, Trust,
};
use conche_proto::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let kinds = [
        ("pre-shared key, CCM_8", by_key()?, 20_000),
        ("certificate, ECDHE and ECDSA on P-256", by_certificate()?, 1_000),
    ];
    for (name, pair, count) in kinds {
        let mut ends = Ends::new(&pair)?;
        let started = Clock::now();
        for peer in 0..count {
            ends.connect(peer, &pair.client)?;
        }
        println!("{name}: {:.0} handshakes/s", f64::from(count) / started.elapsed().as_secs_f64());

        let records = 200_000;
        let session = ends.session.ok_or("no session")?;
        let started = Clock::now();
        for _ in 0..records {
            ends.client.send(session, &[7; 64])?;
            ends.run();
        }
        println!("{name}: {:.0} records/s of 64 bytes", f64::from(records) / started.elapsed().as_secs_f64());

        let mut ends = Ends::new(&pair)?;
        let sessions = 500;
        for peer in 0..sessions {
            ends.connect(peer, &pair.client)?;
            ends.client.send(ends.session.ok_or("no session")?, &[7; 64])?;
            ends.run();
        }
        println!("{name}: {} bytes for an idle session of a server", ends.held / i64::from(sessions));
    }
    Ok(())
}

struct Pair {
    server: Config,
    client: ClientCredentials,
}

fn by_key() -> Result<Pair, Box<dyn Error>> {
    let key = || Secret::new(*b"0123456789abcdef");
    let psk = Some(ServerKeys::new(move |identity: &[u8]| (identity == b"lamp").then(key)));
    let server = Config { server: Some(ServerCredentials { psk, ..Default::default() }), ..Config::default() };
    Ok(Pair { server, client: ClientCredentials::psk(*b"lamp", key())? })
}

fn by_certificate() -> Result<Pair, Box<dyn Error>> {
    let key = Secret::new(*include_bytes!("../tests/data/server.key"));
    let own = OwnCertificate::new(*include_bytes!("../tests/data/server.der"), key)?;
    // In 2030.
    let trust = Trust::new([include_bytes!("../tests/data/root.der").as_slice()], Duration::from_secs(1_893_456_000))?;
    let certificate = Some(ServerCertificate { own, clients: None });
    let server = Config { server: Some(ServerCredentials { certificate, ..Default::default() }), ..Config::default() };
    Ok(Pair { server, client: ClientCredentials::certificate(None, trust, "coap.example")? })
}

struct Ends {
    server: Sessions<u32>,
    client: Sessions<u32>,
    buffer: Vec<u8>,
    session: Option<SessionId>,
    held: i64,
}

impl Ends {
    fn new(pair: &Pair) -> Result<Self, Box<dyn Error>> {
        let client = Config { max_sessions: 100_000, ..Config::default() };
        let server = Config { max_sessions: 100_000, ..pair.server.clone() };
        Ok(Self {
            server: Sessions::new(Instant::ZERO, server, [1; 32])?,
            client: Sessions::new(Instant::ZERO, client, [2; 32])?,
            buffer: vec![0; BUFFER],
            session: None,
            held: 0,
        })
    }

    fn connect(&mut self, peer: u32, credentials: &ClientCredentials) -> Result<(), Box<dyn Error>> {
        self.client.connect(Instant::ZERO, peer, credentials, None)?;
        self.run();
        Ok(())
    }

    fn run(&mut self) {
        let Self { server, client, buffer, session, held } = self;
        loop {
            let mut quiet = true;
            while let Some((peer, len)) = next(client, buffer, session) {
                quiet = false;
                *held +=
                    allocation_counter::measure(|| server.handle(Instant::ZERO, peer, &buffer[..len])).bytes_current;
            }
            loop {
                let mut sent = None;
                *held += allocation_counter::measure(|| sent = next(server, buffer, &mut None)).bytes_current;
                let Some((peer, len)) = sent else { break };
                quiet = false;
                client.handle(Instant::ZERO, peer, &buffer[..len]);
            }
            if quiet {
                return;
            }
        }
    }
}

fn next(end: &mut Sessions<u32>, buffer: &mut [u8], open: &mut Option<SessionId>) -> Option<(u32, usize)> {
    loop {
        match end.poll(Instant::ZERO, buffer) {
            Output::Transmit { to, len } => return Some((to, len)),
            Output::Established { session, .. } => *open = Some(session),
            Output::Wait(_) => return None,
            _ => {}
        }
    }
}
