//! Numbers in files beside a scenario replace `{ csv = "places.csv" }`. The first line names the
//! columns; `#` lines the source.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use toml::{Table, Value};

use super::ScenarioError;

/// Rows of numbers: `[[0, 1], [2, 3]]`, or a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<T>(Vec<T>);

/// Returns the text of a named file.
pub type Files<'a> = &'a dyn Fn(&str) -> Result<String, FileError>;

/// Why a named file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// No file has this name.
    #[error("there is no such file")]
    NotFound,
    /// The file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable {
        /// File.
        path: PathBuf,
        /// Reason.
        error: io::Error,
    },
    /// The file is outside the directory of the results.
    #[error("{} is not below the result directory", .0.display())]
    Outside(PathBuf),
    /// A cell is not a number.
    #[error("line {line}: `{text}` is no number")]
    Number {
        /// Line, counted from 1.
        line: usize,
        /// Cell.
        text: String,
    },
}

const CSV: &str = "csv";

pub(super) fn resolve(table: &mut Table, file: Files<'_>) -> Result<(), ScenarioError> {
    table.iter_mut().try_for_each(|(_, value)| resolve_value(value, file))
}

fn resolve_value(value: &mut Value, file: Files<'_>) -> Result<(), ScenarioError> {
    match value {
        Value::Array(elements) => elements.iter_mut().try_for_each(|element| resolve_value(element, file)),
        Value::Table(table) => match (table.len(), table.get(CSV)) {
            (1, Some(Value::String(name))) => {
                let read = file(name).and_then(|text| rows(&text));
                *value = read.map_err(|problem| ScenarioError::new(CSV, format!("{name}: {problem}")))?;
                Ok(())
            }
            _ => resolve(table, file),
        },
        _ => Ok(()),
    }
}

fn rows(text: &str) -> Result<Value, FileError> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let number = |line: usize, text: &str| {
        let whole = text.trim().parse().map(Value::Integer);
        whole
            .or_else(|_| text.trim().parse().map(Value::Float))
            .map_err(|_| FileError::Number { line, text: text.to_owned() })
    };
    let row = |(line, text): (usize, &str)| text.split(',').map(|text| number(line, text)).collect();
    let rows: Result<Vec<Vec<Value>>, FileError> = lines.skip(1).map(row).collect();
    Ok(Value::Array(rows?.into_iter().map(Value::Array).collect()))
}

impl<T> Deref for Rows<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Rows<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfRows(PhantomData))
    }
}

struct OfRows<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfRows<T> {
    type Value = Rows<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows of numbers as in [[0, 1], [2, 3]], or { csv = \"name.csv\" }")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<Rows<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(sequence)).map(Rows)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rows<T>, A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key != CSV {
                return Err(de::Error::unknown_field(&key, &[CSV]));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(Rows(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, file: &str) -> Result<Vec<(f64, f64)>, ScenarioError> {
        let mut table: Table = toml::from_str(text)?;
        resolve(&mut table, &|name| {
            if name == "a.csv" { Ok(file.to_owned()) } else { Err(FileError::NotFound) }
        })?;
        let rows = table.remove("inner").and_then(|mut inner| inner.as_table_mut()?.remove("rows")).expect("rows");
        Ok(Rows::deserialize(rows)?.to_vec())
    }

    #[test]
    fn rows_are_read_from_a_file_where_one_is_named() {
        let expected = vec![(1.0, 2.5), (3.0, -4.0)];
        assert_eq!(read("inner.rows = [[1.0, 2.5], [3.0, -4.0]]", ""), Ok(expected.clone()));
        assert_eq!(read("inner.rows = { csv = \"a.csv\" }", "# of a figure\nx,y\n1,2.5\n\n3, -4\n"), Ok(expected));
    }

    #[test]
    fn a_file_that_is_missing_or_has_other_than_numbers_is_named() {
        for (text, file, expected) in [
            ("inner.rows = { csv = \"b.csv\" }", "", "csv: b.csv: there is no such file"),
            ("inner.rows = { csv = \"a.csv\" }", "x,y\n1,two\n", "csv: a.csv: line 2: `two` is no number"),
            ("inner.rows = { tsv = \"a.csv\" }", "", "unknown field `tsv`, expected `csv`"),
        ] {
            assert_eq!(read(text, file).expect_err(text).to_string(), expected);
        }
    }
}
