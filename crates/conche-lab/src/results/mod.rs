//! What an experiment ends in: one [`Figure`] per measured value.

mod figure;

pub use figure::{Figure, Row, SCHEMA, Unit, write_json};
