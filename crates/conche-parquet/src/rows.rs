//! Rows in memory.

use std::io;

use crate::column::{Column, Value, Values};

/// Rows, which [`Writer::write`](crate::Writer::write) makes a row group of.
#[derive(Clone, Debug)]
pub struct Rows {
    columns: Vec<Column>,
    pub(crate) values: Vec<Values>,
    count: u64,
}

impl Rows {
    /// No rows yet, of a table with these columns.
    #[must_use]
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), values: vec![Values::default(); columns.len()], count: 0 }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The columns of the table.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Adds a row with a value for each column.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the values are not of the columns' kinds, or more or fewer than these; the rows
    /// are of no use after that.
    pub fn push<'a>(&mut self, row: impl IntoIterator<Item = Value<'a>>) -> io::Result<()> {
        let mut row = row.into_iter();
        for (column, values) in self.columns.iter().zip(&mut self.values) {
            let value = row.next().ok_or_else(|| invalid(format!("a row has no value of `{}`", column.name)))?;
            values.push(column, value).map_err(|value| {
                invalid(format!("{value:?} is no value of `{}`, a column of {:?}", column.name, column.kind))
            })?;
        }
        self.count += 1;
        match row.next() {
            None => Ok(()),
            Some(value) => Err(invalid(format!("there is no column for {value:?}"))),
        }
    }
}

pub(crate) fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}
