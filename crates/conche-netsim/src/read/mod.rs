//! Configurations as serde reads them.
//!
//! | Rust | TOML |
//! |---|---|
//! | a struct | a table of its fields, by their names; one that is left out keeps what it was |
//! | a time, a rate, a size | a string with its unit: `"400ms"`, `"30kbit/s"`, `"2500B"` |
//! | what has its unit in its name | a number: `noise_dbm = -98` |
//! | an enum | its variant in kebab case, as a string or, with parameters, as a table of one: `{ exponential = "20ms" }` |
//! | `None` | `"none"` |
//!
//! What a field keeps is its type's default or, in a MAC, the preset's: so a table is read into a *patch* first, which is
//! put over a value later. Errors are raised where they are, so that a format that knows its places can name them.

mod mac;
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

use crate::units::{BitRate, Span};

/// What was read of a value, to be put over what is there, if anything is.
type Patch<T> = Box<dyn FnOnce(Option<T>) -> T>;

/// What can be read as a patch.
trait Read: Sized + 'static {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<Self>, D::Error>;
}

/// A patch that keeps nothing of what is there.
fn whole<T: 'static>(value: T) -> Patch<T> {
    Box::new(|_| value)
}

/// Types whose values are read as a whole.
macro_rules! as_whole {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::read::Read for $type {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$crate::read::Patch<Self>, D::Error> {
                <Self as serde::Deserialize>::deserialize(deserializer).map($crate::read::whole)
            }
        })*
    };
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

/// Reads a patch where serde asks for a seed.
struct Patched<T>(PhantomData<T>);

impl<T> Patched<T> {
    const fn seed() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Read> DeserializeSeed<'de> for Patched<T> {
    type Value = Patch<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Patch<T>, D::Error> {
        T::read(deserializer)
    }
}

/// A value without anything to put it over.
fn fresh<'de, T: Read, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer).map(|patch| patch(None))
}

/// One of a table's keys.
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

/// Structs whose fields have defaults: any of them may be left out. In the long form there is the base that a default is
/// not, keys that are no fields, which are put over the base first and in this order, and fields that are no keys.
macro_rules! fields {
    ($type:ident { $($field:ident),* $(,)? }) => {
        $crate::read::fields!($type over $type::default(); first {} then { $($field),* } hidden {});
    };
    (
        $type:ident over $base:expr;
        first { $($key:ident: $of:ty => $put:expr),* $(,)? }
        then { $($field:ident),* $(,)? }
        hidden { $($hidden:ident),* $(,)? }
    ) => {
        impl $crate::read::Read for $type {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$crate::read::Patch<Self>, D::Error> {
                struct Table;
                impl<'de> serde::de::Visitor<'de> for Table {
                    type Value = $crate::read::Patch<$type>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(f, "a table of {}", KEYS.join(", "))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        $(let mut $key: Option<$crate::read::Patch<$of>> = None;)*
                        let mut patches: Vec<Box<dyn FnOnce(&mut $type)>> = Vec::new();
                        while let Some(key) = map.next_key_seed($crate::read::Key(KEYS))? {
                            $(if key == stringify!($key) {
                                $key = Some(map.next_value_seed($crate::read::Patched::seed())?);
                            })*
                            $(if key == stringify!($field) {
                                let patch = map.next_value_seed($crate::read::Patched::seed())?;
                                patches.push(Box::new(|to: &mut $type| to.$field = patch(Some(to.$field.clone()))));
                            })*
                        }
                        Ok(Box::new(|base| {
                            let mut value = base.unwrap_or_else(|| $base);
                            $(if let Some(patch) = $key {
                                let put: fn(&mut $type, $crate::read::Patch<$of>) = $put;
                                put(&mut value, patch);
                            })*
                            patches.into_iter().for_each(|patch| patch(&mut value));
                            value
                        }))
                    }
                }
                const KEYS: &[&str] = &[$(stringify!($key),)* $(stringify!($field)),*];
                // A field that is in neither list is an error here.
                let _ = |$type { $($field: _,)* $($hidden: _),* }: $type| ();
                deserializer.deserialize_any(Table)
            }
        }

        $crate::read::deserialize!($type);
    };
}

/// Reads a struct, or a variant with fields, whose fields must all be there.
macro_rules! all_of {
    ($($path:ident)::+ as $type:ty { $($field:ident),* $(,)? } from $deserializer:expr) => {{
        struct Table;
        impl<'de> serde::de::Visitor<'de> for Table {
            type Value = $type;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a table of {}", KEYS.join(", "))
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                $(let mut $field = None;)*
                while let Some(key) = map.next_key_seed($crate::read::Key(KEYS))? {
                    $(if key == stringify!($field) {
                        $field = Some(map.next_value_seed($crate::read::Patched::seed())?(None));
                    })*
                }
                let missing = <A::Error as serde::de::Error>::missing_field;
                Ok($($path)::+ { $($field: $field.ok_or_else(|| missing(stringify!($field)))?),* })
            }
        }
        const KEYS: &[&str] = &[$(stringify!($field)),*];
        $deserializer.deserialize_any(Table)
    }};
}

/// Structs whose fields must all be there.
macro_rules! required {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::read::all_of!($type as $type { $($field),* } from deserializer)
            }
        }

        $crate::read::as_whole!($type);
    };
}

/// Enums without parameters.
macro_rules! names {
    ($type:ident { $($name:literal => $variant:ident),* $(,)? }) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = deserializer.deserialize_any($crate::read::Name(&[$($name),*]))?;
                Ok(match name {
                    $($name => Self::$variant,)*
                    _ => unreachable!("a name is one of those that it was looked for among"),
                })
            }
        }

        $crate::read::as_whole!($type);
    };
}

/// Enums whose variants are configurations with defaults: a name, or a table of one.
macro_rules! kinds {
    ($type:ident: $what:literal { $($name:literal => $variant:ident($inner:ty)),* $(,)? }) => {
        impl $crate::read::Read for $type {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$crate::read::Patch<Self>, D::Error> {
                struct Kind;
                impl<'de> serde::de::Visitor<'de> for Kind {
                    type Value = $crate::read::Patch<$type>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(f, "{}, or a table of one of them with its parameters", $crate::read::one_of($what, NAMES))
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                        let name = $crate::read::Name(NAMES).visit_str(text)?;
                        $(if name == $name {
                            return Ok($crate::read::whole($type::$variant(<$inner>::default())));
                        })*
                        unreachable!("a name is one of those that it was looked for among")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                        let mut map = $crate::read::OnlyKey::of(map, &self, NAMES)?;
                        $(if map.key == $name {
                            let patch = map.value($crate::read::Patched::<$inner>::seed())?;
                            return Ok(Box::new(|base| $type::$variant(patch(match base {
                                Some($type::$variant(base)) => Some(base),
                                _ => None,
                            }))));
                        })*
                        unreachable!("a key is one of those that it was looked for among")
                    }
                }
                const NAMES: &[&str] = &[$($name),*];
                deserializer.deserialize_any(Kind)
            }
        }

        $crate::read::deserialize!($type);
    };
}

/// What is read as a patch is read by serde as what the patch makes of nothing.
macro_rules! deserialize {
    ($($type:ty),*) => {
        $(impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::read::fresh(deserializer)
            }
        })*
    };
}

use {all_of, as_whole, deserialize, fields, kinds, names, required};

/// One of some names.
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

/// `one of "a", "b"`, with what they are.
fn one_of(what: &str, names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
    format!("{what}one of {}", names.join(", "))
}

/// A table of one key.
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

/// `"none"`, or a value.
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
