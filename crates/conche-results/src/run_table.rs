//! Tables to which each run appends its row groups: `exchanges.parquet` and `series.parquet`.
//!
//! Each run appends a complete Parquet file; the journal keeps its place. [`RunTable::close`]
//! appends a footer with all row groups, at offsets in the whole file. Without it, the journal's
//! runs remain usable.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use parquet::errors::Result as ParquetResult;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{
    FooterTail, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};

use crate::journal::Run;
use crate::origin::CellId;
use crate::tables::{Shape, WrittenRows};

const MAGIC: &[u8; 4] = b"PAR1";

#[derive(Debug)]
pub(crate) struct RunTable {
    shape: Shape,
    /// After an error nothing is written.
    file: Mutex<io::Result<Appended>>,
}

#[derive(Debug)]
struct Appended {
    file: File,
    bytes: u64,
    groups: BTreeMap<Key, Vec<RowGroupMetaData>>,
}

/// The footer's order; runs end in any.
type Key = (String, CellId, u32);

fn key(run: &Run) -> Key {
    (run.scenario.clone(), run.cell.clone(), run.replication)
}

impl RunTable {
    pub(crate) fn open(path: &Path, shape: Shape) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        if file.metadata()?.len() == 0 {
            file.write_all(MAGIC)?;
        }
        let bytes = file.metadata()?.len();
        Ok(Self { shape, file: Mutex::new(Ok(Appended { file, bytes, groups: BTreeMap::new() })) })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    fn lock(&self) -> MutexGuard<'_, io::Result<Appended>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the row groups at the journal's `place`.
    pub(crate) fn find(&self, place: &[u64]) -> Option<Vec<RowGroupMetaData>> {
        let (&[at, bytes], Ok(file)) = (place, &*self.lock()) else { return None };
        if at.checked_add(bytes)? > file.bytes {
            return None;
        }
        let metadata = read_metadata(&file.file, at, bytes).ok()?;
        let is_same_table = *metadata.file_metadata().schema() == self.shape.rows().schema().ok()?;
        is_same_table.then(|| moved(&metadata, at).ok()).flatten()
    }

    pub(crate) fn keep(&self, run: &Run, groups: Vec<RowGroupMetaData>) {
        if let Ok(file) = &mut *self.lock() {
            file.groups.insert(key(run), groups);
        }
    }

    /// Appends a run's rows; returns their place.
    pub(crate) fn write(&self, run: &Run, rows: io::Result<WrittenRows>) -> Option<Vec<u64>> {
        let mut file = self.lock();
        let appended = file.as_mut().ok()?;
        match rows.and_then(|rows| appended.append(run, &rows)) {
            Ok(place) => Some(place.to_vec()),
            Err(error) => {
                *file = Err(error);
                None
            }
        }
    }

    /// Appends the footer.
    pub(crate) fn close(&self) -> io::Result<()> {
        let file = std::mem::replace(&mut *self.lock(), Err(io::ErrorKind::Other.into()));
        let Appended { mut file, groups, .. } = file?;
        let mut empty = self.shape.rows().begin(Vec::new(), self.shape.about())?;
        let whole = empty.finish()?;
        let groups = groups.into_values().flatten().collect();
        let whole = whole.into_builder().set_row_groups(numbered(groups)?).build();
        ParquetMetaDataWriter::new(&mut file, &whole).finish()?;
        file.flush()
    }
}

impl Appended {
    fn append(&mut self, run: &Run, WrittenRows { bytes, metadata }: &WrittenRows) -> io::Result<[u64; 2]> {
        self.file.write_all(bytes)?;
        let place = [self.bytes, bytes.len() as u64];
        self.groups.insert(key(run), moved(metadata, self.bytes)?);
        self.bytes += bytes.len() as u64;
        Ok(place)
    }
}

fn read_metadata(mut file: &File, at: u64, bytes: u64) -> io::Result<ParquetMetaData> {
    let before = |end: u64, length: usize| end.checked_sub(length as u64).filter(|start| *start >= at);
    let start = |end, length| before(end, length).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData));
    let mut tail = [0; FOOTER_SIZE];
    let metadata_end = start(at + bytes, FOOTER_SIZE)?;
    file.seek(SeekFrom::Start(metadata_end))?;
    file.read_exact(&mut tail)?;
    let length = FooterTail::try_new(&tail)?.metadata_length();
    file.seek(SeekFrom::Start(start(metadata_end, length)?))?;
    let mut metadata = vec![0; length];
    file.read_exact(&mut metadata)?;
    Ok(ParquetMetaDataReader::decode_metadata(&metadata)?)
}

fn moved(metadata: &ParquetMetaData, by: u64) -> ParquetResult<Vec<RowGroupMetaData>> {
    let by = i64::try_from(by)?;
    let group = |group: &RowGroupMetaData| {
        let columns = group.columns().iter().map(|column| {
            let dictionary = column.dictionary_page_offset().map(|at| at.saturating_add(by));
            let data = column.data_page_offset().saturating_add(by);
            column.clone().into_builder().set_dictionary_page_offset(dictionary).set_data_page_offset(data).build()
        });
        let columns = columns.collect::<ParquetResult<_>>()?;
        let at = group.file_offset().unwrap_or_default().saturating_add(by);
        group.clone().into_builder().set_column_metadata(columns).set_file_offset(at).build()
    };
    metadata.row_groups().iter().map(group).collect()
}

fn numbered(groups: Vec<RowGroupMetaData>) -> ParquetResult<Vec<RowGroupMetaData>> {
    let numbered = (0..).zip(groups).map(|(number, group)| group.into_builder().set_ordinal(number).build());
    numbered.collect()
}

#[cfg(test)]
mod tests;
