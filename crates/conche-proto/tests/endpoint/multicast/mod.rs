//! Multicast (RFC 7252 §8): groups that are asked, and those that ask them.

mod client;
mod server;
