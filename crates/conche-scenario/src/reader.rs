//! A table of TOML as serde reads it, and where its parts stand in its text.
//!
//! What serde derives is compiled anew for everything that it can read from. A scenario has a hundred types and is read from
//! its text, for errors that show their place, and from tables, for each cell. `toml` has three readers of tables, and each has
//! code for numbers beyond 64 bits, dates and places: with this one all becomes little more than half as much code. So it does
//! where a type says what it is made of, and is not asked what it would make of anything else.

use std::ops::Range;
use std::slice;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::de::{DeString, DeTable, DeValue};
use toml::{Spanned, Table, Value, map};

use super::ScenarioError;

/// Reads from a text, of which the table is given back too. Errors have a place.
pub(super) fn from_text<T: DeserializeOwned>(text: &str) -> Result<(T, Table), ScenarioError> {
    let places = DeTable::parse(text)?;
    // What is good TOML and no table has numbers that none can have.
    let table = toml::from_str(text).map_err(|error: toml::de::Error| {
        ScenarioError::custom("numbers go from -2^63 to 2^63 - 1, and with a decimal point to 1.7e308").at(error.span())
    })?;
    let read = read(&table, Some(places.get_ref())).map_err(|error| error.at(Some(places.span())))?;
    Ok((read, table))
}

/// Reads from a table. Errors have no place.
pub(super) fn from_table<T: DeserializeOwned>(table: &Table) -> Result<T, ScenarioError> {
    read(table, None)
}

fn read<T: DeserializeOwned>(table: &Table, places: Option<&DeTable<'_>>) -> Result<T, ScenarioError> {
    T::deserialize(MapAccessDeserializer::new(Entries::of(table, places)))
}

/// A value, and the same with its place if it has one.
#[derive(Clone, Copy)]
struct Reader<'a> {
    value: &'a Value,
    place: Option<&'a Spanned<DeValue<'a>>>,
}

impl<'a> Reader<'a> {
    fn span(&self) -> Option<Range<usize>> {
        self.place.map(Spanned::span)
    }

    /// The same, with an error at this place if it has none.
    fn here<T>(&self, read: Result<T, ScenarioError>) -> Result<T, ScenarioError> {
        match read {
            Ok(read) => Ok(read),
            Err(error) => Err(self.wrong(error)),
        }
    }

    fn wrong(&self, error: ScenarioError) -> ScenarioError {
        error.at(self.span())
    }

    /// It is not what was wanted.
    fn other_than(&self, wanted: &dyn Expected) -> ScenarioError {
        let found = match self.value {
            Value::String(text) => Unexpected::Str(text),
            Value::Integer(number) => Unexpected::Signed(*number),
            Value::Float(number) => Unexpected::Float(*number),
            Value::Boolean(is_so) => Unexpected::Bool(*is_so),
            Value::Datetime(_) => Unexpected::Other("date"),
            Value::Array(_) => Unexpected::Seq,
            Value::Table(_) => Unexpected::Map,
        };
        self.wrong(Error::invalid_type(found, wanted))
    }

    fn items(&self, values: &'a [Value]) -> Items<'a> {
        let places = self.place.map(Spanned::get_ref).and_then(DeValue::as_array);
        Items { values: values.iter(), places: places.map(|places| places.iter()) }
    }

    fn entries(&self, table: &'a Table) -> Entries<'a> {
        Entries::of(table, self.place.map(Spanned::get_ref).and_then(DeValue::as_table))
    }
}

/// Reads what numbers of that kind are made of.
macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
            match self.value {
                Value::Integer(number) => self.here(visitor.visit_i64(*number)),
                _ => Err(self.other_than(&visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = ScenarioError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        match self.value {
            Value::String(text) => self.here(visitor.visit_str(text)),
            Value::Integer(number) => self.here(visitor.visit_i64(*number)),
            Value::Float(number) => self.here(visitor.visit_f64(*number)),
            Value::Boolean(is_so) => self.here(visitor.visit_bool(*is_so)),
            Value::Datetime(_) => Err(self.other_than(&visitor)),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Table(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        match self.value {
            Value::Boolean(is_so) => self.here(visitor.visit_bool(*is_so)),
            _ => Err(self.other_than(&visitor)),
        }
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        match self.value {
            Value::Integer(number) => self.here(visitor.visit_i64(*number)),
            Value::Float(number) => self.here(visitor.visit_f64(*number)),
            _ => Err(self.other_than(&visitor)),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        match self.value {
            Value::String(text) => self.here(visitor.visit_str(text)),
            _ => Err(self.other_than(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        let Value::Array(values) = self.value else { return Err(self.other_than(&visitor)) };
        let mut items = self.items(values);
        let read = self.here(visitor.visit_seq(&mut items))?;
        match items.end() {
            None => Ok(read),
            Some(error) => Err(self.wrong(error)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, ScenarioError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        let Value::Table(table) = self.value else { return Err(self.other_than(&visitor)) };
        self.here(visitor.visit_map(self.entries(table)))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScenarioError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ScenarioError> {
        self.here(visitor.visit_newtype_struct(self))
    }

    /// A variant by its name or, with parameters, as a table of one.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScenarioError> {
        let read = match self.value {
            Value::String(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            Value::Table(table) if table.len() == 1 => visitor.visit_enum(self.entries(table)),
            Value::Table(table) => Err(Error::invalid_length(table.len(), &"one key, the name of what is meant")),
            _ => Err(Error::custom("wanted string or table")),
        };
        self.here(read)
    }

    forward_to_deserialize_any! { char bytes byte_buf unit unit_struct tuple_struct identifier ignored_any }
}

/// What is left to be read of an array.
struct Items<'a> {
    values: slice::Iter<'a, Value>,
    places: Option<slice::Iter<'a, Spanned<DeValue<'a>>>>,
}

impl<'a> Items<'a> {
    /// Nothing may be left, as of an array of a fixed length.
    fn end(mut self) -> Option<ScenarioError> {
        let place = self.places.as_mut().and_then(Iterator::next).map(Spanned::span);
        match self.values.len() {
            0 => None,
            1 => Some(ScenarioError::custom("one element too many").at(place)),
            more => Some(ScenarioError::custom(format_args!("{more} elements too many")).at(place)),
        }
    }

    fn next(&mut self) -> Option<Reader<'a>> {
        let place = self.places.as_mut().and_then(Iterator::next);
        self.values.next().map(|value| Reader { value, place })
    }
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = ScenarioError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ScenarioError> {
        match self.next() {
            Some(reader) => seed.deserialize(reader).map(Some),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

/// What is left to be read of a table.
struct Entries<'a> {
    entries: map::Iter<'a, String, Value>,
    places: Option<&'a DeTable<'a>>,
    /// The place and the value of the key that was read last.
    name: Option<&'a Spanned<DeString<'a>>>,
    value: Option<Reader<'a>>,
}

impl<'a> Entries<'a> {
    fn of(table: &'a Table, places: Option<&'a DeTable<'a>>) -> Self {
        Self { entries: table.iter(), places, name: None, value: None }
    }

    fn key(&mut self) -> Option<&'a str> {
        let (key, value) = self.entries.next()?;
        let (name, place) = self.places.and_then(|places| places.get_key_value(key.as_str())).unzip();
        self.name = name;
        self.value = Some(Reader { value, place });
        Some(key)
    }

    /// An error at the key that was read last.
    fn misnamed(&self, error: ScenarioError) -> ScenarioError {
        error.at(self.name.map(Spanned::span))
    }

    fn value(&mut self) -> Result<Reader<'a>, ScenarioError> {
        self.value.take().ok_or_else(|| Error::custom("a value is read before its key"))
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = ScenarioError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ScenarioError> {
        let Some(key) = self.key() else { return Ok(None) };
        match seed.deserialize(StrDeserializer::<ScenarioError>::new(key)) {
            Ok(key) => Ok(Some(key)),
            Err(error) => Err(self.misnamed(error)),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ScenarioError> {
        let value = self.value()?;
        value.here(seed.deserialize(value))
    }
}

impl<'de, 'a> EnumAccess<'de> for Entries<'a> {
    type Error = ScenarioError;
    type Variant = Reader<'a>;

    fn variant_seed<S: DeserializeSeed<'de>>(mut self, seed: S) -> Result<(S::Value, Reader<'a>), ScenarioError> {
        let variant = self.next_key_seed(seed)?.ok_or_else(|| ScenarioError::custom("a table without keys"))?;
        Ok((variant, self.value()?))
    }
}

/// The parameters of a variant.
impl<'de> VariantAccess<'de> for Reader<'_> {
    type Error = ScenarioError;

    fn unit_variant(self) -> Result<(), ScenarioError> {
        match self.value {
            Value::Table(table) if table.is_empty() => Ok(()),
            _ => Err(ScenarioError::custom("it has no parameters: give its name alone, as a string").at(self.span())),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, ScenarioError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, ScenarioError> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScenarioError> {
        self.deserialize_map(visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a = -7\nb = [1.5, inf, 1e300, 0.1]\nc = { d = true, e = \"ü\\n\" }\n[[f]]\ng = 9223372036854775807\n";

    #[test]
    fn a_table_reads_as_the_text_that_it_is_from() {
        let (read, table): (Table, _) = from_text(TEXT).expect("a table");
        assert_eq!(toml::from_str(TEXT), Ok(table.clone()));
        assert_eq!((&read, &from_table::<Table>(&table).expect("the same")), (&table, &table));
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    enum Kind {
        Plain,
        Number(u8),
        Pair(u8, bool),
        Fields { a: Option<u8> },
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Kinds {
        kinds: Vec<Kind>,
    }

    #[test]
    fn an_enum_is_a_name_or_a_table_of_one() {
        let text = "kinds = [\"plain\", { number = 1 }, { pair = [2, true] }, { fields = { a = 3 } }, { plain = {} }]";
        let kinds = vec![Kind::Plain, Kind::Number(1), Kind::Pair(2, true), Kind::Fields { a: Some(3) }, Kind::Plain];
        assert_eq!(from_text(text).map(|(read, _)| read), Ok(Kinds { kinds }));
    }

    #[test]
    fn an_error_shows_the_innermost_place_that_is_wrong() {
        for (text, wrong, problem) in [
            ("kinds = [{ number = 256 }]", "256", "invalid value: integer `256`, expected u8"),
            ("kinds = [{ pair = [1] }]", "[1]", "invalid length 1, expected tuple variant Kind::Pair with 2 elements"),
            ("kinds = [{ pair = [1, true, 2, 3] }]", "2", "2 elements too many"),
            (
                "kinds = [{ number = 9223372036854775808 }]",
                "9223372036854775808",
                "numbers go from -2^63 to 2^63 - 1, and with a decimal point to 1.7e308",
            ),
            ("kinds = [{ fields = { b = 1 } }]", "b", "unknown field `b`, expected `a`"),
            ("kinds = [{ plain = 1 }]", "1", "it has no parameters: give its name alone, as a string"),
            (
                "kinds = [{ plain = 1, number = 2 }]",
                "{ plain = 1, number = 2 }",
                "invalid length 2, expected one key, the name of what is meant",
            ),
            ("kinds = [1]", "1", "wanted string or table"),
            (
                "kinds = [\"other\"]",
                "\"other\"",
                "unknown variant `other`, expected one of `plain`, `number`, `pair`, `fields`",
            ),
            ("kinds = 1979-05-27", "1979-05-27", "invalid type: date, expected a sequence"),
            ("kind = 1", "kind", "unknown field `kind`, expected `kinds`"),
            ("# none", "# none", "missing field `kinds`"),
        ] {
            let error = from_text::<Kinds>(text).expect_err(text);
            assert_eq!(error.to_string(), problem);
            let span = error.span().expect("a place");
            assert_eq!(text.get(span.clone()).filter(|_| !span.is_empty()).unwrap_or(text), wrong, "{text}: {span:?}");
            let Ok(table) = toml::from_str(text) else { continue };
            let of_table = from_table::<Kinds>(&table).expect_err(text);
            assert_eq!((of_table.to_string(), of_table.span()), (problem.to_owned(), None));
        }
    }
}
