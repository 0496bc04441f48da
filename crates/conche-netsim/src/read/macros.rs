//! Macros that deserialize configurations; field names are keys.

macro_rules! as_whole {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::read::Read for $type {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$crate::read::Patch<Self>, D::Error> {
                <Self as serde::Deserialize>::deserialize(deserializer).map($crate::read::whole)
            }
        })*
    };
}

/// Structs whose fields have defaults. The long form takes a base other than `Default`, keys beside
/// fields (`first`, applied before them), and fields without keys (`hidden`).
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
                        let (mut first, mut patches) = (Vec::<$crate::read::Change<$type>>::new(), Vec::new());
                        while let Some(key) = map.next_key_seed($crate::read::Key(KEYS))? {
                            $(if key == stringify!($key) {
                                $key = Some(map.next_value_seed($crate::read::PatchSeed::seed())?);
                            })*
                            $(if key == stringify!($field) {
                                let patch = map.next_value_seed($crate::read::PatchSeed::seed())?;
                                patches.push($crate::read::of_field(patch, |of: &mut $type| &mut of.$field));
                            })*
                        }
                        $(if let Some(patch) = $key {
                            let put: fn(&mut $type, $crate::read::Patch<$of>) = $put;
                            first.push(Box::new(move |value: &mut $type| put(value, patch)));
                        })*
                        first.append(&mut patches);
                        Ok($crate::read::over(|| $base, first))
                    }
                }
                const KEYS: &[&str] = &[$(stringify!($key),)* $(stringify!($field)),*];
                // A field in neither list does not compile.
                let _ = |$type { $($field: _,)* $($hidden: _),* }: $type| ();
                deserializer.deserialize_any(Table)
            }
        }

        $crate::read::deserialize!($type);
    };
}

/// Reads a struct or variant with required fields.
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
                        $field = Some(map.next_value_seed($crate::read::PatchSeed::seed())?(None));
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

/// Structs whose fields are all required.
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

/// Enums of configurations with defaults: a name, or a table with one variant.
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
                            let patch = map.value($crate::read::PatchSeed::<$inner>::seed())?;
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

/// Implements `Deserialize` by a patch without base.
macro_rules! deserialize {
    ($($type:ty),*) => {
        $(impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::read::fresh(deserializer)
            }
        })*
    };
}

pub(super) use {all_of, as_whole, deserialize, fields, kinds, names, required};
