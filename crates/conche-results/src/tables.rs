//! Tables of runs' values and exchanges, and their Parquet files.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::origin::{CellId, Origin};
use crate::sample::Timeline;

/// A value of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunRow<'a> {
    /// Run.
    pub of: RowOf<'a>,
    /// Phase; `None` for the whole run.
    pub phase: Option<&'a str>,
    /// Row.
    pub row: &'a str,
    /// Column.
    pub metric: &'a str,
    /// Unit.
    pub unit: &'a str,
    /// Statistic within this run.
    pub value: f64,
}

/// A finished exchange.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeRow<'a> {
    /// Run.
    pub of: RowOf<'a>,
    /// Traffic.
    pub traffic: &'a str,
    /// Client's node number.
    pub client: u32,
    /// Server's node number.
    pub server: u32,
    /// First transmission, in seconds since the run's start.
    pub start_s: f64,
    /// End.
    pub end_s: f64,
    /// Transmissions of the request.
    pub transmissions: u16,
    /// Spurious transmissions: an earlier one and its acknowledgement had arrived.
    pub unnecessary: u16,
    /// Whether it was answered.
    pub is_answered: bool,
    /// Time from the first transmission to the acknowledgement.
    pub rtt_s: Option<f64>,
}

/// The run and scheme of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowOf<'a> {
    /// Scenario.
    pub scenario: &'a str,
    /// Cell.
    pub cell: &'a CellId,
    /// Scheme.
    pub scheme: &'a str,
    /// Replication, from 0.
    pub replication: u32,
    /// Seed.
    pub seed: u64,
}

/// Columns of a table; the axes are those of the scenarios.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    axes: Vec<String>,
    columns: Vec<Column>,
}

impl Shape {
    pub(crate) fn runs(origins: &[Origin]) -> Self {
        let text = ["row", "metric", "unit"].map(Column::text);
        Self::new(origins, [Column::text("phase").optional()].into_iter().chain(text).chain([Column::double("value")]))
    }

    pub(crate) fn exchanges(origins: &[Origin]) -> Self {
        let columns = [
            Column::text("traffic"),
            Column::int32("client"),
            Column::int32("server"),
            Column::double("start_s"),
            Column::double("end_s"),
            Column::int32("transmissions"),
            Column::int32("unnecessary"),
            Column::text("outcome"),
            Column::double("rtt_s").optional(),
        ];
        Self::new(origins, columns.into_iter())
    }

    fn new(origins: &[Origin], further: impl Iterator<Item = Column>) -> Self {
        let mut axes: Vec<String> = origins.iter().flat_map(|origin| &origin.axes).cloned().collect();
        axes.sort_unstable();
        axes.dedup();
        let mut columns = vec![Column::text("paper"), Column::text("part").optional()];
        columns.extend(axes.iter().map(|axis| Column::text(format!("axis.{axis}")).optional()));
        columns.extend([Column::text("mix").optional(), Column::text("scheme")]);
        columns.extend([Column::int32("replication"), Column::uint64("seed")]);
        columns.extend(further);
        Self { axes, columns }
    }

    pub(crate) fn rows(&self) -> Rows {
        Rows::new(self.columns.clone())
    }

    fn push<'a>(&self, rows: &mut Rows, of: RowOf<'a>, further: impl Iterator<Item = Value<'a>>) -> io::Result<()> {
        let RowOf { scenario, cell, scheme, replication, seed } = of;
        let before = [Value::Text(scenario), cell.part.as_deref().into()];
        let axes = self.axes.iter().map(|axis| cell.axes.get(axis).map(String::as_str).into());
        let after = [cell.mix.as_deref().into(), Value::Text(scheme), int(replication), Value::Uint64(seed)];
        rows.push(before.into_iter().chain(axes).chain(after).chain(further))
    }
}

fn int(number: impl Into<u32>) -> Value<'static> {
    Value::Int32(i32::try_from(number.into()).unwrap_or(i32::MAX))
}

/// Values of runs.
#[derive(Clone, Debug)]
pub struct RunRows(Shape, Rows);

/// Exchanges of a run, with timelines of some.
#[derive(Clone, Debug)]
pub struct ExchangeRows(Shape, Rows, Vec<Timeline>);

impl RunRows {
    pub(crate) fn new(shape: Shape) -> Self {
        let rows = shape.rows();
        Self(shape, rows)
    }

    pub(crate) fn rows(&self) -> &Rows {
        &self.1
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If it does not fit the columns.
    pub fn push(&mut self, row: &RunRow<'_>) -> io::Result<()> {
        let further = [
            row.phase.into(),
            Value::Text(row.row),
            Value::Text(row.metric),
            Value::Text(row.unit),
            Value::Double(row.value),
        ];
        self.0.push(&mut self.1, row.of, further.into_iter())
    }
}

impl ExchangeRows {
    pub(crate) fn new(shape: Shape) -> Self {
        let rows = shape.rows();
        Self(shape, rows, Vec::new())
    }

    pub(crate) fn rows(&self) -> &Rows {
        &self.1
    }

    /// Adds the timeline of an exchange.
    pub fn add_timeline(&mut self, timeline: Timeline) {
        self.2.push(timeline);
    }

    pub(crate) fn timelines(&self) -> &[Timeline] {
        &self.2
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If it does not fit the columns.
    pub fn push(&mut self, row: &ExchangeRow<'_>) -> io::Result<()> {
        let further = [
            Value::Text(row.traffic),
            int(row.client),
            int(row.server),
            Value::Double(row.start_s),
            Value::Double(row.end_s),
            int(row.transmissions),
            int(row.unnecessary),
            Value::Text(if row.is_answered { "answered" } else { "failed" }),
            row.rtt_s.map_or(Value::Null, Value::Double),
        ];
        self.0.push(&mut self.1, row.of, further.into_iter())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    values: Values,
    /// Definition level per row of an optional column: 1 with a value, else 0.
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

    fn schema(&self) -> ParquetResult<Type> {
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

#[derive(Clone, Debug)]
pub(crate) struct Rows {
    columns: Vec<Column>,
    count: usize,
}

impl Rows {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns, count: 0 }
    }

    /// Adds a row, with a value per column.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it does not fit; the table is then unusable.
    pub(crate) fn push<'a>(&mut self, row: impl IntoIterator<Item = Value<'a>>) -> io::Result<()> {
        let mut row = row.into_iter();
        for column in &mut self.columns {
            let value = row.next().ok_or_else(|| invalid(format!("no value for the column `{}`", column.name)))?;
            column.push(value)?;
        }
        self.count += 1;
        row.next().map_or(Ok(()), |value| Err(invalid(format!("no column for {value:?}"))))
    }

    /// Begins a Parquet file. Statistics per row group let readers skip groups; doubles rarely
    /// repeat, and have no dictionary.
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

    pub(crate) fn schema(&self) -> io::Result<Type> {
        let fields = self.columns.iter().map(|column| column.schema().map(Arc::new)).collect::<ParquetResult<_>>()?;
        Ok(Type::group_type_builder("schema").with_fields(fields).build()?)
    }

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
