//! Option values: integers, No-Response and Observe.

use core::time::Duration;

use conche_cc::Instant;

use super::{Code, Content, OptionNumber};

/// The shortest encoding of a number: 0 to 4 bytes, big-endian (RFC 7252 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UintBytes {
    /// The bytes after `length` are zero.
    bytes: [u8; 4],
    length: u8,
}

impl UintBytes {
    /// Returns the encoded bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&self.bytes)
    }

    pub(super) const fn padded(self) -> [u8; 4] {
        self.bytes
    }

    pub(super) const fn len(self) -> u8 {
        self.length
    }
}

/// Encodes `value` without leading zero bytes; 0 is the empty value.
#[must_use]
pub const fn encode_uint(value: u32) -> UintBytes {
    let (length, shifted) = match value {
        0 => (0, 0),
        0x1..=0xff => (1, value << 24),
        0x100..=0xffff => (2, value << 16),
        0x1_0000..=0xff_ffff => (3, value << 8),
        _ => (4, value),
    };
    UintBytes { bytes: shifted.to_be_bytes(), length }
}

/// Decodes a value, leading zeros included; `None` if it does not fit 32 bits.
#[must_use]
pub fn decode_uint(value: &[u8]) -> Option<u32> {
    value.iter().try_fold(0_u32, |number, &byte| number.checked_mul(0x100)?.checked_add(byte.into()))
}

/// The response classes that a client does not want (RFC 7967 §2).
///
/// ```
/// use conche_proto::codec::{Code, NoResponse};
///
/// let unwanted = NoResponse::SUCCESS.and(NoResponse::SERVER_ERROR);
/// assert!(unwanted.suppresses(Code::CHANGED) && !unwanted.suppresses(Code::NOT_FOUND));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoResponse(pub u8);

impl NoResponse {
    /// Suppresses no response, as without the option.
    pub const NOTHING: Self = Self(0);
    /// Suppresses 2.xx.
    pub const SUCCESS: Self = Self(1 << 1);
    /// Suppresses 4.xx.
    pub const CLIENT_ERROR: Self = Self(1 << 3);
    /// Suppresses 5.xx.
    pub const SERVER_ERROR: Self = Self(1 << 4);
    /// Suppresses every response.
    pub const ALL: Self = Self::SUCCESS.and(Self::CLIENT_ERROR).and(Self::SERVER_ERROR);

    /// Returns the value in a request; [`NOTHING`](Self::NOTHING) if absent or malformed.
    #[must_use]
    pub fn of(request: &Content<'_>) -> Self {
        Self::of_value(request.option(OptionNumber::NO_RESPONSE))
    }

    pub(crate) fn of_value(value: Option<&[u8]>) -> Self {
        value.and_then(decode_uint).and_then(|value| u8::try_from(value).ok()).map_or(Self::NOTHING, Self)
    }

    /// Returns the union of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if a response with this code must not be sent.
    #[must_use]
    pub const fn suppresses(self, code: Code) -> bool {
        code.is_response() && self.0 & (1 << (code.class() - 1)) != 0
    }

    /// Returns `true` if no response of any defined class is wanted.
    #[must_use]
    pub const fn suppresses_all(self) -> bool {
        self.0 & Self::ALL.0 == Self::ALL.0
    }
}

/// The value of Observe that registers an observer (RFC 7641 §2).
pub(crate) const REGISTER: u32 = 0;

/// Sequence number and arrival time of a notification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) sequence: u32,
    pub(crate) received: Instant,
}

impl Order {
    /// Returns `true` if a notification of order `new` is newer (RFC 7641 §3.4).
    pub(crate) fn is_before(&self, new: &Self) -> bool {
        const HALF: u32 = 1 << 23;
        let (old, sequence) = (self.sequence, new.sequence);
        (old < sequence && sequence - old < HALF)
            || (old > sequence && old - sequence > HALF)
            || new.received > self.received + Duration::from_secs(128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_form_is_written() {
        let cases: [(u32, &[u8]); 7] = [
            (0, &[]),
            (1, &[1]),
            (255, &[255]),
            (256, &[1, 0]),
            (0xffff, &[0xff, 0xff]),
            (0x1_0000, &[1, 0, 0]),
            (u32::MAX, &[0xff; 4]),
        ];
        for (value, bytes) in cases {
            assert_eq!(encode_uint(value).as_slice(), bytes);
            assert_eq!(decode_uint(bytes), Some(value));
        }
    }

    #[test]
    fn leading_zeros_are_accepted_however_many() {
        assert_eq!(decode_uint(&[0, 0]), Some(0));
        assert_eq!(decode_uint(&[0, 0, 0, 0, 0, 1, 2]), Some(258));
    }

    #[test]
    fn more_than_32_bits_are_refused() {
        assert_eq!(decode_uint(&[1, 0, 0, 0, 0]), None);
    }

    // RFC 7967 §2.1, Table 2
    #[test]
    fn each_bit_stands_for_a_class() {
        for (value, suppressed) in [(0, &[][..]), (2, &[2]), (8, &[4]), (16, &[5]), (26, &[2, 4, 5]), (24, &[4, 5])] {
            for class in [2, 4, 5] {
                let code = Code::new(class, 1);
                assert_eq!(NoResponse(value).suppresses(code), suppressed.contains(&class), "{value} {code}");
            }
            assert_eq!(NoResponse(value).suppresses_all(), value == 26);
        }
        assert!(NoResponse(127).suppresses_all());
        assert!(!NoResponse(127).suppresses(Code::EMPTY) && !NoResponse(127).suppresses(Code::GET));
    }

    // RFC 7641 §3.4 (Q105)
    #[test]
    fn a_notification_is_newer_by_serial_number_or_after_128_seconds() {
        let order = |sequence, seconds: u64| Order { sequence, received: Instant::from_millis(seconds * 1_000) };
        let newer = |old, new| Order::is_before(&old, &new);
        assert!(newer(order(1, 0), order(2, 0)));
        assert!(!newer(order(2, 0), order(1, 0)));
        assert!(!newer(order(2, 0), order(2, 0)), "a copy is not newer");
        assert!(newer(order(0xff_ffff, 0), order(0, 0)), "it wraps");
        assert!(newer(order(0, 0), order((1 << 23) - 1, 0)));
        assert!(!newer(order(0, 0), order(1 << 23, 0)));
        assert!(!newer(order(5, 0), order(4, 128)));
        assert!(newer(order(5, 0), order(4, 129)));
    }
}
