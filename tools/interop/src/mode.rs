//! [`Mode`]: the protection or the emulated network between client and server.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use conche_proto::codec::{Code, Message, OptionNumber};
use serde::{Deserialize, Serialize};

use crate::endpoint::Peer;
use crate::ladder::{self, Direction};
use crate::tap::Captured;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Plain,
    /// DTLS with a pre-shared key.
    Psk,
    /// DTLS with a server certificate.
    Certificate,
    /// DTLS with certificates of both.
    Mutual,
    Oscore,
    /// Without protection, over the links of ANRW'18.
    Anrw18,
    /// Without protection, over a LAN that loses 10 % in each direction.
    Lossy,
    /// Without protection, over a Thread mesh of IEEE 802.15.4.
    Radio,
}

/// An emulated network, and the places of the programs in it.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// File or name, as in `conche emulate`.
    pub scenario: &'static str,
    /// Largest block of a client, in bytes.
    pub block: u16,
    pub client: Place,
    pub server: Place,
}

/// A node, and its number from 0 over all nodes of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub node: &'static str,
    pub number: u8,
}

impl Place {
    /// Its address in `conche emulate --gate namespaces`.
    pub fn address(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(self.number) + 1)
    }

    /// Its address in capture files.
    pub fn in_captures(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, self.number + 1)
    }
}

impl Mode {
    pub const SECURED: [Self; 4] = [Self::Psk, Self::Certificate, Self::Mutual, Self::Oscore];
    pub const EMULATED: [Self; 3] = [Self::Anrw18, Self::Lossy, Self::Radio];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Psk => "psk",
            Self::Certificate => "certificate",
            Self::Mutual => "mutual",
            Self::Oscore => "oscore",
            Self::Anrw18 => "anrw18",
            Self::Lossy => "lossy",
            Self::Radio => "radio",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Plain => "coap",
            Self::Psk => "coaps, a pre-shared key",
            Self::Certificate => "coaps, the server's certificate",
            Self::Mutual => "coaps, certificates of both ends",
            Self::Oscore => "OSCORE",
            Self::Anrw18 => "60 kbit/s up, 30 kbit/s down",
            Self::Lossy => "LAN that loses 10 %",
            Self::Radio => "Thread mesh, IEEE 802.15.4",
        }
    }

    pub fn peers(self) -> &'static [Peer] {
        match self {
            Self::Plain | Self::Anrw18 | Self::Lossy | Self::Radio => {
                &[Peer::Libcoap, Peer::Aiocoap, Peer::Californium, Peer::GoCoap, Peer::NodeCoap, Peer::Conche]
            }
            _ => &[
                Peer::LibcoapOpenssl,
                Peer::LibcoapGnutls,
                Peer::Aiocoap,
                Peer::Californium,
                Peer::GoCoap,
                Peer::Conche,
            ],
        }
    }

    pub fn is_secured(self) -> bool {
        Self::SECURED.contains(&self)
    }

    pub fn network(self) -> Option<Network> {
        Some(match self {
            Self::Anrw18 => Network {
                scenario: "tools/implementations/networks/anrw18.toml",
                block: 1024,
                client: Place { node: "client[0]", number: 0 },
                server: Place { node: "server", number: 22 },
            },
            Self::Lossy => Network {
                scenario: "tools/implementations/networks/lossy-lan.toml",
                block: 1024,
                client: Place { node: "client[0]", number: 0 },
                server: Place { node: "server", number: 11 },
            },
            Self::Radio => Network {
                scenario: "thread-reports",
                // A message of two frames.
                block: 64,
                client: Place { node: "light[0]", number: 4 },
                server: Place { node: "hub", number: 0 },
            },
            _ => return None,
        })
    }

    fn has_sessions(self) -> bool {
        matches!(self, Self::Psk | Self::Certificate | Self::Mutual)
    }

    pub fn scheme(self) -> &'static str {
        if self.has_sessions() { "coaps" } else { "coap" }
    }

    pub fn transcript(self, captured: &[Captured]) -> String {
        if !self.has_sessions() {
            return ladder::transcript(captured);
        }
        captured.iter().fold(String::new(), |mut text, Captured { direction, bytes, .. }| {
            let arrow = if *direction == Direction::ToServer { '>' } else { '<' };
            let what = bytes.first().and_then(|ty| record(*ty)).unwrap_or("no record");
            let _ = writeln!(text, "       {arrow} {what}, {} bytes", bytes.len());
            text
        })
    }

    pub fn exposed(self, captured: &[Captured]) -> Option<String> {
        let is_protected = |captured: &Captured| match Message::decode(&captured.bytes) {
            _ if self.has_sessions() => captured.bytes.first().is_some_and(|ty| record(*ty).is_some()),
            Ok(message) => message.code() == Code::EMPTY || message.option(OptionNumber::OSCORE).is_some(),
            Err(_) => false,
        };
        let exposed = captured.iter().find(|captured| !is_protected(captured))?;
        Some(format!("it is not protected: {}", ladder::transcript(std::slice::from_ref(exposed)).trim()))
    }
}

/// Content type of a DTLS record by its first byte (RFC 6347 §4.1, RFC 5246 §6.2.1).
fn record(content_type: u8) -> Option<&'static str> {
    Some(match content_type {
        20 => "ChangeCipherSpec",
        21 => "Alert",
        22 => "Handshake",
        23 => "ApplicationData",
        _ => return None,
    })
}

/// A run uses up OSCORE sequence numbers. The copies are private, as the programs require.
pub fn copy_credentials(from: &Path, to: &Path) -> Result<()> {
    let context = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::create_dir_all(to).with_context(context)?;
    for entry in fs::read_dir(from).with_context(context)? {
        let entry = entry.with_context(context)?;
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_credentials(&source, &copy)?;
            continue;
        }
        fs::copy(&source, &copy).with_context(context)?;
        #[cfg(unix)]
        fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o600)).with_context(context)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(bytes: &[u8]) -> [Captured; 1] {
        [Captured { direction: Direction::ToServer, lost: false, bytes: bytes.to_vec() }]
    }

    #[test]
    fn unprotected_messages_in_a_secured_mode_are_exposed() {
        let plain = captured(b"\x41\x01\x00\x01\x0a\xb4test");
        let protected = captured(b"\x41\x02\x00\x01\x0a\x91\x09\xffciphertext");
        let acknowledgement = captured(b"\x60\x00\x00\x01");
        let record = captured(b"\x17\xfe\xfd");
        for (mode, bytes, exposed) in [
            (Mode::Oscore, &plain, true),
            (Mode::Oscore, &protected, false),
            (Mode::Oscore, &acknowledgement, false),
            (Mode::Psk, &protected, true),
            (Mode::Psk, &record, false),
            (Mode::Mutual, &captured(b""), true),
        ] {
            assert_eq!(mode.exposed(bytes).is_some(), exposed, "{mode:?} {bytes:?}");
        }
    }

    #[test]
    fn the_addresses_of_a_node_follow_from_its_number() {
        let server = Place { node: "server", number: 22 };
        assert_eq!(server.address().to_string(), "fd00::17");
        assert_eq!(server.in_captures().to_string(), "10.0.0.23");
    }

    #[test]
    fn no_datagram_of_a_session_begins_as_a_message_of_coap_does() {
        // RFC 7983 §7: the version of CoAP is in the two highest bits.
        assert!((64..128).all(|byte| record(byte).is_none()));
    }
}
