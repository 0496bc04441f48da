//! The fixed four-byte header of every message (RFC 7252 §3).

use core::fmt;

use super::Code;

/// The message type, which selects the handling by the message layer (RFC 7252 §4.2, §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// CON: retransmitted until acknowledged or reset.
    Confirmable,
    /// NON: never acknowledged.
    NonConfirmable,
    /// ACK: acknowledges a Confirmable message, with or without a piggybacked response.
    Acknowledgement,
    /// RST: the message with this ID could not be processed.
    Reset,
}

impl Type {
    pub(super) const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0 => Self::Confirmable,
            1 => Self::NonConfirmable,
            2 => Self::Acknowledgement,
            _ => Self::Reset,
        }
    }

    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Confirmable => 0,
            Self::NonConfirmable => 1,
            Self::Acknowledgement => 2,
            Self::Reset => 3,
        }
    }
}

/// Prints the RFC's abbreviation: `CON`, `NON`, `ACK` or `RST`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Confirmable => "CON",
            Self::NonConfirmable => "NON",
            Self::Acknowledgement => "ACK",
            Self::Reset => "RST",
        })
    }
}

/// The message ID: detects duplicates and matches ACK and RST to CON and NON (RFC 7252 §4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u16);

/// Prints four hexadecimal digits: `0x1a2b`.
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// Type, code and message ID: the fields that the message layer needs even if the rest of the
/// message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The type (T).
    pub ty: Type,
    /// The code.
    pub code: Code,
    /// The message ID.
    pub id: MessageId,
}

/// The protocol version, in the two highest bits of the first byte.
pub(super) const VERSION: u8 = 1;

/// Length of the header in bytes.
pub(super) const HEADER_LENGTH: usize = 4;

impl Header {
    /// Decodes a header without its version and token length.
    pub(super) const fn from_bytes([first, code, id_high, id_low]: [u8; HEADER_LENGTH]) -> Self {
        Self { ty: Type::from_bits(first >> 4), code: Code(code), id: MessageId(u16::from_be_bytes([id_high, id_low])) }
    }

    /// Decodes the header of a datagram of at least four bytes, whether or not the rest is
    /// well-formed.
    pub(crate) fn of(datagram: &[u8]) -> Option<Self> {
        datagram.first_chunk().map(|bytes| Self::from_bytes(*bytes))
    }

    pub(super) const fn to_bytes(self, tkl: u8) -> [u8; HEADER_LENGTH] {
        let [id_high, id_low] = self.id.0.to_be_bytes();
        [VERSION << 6 | self.ty.bits() << 4 | tkl, self.code.0, id_high, id_low]
    }
}
