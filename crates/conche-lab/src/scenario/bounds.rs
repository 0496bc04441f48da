//! Values that are checked as they are read, so that an error points at the place in the file.

use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{self, Deserializer};

/// A whole number of at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AtLeastOne(u32);

/// A list with at least one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonEmpty<T>(Vec<T>);

/// A range of whole numbers of at least 1, written as `[1, 10]`; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    least: u32,
    most: u32,
}

impl AtLeastOne {
    /// This number, or `None` if it is 0.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl<T> NonEmpty<T> {
    /// These elements, or `None` if there is none.
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
    /// The smallest number.
    #[must_use]
    pub fn least(self) -> u32 {
        self.least
    }

    /// The largest number.
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

impl<'de> Deserialize<'de> for AtLeastOne {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer)?;
        Self::new(number).ok_or_else(|| de::Error::custom("0 is too few, it must be at least 1"))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NonEmpty<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let elements = Vec::deserialize(deserializer)?;
        Self::new(elements).ok_or_else(|| de::Error::custom("an empty list, it must have at least one element"))
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let [least, most] = <[u32; 2]>::deserialize(deserializer)?;
        if least == 0 || most < least {
            return Err(de::Error::custom(format_args!(
                "[{least}, {most}] is no range; write the least, at least 1, and the most as in [1, 10]"
            )));
        }
        Ok(Self { least, most })
    }
}
