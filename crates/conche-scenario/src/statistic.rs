//! [`Statistic`]: one number from the samples of a cell.

use serde::Deserialize;

/// A statistic over the samples of all replications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The mean over replications of the mean over flows or exchanges.
    #[default]
    Mean,
    /// The sum over replications.
    Sum,
    /// The sum over this number of replications, if there are as many.
    SumOf(u32),
    /// The mean over replications of the median over flows or exchanges; for an even number, the
    /// upper median.
    Median,
    /// The mean over replications of the standard deviation over flows or exchanges.
    Deviation,
    /// A percentile, from 0 to 100, over the flows or exchanges of all replications.
    Percentile(f64),
}
