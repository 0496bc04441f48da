//! Experiments on CoAP congestion control, and the reproduction of papers.
//!
//! A [`campaign`] runs an [`experiment`] of a [`scenario`]: each run is a [`trial`] of hosts with a
//! [`workload`], measured by [`metrics`]. [`comparison`] ranks controllers, also on [`networks`];
//! [`papers`] reproduces published values.

pub mod campaign;
pub mod comparison;
pub mod directory;
pub mod experiment;
pub mod merge;
pub mod metrics;
pub mod networks;
pub mod papers;
pub mod table;
pub mod trial;
pub mod value;
pub mod workload;

pub use conche_results as results;
pub use conche_scenario as scenario;
pub use conche_scenario::{Controllers, units};
pub use conche_stats as stats;
