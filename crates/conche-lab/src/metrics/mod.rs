//! What can be measured of a run, and what is made of its replications.
//!
//! | file | what it holds |
//! |---|---|
//! | `metric` | the metrics: each turns a run into a sample |
//! | `classes` | shares by class |
//! | `over_time` | what happens in stretches of a run's time |
//! | `received` | those of what servers received |
//! | `transferred` | those of bulk transfers |
//! | `statistic` | what is made of the samples of all replications |

mod classes;
mod metric;
mod over_time;
mod received;
mod statistic;
mod transferred;

pub use classes::Classes;
pub use conche_results::Sample;
pub use metric::{Endpoints, Metric};
pub use over_time::Windows;
pub use received::Received;
pub use statistic::{Measured, Statistic, percentiles};
pub use transferred::Transferred;
