//! Deserialization of configurations.
//!
//! | Rust | TOML |
//! |---|---|
//! | struct | table of its fields |
//! | time, rate, size, probability | string with a unit: `"400ms"`, `"30kbit/s"`, `"2500B"`, `"5%"` |
//! | value with its unit in its name | number: `noise_dbm = -98` |
//! | enum | the variant in kebab case, as a string |
//! | enum with parameters | table with the variant as its key: `{ exponential = "20ms" }` |
//! | `None` | `"none"` |
//!
//! An absent field keeps its type's default or, in a MAC, the preset's value: a table becomes a
//! *patch*, applied later. Reading raises all errors, with their position.

mod mac;
mod macros;
mod radio;
mod routing;
mod wired;

#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use self::macros::{all_of, as_whole, deserialize, fields, kinds, names, required};
use crate::units::{BitRate, Probability, Span};

type Patch<T> = Box<dyn FnOnce(Option<T>) -> T>;

type Change<T> = Box<dyn FnOnce(&mut T)>;

/// Separate from reading, which is compiled per format.
fn of_field<T: 'static, F: Clone + 'static>(patch: Patch<F>, field: fn(&mut T) -> &mut F) -> Change<T> {
    Box::new(move |value| {
        let field = field(value);
        *field = patch(Some(field.clone()));
    })
}

fn over<T: 'static>(base: fn() -> T, changes: Vec<Change<T>>) -> Patch<T> {
    Box::new(move |value| {
        let mut value = value.unwrap_or_else(base);
        changes.into_iter().for_each(|change| change(&mut value));
        value
    })
}

trait Read: Sized + 'static {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<Self>, D::Error>;
}

fn whole<T: 'static>(value: T) -> Patch<T> {
    Box::new(|_| value)
}

as_whole!(
    bool,
    u8,
    u16,
    u32,
    u64,
    usize,
    NonZeroU32,
    f64,
    BitRate,
    Probability,
    Span,
    Vec<Vec<f64>>,
    Vec<(f64, f64)>,
    (f64, f64),
    (u16, u16)
);

impl Read for Duration {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<Self>, D::Error> {
        Span::deserialize(deserializer).map(|span| whole(span.0))
    }
}

struct PatchSeed<T>(PhantomData<T>);

impl<T> PatchSeed<T> {
    const fn seed() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Read> DeserializeSeed<'de> for PatchSeed<T> {
    type Value = Patch<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Patch<T>, D::Error> {
        T::read(deserializer)
    }
}

fn fresh<'de, T: Read, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer).map(|patch| patch(None))
}

struct Key(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.0.join(", "))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<&'static str, E> {
        self.0.iter().find(|key| **key == text).copied().ok_or_else(|| E::unknown_field(text, self.0))
    }
}

struct Name(&'static [&'static str]);

impl Visitor<'_> for Name {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_of("", self.0))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<&'static str, E> {
        self.0.iter().find(|name| **name == text).copied().ok_or_else(|| E::unknown_variant(text, self.0))
    }
}

fn one_of(what: &str, names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
    format!("{what}one of {}", names.join(", "))
}

struct OnlyKey<A> {
    key: &'static str,
    map: A,
    names: &'static [&'static str],
}

impl<'de, A: MapAccess<'de>> OnlyKey<A> {
    fn of<V: Visitor<'de>>(mut map: A, expected: &V, names: &'static [&'static str]) -> Result<Self, A::Error> {
        let key = map.next_key_seed(Key(names))?.ok_or_else(|| de::Error::invalid_length(0, expected))?;
        Ok(Self { key, map, names })
    }

    fn value<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let value = self.map.next_value_seed(seed)?;
        match self.map.next_key_seed(Key(self.names))? {
            None => Ok(value),
            Some(other) => {
                Err(de::Error::custom(format_args!("{other:?} stands beside {:?}; give one of them", self.key)))
            }
        }
    }
}

impl<T: Read> Read for Option<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<Self>, D::Error> {
        struct Optional<T>(PhantomData<T>);

        impl<T: Read> Optional<T> {
            fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<Option<T>>, D::Error> {
                let patch = T::read(deserializer)?;
                Ok(Box::new(|base: Option<Option<T>>| Some(patch(base.flatten()))))
            }
        }

        impl<'de, T: Read> Visitor<'de> for Optional<T> {
            type Value = Patch<Option<T>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, or \"none\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == "none" { Ok(whole(None)) } else { Self::some(text.into_deserializer()) }
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
                Self::some(value.into_deserializer())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Self::some(number.into_deserializer())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                Self::some(number.into_deserializer())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                Self::some(number.into_deserializer())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<Self::Value, A::Error> {
                Self::some(SeqAccessDeserializer::new(sequence))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Self::some(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(Optional(PhantomData))
    }
}
