//! Option values of format uint (RFC 7252 §3.2): big-endian; the shortest form is sent, any form is
//! accepted.

/// The shortest encoding of a number: 0 to 4 bytes.
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

    /// Returns the encoded bytes, padded with zeros.
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

/// Decodes a value, which may have leading zeros; `None` if the number does not fit 32 bits.
#[must_use]
pub fn decode_uint(value: &[u8]) -> Option<u32> {
    value.iter().try_fold(0_u32, |number, &byte| number.checked_mul(0x100)?.checked_add(byte.into()))
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
}
