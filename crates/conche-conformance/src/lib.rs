//! Conformance tests for congestion controllers: conche's and yours.
//!
//! | module | contents |
//! |---|---|
//! | [`checks`] | ten checks by name, and the algorithms to which each applies |
//! | [`suite`] | properties of every controller, each a function to call in a test |
//! | [`vectors`] | files of event traces with expected timers |
//!
//! ```
//! use conche_cc::cocoa::{Cocoa, draft03};
//! use conche_conformance::{Bounds, suite};
//!
//! suite::conforms(&Cocoa::default(), &draft03::FEATURES, Bounds::default());
//! ```

pub mod checks;
mod model;
mod quiet;
pub mod suite;
pub mod vectors;

pub use checks::Check;
pub use model::Bounds;
