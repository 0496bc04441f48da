//! libFuzzer's entry to `bodies/endpoint.rs`.

#![no_main]

#[path = "../bodies/endpoint.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
