//! libFuzzer's entry to `bodies/roundtrip.rs`.

#![no_main]

#[path = "../bodies/roundtrip.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
