//! Any script of operations, datagrams and clock steps: tables stay within bounds, every exchange
//! ends once. A target's focus is its operations.
//!
//! Tests share scripts and checks: `cargo test -p conche-proto --features q-block --test endpoint
//! scripts`.

#[allow(dead_code, reason = "each target has one focus, and the tests use the rest")]
#[path = "../../crates/conche-proto/tests/endpoint/model/mod.rs"]
mod model;

pub use model::focus::Focus;
pub use model::script::run;
