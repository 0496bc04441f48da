//! Scripts of `bodies/oscore_endpoints.rs`.

#![no_main]

#[path = "../bodies/oscore_endpoints.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|script: &[u8]| body::run(script));
