//! Flat tables in memory, and the Parquet row groups they are written as.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

/// A column, and its values for the rows added so far.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    values: Values,
    /// The definition level of each row of an optional column: 1 with a value, 0 without.
    levels: Option<Vec<i16>>,
}

#[derive(Clone, Debug)]
enum Values {
    /// Equal texts share their bytes.
    Text(Vec<ByteArray>, HashMap<Box<str>, ByteArray>),
    Int32(Vec<i32>),
    /// Parquet stores unsigned integers by their bits.
    Uint64(Vec<i64>),
    Double(Vec<f64>),
}

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Text(&'a str),
    Int32(i32),
    Uint64(u64),
    Double(f64),
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

impl Column {
    pub(crate) fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: Values::Text(Vec::new(), HashMap::new()), levels: None }
    }

    pub(crate) fn int32(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: Values::Int32(Vec::new()), levels: None }
    }

    pub(crate) fn uint64(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: Values::Uint64(Vec::new()), levels: None }
    }

    pub(crate) fn double(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: Values::Double(Vec::new()), levels: None }
    }

    /// Lets rows have no value in this column.
    pub(crate) fn optional(self) -> Self {
        Self { levels: Some(Vec::new()), ..self }
    }

    fn push(&mut self, value: Value<'_>) -> io::Result<()> {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(value != Value::Null));
            if value == Value::Null {
                return Ok(());
            }
        }
        match (&mut self.values, value) {
            (Values::Text(values, known), Value::Text(text)) => {
                if !known.contains_key(text) {
                    known.insert(text.into(), text.into());
                }
                values.extend(known.get(text).cloned());
            }
            (Values::Int32(values), Value::Int32(value)) => values.push(value),
            (Values::Uint64(values), Value::Uint64(value)) => values.push(value.cast_signed()),
            (Values::Double(values), Value::Double(value)) => values.push(value),
            _ => return Err(invalid(format!("{value:?} does not fit the column `{}`", self.name))),
        }
        Ok(())
    }

    fn schema(&self) -> Result<Type> {
        let (physical, logical) = match self.values {
            Values::Text(..) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Values::Int32(_) => (PhysicalType::INT32, None),
            Values::Uint64(_) => (PhysicalType::INT64, Some(LogicalType::integer(64, false))),
            Values::Double(_) => (PhysicalType::DOUBLE, None),
        };
        let repetition = if self.levels.is_some() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(&self.name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition)
            .build()
    }
}

/// Rows, stored by column.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    columns: Vec<Column>,
    count: usize,
}

impl Rows {
    /// A table without rows.
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns, count: 0 }
    }

    /// Adds a row, with a value for each column.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the row does not fit the columns. The table is unusable
    /// after that.
    pub(crate) fn push<'a>(&mut self, row: impl IntoIterator<Item = Value<'a>>) -> io::Result<()> {
        let mut row = row.into_iter();
        for column in &mut self.columns {
            let value = row.next().ok_or_else(|| invalid(format!("no value for the column `{}`", column.name)))?;
            column.push(value)?;
        }
        self.count += 1;
        row.next().map_or(Ok(()), |value| Err(invalid(format!("no column for {value:?}"))))
    }

    /// Begins a Parquet file with these columns.
    ///
    /// Statistics are kept per row group, so that readers can skip groups. Doubles rarely repeat:
    /// they are stored without a dictionary.
    pub(crate) fn begin<W: Write + Send>(&self, out: W) -> io::Result<SerializedFileWriter<W>> {
        let properties = WriterProperties::builder()
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        let doubles = self.columns.iter().filter(|column| matches!(column.values, Values::Double(_)));
        let properties = doubles.fold(properties, |properties, column| {
            properties.set_column_dictionary_enabled(ColumnPath::from(column.name.as_str()), false)
        });
        Ok(SerializedFileWriter::new(out, Arc::new(self.schema()?), Arc::new(properties.build()))?)
    }

    /// The schema of a Parquet file with these columns.
    pub(crate) fn schema(&self) -> io::Result<Type> {
        let fields = self.columns.iter().map(|column| column.schema().map(Arc::new)).collect::<Result<_>>()?;
        Ok(Type::group_type_builder("schema").with_fields(fields).build()?)
    }

    /// Writes the rows as one row group; a table without rows as none.
    pub(crate) fn write<W: Write + Send>(&self, file: &mut SerializedFileWriter<W>) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        for column in &self.columns {
            let mut writer = group.next_column()?.ok_or_else(|| invalid("too many columns".to_owned()))?;
            let levels = column.levels.as_deref();
            match &column.values {
                Values::Text(values, _) => writer.typed::<ByteArrayType>().write_batch(values, levels, None)?,
                Values::Int32(values) => writer.typed::<Int32Type>().write_batch(values, levels, None)?,
                Values::Uint64(values) => writer.typed::<Int64Type>().write_batch(values, levels, None)?,
                Values::Double(values) => writer.typed::<DoubleType>().write_batch(values, levels, None)?,
            };
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_do_not_fit_the_columns_are_refused() {
        let rows = || Rows::new(vec![Column::text("scheme")]);
        assert!(rows().push([Value::Int32(1)]).is_err_and(|error| error.to_string().contains("`scheme`")));
        assert!(rows().push([Value::Null]).is_err(), "the column is not optional");
        assert!(rows().push([]).is_err());
        assert!(rows().push([Value::Text("a"), Value::Text("b")]).is_err());
    }
}
