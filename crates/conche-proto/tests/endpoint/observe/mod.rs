//! Observe (RFC 7641), both roles.

mod bounds;
mod client;
mod ends;
mod etsi;
mod formats;
mod many;
pub mod net;
mod presence;
mod random_events;
mod server;
mod settled;
mod streamed;
mod threats;
