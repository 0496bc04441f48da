//! Checks controllers against a file of event traces: `cargo run --release -p conche-cc --example
//! vectors -- FILE`.
//!
//! Prints failed expectations, then `N passed, M failed`. Exit status: 0 if all passed, 1 if any
//! failed, 2 if the file is unusable.

use std::process::ExitCode;

use conche_conformance::vectors;

const USAGE: &str = "usage: vectors FILE\n\nFILE holds controller vectors, such as tests/data/controller-vectors.json";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        return unusable(USAGE);
    };
    if path == "-h" || path == "--help" {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let name = path.display();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return unusable(&format!("{name}: {error}")),
    };
    match vectors::check(&text) {
        Ok(report) => {
            for failure in &report.failures {
                println!("{failure}");
            }
            println!("{} passed, {} failed", report.passed, report.failed);
            if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => unusable(&format!("{name}: {error}")),
    }
}

fn unusable(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}
