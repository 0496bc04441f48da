//! A measured value, its published counterpart, and its JSON line.

use std::collections::BTreeMap;
use std::io;

use conche_results::AxisValue;
use conche_results::comparison::rounded;
use conche_scenario::Unit;
use serde::{Deserialize, Serialize, Serializer};

use crate::stats::Interval;

/// Version of the JSON lines.
pub const SCHEMA: u32 = 1;

/// A measured value; JSON fields are in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredValue {
    /// Scenario, such as `anrw18`.
    pub scenario: String,
    /// The paper's table or figure, such as `table2`.
    pub item: String,
    /// Configuration, such as `cocoa/random/400/inf`.
    pub row: String,
    /// Metric, such as `fct_median_s`.
    pub column: String,
    /// Unit.
    pub unit: Unit,
    /// Published value.
    #[serde(serialize_with = "number_or_null")]
    pub published: Option<f64>,
    /// Measured value.
    #[serde(serialize_with = "number")]
    pub measured: f64,
    /// 95 % confidence interval; `None` for one replication or a verdict.
    #[serde(serialize_with = "bounds")]
    pub ci95: Option<Interval>,
    /// Number of replications.
    pub runs: u32,
    /// Position in the experiment; empty for claims.
    #[serde(flatten)]
    pub position: Position,
}

/// The position of a value in the experiment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Position {
    /// Part of the scenario.
    pub part: Option<String>,
    /// Positions on the axes, as `runs.parquet` names its columns, without those that the value
    /// pools.
    pub axes: BTreeMap<String, AxisValue>,
    /// Mix of schemes.
    pub mix: Option<String>,
    /// Scheme.
    pub scheme: Option<String>,
    /// Phase; `None` for the whole run.
    pub phase: Option<String>,
}

impl MeasuredValue {
    /// Deviation from the published value in per cent; `None` if absent or 0.
    #[must_use]
    pub fn deviation_percent(&self) -> Option<f64> {
        let published = self.published.filter(|value| value.abs() > f64::EPSILON)?;
        Some(100.0 * (self.measured - published) / published)
    }

    /// Returns the value as its JSON line states it, with six decimals.
    #[must_use]
    pub fn rounded(&self) -> Self {
        Self {
            published: self.published.map(rounded),
            measured: rounded(self.measured),
            ci95: self.ci95.map(|Interval { low, high }| Interval { low: rounded(low), high: rounded(high) }),
            ..self.clone()
        }
    }
}

/// Writes a JSON line per value, [`SCHEMA`] first.
///
/// # Errors
/// If writing to `out` fails.
pub fn write_json<'a>(values: impl IntoIterator<Item = &'a MeasuredValue>, mut out: impl io::Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        schema: u32,
        #[serde(flatten)]
        value: &'a MeasuredValue,
    }
    for value in values {
        serde_json::to_writer(&mut out, &Line { schema: SCHEMA, value })?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Rounded to six decimals, which hides differences between mathematical libraries.
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let rounded = rounded(self.0);
        if rounded.fract() == 0.0 && rounded.abs() < EXACT {
            #[allow(clippy::cast_possible_truncation)]
            return serializer.serialize_i64(rounded as i64);
        }
        serializer.serialize_f64(rounded)
    }
}

fn number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Number(*number).serialize(serializer)
}

fn number_or_null<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(Number).serialize(serializer)
}

fn bounds<S: Serializer>(interval: &Option<Interval>, serializer: S) -> Result<S::Ok, S::Error> {
    interval.map(|interval| [Number(interval.low), Number(interval.high)]).serialize(serializer)
}
