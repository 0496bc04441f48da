//! A serde deserializer of query arguments, in which every value is a text with its key.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use smallvec::SmallVec;
use thiserror::Error;

use super::{Arguments, malformed, missing};

/// Merges values of one key, at the place of the first.
pub(super) fn from_arguments<'de, T: Deserialize<'de>>(arguments: &'de Arguments) -> Result<T, QueryError> {
    let mut values: Vec<(&str, Value<'_>)> = Vec::new();
    // The peer chooses the number of keys.
    let mut places = HashMap::new();
    for (key, text) in arguments.iter() {
        let place = *places.entry(key).or_insert(values.len());
        match values.get_mut(place) {
            Some((_, value)) => value.texts.push(text),
            None => values.push((key, Value { key, texts: [text].into_iter().collect() })),
        }
    }
    T::deserialize(MapDeserializer::new(values.into_iter()))
}

#[derive(Debug, Error)]
#[error("{0}")]
pub(super) struct QueryError(String);

impl de::Error for QueryError {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self(missing(field))
    }
}

struct Value<'de> {
    key: &'de str,
    texts: SmallVec<[&'de str; 1]>,
}

impl<'de> Value<'de> {
    fn text(&self) -> Result<&'de str, QueryError> {
        match self.texts.as_slice() {
            [text] => Ok(text),
            texts => {
                Err(QueryError(format!("the query argument {} is there {} times: give it once", self.key, texts.len())))
            }
        }
    }

    fn parse<T: FromStr<Err: Display>>(&self) -> Result<T, QueryError> {
        let text = self.text()?;
        text.parse().map_err(|error| QueryError(malformed(self.key, text, error)))
    }

    fn located<T>(&self, result: Result<T, QueryError>) -> Result<T, QueryError> {
        result.map_err(|QueryError(why)| QueryError(malformed(self.key, self.texts.first().unwrap_or(&""), why)))
    }
}

macro_rules! parsed {
    ($($deserialize:ident $visit:ident)*) => {
        $(
            fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
                visitor.$visit(self.parse()?)
            }
        )*
    };
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = QueryError;

    parsed! {
        deserialize_i8 visit_i8
        deserialize_i16 visit_i16
        deserialize_i32 visit_i32
        deserialize_i64 visit_i64
        deserialize_i128 visit_i128
        deserialize_u8 visit_u8
        deserialize_u16 visit_u16
        deserialize_u32 visit_u32
        deserialize_u64 visit_u64
        deserialize_u128 visit_u128
        deserialize_f32 visit_f32
        deserialize_f64 visit_f64
        deserialize_char visit_char
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let text = self.text()?;
        let visited = visitor.visit_borrowed_str(text);
        self.located(visited)
    }

    /// A bare key is true.
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let bare = self.text()?.is_empty();
        visitor.visit_bool(bare || self.parse()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        let variant: StrDeserializer<'_, QueryError> = self.text()?.into_deserializer();
        let visited = visitor.visit_enum(variant);
        self.located(visited)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let Self { key, texts } = self;
        let values = texts.into_iter().map(|text| Value { key, texts: [text].into_iter().collect() });
        visitor.visit_seq(SeqDeserializer::new(values))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier
    }
}

impl<'de> IntoDeserializer<'de, QueryError> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
