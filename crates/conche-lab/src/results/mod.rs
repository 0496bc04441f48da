//! Results of an experiment: [`MeasuredValue`], and the directory that stores them.

mod measured_value;

pub use conche_results::comparison;
pub use conche_results::{Begin, Build, Finished, Origin, Program, StoreError, Verdict};
pub use conche_scenario::Unit;
pub use measured_value::{MeasuredValue, SCHEMA, write_json};
