//! Any script of operations, datagrams and clock steps: no panic, tables within their bounds, every
//! exchange ends once. Each target has a focus, the operations of its scripts.
//!
//! Scripts and checks are shared with the tests, which replay the seeds on a stable compiler:
//! `cargo test -p conche-proto --features q-block --test endpoint scripts`.

#[allow(dead_code, reason = "each target has one focus, and the tests use the rest")]
#[path = "../../crates/conche-proto/tests/endpoint/model/mod.rs"]
mod model;

pub use model::focus::Focus;
pub use model::script::run;
