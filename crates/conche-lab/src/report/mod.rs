//! Results as text for people.

mod format;
mod plain;
mod table;

pub use format::{deviation, interval, number};
pub use plain::Plain;
pub use table::{Align, Table, comparison};
