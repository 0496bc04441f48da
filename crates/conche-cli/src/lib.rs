//! The `conche` command: parses arguments and renders results, without protocol logic. It is a
//! library so that a program of three lines can add its own congestion controller to the whole
//! command.
//!
//! ```no_run
//! # use conche::cc::cocoa::Cocoa as MyController;
//! use conche::cc::any::Named;
//! use conche::cc::features::Features;
//!
//! fn main() -> std::process::ExitCode {
//!     conche_cli::main([Named::own::<MyController>("mine", Features::of::<MyController>("what it is"))])
//! }
//! ```
//!
//! `conche new-controller NAME` writes such a program.
//!
//! Each subcommand is a module with `Args` and `run`. Failures return an error, which `exit` turns
//! into a message on standard error and an exit status.

mod argument;
mod bench;
mod compare;
mod completed_experiment;
mod controllers;
mod credentials;
mod discover;
mod error;
mod exit;
mod experiment_options;
mod formats;
mod hexadecimal;
mod json;
mod keygen;
mod logging;
mod names;
mod new_controller;
mod observe;
mod output_dir;
mod ping;
mod reader_stream;
mod recording;
pub mod relay;
mod report;
mod reproduce;
mod request;
mod run;
mod runtime;
mod serve;
mod shell;
mod show;
mod trace;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};
use conche::Code;
use conche::cc::any::Named;

/// CoAP with congestion control that is safe, fast and yours to choose, and the lab that proves it.
#[derive(Debug, Parser)]
#[command(name = "conche", version, max_term_width = 100, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Display order that puts global options last in the help of a subcommand.
const LAST: usize = 900;

/// What every subcommand takes.
#[derive(Debug, clap::Args)]
struct Global {
    /// Show on standard error every message sent and received, and what was known of the path; twice for what the client does, too.
    #[arg(short, long, global = true, display_order = LAST, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Say nothing on standard error but errors.
    #[arg(short, long, global = true, display_order = LAST)]
    quiet: bool,
    /// Print JSON on standard output, one object a line, each with a "schema" version.
    #[arg(long, global = true, display_order = LAST)]
    json: bool,
}

impl Global {
    /// Whether a user is likely to watch standard error.
    fn shows_progress(&self) -> bool {
        !self.quiet && (self.verbose > 0 || std::io::stderr().is_terminal())
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read a resource.
    Get(request::Reading),
    /// Have a resource process a payload.
    Post(request::Args),
    /// Make or replace a resource.
    Put(request::Args),
    /// Remove a resource.
    Delete(request::Args),
    /// Read a part of a resource that the payload describes.
    Fetch(request::Reading),
    /// Change a part of a resource.
    Patch(request::Args),
    /// Change a part of a resource, idempotently.
    Ipatch(request::Args),
    /// Read a resource, and be told of its changes.
    Observe(observe::Args),
    /// Ask whether a CoAP endpoint is there, and how far away.
    Ping(ping::Args),
    /// Load a server: requests a second, latency by percentiles, losses.
    Bench(bench::Args),
    /// List what resources a server has.
    Discover(discover::Args),
    /// Serve a directory, or demonstration resources.
    Serve(serve::Args),
    /// Relay between clients and a server, losing and delaying datagrams.
    Relay(relay::Args),
    /// Regenerate the tables and figures of a paper.
    Reproduce(reproduce::Args),
    /// Run an experiment of your own from a scenario file.
    Run(run::Args),
    /// Compare controllers over all cells of papers and scenarios: who loses least, and where.
    Compare(compare::Args),
    /// Make one HTML file of results: figures, tables, claims, schemes compared.
    Report(report::Args),
    /// Make a random key, or a pair of credential files.
    Keygen(keygen::Args),
    /// List the congestion controllers and what each of them does.
    Controllers(controllers::Args),
    /// Write a crate with a congestion controller of your own, and all of this command with it.
    NewController(new_controller::Args),
    /// Print a completion script for a shell.
    Completions(shell::Completions),
    /// Print the manual page, or write a page for each subcommand.
    Man(shell::Manual),
}

/// Runs the whole command: parses the process's arguments, executes the subcommand and returns the
/// exit status. The given controllers are available beside conche's own wherever one is chosen or
/// compared.
///
/// Errors, such as a duplicate controller name, go to standard error.
pub fn main(own: impl IntoIterator<Item = Named>) -> ExitCode {
    if let Err(taken) = conche_lab::controllers::know(own.into_iter().collect()) {
        show::note(format_args!("error: two congestion controllers are called {taken}; give yours another name"));
        return ExitCode::FAILURE;
    }
    let Cli { global, command } = Cli::try_parse().unwrap_or_else(|error| exit::usage(&error));
    exit::report(run(command, &global), global.json)
}

fn run(command: Command, global: &Global) -> anyhow::Result<()> {
    let progress = request::Progress::default();
    logging::start(global, global.shows_progress().then(|| progress.clone()))?;
    match command {
        Command::Get(args) => request::read(Code::GET, args, global, &progress),
        Command::Post(args) => request::run(Code::POST, args, None, global, &progress),
        Command::Put(args) => request::run(Code::PUT, args, None, global, &progress),
        Command::Delete(args) => request::run(Code::DELETE, args, None, global, &progress),
        Command::Fetch(args) => request::read(Code::FETCH, args, global, &progress),
        Command::Patch(args) => request::run(Code::PATCH, args, None, global, &progress),
        Command::Ipatch(args) => request::run(Code::IPATCH, args, None, global, &progress),
        Command::Observe(args) => observe::run(args, global, &progress),
        Command::Ping(args) => ping::run(args, global),
        Command::Bench(args) => bench::run(args, global),
        Command::Discover(args) => discover::run(args, global),
        Command::Serve(args) => serve::run(args, global),
        Command::Relay(args) => relay::run(args, global),
        Command::Reproduce(args) => reproduce::run(args, global),
        Command::Run(args) => run::run(args, global),
        Command::Compare(args) => compare::run(args, global),
        Command::Report(args) => report::run(&args, global),
        Command::Keygen(args) => keygen::run(&args, global),
        Command::Controllers(args) => controllers::run(args, global),
        Command::NewController(args) => new_controller::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}
