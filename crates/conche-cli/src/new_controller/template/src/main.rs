//! The `conche` command with this crate's controller beside its own.

use conche_cc::any::Named;
use twice_peak::{FEATURES, TwicePeak};

fn main() -> std::process::ExitCode {
    conche_cli::main([Named::own_with_parameters::<TwicePeak>("twice-peak", FEATURES)])
}
