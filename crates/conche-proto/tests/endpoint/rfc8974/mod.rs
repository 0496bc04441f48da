//! Tokens of more than eight bytes (RFC 8974).

mod client;
mod server;
