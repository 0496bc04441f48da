//! Scripts of `bodies/endpoint.rs` under [`Focus::BLOCKWISE`].

#![no_main]

#[path = "../bodies/endpoint.rs"]
mod body;

use body::Focus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(&Focus::BLOCKWISE, data));
