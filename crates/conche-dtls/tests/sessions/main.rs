//! Sessions against each other in virtual time.

mod handshakes;
mod wire;
