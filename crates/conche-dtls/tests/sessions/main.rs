//! Sessions against each other in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]
#![allow(clippy::cast_possible_truncation, reason = "test data is small")]

mod abuse;
mod company;
mod debug;
mod failures;
mod fence;
mod flights;
mod forged;
mod fuzz_replay;
mod handshakes;
mod issuers;
mod lookups;
mod replayed_hellos;
mod wire;
