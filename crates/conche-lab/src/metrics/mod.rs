//! What can be measured of a run, and what is made of its replications.
//!
//! | file | what it holds |
//! |---|---|
//! | `metric` | the metrics: each turns a run into a sample |
//! | `classes` | shares by class |
//! | `over_time` | what happens in stretches of a run's time |
//! | `received` | those of what servers received |
//! | `statistic` | what is made of the samples of all replications |
//! | `standard` | what a scenario measures that does not say what |
//! | `whole` | what a part of a run does not tell |

mod classes;
mod metric;
mod over_time;
mod received;
mod standard;
mod statistic;
mod whole;

pub use classes::Classes;
pub use conche_results::Sample;
pub use metric::Metric;
pub use over_time::Windows;
pub use received::Received;
pub use standard::standard;
pub use statistic::{Measured, Statistic, percentiles};
