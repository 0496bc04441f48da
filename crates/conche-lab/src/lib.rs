//! Experiments on CoAP congestion control: scenario → runs → results → tables, and papers regenerated.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scenario`] | experiments as data, read from TOML |
//! | [`results`] | what an experiment ends in: one [`Figure`](results::Figure) per measured value, and its line of JSON |
//! | [`emulate`] | real datagrams under the conditions of a simulated network |
//! | [`stats`] | pooled percentiles and confidence intervals |
//! | [`units`] | `"30kbit/s"`, `"400ms"`, `"2500B"` |

pub mod emulate;
pub mod results;
pub mod scenario;
pub mod stats;
pub mod units;
