//! Scripts of `bodies/endpoint.rs` under [`Focus::SERVER`].

#![no_main]

#[path = "../bodies/endpoint.rs"]
mod body;

use body::Focus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(&Focus::SERVER, data));
