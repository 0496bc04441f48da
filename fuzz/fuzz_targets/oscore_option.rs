//! libFuzzer's entry to `bodies/oscore_option.rs`.

#![no_main]

#[path = "../bodies/oscore_option.rs"]
mod body;
#[path = "../bodies/oscore_ends.rs"]
mod oscore_ends;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
