//! Scripts of `bodies/endpoint.rs` under [`Focus::STREAMS`].

#![no_main]

#[path = "../bodies/endpoint.rs"]
mod body;

use body::Focus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(&Focus::STREAMS, data));
