//! What is made of what the replications of a cell measured.

use serde::Deserialize;

/// What is made of the samples of all replications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The mean over replications of what is, of flows or exchanges, their mean within a replication.
    #[default]
    Mean,
    /// The sum over replications.
    Sum,
    /// The sum over so many replications, if there were as many.
    SumOf(u32),
    /// The mean over replications of the median, of flows or exchanges, within a replication: of an even number the larger one
    /// of the two in the middle.
    Median,
    /// The mean over replications of the standard deviation, of flows or exchanges, within a replication.
    Deviation,
    /// A percentile, from 0 to 100, over the flows or exchanges of all replications.
    Percentile(f64),
}
