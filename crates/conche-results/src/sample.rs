//! Samples of runs, values computed from them, and timelines of exchanges.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// A sample of one run. JSON has `null` for non-finite numbers, read as NaN.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sample {
    /// A number.
    One(#[serde(deserialize_with = "or_nan")] f64),
    /// A ratio: numerator and denominator, not 0.
    Ratio(f64, f64),
    /// Integers of flows or exchanges in a base unit, the smallest first, and base units per metric
    /// unit.
    Each(Vec<u64>, f64),
    /// A number per flow that has one.
    OfFlows(Vec<Option<f64>>),
    /// Numbers with labels.
    Labelled(#[serde(deserialize_with = "each_or_nan")] Vec<(String, f64)>),
    /// No value.
    #[default]
    None,
}

impl Sample {
    /// Returns [`Sample::Each`] of these integers in any order.
    #[must_use]
    pub fn each(integers: impl IntoIterator<Item = u64>, per_unit: f64) -> Self {
        let mut integers: Vec<u64> = integers.into_iter().collect();
        // Sums do not depend on the order, and the journal is small.
        integers.sort_unstable();
        Self::Each(integers, per_unit)
    }

    /// Combines the samples of several runs into one.
    #[must_use]
    pub fn pooled<'a>(samples: impl IntoIterator<Item = &'a Self>) -> Self {
        samples.into_iter().fold(Self::None, |pooled, sample| match (pooled, sample) {
            (Self::None, sample) => sample.clone(),
            (Self::Ratio(above, below), Self::Ratio(a, b)) => Self::Ratio(above + a, below + b),
            (Self::Each(all, base), Self::Each(values, _)) => {
                Self::each(all.into_iter().chain(values.iter().copied()), base)
            }
            (Self::OfFlows(mut all), Self::OfFlows(values)) => {
                all.extend(values);
                Self::OfFlows(all)
            }
            (pooled, _) => pooled,
        })
    }

    /// Restricts samples to flows with a value in both.
    #[must_use]
    pub fn of_common_flows(one: Self, other: Self) -> (Self, Self) {
        let (Self::OfFlows(a), Self::OfFlows(b)) = (&one, &other) else { return (one, other) };
        let common = a.iter().zip(b).filter_map(|(a, b)| Some((Some((*a)?), Some((*b)?))));
        let (a, b) = common.unzip();
        (Self::OfFlows(a), Self::OfFlows(b))
    }
}

fn or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn each_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, f64)>, D::Error> {
    let read: Vec<(String, Option<f64>)> = Vec::deserialize(deserializer)?;
    Ok(read.into_iter().map(|(label, number)| (label, number.unwrap_or(f64::NAN))).collect())
}

/// A sample of a run with its identity.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Kept {
    /// Phase; `None` for the whole run.
    pub phase: Option<String>,
    /// Scheme.
    pub scheme: String,
    /// Unit.
    pub unit: String,
    /// Values computed from it.
    #[serde(rename = "figures")]
    pub values: Vec<Made>,
    /// Sample.
    #[serde(with = "packed")]
    pub sample: Sample,
}

/// Many integers as text. As JSON numbers, times of 100 000 clients would take 12 bytes each.
mod packed {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Sample;

    /// From here on integers are packed.
    pub(super) const MANY: usize = 100;

    #[derive(Deserialize, Serialize)]
    struct Packed {
        packed: (String, f64),
    }

    pub(super) fn serialize<S: Serializer>(sample: &Sample, serializer: S) -> Result<S::Ok, S::Error> {
        match sample {
            Sample::Each(integers, per_unit) if integers.len() >= MANY && integers.is_sorted() => {
                let bytes = postcard::to_allocvec(&differences(integers)).map_err(S::Error::custom)?;
                Packed { packed: (STANDARD.encode(bytes), *per_unit) }.serialize(serializer)
            }
            _ => sample.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sample, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Stored {
            Packed(Packed),
            Plain(Sample),
        }
        match Stored::deserialize(deserializer)? {
            Stored::Plain(sample) => Ok(sample),
            Stored::Packed(Packed { packed: (text, per_unit) }) => {
                let integers = unpacked(&text).ok_or_else(|| D::Error::custom("packed integers are damaged"))?;
                Ok(Sample::Each(integers, per_unit))
            }
        }
    }

    /// Differences are small, and small integers have few bytes.
    fn differences(integers: &[u64]) -> Vec<u64> {
        let mut before = 0;
        let difference = |integer: &u64| {
            let difference = integer - before;
            before = *integer;
            difference
        };
        integers.iter().map(difference).collect()
    }

    pub(super) fn unpacked(text: &str) -> Option<Vec<u64>> {
        let bytes = STANDARD.decode(text).ok()?;
        let differences: Vec<u64> = postcard::from_bytes(&bytes).ok()?;
        let sum = |sum: &mut u64, difference: u64| {
            *sum = sum.checked_add(difference)?;
            Some(*sum)
        };
        let integers: Vec<u64> =
            differences.iter().scan(0, |at, difference| Some(sum(at, *difference))).collect::<Option<_>>()?;
        Some(integers)
    }
}

/// A value; sample labels replace `{}` in its column.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Made {
    /// Row.
    pub row: String,
    /// Column.
    pub column: String,
}

/// Reads the samples from the JSON of [`Kept`] values, exactly.
///
/// Keys have a fixed order and strings escape quotation marks, so each sample begins at its key.
pub(crate) fn samples(json: &str) -> Option<Vec<Sample>> {
    let mut parts = json.split(",\"sample\":");
    parts.next()?;
    parts.map(|part| Cursor(part).sample()).collect()
}

struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn sample(mut self) -> Option<Sample> {
        let sample = if self.skip("\"none\"") {
            Sample::None
        } else if self.skip("{\"one\":") {
            Sample::One(self.number()?)
        } else if self.skip("{\"ratio\":[") {
            Sample::Ratio(self.number()?, self.skip(",").then(|| self.number())??)
        } else if self.skip("{\"offlows\":") {
            Sample::OfFlows(self.list(|cursor| match cursor.skip("null") {
                true => Some(None),
                false => cursor.number().map(Some),
            })?)
        } else if self.skip("{\"each\":[") {
            let numbers = self.list(Self::number)?;
            Sample::Each(numbers, self.skip(",").then(|| self.number())??)
        } else if self.skip("{\"packed\":[") {
            let text = self.text()?;
            Sample::Each(packed::unpacked(&text)?, self.skip(",").then(|| self.number())??)
        } else if self.skip("{\"labelled\":") {
            Sample::Labelled(self.list(|cursor| {
                cursor.skip("[").then_some(())?;
                let label = cursor.text()?;
                let number = cursor.skip(",").then(|| cursor.number())??;
                cursor.skip("]").then_some((label, number))
            })?)
        } else {
            return None;
        };
        Some(sample)
    }

    fn skip(&mut self, expected: &str) -> bool {
        let rest = self.0.strip_prefix(expected);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.skip("[").then_some(())?;
        let mut items = Vec::new();
        while !self.skip("]") {
            if !items.is_empty() && !self.skip(",") {
                return None;
            }
            items.push(item(self)?);
        }
        Some(items)
    }

    fn number<T: FromStr>(&mut self) -> Option<T> {
        let (number, rest) = self.0.split_at(self.0.find([',', ']', '}'])?);
        self.0 = rest;
        number.parse().ok()
    }

    fn text(&mut self) -> Option<String> {
        let mut is_escaped = true;
        let end = self.0.find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        })?;
        let (text, rest) = self.0.split_at(end + 1);
        self.0 = rest;
        serde_json::from_str(text).ok()
    }
}

/// An exchange, transmission by transmission.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Timeline {
    /// Reason for its selection.
    pub which: Which,
    /// Scheme.
    pub scheme: String,
    /// Traffic.
    pub traffic: String,
    /// Client's node number.
    pub client: u32,
    /// Server's node number.
    pub server: u32,
    /// First transmission, in seconds since the run's start.
    pub start_s: f64,
    /// Duration in seconds.
    pub lasted_s: f64,
    /// Whether it was answered.
    pub is_answered: bool,
    /// Time after the first transmission, and timeout, of each, in seconds.
    pub copies: Vec<(f64, f64)>,
}

/// Selects an exchange of a scheme in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// The slowest.
    Slowest,
    /// Of median duration.
    Median,
    /// With the most transmissions; of several, the slowest.
    MostCopies,
}

impl Which {
    /// All selections.
    pub const ALL: [Self; 3] = [Self::Slowest, Self::Median, Self::MostCopies];

    /// Returns the description.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Slowest => "the slowest",
            Self::Median => "the median",
            Self::MostCopies => "the one with most retransmissions",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(sample: Sample) -> Kept {
        let made = Made { row: "a,\"sample\":1/}".to_owned(), column: "b\\".to_owned() };
        let (scheme, unit) = ("\"mine\"".to_owned(), "s".to_owned());
        Kept { phase: Some("one, \"two\"".to_owned()), scheme, unit, values: vec![made], sample }
    }

    #[test]
    fn samples_are_read_with_the_very_numbers_that_were_written() {
        let numbers = [0.1 + 0.2, -0.0, 1e300, 5e-324, 1.0 / 3.0, 2_f64.powi(60), 123.456];
        let mut all: Vec<Sample> = numbers.map(Sample::One).into();
        all.push(Sample::Each(vec![], 1e9));
        all.push(Sample::Each(vec![0, u64::MAX], 1.0 / 3.0));
        all.push(Sample::each((0..packed::MANY as u64).map(|n| (n * n) << 40).chain([u64::MAX]), 1e9));
        all.push(Sample::Labelled(vec![]));
        let labels = ["", "60s", "a\"b", "\\", "\\\"", "\u{1}\u{fc}]}"];
        all.push(Sample::Labelled(labels.iter().zip(numbers).map(|(label, n)| ((*label).to_owned(), n)).collect()));
        all.push(Sample::None);
        let json = serde_json::to_string(&all.iter().cloned().map(kept).collect::<Vec<_>>()).expect("memory");
        assert_eq!(format!("{:?}", samples(&json)), format!("{:?}", Some(all)), "with the sign of 0");
    }

    #[test]
    fn every_sample_reads_as_it_was_written_and_null_is_no_number() {
        for sample in [
            Sample::One(1.5),
            Sample::Ratio(6.0, 11.0),
            Sample::Each(vec![1, 2], 1e3),
            Sample::OfFlows(vec![Some(2.0), None]),
            Sample::Labelled(vec![("60s".to_owned(), 3.0)]),
            Sample::None,
        ] {
            let json = serde_json::to_string(&sample).expect("memory");
            assert_eq!(serde_json::from_str::<Sample>(&json).expect("what was written"), sample, "{json}");
        }
        let json = serde_json::to_string(&[Sample::One(f64::NAN), Sample::Labelled(vec![("a".to_owned(), f64::NAN)])]);
        let read: Vec<Sample> = serde_json::from_str(&json.expect("memory")).expect("what was written");
        assert_eq!(format!("{read:?}"), "[One(NaN), Labelled([(\"a\", NaN)])]");
    }

    #[test]
    fn many_integers_take_few_bytes_and_are_read_exactly() {
        let sample = Sample::each((0..10_000).map(|n| n * 7_919_000_000 % 60_000_000_000), 1e9);
        let json = serde_json::to_string(&kept(sample.clone())).expect("memory");
        assert!(json.len() < 60_000, "{} bytes", json.len());
        assert_eq!(serde_json::from_str::<Kept>(&json).expect("what was written"), kept(sample));
    }

    #[test]
    fn malformed_samples_are_not_read() {
        for text in [
            ",\"sample\":{\"packed\":[\"?\",1.0]}",
            ",\"sample\":{\"packed\":[\"Av///////////wEB\",1.0]}",
            "[{,\"sample\":",
            ",\"sample\":{\"one\":null}",
            ",\"sample\":{\"one\":",
            ",\"sample\":{\"each\":[[1,-2],1.0]}",
            ",\"sample\":{\"each\":[[1 2],1.0]}",
            ",\"sample\":{\"labelled\":[[\"a,1.0]]}",
            ",\"sample\":\"some\"",
        ] {
            assert_eq!(samples(text), None, "{text}");
        }
        assert_eq!(samples("[]"), Some(Vec::new()));
    }
}
