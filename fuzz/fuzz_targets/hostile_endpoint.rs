//! Runs of `bodies/hostile_endpoint.rs`.

#![no_main]

#[path = "../bodies/hostile_endpoint.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::run(input));
