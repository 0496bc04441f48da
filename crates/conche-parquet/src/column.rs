//! Columns, and the values of one row group.

use std::collections::HashMap;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
    /// Whether a row may have none.
    pub is_optional: bool,
}

/// What the values of a column are, with the physical type that the format has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// INT32.
    Int32,
    /// INT64 that is read without a sign.
    Uint64,
    /// DOUBLE.
    Double,
    /// BYTE_ARRAY that holds UTF-8.
    Text,
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// There is none.
    None,
    /// Of a column of [`Kind::Int32`].
    Int32(i32),
    /// Of a column of [`Kind::Uint64`].
    Uint64(u64),
    /// Of a column of [`Kind::Double`].
    Double(f64),
    /// Of a column of [`Kind::Text`].
    Text(&'a str),
}

/// An optional text.
impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Self::None, Self::Text)
    }
}

impl Column {
    /// A column of which each row has a value.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self { name: name.into(), kind, is_optional: false }
    }

    /// A column of which a row may have no value.
    #[must_use]
    pub fn optional(name: impl Into<String>, kind: Kind) -> Self {
        Self { is_optional: true, ..Self::new(name, kind) }
    }
}

/// The values that a column has in some rows, each different one kept once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// Of each row, whether it has a value.
    pub(crate) defined: Vec<bool>,
    /// Of each value, the place of what it is among the different ones.
    pub(crate) indexes: Vec<u32>,
    /// The different values, each encoded as PLAIN has it, one after the other.
    pub(crate) distinct: Vec<u8>,
    /// Where each of these ends.
    pub(crate) ends: Vec<usize>,
    known: HashMap<Box<[u8]>, u32>,
}

impl Values {
    /// Adds the value of a row; gives it back if it is none that the column may have.
    pub(crate) fn push<'a>(&mut self, column: &Column, value: Value<'a>) -> Result<(), Value<'a>> {
        let (number, length);
        let parts: [&[u8]; 2] = match (column.kind, value) {
            (_, Value::None) if column.is_optional => {
                self.defined.push(false);
                return Ok(());
            }
            (Kind::Int32, Value::Int32(value)) => {
                number = u64::from(value.cast_unsigned()).to_le_bytes();
                [&number[..4], &[]]
            }
            (Kind::Uint64, Value::Uint64(value)) => {
                number = value.to_le_bytes();
                [&number, &[]]
            }
            (Kind::Double, Value::Double(value)) => {
                number = value.to_le_bytes();
                [&number, &[]]
            }
            (Kind::Text, Value::Text(text)) => {
                length = u32::try_from(text.len()).map_err(|_| value)?.to_le_bytes();
                [&length, text.as_bytes()]
            }
            _ => return Err(value),
        };
        self.defined.push(true);
        let bytes = parts.concat();
        if let Some(index) = self.known.get(bytes.as_slice()) {
            self.indexes.push(*index);
            return Ok(());
        }
        // There are no more different values than rows, of which the footer can count only so many.
        let index = u32::try_from(self.ends.len()).map_err(|_| value)?;
        self.distinct.extend_from_slice(&bytes);
        self.ends.push(self.distinct.len());
        self.known.insert(bytes.into(), index);
        self.indexes.push(index);
        Ok(())
    }

    /// What one of the different values is, as PLAIN encodes it.
    pub(crate) fn plain(&self, index: u32) -> &[u8] {
        let place = index as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.distinct[start..self.ends[place]]
    }
}
