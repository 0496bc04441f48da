//! The whole command with one more controller:
//! `cargo run --release -p conche-cli --example twice_peak -- reproduce`
//!
//! The controller is the one that `conche new-controller` writes into a new crate.

#[path = "../src/new_controller/template/src/lib.rs"]
mod twice_peak;

use conche::cc::any::Named;
use twice_peak::{FEATURES, TwicePeak};

fn main() -> std::process::ExitCode {
    conche_cli::main([Named::own_with_parameters::<TwicePeak>("twice-peak", FEATURES)])
}
