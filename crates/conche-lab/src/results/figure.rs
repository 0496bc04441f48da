//! A measured value, beside the published one where there is one, and its line of JSON.

use std::io;

use serde::{Deserialize, Serialize, Serializer};

use crate::stats::{Interval, mean_interval};

/// The version of the JSON lines.
pub const SCHEMA: u32 = 1;

/// One measured value of an experiment. Serialised, it is one object with the fields in this order, `schema` first.
#[derive(Clone, Debug, PartialEq)]
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
    pub published: Option<f64>,
    /// What was measured here.
    pub measured: f64,
    /// The 95 % confidence interval of `measured`; `None` for a single replication and for verdicts.
    pub ci95: Option<Interval>,
    /// How many replications it comes from.
    pub runs: u32,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Exchanges, over all replications.
    Exchanges,
    /// Copies of requests.
    Copies,
    /// Events a second, such as finished exchanges.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bits a second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Things of which a replication has a number that need not be whole in the mean, such as hops.
    Count,
    /// A share in per cent.
    #[serde(rename = "%")]
    Percent,
    /// A quotient of two values of the same kind.
    Ratio,
    /// 1 if a claim holds, 0 if it does not.
    Verdict,
}

impl Unit {
    /// What JSON calls it.
    #[must_use]
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).unwrap_or_default();
        name.as_str().map(str::to_owned).unwrap_or_default()
    }
}

/// What figures of one row have in common.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The paper or scenario.
    pub paper: &'a str,
    /// The table or figure of the paper.
    pub item: &'a str,
    /// What was run.
    pub row: &'a str,
}

impl Row<'_> {
    /// The mean of one value for each replication, with its confidence interval, beside what was published.
    ///
    /// # Panics
    /// If there is no replication.
    #[must_use]
    pub fn mean(&self, column: impl Into<String>, unit: Unit, values: &[f64], published: Option<f64>) -> Figure {
        let (measured, ci95) = mean_interval(values);
        Figure {
            paper: self.paper.to_owned(),
            item: self.item.to_owned(),
            row: self.row.to_owned(),
            column: column.into(),
            unit,
            published,
            measured,
            ci95,
            runs: u32::try_from(values.len()).unwrap_or(u32::MAX),
        }
    }
}

impl Figure {
    /// By how many per cent the measured value exceeds the published one; `None` if nothing, or 0, was published.
    #[must_use]
    pub fn deviation_percent(&self) -> Option<f64> {
        let published = self.published.filter(|value| value.abs() > f64::EPSILON)?;
        Some(100.0 * (self.measured - published) / published)
    }
}

/// Writes one line of JSON per figure.
///
/// # Errors
/// If `out` does not take them.
pub fn write_json<'a>(figures: impl IntoIterator<Item = &'a Figure>, mut out: impl io::Write) -> io::Result<()> {
    for figure in figures {
        serde_json::to_writer(&mut out, figure)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            schema: u32,
            paper: &'a str,
            item: &'a str,
            row: &'a str,
            column: &'a str,
            unit: Unit,
            published: Option<Number>,
            measured: Number,
            ci95: Option<[Number; 2]>,
            runs: u32,
        }
        Line {
            schema: SCHEMA,
            paper: &self.paper,
            item: &self.item,
            row: &self.row,
            column: &self.column,
            unit: self.unit,
            published: self.published.map(Number),
            measured: Number(self.measured),
            ci95: self.ci95.map(|interval| [Number(interval.low), Number(interval.high)]),
            runs: self.runs,
        }
        .serialize(serializer)
    }
}

/// A number with at most six decimals: the last bits of a float, which may differ between mathematical libraries, are
/// not shown, and whole numbers have no decimal point.
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let rounded = (self.0 * 1e6).round() / 1e6;
        if rounded.fract() == 0.0 && rounded.abs() < EXACT {
            #[allow(clippy::cast_possible_truncation)]
            return serializer.serialize_i64(rounded as i64);
        }
        serializer.serialize_f64(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        Figure {
            paper: "anrw18".to_owned(),
            item: "table2".to_owned(),
            row: "default/continuous".to_owned(),
            column: "4".to_owned(),
            unit: Unit::Exchanges,
            published: Some(381_954.0),
            measured: 381_845.0,
            ci95: Some(Interval { low: 381_700.25, high: 381_990.123_456_789 }),
            runs: 20,
        }
    }

    #[test]
    fn a_figure_is_one_line_with_its_fields_in_order() {
        let mut out = Vec::new();
        write_json([&figure(), &Figure { published: None, ci95: None, ..figure() }], &mut out).expect("memory");
        assert_eq!(
            String::from_utf8(out).expect("JSON is UTF-8"),
            concat!(
                r#"{"schema":1,"paper":"anrw18","item":"table2","row":"default/continuous","column":"4","#,
                r#""unit":"exchanges","published":381954,"measured":381845,"ci95":[381700.25,381990.123457],"runs":20}"#,
                "\n",
                r#"{"schema":1,"paper":"anrw18","item":"table2","row":"default/continuous","column":"4","#,
                r#""unit":"exchanges","published":null,"measured":381845,"ci95":null,"runs":20}"#,
                "\n"
            )
        );
    }

    #[test]
    fn deviation_is_relative_to_what_was_published() {
        let deviation = figure().deviation_percent().expect("published");
        assert!((deviation + 0.028_538).abs() < 1e-5, "{deviation}");
        assert_eq!(Figure { published: Some(0.0), ..figure() }.deviation_percent(), None);
        assert_eq!(Figure { published: None, ..figure() }.deviation_percent(), None);
    }
}
