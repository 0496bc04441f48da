//! A paper's published values: a CSV file beside the scenario.
//!
//! Columns: row and column as in results, value and, optionally, its 95 % confidence interval's
//! half-width. Lines with `#` name the source.

use std::collections::HashMap;

use thiserror::Error;

#[derive(Clone, Debug, Default)]
pub(super) struct Published(HashMap<String, HashMap<String, (f64, Option<f64>)>>);

/// The first line after comments, without and with intervals.
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
    /// The first wrong line, and what is expected there.
    pub(super) fn from_csv(text: &str) -> Result<Self, PublishedError> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        match lines.next() {
            Some((_, HEADER | WITH_INTERVALS)) => {}
            first => return Err(PublishedError::Header(first.map_or(1, |(number, _)| number))),
        }
        let mut values: HashMap<String, HashMap<String, _>> = HashMap::new();
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
            if values.entry(row.to_owned()).or_default().insert(column.to_owned(), both).is_some() {
                let (row, column) = (row.to_owned(), column.to_owned());
                return Err(PublishedError::Twice { line: number, row, column });
            }
        }
        Ok(Self(values))
    }

    pub(super) fn of(&self, row: &str, column: &str) -> Option<f64> {
        Some(self.0.get(row)?.get(column)?.0)
    }

    /// The interval's half-width, if published.
    pub(super) fn interval(&self, row: &str, column: &str) -> Option<f64> {
        self.0.get(row)?.get(column)?.1
    }
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
