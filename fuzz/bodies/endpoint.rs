//! Any script of operations, datagrams and clock steps: no panic, tables within their bounds, every exchange ends once. What
//! a script can do is the focus's affair, one for each target.
//!
//! The script's meaning and what is checked are the tests' own, which replay the seeds on a stable compiler:
//! `cargo test -p conche-proto --test endpoint scripts`.

#[allow(dead_code, reason = "each target has one focus, and the tests use the rest")]
#[path = "../../crates/conche-proto/tests/endpoint/model/mod.rs"]
mod model;

pub use model::focus::Focus;
pub use model::script::run;
