//! The pages of a column chunk: if that is shorter, a dictionary and places in it, otherwise the values themselves.

use std::io;

use crate::column::Values;
use crate::rows::invalid;
use crate::thrift::{Struct, varint};

/// Numbers of the format (parquet.thrift: Encoding, PageType).
pub(crate) const PLAIN: i32 = 0;
pub(crate) const RLE: i32 = 3;
pub(crate) const RLE_DICTIONARY: i32 = 8;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;

/// Adds the pages of a column to `out`; the answer says how many bytes the one of its dictionary has, 0 if there is none,
/// and how many the one of its values.
pub(crate) fn write(out: &mut Vec<u8>, values: &Values, is_optional: bool) -> io::Result<[u64; 2]> {
    let begin = out.len();
    let mut data = Vec::new();
    if is_optional {
        // Definition levels: 1 where there is a value. Their length comes first (Encodings, "Run Length Encoding / Bit-Packing
        // Hybrid").
        let mut levels = Vec::new();
        runs(&mut levels, values.defined.iter().map(|defined| u32::from(*defined)), 1);
        data.extend_from_slice(&length(levels.len())?.to_le_bytes());
        data.extend_from_slice(&levels);
    }
    let places = in_dictionary(values);
    let plain: usize = values.indexes.iter().map(|index| values.plain(*index).len()).sum();
    let has_dictionary = values.distinct.len() + places.len() < plain;
    if has_dictionary {
        page(out, DICTIONARY_PAGE, values.ends.len(), PLAIN, &values.distinct)?;
        data.extend_from_slice(&places);
    } else {
        values.indexes.iter().for_each(|index| data.extend_from_slice(values.plain(*index)));
    }
    let dictionary = out.len() - begin;
    let encoding = if has_dictionary { RLE_DICTIONARY } else { PLAIN };
    page(out, DATA_PAGE, values.defined.len(), encoding, &data)?;
    Ok([dictionary as u64, (out.len() - begin - dictionary) as u64])
}

/// The bits that a place needs, and the places (Encodings, "Dictionary Encoding").
fn in_dictionary(values: &Values) -> Vec<u8> {
    let last = u32::try_from(values.ends.len()).unwrap_or(u32::MAX).saturating_sub(1);
    let bits = u32::BITS - last.leading_zeros();
    let mut places = vec![bits.to_le_bytes()[0]];
    runs(&mut places, values.indexes.iter().copied(), bits.div_ceil(8));
    places
}

/// Runs of equal numbers: twice the length of each, and the number in so many bytes. Of the two kinds of runs that the
/// hybrid has this is the plainer one; what does not repeat is longer for it.
fn runs(out: &mut Vec<u8>, numbers: impl Iterator<Item = u32>, bytes: u32) {
    let mut finish = |(number, times): (u32, u64)| {
        varint(out, times << 1);
        out.extend_from_slice(&number.to_le_bytes()[..bytes as usize]);
    };
    let mut current: Option<(u32, u64)> = None;
    for number in numbers {
        match &mut current {
            Some((known, times)) if *known == number => *times += 1,
            other => other.replace((number, 1)).into_iter().for_each(&mut finish),
        }
    }
    current.into_iter().for_each(finish);
}

/// A page with its header (parquet.thrift: PageHeader, DataPageHeader, DictionaryPageHeader).
fn page(out: &mut Vec<u8>, kind: i32, values: usize, encoding: i32, body: &[u8]) -> io::Result<()> {
    let (values, bytes) = (length(values)?, length(body.len())?);
    let mut header = Struct::new(out);
    header.i32(1, kind).i32(2, bytes).i32(3, bytes);
    if kind == DATA_PAGE {
        header.inner(5, |page| _ = page.i32(1, values).i32(2, encoding).i32(3, RLE).i32(4, RLE));
    } else {
        header.inner(7, |page| _ = page.i32(1, values).i32(2, encoding));
    }
    header.end();
    out.extend_from_slice(body);
    Ok(())
}

/// A length, of which the format has signed ones of 32 bits.
fn length(bytes: usize) -> io::Result<i32> {
    i32::try_from(bytes)
        .map_err(|_| invalid(format!("{bytes} values or bytes are too many for a page; write fewer rows at a time")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_their_length_and_their_number() {
        let mut out = Vec::new();
        runs(&mut out, [7, 7, 7, 300, 7].into_iter(), 2);
        assert_eq!(out, [6, 7, 0, 2, 44, 1, 2, 7, 0]);
        let mut out = Vec::new();
        runs(&mut out, std::iter::repeat_n(0, 100), 0);
        assert_eq!(out, [0xc8, 1], "a dictionary of one value needs no bits");
    }
}
