//! libFuzzer's entry to `bodies/decode.rs`.

#![no_main]

#[path = "../bodies/decode.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
