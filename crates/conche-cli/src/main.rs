//! The `conche` command, implemented by the library.

fn main() -> std::process::ExitCode {
    conche_cli::main([])
}
