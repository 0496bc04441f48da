//! The measured implementations.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::load::Load;
use tool_support::peers::{AIOCOAP, CALIFORNIUM, COAP_RS, GO_COAP, NODE_COAP};

/// An implementation, or the raw baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// Baseline: datagrams that look like CoAP responses, without a protocol.
    Raw,
    Conche,
    /// conche's client with busy polling.
    ConcheBusyPoll,
    /// conche.aio, in the Python package.
    ConcheAsyncio,
    Libcoap,
    Californium,
    GoCoap,
    CoapRs,
    NodeCoap,
    Aiocoap,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw UDP",
            Self::Conche => "conche",
            Self::ConcheBusyPoll => "conche, busy_poll",
            Self::ConcheAsyncio => "conche, asyncio",
            Self::Libcoap => "libcoap",
            Self::Californium => "Californium",
            Self::GoCoap => "go-coap",
            Self::CoapRs => "coap-rs",
            Self::NodeCoap => "node-coap",
            Self::Aiocoap => "aiocoap",
        }
    }

    /// Directory of its programs in `tools/bench-peers`, and name in arguments.
    pub fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Californium => "californium",
            Self::ConcheBusyPoll => "conche-busy-poll",
            Self::ConcheAsyncio => "conche-asyncio",
            other => other.name(),
        }
    }

    /// Pinned version; `None` for Debian's packages and the baseline.
    pub fn version(self) -> Option<&'static str> {
        match self {
            Self::Conche | Self::ConcheBusyPoll | Self::ConcheAsyncio => Some(env!("CARGO_PKG_VERSION")),
            Self::Californium => Some(CALIFORNIUM),
            Self::GoCoap => Some(GO_COAP),
            Self::CoapRs => Some(COAP_RS),
            Self::NodeCoap => Some(NODE_COAP),
            Self::Aiocoap => Some(AIOCOAP),
            Self::Raw | Self::Libcoap => None,
        }
    }

    /// Additional arguments of its client.
    pub fn of_client(self) -> &'static [&'static str] {
        match self {
            Self::ConcheBusyPoll => &["100"],
            _ => &[],
        }
    }

    /// Whether this load applies to it.
    pub fn takes(self, load: Load) -> bool {
        match load {
            // Busy polling only affects waits for a single response.
            _ if self == Self::ConcheBusyPoll => load == Load::OneServer,
            Load::Many | Load::Wide | Load::Single | Load::OneServer | Load::ManyServers => true,
            // Its server has no choice of reliability for notifications.
            _ if self == Self::ConcheAsyncio => matches!(load, Load::Known | Load::Blocks),
            Load::Dtls | Load::Handshakes => matches!(self, Self::Conche | Self::Libcoap | Self::Californium),
            Load::Oscore => matches!(self, Self::Conche | Self::Californium | Self::Aiocoap),
            // The baseline has no state, notifications or blocks.
            _ => self != Self::Raw,
        }
    }
}
