//! What an experiment ends in: one [`Figure`] per measured value.

mod figure;
mod key;

pub use figure::{Figure, Row, SCHEMA, Unit, write_json};
pub use key::Key;
