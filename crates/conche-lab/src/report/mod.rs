//! Results as text for people.

mod format;
mod table;

pub use format::{deviation, interval, number};
pub use table::{Table, ruled};
