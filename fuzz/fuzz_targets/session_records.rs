//! Scripts of `bodies/session_records.rs`.

#![no_main]

#[path = "../bodies/session_records.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
