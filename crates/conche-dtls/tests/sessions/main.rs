//! Sessions against each other in virtual time.

mod failures;
mod handshakes;
mod wire;
