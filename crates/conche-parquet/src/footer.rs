//! What stands at the end of a file and tells a reader where all is.

use crate::column::{Column, Kind};
use crate::page::{PLAIN, RLE, RLE_DICTIONARY};
use crate::thrift::Struct;

/// Where a row group is in its file. With the groups of all rows a file that was not finished can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowGroup {
    rows: u64,
    /// Where its first column begins; the others follow.
    at: u64,
    /// Of each column, how many bytes its dictionary has, 0 if there is none, and how many its values.
    columns: Vec<[u64; 2]>,
}

/// Numbers of the format (parquet.thrift: Type, ConvertedType, FieldRepetitionType, CompressionCodec).
const UNCOMPRESSED: i32 = 0;
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const VERSION: i32 = 1;

impl Kind {
    /// The physical type, and how it is meant where that does not say it.
    const fn types(self) -> (i32, Option<i32>) {
        const UTF8: i32 = 0;
        const UINT_64: i32 = 14;
        match self {
            Self::Int32 => (1, None),
            Self::Uint64 => (2, Some(UINT_64)),
            Self::Double => (5, None),
            Self::Text => (6, Some(UTF8)),
        }
    }
}

impl RowGroup {
    pub(crate) fn new(rows: u64, at: u64, columns: Vec<[u64; 2]>) -> Self {
        Self { rows, at, columns }
    }

    /// The group as numbers, to be kept elsewhere.
    #[must_use]
    pub fn to_numbers(&self) -> Vec<u64> {
        [self.rows, self.at].into_iter().chain(self.columns.iter().copied().flatten()).collect()
    }

    /// The group that these numbers stand for, in a file of so many bytes with so many columns; `None` if it cannot be there.
    #[must_use]
    pub fn from_numbers(numbers: &[u64], columns: usize, file_bytes: u64) -> Option<Self> {
        let [rows, at, columns_ @ ..] = numbers else { return None };
        let (pairs, []) = columns_.as_chunks::<2>() else { return None };
        let end = pairs.iter().flatten().try_fold(*at, |end, bytes| end.checked_add(*bytes))?;
        let fits = pairs.len() == columns && *at >= crate::writer::MAGIC.len() as u64 && end <= file_bytes;
        (fits || *rows == 0).then(|| Self { rows: *rows, at: *at, columns: pairs.to_vec() })
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn bytes(&self) -> u64 {
        self.columns.iter().flatten().sum()
    }
}

/// The footer's bytes (parquet.thrift: FileMetaData).
pub(crate) fn footer(columns: &[Column], groups: &[RowGroup]) -> Vec<u8> {
    let mut out = Vec::new();
    // The first element is the root, whose children the columns are.
    let elements: Vec<Option<&Column>> = std::iter::once(None).chain(columns.iter().map(Some)).collect();
    let mut file = Struct::new(&mut out);
    file.i32(1, VERSION);
    file.structs(2, &elements, |element, column| match column {
        None => _ = element.text(4, "schema").i32(5, i32::try_from(columns.len()).unwrap_or(i32::MAX)),
        Some(column) => schema_element(element, column),
    });
    file.i64(3, signed(groups.iter().map(RowGroup::rows).sum()));
    file.structs(4, groups, |element, group| {
        let mut at = group.at;
        let places: Vec<_> = columns
            .iter()
            .zip(&group.columns)
            .map(|(column, bytes)| {
                let begin = at;
                at += bytes[0] + bytes[1];
                (column, begin, *bytes)
            })
            .collect();
        element.structs(1, &places, |chunk, place| {
            chunk.i64(2, signed(place.1)).inner(3, |about| column_metadata(about, group.rows, *place));
        });
        element.i64(2, signed(group.bytes())).i64(3, signed(group.rows));
    });
    file.text(6, concat!("conche-parquet ", env!("CARGO_PKG_VERSION"))).end();
    out
}

/// parquet.thrift: SchemaElement.
fn schema_element(element: &mut Struct<'_>, column: &Column) {
    let (physical, meaning) = column.kind.types();
    element.i32(1, physical).i32(3, if column.is_optional { OPTIONAL } else { REQUIRED }).text(4, &column.name);
    if let Some(meaning) = meaning {
        element.i32(6, meaning);
    }
}

/// parquet.thrift: ColumnMetaData. The number of values counts those that are missing.
fn column_metadata(about: &mut Struct<'_>, rows: u64, (column, at, [dictionary, data]): (&Column, u64, [u64; 2])) {
    let all = signed(dictionary + data);
    about.i32(1, column.kind.types().0).i32s(2, &[PLAIN, RLE, RLE_DICTIONARY]).texts(3, &[&column.name]);
    about.i32(4, UNCOMPRESSED).i64(5, signed(rows)).i64(6, all).i64(7, all).i64(9, signed(at + dictionary));
    if dictionary > 0 {
        about.i64(11, signed(at));
    }
}

/// The format's numbers have a sign.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_known_again_where_it_can_be() {
        let group = RowGroup::new(3, 4, vec![[0, 10], [5, 6]]);
        let numbers = group.to_numbers();
        assert_eq!(RowGroup::from_numbers(&numbers, 2, 25), Some(group));
        assert_eq!(RowGroup::from_numbers(&numbers, 2, 24), None, "the file is too short");
        assert_eq!(RowGroup::from_numbers(&numbers, 3, 25), None, "the table has another column");
        assert_eq!(RowGroup::from_numbers(&[3, 0, 1, 1, 1, 1], 2, 25), None, "the file's first bytes are no rows");
        assert_eq!(RowGroup::from_numbers(&[3, 4, u64::MAX, 1, 1, 1], 2, 25), None);
        assert_eq!(RowGroup::from_numbers(&[3, 4, 1], 2, 25), None);
    }
}
