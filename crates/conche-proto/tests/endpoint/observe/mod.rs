//! Observe (RFC 7641), both roles.

mod bounds;
mod client;
mod ends;
mod etsi;
mod formats;
mod many;
mod mix;
pub mod net;
mod presence;
mod server;
mod settled;
mod streamed;
mod threats;
