//! The value of the OSCORE option (RFC 8613 §6.1).

use smallvec::SmallVec;

use super::context::Sequence;

/// A sequence number without leading zeros, one byte for 0 (RFC 8613 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartialIv {
    /// Big-endian.
    padded: [u8; Self::LONGEST],
}

impl PartialIv {
    pub(super) const LONGEST: usize = 5;

    pub(super) fn new(number: u64) -> Option<Self> {
        if number >= Sequence::END {
            return None;
        }
        let [_, _, _, padded @ ..] = number.to_be_bytes();
        Some(Self { padded })
    }

    /// Accepts one encoding per number, because the bytes are authenticated.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut padded = [0; Self::LONGEST];
        padded.get_mut(Self::LONGEST.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
        let number = Self { padded };
        (number.as_slice() == bytes).then_some(number)
    }

    pub(super) const fn padded(self) -> [u8; Self::LONGEST] {
        self.padded
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        let leading = self.padded.iter().take(Self::LONGEST - 1).take_while(|byte| **byte == 0).count();
        self.padded.get(leading..).unwrap_or_default()
    }

    pub(super) fn number(self) -> u64 {
        self.padded.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OptionValue<'a> {
    pub(super) number: Option<PartialIv>,
    pub(super) kid_context: Option<&'a [u8]>,
    pub(super) kid: Option<&'a [u8]>,
}

const NUMBER_LENGTH: u8 = 0b111;
const HAS_KID: u8 = 1 << 3;
const HAS_KID_CONTEXT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

impl<'a> OptionValue<'a> {
    /// `None` if the value does not conform to RFC 8613 §6.1.
    pub(super) fn decode(value: &'a [u8]) -> Option<Self> {
        let Some((&flags, rest)) = value.split_first() else { return Some(Self::default()) };
        // Without flags, the value must be empty (§2).
        if flags == 0 || flags & RESERVED != 0 {
            return None;
        }
        let (number, rest) = match flags & NUMBER_LENGTH {
            0 => (None, rest),
            length => {
                let (number, rest) = rest.split_at_checked(length.into())?;
                (Some(PartialIv::decode(number)?), rest)
            }
        };
        let (kid_context, rest) = match (flags & HAS_KID_CONTEXT, rest) {
            (0, rest) => (None, rest),
            (_, [length, rest @ ..]) => {
                let (kid_context, rest) = rest.split_at_checked((*length).into())?;
                (Some(kid_context), rest)
            }
            _ => return None,
        };
        let kid = match (flags & HAS_KID, rest) {
            (0, []) => None,
            (0, _) => return None,
            (_, kid) => Some(kid),
        };
        Some(Self { number, kid_context, kid })
    }

    pub(super) fn encode(&self) -> SmallVec<[u8; 24]> {
        let number = self.number.as_ref().map_or(&[][..], PartialIv::as_slice);
        let flags = number.len().to_le_bytes()[0]
            | self.kid.map_or(0, |_| HAS_KID)
            | self.kid_context.map_or(0, |_| HAS_KID_CONTEXT);
        let mut value = SmallVec::new();
        if flags == 0 {
            return value;
        }
        value.push(flags);
        value.extend_from_slice(number);
        if let Some(kid_context) = self.kid_context {
            value.push(kid_context.len().to_le_bytes()[0]);
            value.extend_from_slice(kid_context);
        }
        value.extend_from_slice(self.kid.unwrap_or_default());
        value
    }
}
