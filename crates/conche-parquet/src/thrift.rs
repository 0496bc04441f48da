//! Thrift's compact protocol, as far as headers and footer need it (Apache Thrift, "Thrift Compact protocol encoding").

/// A struct that is being written; [`Struct::end`] closes it.
#[derive(Debug)]
pub(crate) struct Struct<'a> {
    out: &'a mut Vec<u8>,
    last: i16,
}

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl<'a> Struct<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, last: 0 }
    }

    /// The header of a field: how much its number is more than that of the one before, and its type. Numbers rise, by no
    /// more than fifteen, in all that Parquet has.
    fn field(&mut self, id: u8, kind: u8) {
        let delta = i16::from(id) - self.last;
        debug_assert!((1..16).contains(&delta), "field {id} after {}", self.last);
        self.last = i16::from(id);
        self.out.push(delta.to_le_bytes()[0] << 4 | kind);
    }

    pub(crate) fn i32(&mut self, id: u8, value: i32) -> &mut Self {
        self.field(id, I32);
        varint(self.out, zigzag(value.into()));
        self
    }

    pub(crate) fn i64(&mut self, id: u8, value: i64) -> &mut Self {
        self.field(id, I64);
        varint(self.out, zigzag(value));
        self
    }

    pub(crate) fn text(&mut self, id: u8, text: &str) -> &mut Self {
        self.field(id, BINARY);
        binary(self.out, text);
        self
    }

    pub(crate) fn inner(&mut self, id: u8, write: impl FnOnce(&mut Struct<'_>)) -> &mut Self {
        self.field(id, STRUCT);
        element(self.out, write);
        self
    }

    pub(crate) fn i32s(&mut self, id: u8, values: &[i32]) -> &mut Self {
        self.list(id, I32, values, |out, value| varint(out, zigzag((*value).into())))
    }

    pub(crate) fn texts(&mut self, id: u8, texts: &[&str]) -> &mut Self {
        self.list(id, BINARY, texts, |out, text| binary(out, text))
    }

    pub(crate) fn structs<T>(&mut self, id: u8, items: &[T], mut write: impl FnMut(&mut Struct<'_>, &T)) -> &mut Self {
        self.list(id, STRUCT, items, |out, item| element(out, |inner| write(inner, item)))
    }

    fn list<T>(&mut self, id: u8, kind: u8, items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) -> &mut Self {
        self.field(id, LIST);
        match u8::try_from(items.len()) {
            Ok(short @ 0..15) => self.out.push(short << 4 | kind),
            _ => {
                self.out.push(0xf0 | kind);
                varint(self.out, items.len() as u64);
            }
        }
        items.iter().for_each(|item| write(self.out, item));
        self
    }

    pub(crate) fn end(&mut self) {
        self.out.push(0);
    }
}

fn element(out: &mut Vec<u8>, write: impl FnOnce(&mut Struct<'_>)) {
    let mut inner = Struct::new(out);
    write(&mut inner);
    inner.end();
}

fn binary(out: &mut Vec<u8>, text: &str) {
    varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Unsigned LEB128, which Parquet's own run lengths have, too.
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_protocol_says() {
        let bytes = |value: i64| {
            let mut out = Vec::new();
            varint(&mut out, zigzag(value));
            out
        };
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(-1), [1]);
        assert_eq!(bytes(150), [0xac, 0x02]);
        assert_eq!(bytes(i64::MIN).len(), 10);
    }

    #[test]
    fn a_field_says_how_far_it_is_from_the_one_before() {
        let mut out = Vec::new();
        Struct::new(&mut out).i32(1, 3).text(4, "ab").i32s(5, &[1]).inner(6, |inner| _ = inner.i64(2, -1)).end();
        assert_eq!(out, [0x15, 6, 0x38, 2, b'a', b'b', 0x19, 0x15, 2, 0x1c, 0x26, 1, 0, 0]);
    }

    #[test]
    fn a_list_of_fifteen_or_more_has_its_length_apart() {
        let mut out = Vec::new();
        Struct::new(&mut out).i32s(1, &[0; 15]).end();
        assert_eq!(out[..3], [0x19, 0xf5, 15]);
    }
}
