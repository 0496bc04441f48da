//! Multicast (RFC 7252 §8): members of groups, and clients of groups.

mod client;
mod server;
