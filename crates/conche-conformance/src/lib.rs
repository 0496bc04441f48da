//! Conformance tests for congestion controllers: conche's and yours.
//!
//! | module | contents |
//! |---|---|
//! | [`suite`] | properties of every controller, each a function to call in a test |
//! | [`vectors`] | files of event traces with expected timers |
//!
//! ```
//! use conche_cc::cocoa::Cocoa;
//! use conche_conformance::{Bounds, suite};
//!
//! let controller = Cocoa::default();
//! suite::keeps_its_promises(&controller, Bounds::default());
//! suite::recovers(&controller, Bounds::default());
//! suite::slows_down_under_total_loss(&controller);
//! ```

mod model;
pub mod suite;
pub mod vectors;

pub use model::Bounds;
