//! What an experiment ends in: one [`Figure`] per measured value, and the directory in which all of it is kept.

mod figure;

pub use conche_results::{Begin, Build, Finished, Origin, Program, StoreError};
pub use figure::{Figure, SCHEMA, Unit, write_json};
