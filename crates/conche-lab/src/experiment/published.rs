//! Published values of a paper, and their distance from measured ones.
//!
//! CSV columns: row and column as in results, value, and optionally the half-width of its 95 %
//! confidence interval. Lines with `#` name the source.

use std::collections::HashMap;

use conche_results::Near;
use thiserror::Error;

use super::Experiment;
use crate::scenario::Unit;
use crate::table::Table;
use crate::value::MeasuredValue;

#[derive(Clone, Debug, Default)]
pub(super) struct Published(HashMap<String, HashMap<String, (f64, Option<f64>)>>);

const HEADER: &str = "row,column,value";
const WITH_INTERVALS: &str = "row,column,value,interval";

#[derive(Debug, Error)]
pub(super) enum PublishedError {
    #[error("line {0}: expected `{HEADER}`")]
    Header(usize),
    #[error("line {0}: expected a row, a column and a value")]
    Columns(usize),
    #[error("line {line}: `{text}` is no number")]
    Number { line: usize, text: String },
    #[error("line {line}: {row} {column} is there twice")]
    Twice { line: usize, row: String, column: String },
}

impl Published {
    /// Reads a file.
    ///
    /// # Errors
    /// The first wrong line, and its expected form.
    pub(super) fn from_csv(text: &str) -> Result<Self, PublishedError> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        match lines.next() {
            Some((_, HEADER | WITH_INTERVALS)) => {}
            first => return Err(PublishedError::Header(first.map_or(1, |(number, _)| number))),
        }
        let mut by_row: HashMap<String, HashMap<String, _>> = HashMap::new();
        for (number, text) in lines {
            let parts: Vec<&str> = text.split(',').collect();
            let (row, column, value, interval) = match parts[..] {
                [row, column, value] => (row, column, value, None),
                [row, column, value, interval] => (row, column, value, Some(interval)),
                _ => return Err(PublishedError::Columns(number)),
            };
            let parsed = |text: &str| {
                text.trim().parse().map_err(|_| PublishedError::Number { line: number, text: text.to_owned() })
            };
            let both: (f64, Option<f64>) = (parsed(value)?, interval.map(parsed).transpose()?);
            if by_row.entry(row.to_owned()).or_default().insert(column.to_owned(), both).is_some() {
                let (row, column) = (row.to_owned(), column.to_owned());
                return Err(PublishedError::Twice { line: number, row, column });
            }
        }
        Ok(Self(by_row))
    }

    pub(super) fn of(&self, row: &str, column: &str) -> Option<f64> {
        Some(self.0.get(row)?.get(column)?.0)
    }

    /// Half-width.
    pub(super) fn interval(&self, row: &str, column: &str) -> Option<f64> {
        self.0.get(row)?.get(column)?.1
    }
}

/// Whether network parameters were fitted on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Parameters were fitted on it.
    Fitted,
    /// The value was not used for fitting.
    Predicted,
}

/// Distance between measured and published values: the mean of |ln(measured / published)|, which
/// weighs excess and shortfall equally.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Closeness {
    /// Values that were both published and measured.
    pub values: usize,
    /// Values within [`WITHIN_PERCENT`].
    pub within: usize,
    /// Values with a ratio: neither side is 0.
    ratios: usize,
    log_ratios: f64,
}

/// Bound of [`Closeness::within`], in per cent of the published value.
pub const WITHIN_PERCENT: f64 = 15.0;

impl Closeness {
    /// Sums up the published values of this kind.
    #[must_use]
    pub fn of(paper: &Experiment, values: &[MeasuredValue], provenance: Provenance) -> Self {
        let mut closeness = Self::default();
        let judged = values.iter().filter(|value| value.unit != Unit::Verdict);
        let of_kind = judged.filter(|value| value.published.is_some() && paper.provenance(value) == Some(provenance));
        of_kind.for_each(|value| closeness.count(value));
        closeness
    }

    fn count(&mut self, value: &MeasuredValue) {
        self.values += 1;
        self.within += usize::from(value.deviation_percent().is_some_and(|off| off.abs() <= WITHIN_PERCENT));
        let ratio = value.published.map(|published| value.measured / published);
        if let Some(ratio) = ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0) {
            self.ratios += 1;
            self.log_ratios += libm::log(ratio).abs();
        }
    }

    /// Mean of |ln(measured / published)|: 0.1 for 10 %, 0.7 for a factor of two.
    #[must_use]
    pub fn mean_log_ratio(&self) -> Option<f64> {
        (self.ratios > 0).then(|| self.log_ratios / self.ratios as f64)
    }

    pub(crate) fn near(&self) -> Near {
        Near { values: self.values, within: self.within, mean_log_ratio: self.mean_log_ratio() }
    }

    pub(crate) fn cells(&self) -> [String; 2] {
        let within = if self.values == 0 { "-".to_owned() } else { format!("{} of {}", self.within, self.values) };
        [within, self.mean_log_ratio().map_or("-".to_owned(), |mean| format!("{mean:.2}"))]
    }
}

pub(crate) const CLOSENESS_HEADER: [&str; 2] = ["within 15 %", "mean |ln ratio|"];

pub(super) fn closeness_table(paper: &Experiment, values: &[MeasuredValue]) -> Option<Table> {
    let of = |provenance| Closeness::of(paper, values, provenance);
    let rows = [("fitted on", of(Provenance::Fitted)), ("predicted", of(Provenance::Predicted))];
    let rows: Vec<_> = rows.into_iter().filter(|(_, closeness)| closeness.values > 0).collect();
    (!rows.is_empty()).then(|| Table {
        title: "How near to what was published".to_owned(),
        header: ["values", CLOSENESS_HEADER[0], CLOSENESS_HEADER[1]].map(String::from).into(),
        names: 1,
        rows: rows.iter().map(|(name, of)| [&[(*name).to_owned()], &of.cells()[..]].concat()).collect(),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_row_and_column() {
        let text = "# Table 1\nrow,column,value,interval\na/b,c,1.5,0.1\na/b,d,2\n";
        let published = Published::from_csv(text).expect("valid");
        assert_eq!((published.of("a/b", "d"), published.of("a/b", "e")), (Some(2.0), None));
        assert_eq!((published.interval("a/b", "c"), published.interval("a/b", "d")), (Some(0.1), None));
    }

    #[test]
    fn a_malformed_line_is_named() {
        for (text, expected) in [
            ("a,b,1\n", "line 1: expected `row,column,value`"),
            ("row,column,value\na,b\n", "line 2: expected a row, a column and a value"),
            ("row,column,value\na,b,x\n", "line 2: `x` is no number"),
            ("row,column,value\na,b,1\n\na,b,2\n", "line 4: a b is there twice"),
        ] {
            assert_eq!(Published::from_csv(text).expect_err(expected).to_string(), expected);
        }
    }
}
