//! Routing in radio networks: computed from link quality before a run, or discovered in it.
//!
//! ```text
//!   Topology::link_quality ─┐
//!   measured matrix ────────┴─> LinkQuality ─> RplTree ─> hops of a Topology
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `quality` | packet reception ratios between the stations of a radio network |
//! | `rpl` | the converged RPL tree |
//! | [`aodv`] | routes on demand, for hosts that forward packets themselves |

pub mod aodv;
mod rpl;

pub use crate::radio::{LinkQuality, QualityError};
pub use rpl::{Objective, RplConfig, RplTree};
