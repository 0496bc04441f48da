//! What the metrics of a scenario are in a run, and what its statistics make of the replications.
//!
//! | file | what it holds |
//! |---|---|
//! | `metric` | the metrics: each turns a run into a sample |
//! | `over_time` | what happens in stretches of a run's time |
//! | `handshakes` | those of sessions that are opened |
//! | `observed` | those of what observers know |
//! | `received` | those of what servers received |
//! | `transferred` | those of bulk transfers |
//! | `statistic` | what is made of the samples of all replications |

mod handshakes;
mod metric;
mod observed;
mod over_time;
mod received;
pub mod statistic;
mod transferred;

pub use conche_results::Sample;
pub use metric::{Endpoints, sample, wants};
