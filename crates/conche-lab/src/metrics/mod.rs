//! Metrics of a run, and statistics over replications.
//!
//! | file | contents |
//! |---|---|
//! | `metric` | the metrics: each turns a run into a sample |
//! | `over_time` | metrics per window of a run |
//! | `handshakes` | metrics of DTLS handshakes |
//! | `observed` | metrics of observations |
//! | `received` | metrics of requests that servers received |
//! | `transferred` | metrics of bulk transfers |
//! | `statistic` | statistics over the samples of all replications |

mod handshakes;
mod metric;
mod observed;
mod over_time;
mod received;
pub mod statistic;
mod transferred;

pub use conche_results::Sample;
pub use metric::{Endpoints, sample, wants};
