//! What can be measured of a run, and what is made of its replications.
//!
//! | file | what it holds |
//! |---|---|
//! | `metric` | the metrics: each turns a run into a sample |
//! | `statistic` | what is made of the samples of all replications |
//! | `standard` | what a scenario measures that does not say what |

mod metric;
mod standard;
mod statistic;

pub use metric::{Metric, Sample};
pub use standard::standard;
pub use statistic::{Measured, Statistic, percentiles};
