//! [`Statistic`]: a statistic over replications.

use serde::Deserialize;

/// A statistic over the samples of all replications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Mean over replications of the mean over flows or exchanges.
    #[default]
    Mean,
    /// The sum over replications.
    Sum,
    /// The sum, scaled to this number of replications.
    SumOf(u32),
    /// Mean over replications of the (upper) median over flows or exchanges.
    Median,
    /// Mean over replications of the standard deviation over flows or exchanges.
    Deviation,
    /// Percentile (0 to 100) over flows or exchanges of all replications.
    Percentile(f64),
}
