//! A table of TOML as if it had been read from a text.
//!
//! What serde derives is compiled anew for everything that it can read from. A scenario has a hundred types and is read from
//! its text, for errors that show their place, and from tables, for each cell: with one reader for both, the code is there once.

use std::borrow::Cow;
use std::slice::Iter;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue, Deserializer, Error};
use toml::{Spanned, Table, Value};

/// Reads from a text. Errors have a place.
pub(super) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    T::deserialize(Deserializer::parse(text)?)
}

/// Reads from a table. The place that an error has means nothing.
pub(super) fn from_table<T: DeserializeOwned>(table: &Table) -> Result<T, Error> {
    // The reader's numbers are pieces of a text and nothing else.
    let mut numbers = Vec::new();
    table.values().for_each(|value| write_numbers(value, &mut numbers));
    T::deserialize(Deserializer::from(nowhere(table_of(table, &mut numbers.iter())?)))
}

fn write_numbers(value: &Value, numbers: &mut Vec<String>) {
    match value {
        Value::Integer(_) | Value::Float(_) => numbers.push(value.to_string()),
        Value::Array(values) => values.iter().for_each(|value| write_numbers(value, numbers)),
        Value::Table(table) => table.values().for_each(|value| write_numbers(value, numbers)),
        Value::String(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

/// A table with the texts of its numbers, in their order.
fn table_of<'a>(table: &'a Table, numbers: &mut Iter<'a, String>) -> Result<DeTable<'a>, Error> {
    let entries = table.iter();
    entries.map(|(key, value)| Ok((nowhere(Cow::Borrowed(&**key)), nowhere(value_of(value, numbers)?)))).collect()
}

fn value_of<'a>(value: &'a Value, numbers: &mut Iter<'a, String>) -> Result<DeValue<'a>, Error> {
    Ok(match value {
        Value::String(text) => DeValue::String(Cow::Borrowed(text)),
        Value::Boolean(is_so) => DeValue::Boolean(*is_so),
        Value::Datetime(time) => DeValue::Datetime(*time),
        Value::Integer(_) | Value::Float(_) => {
            DeValue::parse(numbers.next().map(String::as_str).unwrap_or_default())?.into_inner()
        }
        Value::Array(values) => {
            let each = values.iter().map(|value| value_of(value, numbers).map(nowhere));
            DeValue::Array(each.collect::<Result<Vec<_>, _>>()?.into_iter().collect())
        }
        Value::Table(table) => DeValue::Table(table_of(table, numbers)?),
    })
}

fn nowhere<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_as_the_text_that_it_is_from() {
        let text =
            "a = -7\nb = [1.5, inf, 1e300, 0.1]\nc = { d = true, e = \"ü\\n\" }\nf = [{ g = 9223372036854775807 }]\n";
        let table: Table = toml::from_str(text).expect("a table");
        assert_eq!(from_table::<Table>(&table).expect("the same"), table);
        assert_eq!(from_text::<Table>(text).expect("the same"), table);
    }

    #[test]
    fn errors_say_what_they_say_of_a_text() {
        let table: Table = toml::from_str("seed = -1").expect("a table");
        #[derive(Debug, serde::Deserialize)]
        struct Seed {
            #[allow(dead_code, reason = "it is never read")]
            seed: u64,
        }
        let (one, other) = (from_table::<Seed>(&table), from_text::<Seed>("seed = -1"));
        assert_eq!(one.expect_err("negative").message(), other.expect_err("negative").message());
    }
}
