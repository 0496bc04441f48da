//! Tables of the values of runs, and of their exchanges.

use std::io;

use crate::origin::{CellId, Origin};
use crate::table::{Column, Rows, Value};
use crate::timeline::Timeline;

/// A value of a run, from which the value of the same row and column is computed.
#[derive(Clone, Copy, Debug)]
pub struct RunRow<'a> {
    /// The run.
    pub of: RowOf<'a>,
    /// The phase; `None` for the whole run.
    pub phase: Option<&'a str>,
    /// The row of the value.
    pub row: &'a str,
    /// The column of the value.
    pub metric: &'a str,
    /// The unit.
    pub unit: &'a str,
    /// The statistic within this run.
    pub value: f64,
}

/// A finished exchange.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeRow<'a> {
    /// The run.
    pub of: RowOf<'a>,
    /// The traffic that it belongs to.
    pub traffic: &'a str,
    /// The number of the client's node.
    pub client: u32,
    /// The number of the server's node.
    pub server: u32,
    /// Time of the first transmission, in seconds since the start of the run.
    pub start_s: f64,
    /// Time of its end.
    pub end_s: f64,
    /// Transmissions of the request.
    pub transmissions: u16,
    /// Unnecessary transmissions: an earlier one, and its acknowledgement, had arrived.
    pub unnecessary: u16,
    /// Whether it was answered.
    pub is_answered: bool,
    /// Time from the first transmission to the acknowledgement, if any.
    pub rtt_s: Option<f64>,
}

/// The run and scheme of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowOf<'a> {
    /// The scenario.
    pub scenario: &'a str,
    /// The cell.
    pub cell: &'a CellId,
    /// The scheme.
    pub scheme: &'a str,
    /// The replication, counted from 0.
    pub replication: u32,
    /// The seed of its random numbers.
    pub seed: u64,
}

/// The columns of a table; those of axes depend on the scenarios.
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

    /// A table without rows.
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

/// The numbers of the simulator are below 2^31.
fn int(number: impl Into<u32>) -> Value<'static> {
    Value::Int32(i32::try_from(number.into()).unwrap_or(i32::MAX))
}

/// Values of runs.
#[derive(Clone, Debug)]
pub struct RunRows(Shape, Rows);

/// Exchanges of a run, and timelines of some of them.
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
    /// If the row does not fit the columns of the table.
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
    /// If the row does not fit the columns of the table.
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
