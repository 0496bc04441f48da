//! Experiments on CoAP congestion control: scenario → runs → results → tables, and reproduced
//! papers.
//!
//! | module | contents |
//! |---|---|
//! | [`scenario`] | experiments as data, read from TOML: the crate `conche-scenario` |
//! | [`campaign`] | many runs in parallel, with results independent of the number of threads |
//! | [`workload`] | CoAP applications that send and answer requests, and record the exchanges |
//! | [`trial`] | one run of a cell: its network and hosts in virtual time, and its record |
//! | [`metrics`] | measurements of a run, and statistics over replications |
//! | [`experiment`] | the experiment of a scenario: runs, values, claims, tables |
//! | [`comparison`] | comparison of controllers over cells: ratios, regret, means |
//! | [`results`] | the results: one [`MeasuredValue`](results::MeasuredValue) and line of JSON per value |
//! | [`papers`] | reproduced papers: published values beside measured ones |
//! | [`report`] | tables of text |
//! | [`stats`] | pooled percentiles and confidence intervals: the crate `conche-stats` |
//! | [`units`] | `"30kbit/s"`, `"400ms"`, `"2500B"` |

pub mod campaign;
pub mod comparison;
pub mod experiment;
pub mod metrics;
pub mod papers;
pub mod report;
pub mod results;
pub mod trial;
pub mod workload;

pub use conche_scenario as scenario;
pub use conche_scenario::{controllers, units};
pub use conche_stats as stats;
