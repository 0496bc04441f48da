//! Observe (RFC 7641), both roles: ETSI and IRISA cases, individual requirements, many observers,
//! attacks.

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
