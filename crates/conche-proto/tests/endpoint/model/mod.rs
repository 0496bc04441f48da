//! What must hold for every endpoint whatever happens to it, and scripts that make everything happen.
//!
//! The fuzz targets of the endpoint compile this folder as well.

mod bodies;
pub mod checker;
pub mod drawn;
mod extensions;
mod flows;
pub mod focus;
pub mod script;
mod sets;
mod streams;
mod track;

/// What names a peer in tests. It is one type for nearly all, as the controller is always an `AnyController`: an endpoint for
/// another one is the whole endpoint compiled once more.
pub type Address = u32;
