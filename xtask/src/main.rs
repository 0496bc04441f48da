//! Project chores beyond plain cargo: `cargo xtask ci`, `tidy`, `compliance`, `interop`,
//! `bench-peers`, `fuzz`, `papers`, `readme`.
//!
//! | module | contents |
//! |---|---|
//! | [`project`] | the text files of the checkout, and findings |
//! | [`source`] | Rust files as tokens, without comments and without test code |
//! | [`tidy`] | checks of headers, lengths, invariants, layers, links, origins, licences |
//! | [`compliance`] | test coverage of RFC requirements |
//! | [`tool`] | `interop` and `bench-peers`, which are programs of their own in `tools/` |
//! | [`fuzz`] | the fuzz targets, for some seconds each |
//! | [`papers`] | the papers' values, compared with recorded ones |
//! | [`readme`] | the commands and code of README and guide, run and compared |
//! | [`ci`] | all of that, and cargo, in order |

mod ci;
mod compliance;
mod fuzz;
mod papers;
mod project;
mod readme;
mod source;
mod tidy;
mod tool;

use std::process::ExitCode;

use anyhow::Result;
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
    /// Run everything that has to pass before a change is merged, and stop at the first failure.
    Ci(ci::Options),
    /// Check what a compiler does not: headers, lengths, invariants, layers, links, origins of
    /// data, licences.
    Tidy,
    /// Print which test covers which requirement of RFC 7252 and its extensions; fail if one has
    /// none and is not deferred.
    Compliance(compliance::Options),
    /// Run the ETSI and IRISA test cases against libcoap, aiocoap, Californium, go-coap and
    /// node-coap, and write docs/interop.md.
    #[command(disable_help_flag = true)]
    Interop(tool::Arguments),
    /// Measure how fast conche and other implementations serve and ask on this machine, one beside
    /// the other.
    #[command(disable_help_flag = true)]
    BenchPeers(tool::Arguments),
    /// Fuzz every target, or those named, for so many seconds; fail with how to reproduce what was
    /// found.
    Fuzz(fuzz::Options),
    /// Run all papers for a first impression, and list the figures that are not as recorded.
    Papers(papers::Options),
    /// Run the commands of README.md and the guide that are marked for it, and compare the code
    /// that README.md quotes.
    Readme,
}

fn main() -> ExitCode {
    tool_support::exit_code(run(Arguments::parse().chore))
}

fn run(chore: Chore) -> Result<()> {
    let project = Project::find()?;
    match chore {
        Chore::Ci(options) => ci::run(&project, &options),
        Chore::Tidy => tidy::run(&project),
        Chore::Compliance(options) => compliance::run(&project, &options),
        Chore::Interop(options) => tool::run(&project, "interop", &options),
        Chore::BenchPeers(options) => tool::run(&project, "bench-peers", &options),
        Chore::Fuzz(options) => fuzz::run(&project, &options),
        Chore::Papers(options) => papers::run(&project, &options),
        Chore::Readme => readme::run(&project),
    }
}
