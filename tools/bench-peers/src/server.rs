//! A measured server.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::credentials::Credentials;
use crate::load::{DESTINATIONS, Protection};
use crate::machine::{CLIENT_CORE, SERVER_CORE};
use crate::peer::Peer;
use crate::setup::{self, Setup};
use tool_support::peers::Process;

/// Maximum time until a server responds.
const START: Duration = Duration::from_secs(60);

pub struct Server {
    process: Process,
    pub peer: Peer,
    pub address: SocketAddr,
    pub protection: Protection,
    pub credentials: Credentials,
}

impl Server {
    /// Waits until the server responds. `number` is the program's second argument: the number of
    /// ports for the baseline, the interval of `/tick` for others.
    pub fn start(setup: &Setup<'_>, peer: Peer, number: u32, protection: Protection) -> Result<Self> {
        let program = setup.server(peer, protection)?;
        let credentials = setup.credentials(protection)?;
        let port = free_port(if peer == Peer::Raw { number } else { 1 })?;
        let arguments = [vec![port.to_string(), number.to_string()], credentials.of_server()].concat();
        let outputs = [Stdio::null(), setup.errors(peer.word())?.into()];
        let process = Process(setup::start(&program, SERVER_CORE, &arguments, outputs)?);
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let mut server = Self { process, peer, address, protection, credentials };
        match protection {
            Protection::Psk => server.wait_for_sessions(setup)?,
            // An OSCORE server also answers unprotected requests.
            Protection::Plain | Protection::Oscore => server.wait()?,
        }
        Ok(server)
    }

    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    pub fn uri(&self, path: &str) -> String {
        let scheme = if self.protection == Protection::Psk { "coaps" } else { "coap" };
        format!("{scheme}://{}{path}", self.address)
    }

    fn wait_for_sessions(&mut self, setup: &Setup<'_>) -> Result<()> {
        let asked = ["get", &self.uri("/test"), "--quiet", "--timeout", "1"].map(str::to_owned);
        let arguments = [asked.to_vec(), self.credentials.of_session()].concat();
        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            self.check()?;
            let outputs = [Stdio::null(), setup.errors("generator")?.into()];
            if setup::start(&[setup.generator()], CLIENT_CORE, &arguments, outputs)?.wait()?.success() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the server does not answer through sessions");
    }

    fn check(&mut self) -> Result<()> {
        match self.process.0.try_wait()? {
            Some(status) => bail!("the server has ended with {status}; its log in target/bench-peers says why"),
            None => Ok(()),
        }
    }

    fn wait(&mut self) -> Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let deadline = Instant::now() + START;
        for id in 0..=u8::MAX {
            if Instant::now() > deadline {
                break;
            }
            self.check()?;
            let request = [&[0x41, 1, 0xbe, id, id, 0xb4], &b"test"[..]].concat();
            let mut answer = [0; 1500];
            // Until it listens, an error is returned at once.
            let came = socket.send_to(&request, self.address).and_then(|_| socket.recv(&mut answer));
            match came {
                Ok(length) if length > 60 && answer[1] == 0x45 => return Ok(()),
                // A ping validates the source (RFC 7252 §4.3); a Reset answers it.
                Ok(4) if answer[..2] == [0x40, 0] => {
                    socket.send_to(&[0x70, 0, answer[2], answer[3]], self.address)?;
                }
                Ok(_) => bail!("the server answers GET /test with {:?}", &answer[..4]),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        bail!("the server does not answer");
    }
}

/// Returns the first of `ports` free ports, below the ephemeral range: no client socket takes one.
fn free_port(ports: u32) -> Result<u16> {
    const LOWEST: u32 = 10_000;
    const SPAN: u32 = 22_000;
    let ports = ports.max(1);
    let starts = (0..100).map(|attempt| LOWEST + (std::process::id() + attempt) * ports % (SPAN - ports));
    for start in starts {
        let is_free = |port| u16::try_from(port).is_ok_and(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
        if (start..start + ports).all(is_free) {
            return Ok(u16::try_from(start)?);
        }
    }
    bail!("there are no {DESTINATIONS} free ports in a row")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_a_row_are_free() {
        let first = free_port(DESTINATIONS).expect("ports");
        let last = first + u16::try_from(DESTINATIONS).expect("few") - 1;
        assert!(UdpSocket::bind((Ipv4Addr::LOCALHOST, last)).is_ok());
    }
}
