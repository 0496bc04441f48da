//! Metrics of a run, and statistics over replications.

mod sample;
pub mod statistic;

pub use conche_results::Sample;
pub use sample::{Endpoints, sample, wants};
