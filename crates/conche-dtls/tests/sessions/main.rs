//! Sessions against each other in virtual time.

mod abuse;
mod company;
mod failures;
mod handshakes;
mod wire;
