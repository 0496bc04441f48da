//! The `conche` command. The library beside this file implements it.

fn main() -> std::process::ExitCode {
    conche_cli::main([])
}
