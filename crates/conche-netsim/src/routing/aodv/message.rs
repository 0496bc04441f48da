//! AODV messages and their encoding, with 16-bit addresses (RFC 3561 §5 uses IPv4's).

use super::metric::Cost;
use crate::NodeId;

/// An AODV message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Route request (RREQ), broadcast.
    Request {
        /// The requesting node.
        origin: NodeId,
        /// The origin's sequence number, which identifies the request.
        sequence: u16,
        /// The destination of the route.
        destination: NodeId,
        /// Cost of the path from the origin to this message's sender.
        cost: Cost,
    },
    /// Route reply (RREP), from the destination back to the origin.
    Reply {
        /// The requesting node.
        origin: NodeId,
        /// The replying node.
        destination: NodeId,
        /// The destination's sequence number.
        sequence: u16,
        /// Cost of the path from this message's sender to the destination.
        cost: Cost,
    },
    /// Route error (RERR), to the origin of a packet that could not be forwarded.
    Error {
        /// The packet's origin.
        origin: NodeId,
        /// The unreachable destination.
        destination: NodeId,
    },
}

impl Message {
    /// Encodes the message.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        let (kind, origin, destination, rest) = match self {
            Self::Request { origin, sequence, destination, cost } => (1, origin, destination, Some((sequence, cost))),
            Self::Reply { origin, destination, sequence, cost } => (2, origin, destination, Some((sequence, cost))),
            Self::Error { origin, destination } => (3, origin, destination, None),
        };
        let mut octets = vec![kind];
        octets.extend(address(origin));
        octets.extend(address(destination));
        if let Some((sequence, cost)) = rest {
            octets.extend(sequence.to_be_bytes());
            octets.push(cost.hops);
            octets.extend(cost.delivery.to_be_bytes());
        }
        octets
    }

    /// Decodes a message.
    #[must_use]
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let (&[kind, a, b, c, d], rest) = octets.split_first_chunk::<5>()?;
        let node = |octets| NodeId(u16::from_be_bytes(octets).into());
        let (origin, destination) = (node([a, b]), node([c, d]));
        if kind == 3 {
            return Some(Self::Error { origin, destination });
        }
        let [e, f, hops, g, h] = *rest.first_chunk::<5>()?;
        let (sequence, cost) = (u16::from_be_bytes([e, f]), Cost { hops, delivery: u16::from_be_bytes([g, h]) });
        match kind {
            1 => Some(Self::Request { origin, sequence, destination, cost }),
            2 => Some(Self::Reply { origin, destination, sequence, cost }),
            _ => None,
        }
    }
}

pub(crate) fn address(node: NodeId) -> [u8; 2] {
    u16::try_from(node.0).expect("a radio network has fewer than 2^16 stations").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_and_decoding_round_trip() {
        let (origin, destination, sequence) = (NodeId(7), NodeId(300), 65_535);
        let cost = Cost { hops: 4, delivery: 1234 };
        for message in [
            Message::Request { origin, sequence, destination, cost },
            Message::Reply { origin, destination, sequence, cost },
            Message::Error { origin, destination },
        ] {
            let octets = message.encode();
            assert_eq!(Message::decode(&octets), Some(message));
            assert_eq!(Message::decode(&octets[..octets.len() - 1]), None);
        }
        assert_eq!(Message::decode(&[9; 10]), None);
    }
}
