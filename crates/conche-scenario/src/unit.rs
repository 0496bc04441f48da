//! What values count.

use serde::{Deserialize, Serialize};

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Exchanges, over all replications.
    Exchanges,
    /// Copies of requests.
    Copies,
    /// Events a second, such as finished exchanges.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bits a second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Things of which a replication has a number that need not be whole in the mean, such as hops.
    Count,
    /// A share in per cent.
    #[serde(rename = "%")]
    Percent,
    /// A quotient of two values of the same kind.
    Ratio,
    /// 1 if a claim holds, 0 if it does not, one half if it is inconclusive.
    Verdict,
}

impl Unit {
    /// What JSON calls it.
    #[must_use]
    pub fn name(self) -> String {
        toml::Value::try_from(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}
