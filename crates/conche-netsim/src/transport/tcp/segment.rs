//! Segments and their encoding.

/// A segment. Unlisted fields are zero: ports, checksum, and the receiver's always open window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Opens the transfer.
    Syn,
    /// Accepts it.
    SynAck,
    /// Data.
    Data {
        /// The segment's number, from 0.
        number: u32,
    },
    /// An acknowledgment.
    Ack {
        /// The next expected number ([`Cumulative`](super::Acknowledgments::Cumulative)), or the
        /// arrived segment's ([`Positive`](super::Acknowledgments::Positive)).
        number: u32,
    },
}

/// Octets of a segment without padding and payload.
pub const ENCODED_OCTETS: usize = 5;

impl Segment {
    /// Returns `true` if the segment carries payload.
    #[must_use]
    pub const fn has_payload(self) -> bool {
        matches!(self, Self::Data { .. })
    }

    /// Encodes kind and number.
    #[must_use]
    pub fn encode(self) -> [u8; ENCODED_OCTETS] {
        let (kind, number) = match self {
            Self::Syn => (0, 0),
            Self::SynAck => (1, 0),
            Self::Data { number } => (2, number),
            Self::Ack { number } => (3, number),
        };
        let [a, b, c, d] = number.to_be_bytes();
        [kind, a, b, c, d]
    }

    /// Decodes the segment at the start of `octets`.
    #[must_use]
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let [kind, number @ ..] = octets.first_chunk::<ENCODED_OCTETS>()?;
        let number = u32::from_be_bytes(*number);
        match kind {
            0 => Some(Self::Syn),
            1 => Some(Self::SynAck),
            2 => Some(Self::Data { number }),
            3 => Some(Self::Ack { number }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_and_decoding_round_trip() {
        for segment in [Segment::Syn, Segment::SynAck, Segment::Data { number: 70_000 }, Segment::Ack { number: 469 }] {
            assert_eq!(Segment::decode(&segment.encode()), Some(segment));
        }
        assert_eq!((Segment::decode(&[2, 0, 0, 0]), Segment::decode(&[4, 0, 0, 0, 0])), (None, None));
    }
}
