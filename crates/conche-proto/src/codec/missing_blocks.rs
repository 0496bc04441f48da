//! The payload of a 4.08 response that lists the missing blocks (RFC 9177 §5): a CBOR sequence of
//! block numbers.

use alloc::vec::Vec;

use super::Block;

/// Encodes as many block numbers as fit into `room` bytes.
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

/// Decodes at most `most` block numbers; the peer requests any further ones again. Returns `None`
/// if the payload is malformed or if its numbers do not ascend: the message should then be dropped
/// (RFC 9177 §5).
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
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

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
    fn what_does_not_ascend_or_is_no_block_number_is_no_list() {
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
