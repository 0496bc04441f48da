//! libFuzzer's entry to `bodies/link_format.rs`.

#![no_main]

#[path = "../bodies/link_format.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
