//! Experiments on CoAP congestion control: scenario → runs → results → tables, and papers regenerated.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scenario`] | experiments as data, read from TOML |
//! | [`experiment`] | what every experiment offers, whatever its network |
//! | [`campaign`] | many runs, in parallel, with results that do not depend on how many threads there are |
//! | [`workload`] | CoAP applications that send and answer requests, and record what becomes of them |
//! | [`simulate`] | one run of clients behind one bottleneck: a cell under one seed, in virtual time |
//! | [`run`](mod@run) | all runs of such a scenario |
//! | [`metrics`] | what is measured of them |
//! | [`results`] | what an experiment ends in: one [`Figure`](results::Figure) per measured value, and its line of JSON |
//! | [`papers`] | papers regenerated: what was published beside what is measured |
//! | [`report`] | tables of text |
//! | [`emulate`] | real datagrams under the conditions of a simulated network |
//! | [`stats`] | pooled percentiles and confidence intervals |
//! | [`units`] | `"30kbit/s"`, `"400ms"`, `"2500B"` |

pub mod campaign;
pub mod emulate;
pub mod experiment;
pub mod metrics;
pub mod papers;
pub mod report;
pub mod results;
pub mod run;
pub mod scenario;
pub mod simulate;
pub mod stats;
pub mod workload;

pub use conche_netsim::units;
