//! Protection of messages between endpoints.

use std::time::Duration;

use serde::Deserialize;

use super::{ScenarioError, Sender, Traffic, ensure};
use crate::units::{Size, Span};

/// Protection of the messages of all endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Security {
    /// None.
    #[default]
    Plain,
    /// DTLS 1.2 with a pre-shared key (RFC 7252 §9.1.3.1). A client opens a session with a server
    /// for its first request to it.
    DtlsPsk,
}

impl Security {
    /// Returns the bytes added to a message: record header, nonce and tag of AES-CCM-8 (RFC 6655).
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::DtlsPsk => 13 + 8 + 8,
        }
    }

    /// Checks that the traffic can be protected.
    pub(super) fn validate(self, traffic: &[Traffic]) -> Result<(), ScenarioError> {
        let plain = |one: &&Traffic| one.observe.is_some() || one.sender == Sender::Unaware;
        match traffic.iter().find(plain) {
            Some(one) if self != Self::Plain => {
                let problem = format!(
                    "what observes (`{}`), and senders that are unaware, have no sessions; write it as \"plain\"",
                    one.name
                );
                Err(ScenarioError::new("endpoint.security", problem))
            }
            _ => Ok(()),
        }
    }
}

/// Parameters of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Handshakes {
    /// Maximum UDP payload of handshake datagrams; longer flights are fragmented. Default: 1280 B.
    pub mtu: Size,
    /// Minimum time before a flight is retransmitted, and the time for an unmeasured path. It
    /// doubles with each retransmission. Default: 1 s (RFC 6347 §4.2.4.1).
    pub flight_timeout: Span,
    /// Maximum duration of a handshake. Default: 93 s (MAX_TRANSMIT_WAIT, RFC 7252 §4.8.2).
    pub deadline: Span,
}

impl Default for Handshakes {
    fn default() -> Self {
        let span = |seconds| Span(Duration::from_secs(seconds));
        Self { mtu: Size(1280), flight_timeout: span(1), deadline: span(93) }
    }
}

impl Handshakes {
    /// Minimum size of the first datagram, which must contain the cipher suites.
    const LEAST: u64 = 99;
    const MOST: u64 = 65_507;

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let mtu = format_args!("{}; it must be between {}B and {}B", self.mtu, Self::LEAST, Self::MOST);
        ensure((Self::LEAST..=Self::MOST).contains(&self.mtu.0), "endpoint.handshakes.mtu", mtu)?;
        for (key, span) in [("flight_timeout", self.flight_timeout), ("deadline", self.deadline)] {
            let place = format_args!("endpoint.handshakes.{key}");
            let day = Duration::from_secs(24 * 60 * 60);
            let problem = format_args!("{span}; it must be longer than 0s, and a day at most");
            ensure(!span.0.is_zero() && span.0 <= day, place, problem)?;
        }
        Ok(())
    }
}
