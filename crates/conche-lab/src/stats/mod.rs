//! The statistics of the reports: pooled percentiles and 95 % confidence intervals.
//!
//! What happens to the clients of one run depends on one another, so the replication, never the client, is the
//! independent observation: intervals of means come from the means of the replications, and the bootstrap resamples
//! whole replications.

mod fairness;
mod interval;
mod normal;
mod paired;
mod pooled;

pub use fairness::jain_index;
pub use interval::{Interval, mean_interval};
pub use normal::normal_quantile;
pub use paired::{half_width, spread_ratio};
pub use pooled::{Pooled, percentile};
