//! The measured loads.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub const BIG: f64 = 65536.0;

/// Destinations of a client in [`Load::ManyServers`].
pub const DESTINATIONS: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    Plain,
    Psk,
    Oscore,
}

/// A load of a server, or of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// 16 sockets with 8 concurrent requests each.
    Many,
    /// 1000 sockets with one request at a time.
    Wide,
    /// One socket with one request at a time.
    Single,
    /// Like `Many`, once the server knows many peers.
    Known,
    /// 1000 observers of one resource.
    Observed,
    /// 10 000 observers of one resource.
    Crowd,
    /// 64 KiB in blocks.
    Blocks,
    /// Like `Many`, over DTLS with a pre-shared key.
    Dtls,
    /// Like `Many`, protected by OSCORE.
    Oscore,
    /// 16 sockets with a DTLS session per request; first, many idle sessions for their memory.
    Handshakes,
    /// A client with one destination.
    OneServer,
    /// A client with 64 destinations.
    ManyServers,
}

impl Load {
    pub fn title(self) -> String {
        match self {
            Self::Many => "16 sockets, 8 requests at a time each".to_owned(),
            Self::Wide => "1000 sockets, one request at a time each".to_owned(),
            Self::Single => "One socket, one request at a time".to_owned(),
            Self::Known => "16 sockets, 8 requests at a time each, once many peers are known".to_owned(),
            Self::Observed => "1000 observers of one resource, Confirmable notifications".to_owned(),
            Self::Crowd => "10 000 observers of one resource, Confirmable notifications".to_owned(),
            Self::Blocks => "64 KiB in blocks of 1024 bytes, 16 sockets".to_owned(),
            Self::Dtls => {
                "Protected over plain: 16 sockets, 8 requests at a time each, over DTLS with a pre-shared key"
                    .to_owned()
            }
            Self::Oscore => {
                "Protected over plain: 16 sockets, 8 requests at a time each, over OSCORE with keys for each socket"
                    .to_owned()
            }
            Self::Handshakes => "16 sockets, a DTLS session with a pre-shared key for each request".to_owned(),
            Self::OneServer => "Clients: one destination, one request at a time".to_owned(),
            Self::ManyServers => format!("Clients: {DESTINATIONS} destinations, one request at a time to each"),
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Many => "16 x 8",
            Self::Wide => "1000 x 1",
            Self::Single => "1 x 1",
            Self::Known => "16 x 8, many peers known",
            Self::Observed => "1000 observers",
            Self::Crowd => "10 000 observers",
            Self::Blocks => "64 KiB in blocks",
            Self::Dtls => "16 x 8, DTLS",
            Self::Oscore => "16 x 8, OSCORE",
            Self::Handshakes => "handshakes",
            Self::OneServer => "client, 1 destination",
            Self::ManyServers => "client, 64 destinations",
        }
    }

    /// Of `conche bench`; none for a client.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Many | Self::Known | Self::Dtls | Self::Oscore => &["--endpoints", "16", "--in-flight", "8"],
            Self::Wide => &["--endpoints", "1000", "--in-flight", "1"],
            Self::Single => &["--endpoints", "1", "--in-flight", "1"],
            Self::Observed => &["--endpoints", "1000", "--in-flight", "1", "--observe"],
            Self::Crowd => &["--endpoints", "10000", "--in-flight", "1", "--observe"],
            Self::Blocks => &["--endpoints", "16", "--in-flight", "1"],
            Self::Handshakes => &["--endpoints", "16", "--in-flight", "1", "--handshakes"],
            Self::OneServer | Self::ManyServers => &[],
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            Self::Observed | Self::Crowd => "/tick",
            Self::Blocks => "/big",
            _ => "/test",
        }
    }

    pub fn protection(self) -> Protection {
        match self {
            Self::Dtls | Self::Handshakes => Protection::Psk,
            Self::Oscore => Protection::Oscore,
            _ => Protection::Plain,
        }
    }

    pub fn is_observed(self) -> bool {
        matches!(self, Self::Observed | Self::Crowd)
    }

    pub fn is_compared_with_many(self) -> bool {
        matches!(self, Self::Known | Self::Dtls | Self::Oscore)
    }

    /// Servers that a client uses; `None` if a server is measured.
    pub fn destinations(self) -> Option<u32> {
        match self {
            Self::OneServer => Some(1),
            Self::ManyServers => Some(DESTINATIONS),
            _ => None,
        }
    }
}
