//! Received datagrams and datagrams to send, with their metadata.

use core::net::IpAddr;

use crate::exchange::ExchangeId;

/// A received datagram with its metadata.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Datagram<'a, P> {
    /// Source of the datagram.
    pub from: P,
    /// The UDP payload.
    pub bytes: &'a [u8],
    /// Local destination address, from which answers are sent (RFC 7252 §5.3.2). `None` if there is
    /// only one, or if the operating system chooses.
    pub local: Option<IpAddr>,
    /// The datagram was sent to a group of which this endpoint is a member, or broadcast (RFC 7252
    /// §8).
    pub multicast: bool,
    /// The ECN codepoint of the IP header.
    pub ecn: Ecn,
    /// The transport has validated the source address, as a DTLS handshake does. The endpoint then
    /// requires no [proof](crate::SourceValidation) of its own.
    pub validated: bool,
}

impl<'a, P> Datagram<'a, P> {
    /// Creates a unicast datagram to the only local address.
    pub const fn new(from: P, bytes: &'a [u8]) -> Self {
        Self { from, bytes, local: None, multicast: false, ecn: Ecn::NotCapable, validated: false }
    }
}

/// Explicit Congestion Notification: the field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: congestion causes loss.
    #[default]
    NotCapable,
    /// ECT(0).
    Capable0,
    /// ECT(1) (RFC 9331: low-latency service).
    Capable1,
    /// CE: a router on the path would have dropped the datagram.
    CongestionExperienced,
}

impl Ecn {
    /// Returns the two bits of the field.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Capable1 => 0b01,
            Self::Capable0 => 0b10,
            Self::CongestionExperienced => 0b11,
        }
    }
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit<P> {
    /// Destination of the datagram.
    pub to: P,
    /// Local address to send from: the destination address of the answered message. `None`: the
    /// operating system chooses.
    pub local: Option<IpAddr>,
    /// The ECN codepoint to send.
    pub ecn: Ecn,
    /// Length of the datagram in the buffer, in bytes.
    pub len: usize,
    /// The exchange that this datagram starts or continues: a request, ping, separate response or
    /// notification of this endpoint, including registrations that the endpoint repeats, and
    /// payloads of a Q-Block burst (RFC 9177). `None` for mere answers to a message of the peer:
    /// ACK, RST, piggybacked responses, reports about a burst.
    pub exchange: Option<ExchangeId>,
    /// 0 for an original transmission, n for the n-th retransmission. In a Q-Block burst, n for
    /// payloads sent after the n-th report of missing ones.
    pub attempt: u8,
}

impl<P> Transmit<P> {
    /// Creates an answer of `len` bytes, sent from any local address.
    pub const fn new(to: P, len: usize) -> Self {
        Self { to, local: None, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 }
    }
}
