//! Scripts of `bodies/endpoint.rs` under [`Focus::Q_BLOCK`].

#![no_main]

#[path = "../bodies/endpoint.rs"]
mod body;

use body::Focus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(&Focus::Q_BLOCK, data));
