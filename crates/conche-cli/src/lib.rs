//! The `conche` command: parses arguments and renders results, without protocol logic. As a library
//! it adds a program's own congestion controller to the command.
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
//! Each subcommand is a module with `Args` and `run`. `exit` turns an error into a message and an
//! exit status.

mod bench;
mod compare;
mod controllers;
mod credentials;
mod discover;
#[cfg(unix)]
mod emulate;
mod error;
mod exit;
mod experiment;
mod flags;
mod formats;
mod hexadecimal;
mod http;
mod json;
mod keygen;
mod live;
mod logging;
mod merge;
mod names;
mod new_controller;
mod option;
mod packet_counts;
mod part;
mod ping;
mod plan;
mod playground;
mod reader_stream;
mod recording;
pub mod relay;
mod report;
mod reproduce;
mod request;
mod run;
mod run_trace;
mod runtime;
mod serve;
mod shell;
mod show;
mod trace;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use conche::Code;
use conche::cc::any::{Controllers, Named};

/// CoAP client, server and simulator with selectable congestion control.
#[derive(Debug, Parser)]
#[command(name = "conche", version, max_term_width = 100, after_help = exit::help())]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Puts global options last in the help of a subcommand.
const LAST: usize = 900;

#[derive(Debug, clap::Args)]
struct Global {
    /// Print each message on standard error; -vv internals, too.
    ///
    /// Also prints the path state of a --path-store.
    #[arg(short, long, global = true, display_order = LAST, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Print only errors on standard error.
    #[arg(short, long, global = true, display_order = LAST)]
    quiet: bool,
    /// Print JSON: an object per line, with a "schema" version.
    ///
    /// Errors are objects on standard error.
    #[arg(long, global = true, display_order = LAST)]
    json: bool,
    /// Conche's controllers and those of this program.
    #[arg(skip)]
    controllers: Controllers,
}

impl Global {
    fn shows_progress(&self) -> bool {
        !self.quiet && (self.verbose > 0 || std::io::stderr().is_terminal())
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read a resource.
    Get(request::ObservableArgs),
    /// Send a payload for a resource to process.
    Post(request::Args),
    /// Create or replace a resource.
    Put(request::Args),
    /// Delete a resource.
    Delete(request::Args),
    /// Read the part of a resource that the payload selects.
    Fetch(request::ObservableArgs),
    /// Change part of a resource.
    Patch(request::Args),
    /// Change part of a resource, idempotently.
    Ipatch(request::Args),
    /// Read a resource and receive its changes.
    Observe(request::observation::Args),
    /// Measure whether a CoAP endpoint answers, and its round-trip time.
    Ping(ping::Args),
    /// Load-test a server: requests per second, latency percentiles, losses.
    Bench(bench::Args),
    /// List a server's resources.
    Discover(discover::Args),
    /// Serve a directory, or demonstration resources.
    Serve(serve::Args),
    /// Relay between clients and a server, losing and delaying datagrams.
    Relay(relay::Args),
    /// Reproduce the tables and figures of a paper.
    Reproduce(reproduce::Args),
    /// Run an experiment from a scenario file.
    Run(run::Args),
    /// Run programs over a scenario's network, in real time.
    #[cfg(unix)]
    Emulate(emulate::Args),
    /// Run a program in namespaces, for `emulate`.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    EmulateNode(emulate::node::Args),
    /// Compare controllers over all cells of papers and scenarios, ranked by regret.
    Compare(compare::Args),
    /// List the runs of a command, as for a cluster.
    Plan(plan::Args),
    /// Make results of the parts that commands with --shard or --ids have run.
    Merge(merge::Args),
    /// Write one HTML report of results: figures, tables, claims, comparison of schemes.
    Report(report::Args),
    /// Serve the lab as a web page on this machine.
    Playground(playground::Args),
    /// Make a random key, or a pair of credential files.
    Keygen(keygen::Args),
    /// List the congestion controllers and their features.
    Controllers(controllers::Args),
    /// Create a crate with a new congestion controller, and this command with it.
    NewController(new_controller::Args),
    /// Print a completion script for a shell.
    Completions(shell::Completions),
    /// Print the manual page, or write one page per subcommand.
    Man(shell::Manual),
}

/// Parses the process's arguments, runs the subcommand and returns the exit status. The given
/// controllers are available wherever one is chosen or compared. Errors, such as a duplicate
/// controller name, go to standard error.
pub fn main(own: impl IntoIterator<Item = Named>) -> ExitCode {
    let controllers = match Controllers::with(own) {
        Ok(controllers) => controllers,
        Err(error) => {
            show::note(format_args!("error: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let Cli { global, command } = parse(&controllers).unwrap_or_else(|error| exit::usage(&error));
    let global = Global { controllers, ..global };
    exit::report(run(command, &global), global.json)
}

fn parse(controllers: &Controllers) -> Result<Cli, clap::Error> {
    let mut command = command_with(controllers);
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn command_with(controllers: &Controllers) -> clap::Command {
    names::with_controllers(Cli::command(), controllers)
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
        Command::Observe(args) => request::observation::run(args, global, &progress),
        Command::Ping(args) => ping::run(args, global),
        Command::Bench(args) => bench::run(args, global),
        Command::Discover(args) => discover::run(args, global),
        Command::Serve(args) => serve::run(args, global),
        Command::Relay(args) => relay::run(args, global),
        Command::Reproduce(args) => reproduce::run(args, global),
        Command::Run(args) => run::run(args, global),
        #[cfg(unix)]
        Command::Emulate(args) => emulate::run(&args, global),
        #[cfg(target_os = "linux")]
        Command::EmulateNode(args) => emulate::node::run(&args),
        Command::Compare(args) => compare::run(args, global),
        Command::Plan(args) => plan::run(args, global),
        Command::Merge(args) => merge::run(args, global),
        Command::Report(args) => report::run(&args, global),
        Command::Playground(args) => playground::run(args),
        Command::Keygen(args) => keygen::run(&args, global),
        Command::Controllers(args) => controllers::run(args, global),
        Command::NewController(args) => new_controller::run(&args, &global.controllers),
        Command::Completions(args) => shell::completions(&args, &global.controllers),
        Command::Man(args) => shell::man(&args, &global.controllers),
    }
}
