//! Observe (RFC 7641), both roles: the ETSI and IRISA cases, requirement by requirement, many observers, and what attackers do.

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
