//! Scripts of `bodies/endpoint.rs` with all that they can do.

#![no_main]

#[path = "../bodies/endpoint.rs"]
mod body;

use body::Focus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(&Focus::ENDPOINT, data));
