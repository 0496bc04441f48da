//! Project chores beyond plain cargo: `cargo xtask ci`, `tidy`, `compliance`, `interop`,
//! `bench-peers`, `implementations`, `fuzz`, `papers`, `playground`, `readme`.

mod ci;
mod compliance;
mod fenced;
mod fuzz;
mod papers;
mod playground;
mod project;
mod readme;
mod source;
mod tidy;

use std::ffi::OsString;
use std::process::{self, ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use project::Project;

/// Project chores.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run everything that must pass before a change is merged; stop at the first failure.
    Ci(ci::Options),
    /// Check headers, invariants, layers, links, quoted code, origins of data, licences.
    Tidy(tidy::Options),
    /// Print the tests that cover each requirement of RFC 7252 and its extensions; fail if one has
    /// none and is not deferred.
    Compliance(compliance::Options),
    /// Run the ETSI and IRISA test cases against libcoap, aiocoap, Californium, go-coap and
    /// node-coap, and write docs/interop.md.
    #[command(disable_help_flag = true)]
    Interop(ToolArguments),
    /// Compare the speed of conche and other implementations on this machine, as servers and
    /// clients.
    #[command(disable_help_flag = true)]
    BenchPeers(ToolArguments),
    /// Run the clients of conche and other implementations over emulated networks, and write
    /// docs/implementations.md.
    #[command(disable_help_flag = true)]
    Implementations(ToolArguments),
    /// Run fuzz targets; after a failure, show how to reproduce it.
    Fuzz(fuzz::Options),
    /// Run all papers quickly, and list the values that differ from the recorded ones.
    Papers(papers::Options),
    /// Build the lab for a browser, as static files.
    Playground(playground::Options),
    /// Run the marked commands of README.md and the guide.
    Readme,
}

fn main() -> ExitCode {
    tool_support::exit_code(run(Arguments::parse().chore))
}

fn run(chore: Chore) -> Result<()> {
    let project = Project::find()?;
    match chore {
        Chore::Ci(options) => ci::run(&project, &options),
        Chore::Tidy(options) => tidy::run(&project, &options),
        Chore::Compliance(options) => compliance::run(&project, &options),
        Chore::Interop(options) => run_tool(&project, "interop", &options),
        Chore::BenchPeers(options) => run_tool(&project, "bench-peers", &options),
        Chore::Implementations(options) => run_tool(&project, "implementations", &options),
        Chore::Fuzz(options) => fuzz::run(&project, &options),
        Chore::Papers(options) => papers::run(&project, &options),
        Chore::Playground(options) => playground::run(&project, &options),
        Chore::Readme => readme::run(&project),
    }
}

/// Arguments of a tool, as documented by its `--help`.
#[derive(clap::Args)]
struct ToolArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Runs a tool, and exits with its status if it fails, as it has printed the reason.
fn run_tool(project: &Project, package: &str, arguments: &ToolArguments) -> Result<()> {
    let mut command = process::Command::new("cargo");
    command.args(["run", "--quiet", "--package", package, "--"]).args(&arguments.arguments);
    let status = command.current_dir(&project.root).status().context("cannot start cargo")?;
    if !status.success() {
        process::exit(status.code().unwrap_or(1));
    }
    Ok(())
}
