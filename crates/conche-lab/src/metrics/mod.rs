//! What can be measured of a run, and what is made of its replications.
//!
//! | file | what it holds |
//! |---|---|
//! | `metric` | the metrics: each turns a run into a sample |
//! | `received` | those of what servers received |
//! | `statistic` | what is made of the samples of all replications |
//! | `standard` | what a scenario measures that does not say what |

mod metric;
mod received;
mod standard;
mod statistic;

pub use metric::{Metric, Sample};
pub use received::Received;
pub use standard::standard;
pub use statistic::{Measured, Statistic, percentiles};
