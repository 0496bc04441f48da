//! OSCORE security contexts without an endpoint: only what was protected can be unprotected.

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
