//! The results of an experiment: one [`Figure`] per measured value, and the types of the directory
//! that stores them.

mod figure;

pub use conche_results::comparison;
pub use conche_results::{Begin, Build, Finished, Origin, Program, StoreError, Verdict};
pub use conche_scenario::Unit;
pub use figure::{Figure, SCHEMA, write_json};
