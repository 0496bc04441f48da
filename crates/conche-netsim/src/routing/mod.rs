//! Routing in radio networks: paths that are computed before a run from the quality of the links, and a protocol that finds
//! them while it runs.
//!
//! ```text
//!   Topology::link_quality ─┐
//!   measured matrix ────────┴─> LinkQuality ─> RplTree ─> hops of a Topology
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `quality` | packet reception ratios between the stations of a radio network |
//! | `rpl` | the tree that RPL settles on |
//! | [`aodv`] | routes on demand, for hosts that forward by themselves |

pub mod aodv;
mod quality;
mod rpl;

pub use quality::{LinkQuality, QualityError};
pub use rpl::{Objective, RplConfig, RplTree};
