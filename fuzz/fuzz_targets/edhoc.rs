//! Scripts of `bodies/edhoc.rs`.

#![no_main]

#[path = "../bodies/edhoc.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|script: &[u8]| body::run(script));
