//! Invariants of every endpoint, and random scripts to test them.
//!
//! The fuzz targets of the endpoint compile this folder as well.

mod bodies;
mod bursts;
pub mod checker;
pub mod configurations;
mod extensions;
mod flows;
pub mod focus;
pub mod script;
mod streams;
mod track;

/// A single type, with `AnyController`, because each combination compiles the whole endpoint again.
pub type Address = u32;
