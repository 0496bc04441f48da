//! Names, sources and parameters of conche's controllers.

use conche::cc::any::{AnyController, Named};
use conche::cc::parameters::{Description, Range, Value};
use conche_lab::scenario::Controllers;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Name, default, bounds, words, unit, effect and source of a parameter.
type Parameter = (
    &'static str,
    Py<PyAny>,
    Option<(Py<PyAny>, Py<PyAny>)>,
    Vec<&'static str>,
    Option<&'static str>,
    &'static str,
    &'static str,
);

/// Returns the controllers' names and sources.
#[pyfunction]
pub fn controllers() -> Vec<(String, &'static str)> {
    Controllers::new().iter().map(|named| (named.name().to_owned(), named.features.source)).collect()
}

/// Returns a controller's parameters.
#[pyfunction]
pub fn parameters(py: Python<'_>, name: &str) -> PyResult<Vec<Parameter>> {
    let (_, controller) = by_name(name)?;
    let parameters = controller.parameters().map(|(Description { name, range, about, source }, default)| {
        let bounds = bounds(*range).map(|(low, high)| Ok::<_, PyErr>((object(py, low)?, object(py, high)?)));
        let words = if let Range::Choice(words) = range { words.to_vec() } else { Vec::new() };
        let unit = match range {
            Range::Span(..) => Some("s"),
            Range::BytesPerSecond(..) => Some("bytes/s"),
            Range::Factor(..) | Range::Count(..) | Range::Flag | Range::Choice(_) => None,
        };
        Ok((*name, object(py, default)?, bounds.transpose()?, words, unit, *about, *source))
    });
    parameters.collect()
}

/// Returns the name of a controller with these parameters, such as `cocoa:weak_k=1`.
#[pyfunction]
pub fn configured(name: &str, values: Vec<(String, String)>) -> PyResult<String> {
    let (named, mut controller) = by_name(name)?;
    for (parameter, value) in &values {
        named.set(&mut controller, parameter, value).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    let settings: Vec<String> = values.iter().map(|(parameter, value)| format!("{parameter}={value}")).collect();
    let colon = if settings.is_empty() { "" } else { ":" };
    Ok(format!("{}{colon}{}", named.name(), settings.join(",")))
}

fn by_name(name: &str) -> PyResult<(Named, AnyController)> {
    let controllers = Controllers::new();
    let named = controllers.by_name(name).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((named.clone(), named.controller()))
}

fn bounds(range: Range) -> Option<(Value, Value)> {
    match range {
        Range::Span(low, high) => Some((Value::Span(low), Value::Span(high))),
        Range::Factor(low, high) => Some((Value::Factor(low), Value::Factor(high))),
        Range::Count(low, high) | Range::BytesPerSecond(low, high) => Some((Value::Count(low), Value::Count(high))),
        Range::Flag | Range::Choice(_) => None,
    }
}

fn object(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    let object = match value {
        Value::Span(span) => span.as_secs_f64().into_pyobject(py)?.into_any(),
        Value::Factor(factor) => (f64::from(factor.permille()) / 1_000.0).into_pyobject(py)?.into_any(),
        Value::Count(count) => count.into_pyobject(py)?.into_any(),
        Value::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Choice(word) => word.into_pyobject(py)?.into_any(),
    };
    Ok(object.unbind())
}
