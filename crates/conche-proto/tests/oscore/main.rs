//! OSCORE through its public interface: what is protected comes out again, and nothing else does.

mod aiocoap;
mod allocations;
mod attacks;
mod fuzz_replay;
mod malformed;
mod observe;
#[path = "../../../../fuzz/bodies/oscore_ends.rs"]
mod oscore_ends;
mod properties;
mod renewal;
mod restarts;
mod support;
