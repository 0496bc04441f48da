//! A measured value, beside the published one where there is one, and its line of JSON.

use std::io;

use conche_results::comparison::rounded;
use conche_scenario::Unit;
use serde::{Serialize, Serializer};

use crate::stats::Interval;

/// The version of the JSON lines.
pub const SCHEMA: u32 = 1;

/// One measured value of an experiment. In a line of JSON its fields are in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The paper or scenario, such as `anrw18`.
    pub paper: String,
    /// The table or figure of the paper that the value belongs to, such as `table2`.
    pub item: String,
    /// What was run, such as `cocoa/random/400/inf`.
    pub row: String,
    /// What was measured, such as `fct_median_s`.
    pub column: String,
    /// What is counted.
    pub unit: Unit,
    /// What the paper says.
    #[serde(serialize_with = "number_or_null")]
    pub published: Option<f64>,
    /// What was measured here.
    #[serde(serialize_with = "number")]
    pub measured: f64,
    /// The 95 % confidence interval of `measured`; `None` for a single replication and for verdicts.
    #[serde(serialize_with = "bounds")]
    pub ci95: Option<Interval>,
    /// How many replications it comes from.
    pub runs: u32,
}

impl Figure {
    /// By how many per cent the measured value exceeds the published one; `None` if nothing, or 0, was published.
    #[must_use]
    pub fn deviation_percent(&self) -> Option<f64> {
        let published = self.published.filter(|value| value.abs() > f64::EPSILON)?;
        Some(100.0 * (self.measured - published) / published)
    }
}

/// Writes one line of JSON per figure, [`SCHEMA`] first.
///
/// # Errors
/// If `out` does not take them.
pub fn write_json<'a>(figures: impl IntoIterator<Item = &'a Figure>, mut out: impl io::Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        schema: u32,
        #[serde(flatten)]
        figure: &'a Figure,
    }
    for figure in figures {
        serde_json::to_writer(&mut out, &Line { schema: SCHEMA, figure })?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A number with at most six decimals: the last bits of a float, which may differ between mathematical libraries, are
/// not shown, and whole numbers have no decimal point.
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
