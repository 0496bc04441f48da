//! [`Block`]: the value of Block1, Block2 and their Q-Block variants (RFC 7959 §2.2), and the list
//! of missing blocks (RFC 9177 §5).

use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use super::{Content, OptionNumber, UintBytes, decode_uint, encode_uint};

/// The block size: a power of two from 16 to 1024 bytes (RFC 7959 §2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockSize {
    /// SZX 0.
    B16,
    /// SZX 1.
    B32,
    /// SZX 2.
    B64,
    /// SZX 3.
    B128,
    /// SZX 4.
    B256,
    /// SZX 5.
    B512,
    /// SZX 6: the default until a smaller size is negotiated.
    #[default]
    B1024,
}

impl BlockSize {
    /// All sizes in descending order.
    pub const DESCENDING: [Self; 7] =
        [Self::B1024, Self::B512, Self::B256, Self::B128, Self::B64, Self::B32, Self::B16];

    /// Returns the size for an exponent; `None` from 7 on, which is reserved.
    #[must_use]
    pub const fn of_szx(szx: u8) -> Option<Self> {
        Some(match szx {
            0 => Self::B16,
            1 => Self::B32,
            2 => Self::B64,
            3 => Self::B128,
            4 => Self::B256,
            5 => Self::B512,
            6 => Self::B1024,
            _ => return None,
        })
    }

    /// Returns the largest size of at most `bytes` bytes; `None` below 16.
    #[must_use]
    pub fn fitting(bytes: usize) -> Option<Self> {
        Self::DESCENDING.into_iter().find(|size| size.bytes() <= bytes)
    }

    /// Returns the exponent: the size is 2^(SZX + 4) bytes.
    #[must_use]
    pub const fn szx(self) -> u8 {
        self as u8
    }

    /// Returns the size in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        1 << (self.szx() + 4)
    }
}

/// A block of a body, carried or requested by a message (RFC 7959 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// NUM: the block number, from 0 to [`MAX_NUM`](Self::MAX_NUM).
    pub num: u32,
    /// M: more blocks follow. Without a block's payload, it has another meaning or none (§2.3).
    pub more: bool,
    /// SZX: the size of the blocks.
    pub size: BlockSize,
}

impl Block {
    /// The largest block number: 20 bits.
    pub const MAX_NUM: u32 = 0xf_ffff;

    /// Returns the block at byte `offset` of the body; `None` if no block starts there or its
    /// number is too large.
    #[must_use]
    pub fn at(offset: usize, more: bool, size: BlockSize) -> Option<Self> {
        let num = u32::try_from(offset / size.bytes()).ok().filter(|&num| num <= Self::MAX_NUM)?;
        offset.is_multiple_of(size.bytes()).then_some(Self { num, more, size })
    }

    /// Returns the offset in the body, in bytes; less than 2^30.
    #[must_use]
    pub const fn offset(self) -> usize {
        self.num as usize * self.size.bytes()
    }

    /// Decodes an option value.
    ///
    /// # Errors
    ///
    /// [`BadBlock`] for the reserved exponent 7 and for values longer than three bytes.
    pub fn decode(value: &[u8]) -> Result<Self, BadBlock> {
        let value = Some(value).filter(|value| value.len() <= 3).and_then(decode_uint).ok_or(BadBlock)?;
        let size = BlockSize::of_szx(value.to_le_bytes()[0] & 0b111).ok_or(BadBlock)?;
        Ok(Self { num: value >> 4, more: value & 0b1000 != 0, size })
    }

    /// Encodes the option value from the lower 20 bits of the number.
    #[must_use]
    pub const fn encode(self) -> UintBytes {
        encode_uint((self.num & Self::MAX_NUM) << 4 | (self.more as u32) << 3 | self.size.szx() as u32)
    }
}

/// Prints the value as RFC 7959 §3 does: `2/1/64`.
impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.num, u8::from(self.more), self.size.bytes())
    }
}

/// A malformed block option: exponent 7, or more than three bytes (RFC 7959 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the size exponent of a block is 7, which is reserved: 0 to 6 are allowed (RFC 7959 §2.2)")]
pub struct BadBlock;

impl Content<'_> {
    /// Returns a block option; `None` if it is absent.
    ///
    /// # Errors
    ///
    /// As for [`Block::decode`].
    pub fn block(&self, number: OptionNumber) -> Result<Option<Block>, BadBlock> {
        self.option(number).map(Block::decode).transpose()
    }
}

/// Encodes the payload of a 4.08 response, a CBOR sequence of block numbers (RFC 9177 §5), up to
/// `room` bytes.
pub(crate) fn encode_missing_blocks(numbers: &[u32], room: usize) -> Vec<u8> {
    let mut sequence = Vec::new();
    for &number in numbers {
        let before = sequence.len();
        // Writing to a vector cannot fail.
        let _ = minicbor::Encoder::new(&mut sequence).u32(number);
        if sequence.len() > room {
            sequence.truncate(before);
            break;
        }
    }
    sequence
}

/// Decodes at most `most` block numbers; the peer repeats the others. `None` for a list that is
/// malformed or does not ascend: the message is dropped (RFC 9177 §5).
pub(crate) fn decode_missing_blocks(payload: &[u8], most: usize) -> Option<Vec<u32>> {
    let mut decoder = minicbor::Decoder::new(payload);
    let mut numbers: Vec<u32> = Vec::new();
    while decoder.position() < payload.len() && numbers.len() < most {
        let number = decoder.u32().ok().filter(|&number| number <= Block::MAX_NUM)?;
        if numbers.last().is_some_and(|&last| last >= number) {
            return None;
        }
        numbers.push(number);
    }
    (!numbers.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    // RFC 7959 §2.2
    #[test]
    fn every_value_of_three_bytes_is_a_block_and_back_unless_its_exponent_is_reserved() {
        for value in 0..1_u32 << 24 {
            let bytes = encode_uint(value);
            match Block::decode(bytes.as_slice()) {
                Ok(block) => assert_eq!(block.encode(), bytes),
                Err(BadBlock) => assert_eq!(value & 0b111, 7),
            }
        }
        assert_eq!(Block::decode(&[0, 0, 0, 0]), Err(BadBlock));
    }

    #[test]
    fn the_largest_block_begins_below_2_to_the_30() {
        let last = Block { num: Block::MAX_NUM, more: false, size: BlockSize::B1024 };
        assert_eq!(last.offset(), (1 << 30) - 1024);
        assert_eq!(Block::at(last.offset(), false, BlockSize::B1024), Some(last));
        assert_eq!(Block::at(last.offset(), false, BlockSize::B512), None);
        assert_eq!(Block::at(1 << 30, false, BlockSize::B1024), None);
        assert_eq!(Block::at(100, false, BlockSize::B64), None);
    }

    #[test]
    fn sizes_are_the_powers_of_two_from_16_to_1024() {
        for (szx, bytes) in (0..7).zip([16, 32, 64, 128, 256, 512, 1024]) {
            let size = BlockSize::of_szx(szx).expect("not reserved");
            assert_eq!((size.szx(), size.bytes()), (szx, bytes));
            assert_eq!(BlockSize::fitting(2 * bytes - 1), Some(size));
        }
        assert_eq!((BlockSize::of_szx(7), BlockSize::fitting(15)), (None, None));
    }

    #[test]
    fn a_block_prints_as_the_rfc_writes_it() {
        assert_eq!(Block { num: 2, more: true, size: BlockSize::B64 }.to_string(), "2/1/64");
    }

    // RFC 9177 §5 (Q172)
    #[test]
    fn numbers_are_unsigned_integers_of_cbor_in_a_row_without_an_array() {
        assert_eq!(
            encode_missing_blocks(&[1, 23, 24, 256, 0xf_ffff], 64),
            *b"\x01\x17\x18\x18\x19\x01\x00\x1a\x00\x0f\xff\xff"
        );
        assert_eq!(decode_missing_blocks(b"\x01\x09\x18\x18", 10), Some(vec![1, 9, 24]));
    }

    // RFC 9177 §5 (Q173)
    #[test]
    fn a_missing_blocks_list_needs_ascending_block_numbers() {
        let refused: [&[u8]; 8] = [
            b"",
            b"\x02\x01",
            b"\x02\x02",
            b"\x20",
            b"\x82\x01\x02",
            b"\x01\x19\x01",
            b"\x1a\x00\x10\x00\x00",
            b"\xff",
        ];
        for payload in refused {
            assert_eq!(decode_missing_blocks(payload, 10), None, "{payload:x?}");
        }
    }

    proptest! {
        #[test]
        fn lists_come_back_as_far_as_there_is_room(
            numbers in prop::collection::btree_set(0..=Block::MAX_NUM, 1..40),
            room in 5..200_usize,
        ) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            let encoded = encode_missing_blocks(&numbers, room);
            prop_assert!(encoded.len() <= room);
            let decoded = decode_missing_blocks(&encoded, 40).expect("at least one fits");
            prop_assert!(numbers.starts_with(&decoded));
            prop_assert!(encoded.len() + 5 > room || decoded.len() == numbers.len());
        }

        #[test]
        fn no_payload_makes_reading_fail_or_run_away(payload in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(decode_missing_blocks(&payload, 7).is_none_or(|numbers| (1..=7).contains(&numbers.len())));
        }
    }
}
