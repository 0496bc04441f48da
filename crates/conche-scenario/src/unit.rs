//! [`Unit`]: the unit of a value.

use serde::{Deserialize, Serialize};

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Exchanges, over all replications.
    Exchanges,
    /// Transmissions of requests.
    Copies,
    /// Events per second, such as finished exchanges.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// A count per replication, such as hops; its mean may be fractional.
    Count,
    /// A share in per cent.
    #[serde(rename = "%")]
    Percent,
    /// A ratio of two values of the same unit.
    Ratio,
    /// A verdict: 1 if a claim holds, 0 if it is refuted, 0.5 if it is inconclusive.
    Verdict,
}

impl Unit {
    /// Returns its name in JSON.
    #[must_use]
    pub fn name(self) -> String {
        toml::Value::try_from(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}
