//! Results as tables of text.

mod format;
mod table;

pub use format::{deviation, interval, number};
pub use table::{Table, ruled};
