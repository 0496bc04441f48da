//! What an experiment ends in: one [`Figure`] per measured value, and the directory in which all of it is kept.

mod figure;

pub use conche_results::comparison;
pub use conche_results::{Begin, Build, Finished, Origin, Program, StoreError, Verdict};
pub use conche_scenario::Unit;
pub use figure::{Figure, SCHEMA, write_json};
