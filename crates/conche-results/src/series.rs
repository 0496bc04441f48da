//! Reads the time series of a run from `series.parquet`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use crate::run::RunId;
use crate::store::SERIES;
use crate::tables::RUN_KEY;

/// A point of a run's time series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesPoint<'a> {
    /// Seconds since the run's start.
    pub time_s: f64,
    /// Scheme; `None` for links under a mix.
    pub scheme: Option<&'a str>,
    /// Node or link.
    pub subject: &'a str,
    /// Other end of a node's path.
    pub peer: Option<&'a str>,
    /// Quantity, with its unit.
    pub quantity: &'a str,
    /// Value, until the next point of the same subject, peer and quantity.
    pub value: f64,
}

/// Reads the time series of a run in its order; `place` is [`Line::series`](crate::Line::series).
/// Interrupted campaigns have them too.
///
/// # Errors
/// If the directory has no time series of this run, or not at this place.
pub fn read_series(directory: &Path, run: RunId, place: &[u64], each: impl FnMut(SeriesPoint<'_>)) -> io::Result<()> {
    let &[at, length, ..] = place else { return Err(invalid("a place has a position and a length")) };
    let mut file = File::open(directory.join(SERIES))?;
    if at.checked_add(length).is_none_or(|end| file.metadata().is_ok_and(|of| end > of.len())) {
        return Err(invalid("the file ends before this place"));
    }
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    // The crate parquet panics at some damaged files.
    let read = catch_unwind(AssertUnwindSafe(|| read_table(bytes, run, each)));
    read.unwrap_or_else(|_| Err(invalid("the table at this place is damaged")))
}

fn read_table(bytes: Vec<u8>, run: RunId, mut each: impl FnMut(SeriesPoint<'_>)) -> io::Result<()> {
    let table = SerializedFileReader::new(Bytes::from(bytes))?;
    let mut pairs = table.metadata().file_metadata().key_value_metadata().into_iter().flatten();
    if !pairs.any(|pair| pair.key == RUN_KEY && pair.value == Some(run.to_string())) {
        return Err(invalid("another run is at this place"));
    }
    for group in 0..table.num_row_groups() {
        let group = table.get_row_group(group)?;
        let [scheme, subject, peer, quantity] =
            ["scheme", "subject", "peer", "quantity"].map(|name| texts(&*group, name));
        let (scheme, subject, peer, quantity) = (scheme?, subject?, peer?, quantity?);
        let (times, values) = (numbers(&*group, "time_s")?, numbers(&*group, "value")?);
        for (place, (time_s, value)) in times.into_iter().zip(values).enumerate() {
            let text = |column: &[Option<ByteArray>]| column.get(place).cloned().flatten();
            let [scheme, subject, peer, quantity] = [&scheme, &subject, &peer, &quantity].map(|of| text(of));
            let (Some(subject), Some(quantity)) = (&subject, &quantity) else {
                return Err(invalid("a row without subject or quantity"));
            };
            each(SeriesPoint {
                time_s,
                scheme: scheme.as_ref().map(ByteArray::as_utf8).transpose()?,
                subject: subject.as_utf8()?,
                peer: peer.as_ref().map(ByteArray::as_utf8).transpose()?,
                quantity: quantity.as_utf8()?,
                value,
            });
        }
    }
    Ok(())
}

fn column(group: &dyn RowGroupReader, name: &str) -> io::Result<(ColumnReader, usize, bool)> {
    let columns = group.metadata().columns();
    let place = columns.iter().position(|column| column.column_path().string() == name);
    let place = place.ok_or_else(|| invalid(&format!("no column `{name}`")))?;
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let is_optional = columns[place].column_descr().max_def_level() > 0;
    Ok((group.get_column_reader(place)?, rows, is_optional))
}

fn texts(group: &dyn RowGroupReader, name: &str) -> io::Result<Vec<Option<ByteArray>>> {
    let (reader, rows, is_optional) = column(group, name)?;
    let ColumnReader::ByteArrayColumnReader(mut reader) = reader else {
        return Err(invalid(&format!("the column `{name}` has no texts")));
    };
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let read: ParquetResult<_> = reader.read_records(rows, Some(&mut levels), None, &mut values);
    read?;
    let mut values = values.into_iter();
    Ok(match is_optional {
        true => levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect(),
        false => values.map(Some).collect(),
    })
}

fn numbers(group: &dyn RowGroupReader, name: &str) -> io::Result<Vec<f64>> {
    let (reader, rows, is_optional) = column(group, name)?;
    let (ColumnReader::DoubleColumnReader(mut reader), false) = (reader, is_optional) else {
        return Err(invalid(&format!("the column `{name}` has no numbers")));
    };
    let mut values = Vec::new();
    reader.read_records(rows, None, None, &mut values)?;
    Ok(values)
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run_table::RunTable;
    use crate::tables::{About, Shape};
    use crate::{CellHash, CellId, Origin, RowOf, SeriesRow, SeriesRows};

    #[test]
    fn a_damaged_file_is_an_error_or_has_other_points() {
        let directory = tempfile::tempdir().expect("a directory");
        let origins = [Origin { name: "small".to_owned(), ..Origin::default() }];
        let shape = Shape::series(&origins, &About { version: "1", options: "" });
        let file = directory.path().join(SERIES);
        let table = RunTable::open(&file, shape.clone()).expect("a table");
        let cell = CellId::default();
        let run = RunId::default();
        let mut rows = SeriesRows::new(shape, Duration::from_secs(1), run).expect("rows");
        let of = RowOf { scenario: "small", cell: &cell, scheme: Some("a"), replication: 0, seed: 1 };
        let row = SeriesRow { of, time_s: 0.0, subject: "x", peer: Some("server"), quantity: "rto_s", value: 2.0 };
        rows.push(&row).expect("a row");
        let place = table.write(rows.written()).expect("written");
        let bytes = std::fs::read(&file).expect("a file");
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                std::fs::write(&file, damaged).expect("written");
                // It returns: the panics of the crate parquet are errors.
                let _ = read_series(directory.path(), run, &place, |_| {});
            }
        }
    }

    #[test]
    fn the_series_of_a_run_are_read_at_its_place_without_the_footer_of_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let origins = [Origin { name: "small".to_owned(), ..Origin::default() }];
        let shape = Shape::series(&origins, &About { version: "1", options: "" });
        let table = RunTable::open(&directory.path().join(SERIES), shape.clone()).expect("a table");
        let cell = CellId::default();
        let id = |replication| CellHash::new("small", "", &cell, &[]).run(replication, 1);
        let write = |replication: u32| {
            let mut rows = SeriesRows::new(shape.clone(), Duration::from_secs(1), id(replication)).expect("rows");
            for (time_s, peer, value) in [(0.0, Some("server"), 2.0), (1.0, None, 3.0)] {
                let of = RowOf { scenario: "small", cell: &cell, scheme: peer.map(|_| "a"), replication, seed: 1 };
                let row = SeriesRow { of, time_s, subject: "x", peer, quantity: "rto_s", value };
                rows.push(&row).expect("a row");
            }
            table.write(rows.written()).expect("written")
        };
        let places = [write(0), write(1)];
        assert!(read_series(directory.path(), id(0), &places[1], |_| {}).is_err(), "of another run");
        for (replication, place) in (0..).zip(places) {
            let mut points = Vec::new();
            read_series(directory.path(), id(replication), &place, |of| {
                points.push((of.time_s, of.scheme.map(str::to_owned), of.peer.map(str::to_owned), of.value));
            })
            .expect("points");
            let first = (0.0, Some("a".to_owned()), Some("server".to_owned()), 2.0);
            assert_eq!(points, [first, (1.0, None, None, 3.0)]);
        }
        for wrong in [&[][..], &[4, u64::MAX], &[4, 1 << 40], &[0, 3], &[5, 40]] {
            assert!(read_series(directory.path(), id(0), wrong, |_| {}).is_err(), "{wrong:?}");
        }
    }
}
