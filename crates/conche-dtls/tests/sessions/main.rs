//! Sessions against each other in virtual time.

mod abuse;
mod company;
mod failures;
mod fuzz_replay;
mod handshakes;
mod wire;
