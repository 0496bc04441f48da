//! libFuzzer's entry to `bodies/oscore_message.rs`.

#![no_main]

#[path = "../bodies/oscore_message.rs"]
mod body;
#[path = "../bodies/oscore_ends.rs"]
mod oscore_ends;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
