//! Scripts of `bodies/sessions.rs`.

#![no_main]

#[path = "../bodies/sessions.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
