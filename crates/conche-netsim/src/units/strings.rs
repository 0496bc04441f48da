//! The text form of quantities.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::quantity::Quantity;
use super::{BitRate, Probability, Size, Span, SpanRange, UnitError, probability};

struct UnitVisitor<T> {
    what: &'static str,
    example: &'static str,
    parsed: PhantomData<T>,
}

impl<T> UnitVisitor<T> {
    fn bare<E: de::Error>(&self, number: impl fmt::Display) -> E {
        E::custom(format_args!("the bare number {number} has no unit; write {} as in \"{}\"", self.what, self.example))
    }
}

impl<T: FromStr<Err = UnitError>> Visitor<'_> for UnitVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as in \"{}\"", self.what, self.example)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Err(self.bare(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Err(self.bare(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        Err(self.bare(number))
    }
}

macro_rules! as_string {
    ($name:ident, $what:expr, $example:expr) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(UnitVisitor { what: $what, example: $example, parsed: PhantomData })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

as_string!(Span, Span::WHAT, Span::EXAMPLE);
as_string!(BitRate, BitRate::WHAT, BitRate::EXAMPLE);
as_string!(Size, Size::WHAT, Size::EXAMPLE);
impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Percent;

        impl Percent {
            fn bare<E: de::Error>(number: f64) -> E {
                E::custom(match probability::meant(number) {
                    Some(meant) => format!("the bare number {number} is no probability; write it as \"{meant}\""),
                    None => format!("{number} is no probability; write it as in \"{}\"", probability::EXAMPLE),
                })
            }
        }

        impl Visitor<'_> for Percent {
            type Value = Probability;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} as in \"{}\"", probability::WHAT, probability::EXAMPLE)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Probability, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Probability, E> {
                Err(Self::bare(number as f64))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Probability, E> {
                Err(Self::bare(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Probability, E> {
                Err(Self::bare(number))
            }
        }

        deserializer.deserialize_any(Percent)
    }
}

as_string!(SpanRange, "a time or a range of times", "10ms..20ms");
