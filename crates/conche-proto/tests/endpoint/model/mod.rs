//! What must hold for every endpoint whatever happens to it, and scripts that make everything happen.
//!
//! The fuzz target of the endpoint compiles this folder as well.

pub mod checker;
pub mod drawn;
mod extensions;
pub mod script;

/// What names a peer in tests.
pub type Address = u16;
