//! Exhaustive tests of option headers.

use alloc::vec;
use alloc::vec::Vec;

use super::super::DecodeErrorKind;
use super::super::wire::{MAX_OPTION_LENGTH, OptionHeader, split_option};

/// Encodes an option header according to the table in RFC 7252 §3.1.
fn expected(delta: usize, length: usize) -> Vec<u8> {
    let field = |value: usize| match value {
        0..=12 => (value, vec![]),
        13..=268 => (13, vec![value - 13]),
        _ => (14, vec![(value - 269) / 256, (value - 269) % 256]),
    };
    let ((delta, delta_extension), (length, length_extension)) = (field(delta), field(length));
    let bytes = [vec![delta * 16 + length], delta_extension, length_extension].concat();
    bytes.into_iter().map(|byte| u8::try_from(byte).expect("a byte")).collect()
}

fn check(delta: u16, length: usize, value: &[u8]) {
    let header: Vec<u8> = OptionHeader::new(delta, length).expect("the length is possible").bytes().collect();
    assert_eq!(header, expected(delta.into(), length), "{delta} {length}");

    let bytes = [&header, &value[..length]].concat();
    let split = split_option(bytes[0], &bytes[1..]).expect("the option is complete");
    assert_eq!((split.delta, split.value.len(), split.rest.len()), (delta.into(), length, 0), "{delta} {length}");

    for end in 1..header.len() {
        let cut = split_option(bytes[0], &bytes[1..end]).err();
        assert_eq!(cut, Some(DecodeErrorKind::OptionTruncated), "{delta} {length} cut at {end}");
    }
    if length > 0 {
        let cut = split_option(bytes[0], &bytes[1..bytes.len() - 1]).err();
        assert_eq!(cut, Some(DecodeErrorKind::OptionTruncated), "{delta} {length}");
    }
}

// RFC 7252 §3.1
#[test]
fn every_delta_is_written_in_its_shortest_form_and_read_back() {
    for delta in 0..=u16::MAX {
        check(delta, 0, &[]);
    }
}

// RFC 7252 §3.1
#[test]
fn every_length_is_written_in_its_shortest_form_and_read_back() {
    let value = vec![0x5a; MAX_OPTION_LENGTH];
    for length in (0..1000).chain((1000..MAX_OPTION_LENGTH).step_by(97)).chain(65_530..=MAX_OPTION_LENGTH) {
        for delta in [0, 12, 13, 268, 269, u16::MAX] {
            check(delta, length, &value);
        }
    }
    assert!(OptionHeader::new(0, MAX_OPTION_LENGTH + 1).is_none());
    assert!(OptionHeader::new(0, usize::MAX).is_none());
}

// RFC 7252 §3.1
#[test]
fn nibbles_of_15_are_reserved_whatever_follows() {
    for other in 0..=14 {
        assert_eq!(split_option(0xf0 | other, &[0; 1000]).err(), Some(DecodeErrorKind::OptionDelta));
        assert_eq!(split_option(other << 4 | 0xf, &[0; 1000]).err(), Some(DecodeErrorKind::OptionLength));
    }
}
