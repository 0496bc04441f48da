//! The `conche` command: arguments in, rendering out, no logic.
//!
//! Each subcommand is a module with an `Args` and a `run`. What fails returns an error, and [`exit`] turns that into a
//! message on standard error and an exit status.

mod controllers;
mod exit;
mod reproduce;

use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};

/// CoAP with congestion control that is safe, fast and yours to choose, and the lab that proves it.
#[derive(Debug, Parser)]
#[command(name = "conche", version, max_term_width = 100, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every subcommand takes.
#[derive(Debug, clap::Args)]
struct Global {
    /// Say more on standard error; twice for even more.
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Say nothing on standard error but errors.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Print JSON on standard output, one object a line, each with a "schema" version.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Regenerate the tables and figures of a paper.
    Reproduce(reproduce::Args),
    /// List the congestion controllers and what each of them does.
    Controllers(controllers::Args),
}

fn main() -> ExitCode {
    let Cli { global, command } = Cli::parse();
    let outcome = match command {
        Command::Reproduce(args) => reproduce::run(args, &global),
        Command::Controllers(args) => controllers::run(args, &global),
    };
    exit::report(outcome)
}
