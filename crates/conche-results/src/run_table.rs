//! Tables to which each run appends its row groups: `exchanges.parquet` and `series.parquet`.
//!
//! Each run appends a complete Parquet file with its ID; the journal keeps its place.
//! [`RunTable::write_in_order`] puts them in order and appends a footer with all row groups, at
//! offsets in the whole file. Without it, the journal's runs remain usable.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use parquet::errors::Result as ParquetResult;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{
    FooterTail, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};

use crate::journal::new_file;
use crate::run::RunId;
use crate::tables::{RUN_KEY, Shape};

const MAGIC: &[u8; 4] = b"PAR1";

#[derive(Debug)]
pub(crate) struct RunTable {
    path: PathBuf,
    shape: Shape,
    /// After an error nothing is written.
    file: Mutex<io::Result<Appended>>,
}

#[derive(Debug)]
struct Appended {
    file: File,
    bytes: u64,
}

/// A run's rows: their position, length and row groups.
struct Found {
    at: u64,
    bytes: u64,
    groups: ParquetMetaData,
}

impl RunTable {
    pub(crate) fn open(path: &Path, shape: Shape) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        if file.metadata()?.len() == 0 {
            file.write_all(MAGIC)?;
        }
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), shape, file: Mutex::new(Ok(Appended { file, bytes })) })
    }

    /// Opens the table of another directory, to import from.
    pub(crate) fn open_stored(path: &Path, shape: Shape) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), shape, file: Mutex::new(Ok(Appended { file, bytes })) })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    fn lock(&self) -> MutexGuard<'_, io::Result<Appended>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the run's rows are at the journal's `place`.
    pub(crate) fn has(&self, run: RunId, place: &[u64]) -> bool {
        self.lock().as_ref().is_ok_and(|of| self.find(of, run, place).is_some())
    }

    fn find(&self, of: &Appended, run: RunId, place: &[u64]) -> Option<Found> {
        let &[at, bytes, ..] = place else { return None };
        if at.checked_add(bytes)? > of.bytes {
            return None;
        }
        let groups = read_metadata(&of.file, at, bytes).ok()?;
        let of_file = groups.file_metadata();
        let is_same_table = *of_file.schema() == self.shape.rows().schema().ok()?;
        let mut pairs = of_file.key_value_metadata().into_iter().flatten();
        let is_same_run = pairs.any(|pair| pair.key == RUN_KEY && pair.value == Some(run.to_string()));
        (is_same_table && is_same_run).then_some(Found { at, bytes, groups })
    }

    /// Appends a run's rows; returns their place.
    pub(crate) fn write(&self, rows: io::Result<Vec<u8>>) -> Option<Vec<u64>> {
        let mut file = self.lock();
        let appended = file.as_mut().ok()?;
        match rows.and_then(|rows| appended.append(&rows)) {
            Ok(place) => Some(place.to_vec()),
            Err(error) => {
                *file = Err(error);
                None
            }
        }
    }

    /// Appends a run's rows from another directory's table; returns their place, `None` if they are
    /// not at `place` there.
    ///
    /// # Errors
    /// If they cannot be copied.
    pub(crate) fn import(&self, from: &Self, run: RunId, place: &[u64]) -> io::Result<Option<Vec<u64>>> {
        let mut there = from.lock();
        let there = there.as_mut().map_err(|error| io::Error::from(error.kind()))?;
        let Some(Found { at, bytes, .. }) = from.find(there, run, place) else { return Ok(None) };
        let rows = there.read(at, bytes)?;
        let mut here = self.lock();
        let here = here.as_mut().map_err(|error| io::Error::from(error.kind()))?;
        Ok(Some(here.append(&rows)?.to_vec()))
    }

    /// Writes the runs to a new file in this order, and the footer of the first `whole` ones;
    /// [`RunTable::replace`] puts it in place. Returns the new places.
    pub(crate) fn write_in_order(
        &self,
        runs: &[(RunId, Vec<u64>)],
        whole: usize,
    ) -> io::Result<HashMap<RunId, Vec<u64>>> {
        let mut file = std::mem::replace(&mut *self.lock(), Err(io::ErrorKind::Other.into()))?;
        let mut new = BufWriter::new(File::create(new_file(&self.path))?);
        new.write_all(MAGIC)?;
        let (mut end, mut places, mut all) = (MAGIC.len() as u64, HashMap::new(), Vec::new());
        for (number, (run, place)) in runs.iter().enumerate() {
            let Some(Found { at, bytes, groups }) = self.find(&file, *run, place) else { continue };
            new.write_all(&file.read(at, bytes)?)?;
            let mut moved_place = place.clone();
            moved_place[0] = end;
            places.insert(*run, moved_place);
            if number < whole {
                all.extend(moved(&groups, end)?);
            }
            end += bytes;
        }
        let mut empty = self.shape.rows().begin(Vec::new(), self.shape.about())?;
        let footer = empty.finish()?.into_builder().set_row_groups(numbered(all)?).build();
        ParquetMetaDataWriter::new(&mut new, &footer).finish()?;
        new.flush()?;
        Ok(places)
    }

    pub(crate) fn replace(&self) -> io::Result<()> {
        std::fs::rename(new_file(&self.path), &self.path)
    }
}

impl Appended {
    fn append(&mut self, rows: &[u8]) -> io::Result<[u64; 2]> {
        self.file.write_all(rows)?;
        let place = [self.bytes, rows.len() as u64];
        self.bytes += rows.len() as u64;
        Ok(place)
    }

    fn read(&mut self, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(at))?;
        let mut rows = Vec::new();
        (&self.file).take(bytes).read_to_end(&mut rows)?;
        Ok(rows)
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
