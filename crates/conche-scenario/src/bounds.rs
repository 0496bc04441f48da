//! Types validated during deserialization, so that errors have a position.

use std::fmt;
use std::ops::Deref;

use serde::Deserialize;

/// Maximum replications of a cell, against excessive memory: readers of results keep the seed of each.
pub const MAX_REPLICATIONS: u32 = 1 << 20;

/// An integer of at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "u32")]
pub struct AtLeastOne(u32);

/// A list with at least one element.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<T>")]
pub struct NonEmpty<T>(Vec<T>);

/// An inclusive range of integers ≥ 1, written as `[1, 10]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "[u32; 2]")]
pub struct Range {
    least: u32,
    most: u32,
}

/// One text, or a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a text, or a list of texts")]
pub enum Texts {
    /// One text.
    One(String),
    /// Several texts.
    Many(Vec<String>),
}

impl Texts {
    /// Returns all texts.
    #[must_use]
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl AtLeastOne {
    /// Creates the number; `None` for 0.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl<T> NonEmpty<T> {
    /// Creates the list; `None` if empty.
    #[must_use]
    pub fn new(elements: Vec<T>) -> Option<Self> {
        (!elements.is_empty()).then_some(Self(elements))
    }
}

impl<T> Deref for NonEmpty<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl Range {
    /// Lower end.
    #[must_use]
    pub fn least(self) -> u32 {
        self.least
    }

    /// Upper end.
    #[must_use]
    pub fn most(self) -> u32 {
        self.most
    }
}

impl fmt::Display for AtLeastOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u32> for AtLeastOne {
    type Error = &'static str;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        Self::new(number).ok_or("0 is too few, it must be at least 1")
    }
}

impl<T> TryFrom<Vec<T>> for NonEmpty<T> {
    type Error = &'static str;

    fn try_from(elements: Vec<T>) -> Result<Self, Self::Error> {
        Self::new(elements).ok_or("an empty list, it must have at least one element")
    }
}

impl TryFrom<[u32; 2]> for Range {
    type Error = String;

    fn try_from([least, most]: [u32; 2]) -> Result<Self, Self::Error> {
        match (1..=most).contains(&least) {
            true => Ok(Self { least, most }),
            false => {
                Err(format!("[{least}, {most}] is no range; write the least, at least 1, and the most as in [1, 10]"))
            }
        }
    }
}
