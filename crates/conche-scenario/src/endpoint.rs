//! Endpoint parameters and message protection.

use std::time::Duration;

use serde::Deserialize;

use super::{AtLeastOne, ScenarioError, ensure};
use crate::units::{Size, Span};

/// Parameters of every CoAP endpoint; names and defaults of RFC 7252.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Endpoint {
    /// MAX_RETRANSMIT.
    pub max_retransmit: u8,
    /// Whether the last retransmission's acknowledgement is awaited. `false` as in Contiki's
    /// er-coap.
    pub last_timeout: bool,
    /// MAX_TRANSMIT_SPAN. Default: RFC 7252's, by `max_retransmit`.
    pub max_transmit_span: Option<Span>,
    /// NSTART.
    pub nstart: u16,
    /// Bounds on the timeouts of all schemes, besides `timeout_cap`.
    pub envelope: Envelope,
    /// Maximum timeout, for all schemes.
    pub timeout_cap: Span,
    /// Token length of requests, 0 to 8 bytes.
    pub token_length: u8,
    /// Maximum queued requests per endpoint. Default: 65 536.
    pub queue: Option<AtLeastOne>,
    /// Header bytes around a CoAP message, for rates and goodput. Default: 28 (IP and UDP).
    pub datagram_overhead: Option<Size>,
    /// Protection of messages.
    pub security: Security,
    /// Parameters of DTLS handshakes.
    pub handshakes: Handshakes,
}

/// Bounds on timeouts that the endpoint enforces under any controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Envelope {
    /// Those of a deployed endpoint: a minimum first timeout, and no timeout of an exchange is
    /// shorter than the previous one.
    #[default]
    Default,
    /// Neither, for papers that had none.
    Open,
}

impl Default for Endpoint {
    /// RFC 7252 §4.8; 4-byte tokens.
    fn default() -> Self {
        let timeout_cap = Span(Duration::from_secs(60));
        Self {
            max_retransmit: 4,
            last_timeout: true,
            max_transmit_span: None,
            nstart: 1,
            envelope: Envelope::default(),
            timeout_cap,
            token_length: 4,
            queue: None,
            datagram_overhead: None,
            security: Security::default(),
            handshakes: Handshakes::default(),
        }
    }
}

impl Endpoint {
    /// Returns the header bytes around a CoAP message.
    pub fn overhead(&self) -> u32 {
        const IP_AND_UDP: u32 = 28;
        self.datagram_overhead.map_or(IP_AND_UDP, |size| u32::try_from(size.0).unwrap_or(u32::MAX))
    }

    /// Returns the safety envelope.
    #[must_use]
    pub fn safety_envelope(&self) -> conche_proto::Envelope {
        let timeout_cap = self.timeout_cap.0;
        match self.envelope {
            Envelope::Default => conche_proto::Envelope { timeout_cap, ..conche_proto::Envelope::default() },
            Envelope::Open => conche_proto::Envelope::open(timeout_cap),
        }
    }

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let never = "without retransmissions, no acknowledgement would be awaited; set `max_retransmit` to at least 1";
        ensure(self.last_timeout || self.max_retransmit > 0, "endpoint.last_timeout", never)?;
        let no_time = "0 s leaves no time for a retransmission; RFC 7252 has 45 s";
        let span = self.max_transmit_span.is_none_or(|span| !span.0.is_zero());
        ensure(span, "endpoint.max_transmit_span", no_time)?;
        ensure(self.nstart > 0, "endpoint.nstart", "0 exchanges at a time; RFC 7252 has 1")?;
        let long = format_args!("{} bytes; a token has at most 8 (RFC 7252 §3)", self.token_length);
        ensure(self.token_length <= 8, "endpoint.token_length", long)?;
        let headers = self.datagram_overhead.is_none_or(|size| u32::try_from(size.0).is_ok());
        ensure(headers, "endpoint.datagram_overhead", "no headers are as long; those of IP and UDP have 28B")?;
        self.handshakes.validate()?;
        let pause = "a timeout of 0 repeats messages without a pause; write it as in \"60s\"";
        ensure(!self.timeout_cap.0.is_zero(), "endpoint.timeout_cap", pause)?;
        let floor = self.safety_envelope().timeout_floor;
        let low = format_args!(
            "{} is below the minimum first timeout of the endpoint, {}; make it at least that, or remove the minimum \
             by `envelope = \"open\"`",
            self.timeout_cap,
            Span(floor)
        );
        ensure(self.timeout_cap.0 >= floor, "endpoint.timeout_cap", low)
    }
}

/// Protection of all endpoints' messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Security {
    /// None.
    #[default]
    Plain,
    /// DTLS 1.2 with a pre-shared key (RFC 7252 §9.1.3.1), opened by a client's first request.
    DtlsPsk,
}

impl Security {
    /// Record header, nonce and tag of AES-CCM-8 (RFC 6655).
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::DtlsPsk => 13 + 8 + 8,
        }
    }
}

/// Parameters of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Handshakes {
    /// Maximum UDP payload of handshake datagrams. Default: 1280 B.
    pub mtu: Size,
    /// Initial flight timeout on an unmeasured path, and minimum otherwise; doubles with each
    /// retransmission. Default: 1 s (RFC 6347 §4.2.4.1).
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
    /// For the cipher suites.
    const LEAST: u64 = 99;
    const MOST: u64 = 65_507;

    fn validate(&self) -> Result<(), ScenarioError> {
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
