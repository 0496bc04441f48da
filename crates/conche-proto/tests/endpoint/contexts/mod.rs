//! Security contexts of OSCORE without an endpoint: what is protected comes out again, and nothing else does.

mod aiocoap;
mod allocations;
mod attacks;
mod fuzz_replay;
mod malformed;
mod observe;
mod properties;
mod renewal;
mod restarts;
mod support;
