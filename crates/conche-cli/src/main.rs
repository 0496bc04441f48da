//! The `conche` command. All of it is in the library beside this file.

fn main() -> std::process::ExitCode {
    conche_cli::main([])
}
