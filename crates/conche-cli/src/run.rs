//! `conche run SCENARIO.toml|NETWORK`: runs a user's experiment, or a network of conche.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use conche::cc::any::Controllers;
use conche::cc::parameters::nearest;
use conche_lab::experiment::Experiment;
use conche_lab::networks::Network;
use conche_lab::papers::Paper;
use conche_lab::scenario::{FileError, ScenarioError};

use crate::Global;
use crate::error::UsageError;
use crate::experiment::Options;
use crate::live;
use crate::names;
use crate::run_trace::RunTrace;
use crate::show;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Scenario file, or a network of `conche compare networks`.
    ///
    /// scenarios/ has some to start from.
    #[arg(value_name = "SCENARIO.toml|NETWORK")]
    file: PathBuf,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    trace: RunTrace,
    /// Play one run on a page of this machine.
    ///
    /// The first replication of the first cell that --only selects, paused at its start. The page
    /// can change links. The port is a free one, or as in --live=8080. Ctrl-C ends it.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = live::ANY_PORT,
        value_parser = live::parse_address,
        conflicts_with_all = [
            "output", "series", "exchanges", "overwrite", "trace", "trace_node", "jobs", "runs", "quick", "shard",
            "ids", "stats",
        ]
    )]
    live: Option<SocketAddr>,
}

const EXAMPLES: &str = "\
Examples:
  conche run gprs                                the schemes of a network of conche, side by side
  conche run yard.toml -o results                a scenario, with its results for `conche report`
  conche run gprs --live --controllers cocoa     one run on a page: play, pause, step, change links";

/// Returns the experiment, and the options to run it with.
pub fn experiments(args: Args, global: &Global) -> anyhow::Result<(Options, Vec<Experiment>)> {
    if args.live.is_some() {
        return Err(UsageError("--live shows one run, and has no plan; leave it out".to_owned()).into());
    }
    let experiment = args.experiment(global)?;
    Ok((args.options, vec![experiment]))
}

impl Args {
    fn experiment(&self, global: &Global) -> anyhow::Result<Experiment> {
        let network = self.file.to_str().and_then(Network::by_name).filter(|_| !self.file.exists());
        match network {
            Some(network) => self.options.checked(network.experiment(&global.controllers)),
            None => read(&self.file, &self.options, &global.controllers),
        }
    }
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let experiment = args.experiment(global)?;
    let outcome = match args.live {
        Some(address) => args
            .options
            .adjust([experiment])
            .and_then(|experiments| experiments.iter().try_for_each(|of| live::simulation::run(address, of, global))),
        None => args.options.execute(experiment, Some(&args.trace), global),
    };
    outcome.with_context(|| format!("scenario {}", args.file.display()))
}

/// Reads a scenario, and checks all runs that the options select.
pub fn read(file: &Path, options: &Options, controllers: &Controllers) -> anyhow::Result<Experiment> {
    read_and(file, controllers, |experiment| options.check(experiment))
}

/// Reads a scenario or network. Its cells may need programs.
#[cfg(unix)]
pub fn read_unchecked(file: &Path, controllers: &Controllers) -> anyhow::Result<Experiment> {
    match file.to_str().and_then(Network::by_name).filter(|_| !file.exists()) {
        Some(network) => Ok(network.experiment(controllers)),
        None => read_and(file, controllers, |_| Ok(())),
    }
}

fn read_and(
    file: &Path,
    controllers: &Controllers,
    check: impl FnOnce(&Experiment) -> Result<(), ScenarioError>,
) -> anyhow::Result<Experiment> {
    let text = std::fs::read_to_string(file).map_err(|error| UsageError(unread(file, &error)))?;
    let experiment = Experiment::read(&text, &|name| beside(file, name), controllers);
    let checked = experiment.and_then(|experiment| check(&experiment).map(|()| experiment));
    Ok(checked.map_err(|error| diagnosis(file, &text, &error))?)
}

fn unread(file: &Path, error: &io::Error) -> String {
    let message = format!("cannot read {}: {error}", file.display());
    let name = file.to_str().unwrap_or_default();
    if let Some(Paper { name, .. }) = Paper::by_name(name) {
        return format!("{message}; the paper of that name is `conche reproduce {name}`");
    }
    if name == names::ALL_NETWORKS {
        return format!("{message}; `conche compare {name}` runs all networks, `conche run` takes one");
    }
    if live::parse_address(name).is_ok() {
        return format!("{message}; the address of a live view follows `=`: --live={name}");
    }
    match nearest(name, names::networks()) {
        Some(network) => format!("{message}; did you mean the network `{network}`?"),
        None => message,
    }
}

/// Reads a file that a scenario names, relative to the scenario.
fn beside(scenario: &Path, name: &str) -> Result<String, FileError> {
    let path = scenario.parent().unwrap_or_else(|| Path::new("")).join(name);
    std::fs::read_to_string(&path).map_err(|error| FileError::Unreadable { path, error })
}

fn diagnosis(file: &Path, text: &str, error: &ScenarioError) -> UsageError {
    let name = file.display();
    match error.span() {
        Some(span) => {
            UsageError(format!("{name} is no valid scenario\n{}", show::place(file, text, span, &error.to_string())))
        }
        None => UsageError(format!("{name}: {error}")),
    }
}
