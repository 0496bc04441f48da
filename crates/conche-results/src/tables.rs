//! Tables of runs' values, exchanges and time series, and their Parquet files.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::origin::{Axis, CellId, Labels, Origin};
use crate::run::RunId;
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
    pub column: &'a str,
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
    /// Client's node.
    pub client: &'a str,
    /// Server's node.
    pub server: &'a str,
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

/// A point of a time series.
#[derive(Clone, Copy, Debug)]
pub struct SeriesRow<'a> {
    /// Run; no scheme for links between clients of several.
    pub of: RowOf<'a>,
    /// Seconds since the run's start.
    pub time_s: f64,
    /// Node or link.
    pub subject: &'a str,
    /// Other end of a node's path.
    pub peer: Option<&'a str>,
    /// Quantity, with its unit.
    pub quantity: &'a str,
    /// Value.
    pub value: f64,
}

/// The run and scheme of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowOf<'a> {
    /// Scenario.
    pub scenario: &'a str,
    /// Cell.
    pub cell: &'a CellId,
    /// Scheme.
    pub scheme: Option<&'a str>,
    /// Replication, from 0.
    pub replication: u32,
    /// Seed.
    pub seed: u64,
}

/// Columns of a table; the axes are those of the scenarios.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    axes: Vec<Axis>,
    columns: Vec<Column>,
    about: Arc<[KeyValue]>,
    repeats: bool,
}

impl Shape {
    pub(crate) fn runs(origins: &[Origin], about: &About<'_>) -> Self {
        let text = ["row", "column", "unit"].map(Column::text);
        let further = [Column::text("phase").optional()].into_iter().chain(text).chain([Column::double("value")]);
        Self::new(origins, about, Column::text("scheme"), further)
    }

    pub(crate) fn exchanges(origins: &[Origin], about: &About<'_>) -> Self {
        let columns = [
            Column::text("traffic"),
            Column::text("client"),
            Column::text("server"),
            Column::double("start_s"),
            Column::double("end_s"),
            Column::int32("transmissions"),
            Column::int32("unnecessary"),
            Column::text("outcome"),
            Column::double("rtt_s").optional(),
        ];
        Self::new(origins, about, Column::text("scheme"), columns.into_iter())
    }

    pub(crate) fn series(origins: &[Origin], about: &About<'_>) -> Self {
        let columns = [
            Column::double("time_s"),
            Column::text("subject"),
            Column::text("peer").optional(),
            Column::text("quantity"),
            Column::double("value"),
        ];
        let shape = Self::new(origins, about, Column::text("scheme").optional(), columns.into_iter());
        Self { repeats: true, ..shape }
    }

    fn new(origins: &[Origin], about: &About<'_>, scheme: Column, further: impl Iterator<Item = Column>) -> Self {
        let mut columns = vec![Column::text("scenario"), Column::text("part").optional()];
        let mut axes = Vec::new();
        for (name, axis) in Axis::columns(origins.iter().flat_map(|origin| origin.axes.iter().cloned())) {
            let column = format!("axis.{name}");
            columns.push(match axis.labels {
                Labels::Texts => Column::text(column).optional(),
                Labels::Integers(_) => Column::int64(column).optional(),
                Labels::Numbers(..) => Column::double(column).optional(),
            });
            axes.push(axis);
        }
        columns.extend([Column::text("mix").optional(), scheme]);
        columns.extend([Column::int32("replication"), Column::uint64("seed")]);
        columns.extend(further);
        Self { axes, columns, about: about.as_metadata(origins).into(), repeats: false }
    }

    pub(crate) fn rows(&self) -> Rows {
        Rows { columns: self.columns.clone(), count: 0, repeats: self.repeats }
    }

    pub(crate) fn about(&self) -> &[KeyValue] {
        &self.about
    }

    fn push<'a>(&self, rows: &mut Rows, of: RowOf<'a>, further: impl Iterator<Item = Value<'a>>) -> io::Result<()> {
        let RowOf { scenario, cell, scheme, replication, seed } = of;
        let before = [Value::Text(scenario), cell.part.as_deref().into()];
        let axis = |axis: &Axis| cell.axes.get(&axis.name).map_or(Value::Null, |label| axis.labels.value_of(label));
        let axes = self.axes.iter().map(axis);
        let after = [cell.mix.as_deref().into(), scheme.into(), int(replication), Value::Uint64(seed)];
        rows.push(before.into_iter().chain(axes).chain(after).chain(further))
    }
}

impl Labels {
    /// Returns a label's value, a text if it is no number of this axis.
    fn value_of<'a>(&self, label: &'a str) -> Value<'a> {
        let value = match self {
            Self::Texts => None,
            Self::Integers(of) => of.get(label).map(|integer| Value::Int64(*integer)),
            Self::Numbers(of, _) => of.get(label).map(|number| Value::Double(*number)),
        };
        value.unwrap_or(Value::Text(label))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    /// Version of conche.
    pub(crate) version: &'a str,
    /// Those that affect results.
    pub(crate) options: &'a str,
}

impl About<'_> {
    fn as_metadata(&self, origins: &[Origin]) -> Vec<KeyValue> {
        let scenario = |origin: &Origin| {
            serde_json::json!({
                "name": origin.name,
                "sha256": crate::origin::sha256(origin.text.as_bytes()),
                "seed": origin.seed,
                "settings": origin.settings,
                "endpoint": origin.endpoint,
            })
        };
        let scenarios: Vec<_> = origins.iter().map(scenario).collect();
        let pair = |key: &str, value: String| KeyValue::new(format!("conche.{key}"), value);
        vec![
            pair("version", self.version.to_owned()),
            pair("options", self.options.to_owned()),
            pair("scenarios", serde_json::Value::from(scenarios).to_string()),
        ]
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
            Value::Text(row.column),
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

    pub(crate) fn written(&self, run: RunId) -> io::Result<Vec<u8>> {
        let mut file = self.1.begin(Vec::new(), &[of_run(run)])?;
        self.1.write(&mut file)?;
        written(file)
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
            Value::Text(row.client),
            Value::Text(row.server),
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

/// Time series of a run. Memory is bounded by the encoded rows and one row group.
pub struct SeriesRows {
    shape: Shape,
    interval: Duration,
    rows: Rows,
    file: SerializedFileWriter<Vec<u8>>,
}

/// Rows of a row group of time series.
const SERIES_GROUP: usize = 65_536;

impl SeriesRows {
    pub(crate) fn new(shape: Shape, interval: Duration, run: RunId) -> io::Result<Self> {
        let rows = shape.rows();
        let file = rows.begin(Vec::new(), &[of_run(run)])?;
        Ok(Self { shape, interval, rows, file })
    }

    /// Returns the time between samples.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If it does not fit the columns.
    pub fn push(&mut self, row: &SeriesRow<'_>) -> io::Result<()> {
        let further = [
            Value::Double(row.time_s),
            Value::Text(row.subject),
            row.peer.into(),
            Value::Text(row.quantity),
            Value::Double(row.value),
        ];
        self.shape.push(&mut self.rows, row.of, further.into_iter())?;
        if self.rows.count == SERIES_GROUP {
            self.rows.write(&mut self.file)?;
            self.rows = self.shape.rows();
        }
        Ok(())
    }

    pub(crate) fn written(mut self) -> io::Result<Vec<u8>> {
        self.rows.write(&mut self.file)?;
        written(self.file)
    }
}

impl std::fmt::Debug for SeriesRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeriesRows").field("interval", &self.interval).finish_non_exhaustive()
    }
}

/// Returns the complete Parquet file of a run's rows.
fn written(mut file: SerializedFileWriter<Vec<u8>>) -> io::Result<Vec<u8>> {
    file.finish()?;
    Ok(std::mem::take(file.inner_mut()))
}

/// Key of the run's ID in the metadata of its rows.
pub(crate) const RUN_KEY: &str = "conche.run";

fn of_run(run: RunId) -> KeyValue {
    KeyValue::new(RUN_KEY.to_owned(), run.to_string())
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    values: Values,
    /// Definition level per row: 1 with a value, else 0.
    levels: Option<Vec<i16>>,
}

#[derive(Clone, Debug)]
enum Values {
    /// Equal texts share their bytes.
    Text(Vec<ByteArray>, HashMap<Box<str>, ByteArray>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    /// Parquet stores unsigned integers by their bits.
    Uint64(Vec<i64>),
    Double(Vec<f64>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Text(&'a str),
    Int32(i32),
    Int64(i64),
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

    pub(crate) fn int64(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: Values::Int64(Vec::new()), levels: None }
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
            (Values::Int64(values), Value::Int64(value)) => values.push(value),
            (Values::Uint64(values), Value::Uint64(value)) => values.push(value.cast_signed()),
            (Values::Double(values), Value::Double(value)) => values.push(value),
            (_, value) => return Err(invalid(format!("{value:?} does not fit the column `{}`", self.name))),
        }
        Ok(())
    }

    fn schema(&self) -> ParquetResult<Type> {
        let (physical, logical) = match self.values {
            Values::Text(..) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Values::Int32(_) => (PhysicalType::INT32, None),
            Values::Int64(_) => (PhysicalType::INT64, None),
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
    repeats: bool,
}

impl Rows {
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

    /// Begins a Parquet file. Readers skip groups by their statistics. Doubles have a dictionary
    /// only if they repeat.
    pub(crate) fn begin<W: Write + Send>(&self, out: W, about: &[KeyValue]) -> io::Result<SerializedFileWriter<W>> {
        let properties = WriterProperties::builder()
            .set_key_value_metadata((!about.is_empty()).then(|| about.to_vec()))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        let doubles = self.columns.iter().filter(|column| !self.repeats && matches!(column.values, Values::Double(_)));
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
                Values::Int64(values) | Values::Uint64(values) => {
                    writer.typed::<Int64Type>().write_batch(values, levels, None)?
                }
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
        let rows = || Rows { columns: vec![Column::text("scheme")], count: 0, repeats: false };
        assert!(rows().push([Value::Int32(1)]).is_err_and(|error| error.to_string().contains("`scheme`")));
        assert!(rows().push([Value::Null]).is_err(), "the column is not optional");
        assert!(rows().push([]).is_err());
        assert!(rows().push([Value::Text("a"), Value::Text("b")]).is_err());
    }
}
