//! Experiments on CoAP congestion control: scenario → runs → results → tables, and papers regenerated.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scenario`] | experiments as data, read from TOML: the crate `conche-scenario` |
//! | [`campaign`] | many runs, in parallel, with results that do not depend on how many threads there are |
//! | [`workload`] | CoAP applications that send and answer requests, and record what becomes of them |
//! | [`trial`] | one run of a scenario's cell: its network and hosts in virtual time, and what is left of it |
//! | [`metrics`] | what is measured of a run, and what is made of the replications |
//! | [`experiment`] | the experiment of a scenario: its cells run, figures, claims, tables |
//! | [`comparison`] | controllers side by side over cells: ratios, regret, means |
//! | [`results`] | what an experiment ends in: one [`Figure`](results::Figure) per measured value, and its line of JSON |
//! | [`papers`] | papers regenerated: what was published beside what is measured |
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
