//! A directory of results.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;
use conche_lab::results::AxisValue;
use conche_lab::results::comparison::{Compared, InCell, Standing};
use conche_lab::scenario::Controllers;
use conche_lab::value::MeasuredValue;
use conche_report::{FigureError, Results, Selection, figure, page};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::table::ArrowTable;

/// Scenario, cell, replication, seed and problem of a failed run.
type Failed = (String, String, u32, u64, String);

/// Row, column, value, interval and unit.
type Shown = (String, String, f64, Option<(f64, f64)>, String);

/// Purpose, controller, regret, mean ratio and its interval.
type Ranked = (Option<String>, String, Option<f64>, Option<f64>, Option<(f64, f64)>);

/// The contents of a directory.
#[pyclass(frozen, module = "conche._conche")]
pub struct Stored(Results);

impl Stored {
    fn all(&self, is_claim: bool) -> Vec<&MeasuredValue> {
        let values = self.0.studies.iter().flat_map(|study| &study.values);
        values.filter(|value| (value.item == CLAIMS) == is_claim).collect()
    }

    fn standings(&self) -> Vec<&Standing> {
        let rows = self.0.comparison.iter();
        rows.filter_map(|row| if let Compared::Controller(of) = &row.of { Some(of) } else { None }).collect()
    }
}

const CLAIMS: &str = "claims";

#[pymethods]
impl Stored {
    #[staticmethod]
    fn read(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        let read = py.detach(|| Results::read(&directory, &Controllers::new()));
        read.map(Self).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.studies.iter().map(|study| study.about.name.as_str()).collect()
    }

    /// Number of all runs.
    #[getter]
    fn runs(&self) -> u64 {
        self.0.manifest.scenarios.iter().filter_map(|scenario| scenario.runs).sum()
    }

    fn failures(&self) -> Vec<Failed> {
        let failures = self.0.manifest.failures.iter().cloned();
        failures.map(|of| (of.scenario, of.cell, of.replication, of.seed, of.problem)).collect()
    }

    /// Measured values, without claims.
    fn values(&self) -> PyResult<ArrowTable> {
        value_table(&self.all(false)).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    fn claims(&self) -> PyResult<ArrowTable> {
        value_table(&self.all(true)).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Ranking of compared controllers; `None` if they were not compared.
    fn ranking(&self) -> PyResult<Option<ArrowTable>> {
        of_comparison(self.standings(), ranking_table)
    }

    /// The same for a notebook.
    fn ranked(&self) -> Vec<Ranked> {
        let ranked = self.standings().into_iter().map(|Standing { controller, purpose, all, .. }| {
            (purpose.clone(), controller.clone(), all.regret, all.mean, all.ci95.map(|[low, high]| (low, high)))
        });
        ranked.collect()
    }

    /// Values of compared controllers; `None` if they were not compared.
    fn compared(&self) -> PyResult<Option<ArrowTable>> {
        let rows = self.0.comparison.iter();
        let cells = rows.filter_map(|row| if let Compared::Cell(of) = &row.of { Some(of) } else { None });
        of_comparison(cells.collect(), compared_table)
    }

    /// The first values, and the number of all.
    fn first(&self, count: usize) -> (Vec<Shown>, usize) {
        let all = self.all(false);
        let shown = |value: &&MeasuredValue| {
            let interval = value.ci95.map(|interval| (interval.low, interval.high));
            (value.row.clone(), value.column.clone(), value.measured, interval, unit(value).unwrap_or_default())
        };
        (all.iter().take(count).map(shown).collect(), all.len())
    }

    fn figure(&self, py: Python<'_>, column: &str, only: Vec<(String, Vec<String>)>) -> PyResult<String> {
        let selection = Selection { column, only: &only, command: "" };
        let drawn = py.detach(|| figure(std::slice::from_ref(&self.0), &selection));
        drawn.map_err(|error| PyValueError::new_err(of_python(&error)))
    }

    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| page(std::slice::from_ref(&self.0)))
    }
}

/// Names the argument of `Results.figure` instead of the command's option.
fn of_python(error: &FigureError) -> String {
    match error {
        FigureError::Open { axis, labels } => {
            format!(
                "several labels of {axis}; choose one with only={{\"{axis}\": \"{}\"}} ({})",
                labels.first().map_or("LABEL", String::as_str),
                labels.join(", ")
            )
        }
        other => other
            .to_string()
            .replace("`--only AXIS=LABEL`", "only={AXIS: LABEL}")
            .replace("`--only scheme=NAME,NAME`", "only={\"scheme\": [NAME, NAME]}"),
    }
}

fn unit(value: &MeasuredValue) -> Option<String> {
    serde_json::to_value(value.unit).ok()?.as_str().map(str::to_owned)
}

fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn numbers(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.map(|value| value.filter(|value| value.is_finite())).collect::<Float64Array>())
}

fn value_table(values: &[&MeasuredValue]) -> Result<ArrowTable, ArrowError> {
    let each = || values.iter().copied();
    let units: Vec<Option<String>> = each().map(unit).collect();
    let axes: BTreeSet<&str> = each().flat_map(|value| value.position.axes.keys()).map(String::as_str).collect();
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    let mut add = |name: &str, column: ArrayRef| columns.push((name.to_owned(), column));
    add("scenario", texts(each().map(|value| Some(value.scenario.as_str()))));
    add("item", texts(each().map(|value| Some(value.item.as_str()))));
    add("row", texts(each().map(|value| Some(value.row.as_str()))));
    add("column", texts(each().map(|value| Some(value.column.as_str()))));
    add("unit", texts(units.iter().map(Option::as_deref)));
    add("published", numbers(each().map(|value| value.published)));
    add("measured", numbers(each().map(|value| Some(value.measured))));
    add("ci95_low", numbers(each().map(|value| value.ci95.map(|interval| interval.low))));
    add("ci95_high", numbers(each().map(|value| value.ci95.map(|interval| interval.high))));
    add("runs", Arc::new(each().map(|value| value.runs).collect::<UInt32Array>()));
    add("part", texts(each().map(|value| value.position.part.as_deref())));
    for axis in axes {
        add(&format!("axis.{axis}"), axis_column(each().map(|value| value.position.axes.get(axis)).collect()));
    }
    add("mix", texts(each().map(|value| value.position.mix.as_deref())));
    add("scheme", texts(each().map(|value| value.position.scheme.as_deref())));
    add("phase", texts(each().map(|value| value.position.phase.as_deref())));
    table(columns)
}

fn table(columns: impl IntoIterator<Item = (impl AsRef<str>, ArrayRef)>) -> Result<ArrowTable, ArrowError> {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).map(ArrowTable::new)
}

/// Labels without a common type are texts.
fn axis_column(values: Vec<Option<&AxisValue>>) -> ArrayRef {
    let integer = |value: &AxisValue| if let AxisValue::Integer(value) = value { Some(*value) } else { None };
    let number = |value: &AxisValue| match value {
        AxisValue::Integer(value) => Some(*value as f64),
        AxisValue::Number(value) => Some(*value),
        AxisValue::Text(_) => None,
    };
    let known = || values.iter().flatten();
    if known().all(|value| integer(value).is_some()) {
        return Arc::new(values.iter().map(|value| value.and_then(integer)).collect::<Int64Array>());
    }
    if known().all(|value| number(value).is_some()) {
        return Arc::new(values.iter().map(|value| value.and_then(number)).collect::<Float64Array>());
    }
    let text = |value: &AxisValue| match value {
        AxisValue::Integer(value) => value.to_string(),
        AxisValue::Number(value) => value.to_string(),
        AxisValue::Text(text) => text.clone(),
    };
    Arc::new(values.iter().map(|value| value.map(text)).collect::<StringArray>())
}

fn of_comparison<T>(rows: Vec<&T>, table: fn(&[&T]) -> Result<ArrowTable, ArrowError>) -> PyResult<Option<ArrowTable>> {
    let table = (!rows.is_empty()).then(|| table(&rows)).transpose();
    table.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn ranking_table(standings: &[&Standing]) -> Result<ArrowTable, ArrowError> {
    let each = || standings.iter().copied();
    let counts = |count: fn(&Standing) -> usize| -> ArrayRef {
        Arc::new(each().map(|of| count(of) as u64).collect::<UInt64Array>())
    };
    table([
        ("controller", texts(each().map(|of| Some(of.controller.as_str())))),
        ("purpose", texts(each().map(|of| of.purpose.as_deref()))),
        ("baseline", texts(each().map(|of| of.baseline.as_deref()))),
        ("mean", numbers(each().map(|of| of.all.mean))),
        ("ci95_low", numbers(each().map(|of| of.all.ci95.map(|[low, _]| low)))),
        ("ci95_high", numbers(each().map(|of| of.all.ci95.map(|[_, high]| high)))),
        ("regret", numbers(each().map(|of| of.all.regret))),
        ("cells", counts(|of| of.all.cells)),
        ("missing", counts(|of| of.all.missing)),
        ("behind", counts(|of| of.all.behind)),
        ("ahead", counts(|of| of.all.ahead)),
        ("points", counts(|of| of.points)),
        ("dominated", counts(|of| of.dominated.len())),
    ])
}

fn compared_table(cells: &[&InCell]) -> Result<ArrowTable, ArrowError> {
    let each = || cells.iter().copied();
    table([
        ("scenario", texts(each().map(|of| Some(of.scenario.as_str())))),
        ("cell", texts(each().map(|of| Some(of.cell.as_str())))),
        ("column", texts(each().map(|of| Some(of.column.as_str())))),
        ("purpose", texts(each().map(|of| of.purpose.as_deref()))),
        ("unit", texts(each().map(|of| Some(of.unit.as_str())))),
        ("better", texts(each().map(|of| Some(of.better.as_str())))),
        ("controller", texts(each().map(|of| Some(of.controller.as_str())))),
        ("value", numbers(each().map(|of| of.value))),
        ("ratio", numbers(each().map(|of| of.ratio))),
        ("ci95_low", numbers(each().map(|of| of.ci95.map(|[low, _]| low)))),
        ("ci95_high", numbers(each().map(|of| of.ci95.map(|[_, high]| high)))),
        ("differs", Arc::new(each().map(|of| Some(of.apart)).collect::<BooleanArray>())),
    ])
}
