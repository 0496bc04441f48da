//! Who is measured.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::load::Load;
use crate::peers::{AIOCOAP, CALIFORNIUM};

/// An implementation, or the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// The floor: datagrams that look like CoAP's responses, and no protocol.
    Raw,
    /// Ourselves.
    Conche,
    /// Our client, looking for answers without sleeping.
    ConcheBusyPoll,
    /// Debian's libcoap.
    Libcoap,
    /// Californium of Maven Central.
    Californium,
    /// go-coap of the Go proxy.
    GoCoap,
    /// coap-rs of crates.io.
    CoapRs,
    /// node-coap of npm.
    NodeCoap,
    /// aiocoap of PyPI.
    Aiocoap,
}

impl Peer {
    /// In the order of the tables.
    pub const ALL: [Self; 9] = [
        Self::Raw,
        Self::Conche,
        Self::ConcheBusyPoll,
        Self::Libcoap,
        Self::Californium,
        Self::GoCoap,
        Self::CoapRs,
        Self::NodeCoap,
        Self::Aiocoap,
    ];

    /// Its name, as its authors write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw UDP",
            Self::Conche => "conche",
            Self::ConcheBusyPoll => "conche, busy_poll",
            Self::Libcoap => "libcoap",
            Self::Californium => "Californium",
            Self::GoCoap => "go-coap",
            Self::CoapRs => "coap-rs",
            Self::NodeCoap => "node-coap",
            Self::Aiocoap => "aiocoap",
        }
    }

    /// The directory of its programs in `bench/peers`, and the word for it in arguments.
    pub fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Californium => "californium",
            Self::ConcheBusyPoll => "conche-busy-poll",
            other => other.name(),
        }
    }

    /// The version that is measured, where we say which; of Debian's it is what is installed.
    pub fn version(self) -> Option<&'static str> {
        match self {
            Self::Conche | Self::ConcheBusyPoll => Some(env!("CARGO_PKG_VERSION")),
            Self::Californium => Some(CALIFORNIUM),
            Self::GoCoap => Some("3.5.4"),
            Self::CoapRs => Some("0.29.0"),
            Self::NodeCoap => Some("1.5.0"),
            Self::Aiocoap => Some(AIOCOAP),
            Self::Raw | Self::Libcoap => None,
        }
    }

    /// What its client is told besides.
    pub fn of_client(self) -> &'static [&'static str] {
        match self {
            Self::ConcheBusyPoll => &["100"],
            _ => &[],
        }
    }

    /// It can be loaded so.
    pub fn takes(self, load: Load) -> bool {
        match load {
            // It waits for one answer at a time; nothing else about it is another.
            _ if self == Self::ConcheBusyPoll => load == Load::OneServer,
            Load::Many | Load::Wide | Load::Single | Load::OneServer | Load::ManyServers => true,
            Load::Dtls | Load::Handshakes => matches!(self, Self::Conche | Self::Libcoap | Self::Californium),
            Load::Oscore => matches!(self, Self::Conche | Self::Californium | Self::Aiocoap),
            // There is nothing in it that could grow, tell or divide.
            _ => self != Self::Raw,
        }
    }
}
