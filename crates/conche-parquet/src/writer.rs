//! The file: a magic number, the row groups, the footer.

use std::fmt;
use std::io::{self, Write};

use crate::column::Column;
use crate::footer::{RowGroup, footer};
use crate::page;
use crate::rows::{Rows, invalid};

pub(crate) const MAGIC: &[u8; 4] = b"PAR1";

/// A file that is being written. Nobody can read it before [`Writer::finish`].
pub struct Writer<W: Write> {
    out: W,
    /// How many bytes the file has.
    position: u64,
    columns: Vec<Column>,
    groups: Vec<RowGroup>,
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("position", &self.position)
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a file of a table with these columns.
    ///
    /// # Errors
    /// If `out` does not take it.
    pub fn begin(mut out: W, columns: Vec<Column>) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out, position: MAGIC.len() as u64, columns, groups: Vec::new() })
    }

    /// Goes on with a file that was begun. It has `position` bytes, and what is written to `out` is added to them. Of what
    /// it holds, no reader will see anything but the groups that [`Writer::keep`] is told.
    pub fn resume(out: W, position: u64, columns: Vec<Column>) -> Self {
        Self { out, position, columns, groups: Vec::new() }
    }

    /// Has the file keep a group that was written before.
    pub fn keep(&mut self, group: RowGroup) {
        self.groups.extend(Some(group).filter(|group| group.rows() > 0));
    }

    /// How many bytes the file has.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The columns of the table.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Writes rows as a row group, and says where it is. No rows are no group.
    ///
    /// # Errors
    /// If the rows are of other columns, or too many for one group ([`io::ErrorKind::InvalidInput`]); if `out` does not take
    /// them, after which the file is of no use.
    pub fn write(&mut self, rows: &Rows) -> io::Result<RowGroup> {
        if rows.columns() != self.columns {
            return Err(invalid("these rows are of another table".to_owned()));
        }
        let mut bytes = Vec::new();
        let mut columns = Vec::new();
        if rows.count() > 0 {
            for (column, values) in self.columns.iter().zip(&rows.values) {
                columns.push(page::write(&mut bytes, values, column.is_optional)?);
            }
        }
        let group = RowGroup::new(rows.count(), self.position, columns);
        self.out.write_all(&bytes)?;
        self.position += bytes.len() as u64;
        self.keep(group.clone());
        Ok(group)
    }

    /// Writes the footer, and gives back what the file was written to.
    ///
    /// # Errors
    /// If `out` does not take it.
    pub fn finish(mut self) -> io::Result<W> {
        let mut footer = footer(&self.columns, &self.groups);
        let length = u32::try_from(footer.len()).map_err(|_| invalid("there are too many row groups".to_owned()))?;
        footer.extend_from_slice(&length.to_le_bytes());
        footer.extend_from_slice(MAGIC);
        self.out.write_all(&footer)?;
        self.out.flush()?;
        Ok(self.out)
    }
}
