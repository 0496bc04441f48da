//! `cargo xtask implementations`: conche and other implementations over emulated networks.

mod emulation;
mod exchange;
mod measured;
mod network;
mod page;
mod simulated;
mod stack;

use std::collections::VecDeque;
use std::fs;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

use emulation::{Emulator, Plan, SETTLE_S};
use measured::Measured;
use network::Network;
use page::Results;
use stack::{Builder, Stack};
use tool_support::block::IMPLEMENTATIONS;
use tool_support::machine::Machine;
use tool_support::{Command, Project};

const DOCUMENT: &str = "docs/implementations.md";

fn main() -> ExitCode {
    tool_support::exit_code(Project::find().and_then(|project| run(&project, &Options::parse())))
}

/// Run the clients of conche and other implementations over emulated networks.
#[derive(Parser)]
#[command(bin_name = "cargo xtask implementations", version)]
struct Options {
    /// Stacks to run, separated by commas; all by default.
    #[arg(long, value_name = "STACK", value_delimiter = ',', value_enum)]
    only: Vec<Stack>,
    /// Networks, separated by commas; all by default.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_enum)]
    networks: Vec<Network>,
    /// Runs of each stack on each network, with the seeds 1, 2, …; on `silent` one.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// One run of each, without the network `silent`.
    #[arg(long, conflicts_with_all = ["runs", "write"])]
    quick: bool,
    /// Emulations at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    jobs: u32,
    /// A run is invalid if 1 % of its events happen later than this.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    max_lateness: String,
    /// Profile of cargo for conche.
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Reuse the runs in target/implementations of an earlier call with the same options.
    #[arg(long)]
    resume: bool,
    /// Start no emulation; show the runs in target/implementations.
    #[arg(long, requires = "resume")]
    show: bool,
    /// Write the tables into docs/implementations.md.
    #[arg(long)]
    write: bool,
}

fn chosen<T: ValueEnum + PartialEq>(chosen: &[T]) -> Vec<T> {
    let all = T::value_variants().iter().filter(|one| chosen.is_empty() || chosen.contains(one));
    all.cloned().collect()
}

/// Fails in the end if a stack could not be built or a run has no result.
fn run(project: &Project, options: &Options) -> Result<()> {
    let (stacks, mut networks) = (chosen(&options.only), chosen(&options.networks));
    if options.quick {
        networks.retain(|network| *network != Network::Silent);
    }
    let runs = if options.quick { 1 } else { options.runs };
    let builder = Builder::prepare(project, &options.profile)?;
    let mut left_out = Vec::new();
    let mut programs = Vec::new();
    for stack in stacks.iter().copied() {
        eprintln!("building {}", stack.name());
        match builder.build(stack) {
            Ok(program) => programs.push((stack, program)),
            Err(error) => left_out.push(format!("{}: {error:#}", stack.name())),
        }
    }
    // In rounds, so that an interruption leaves some runs of all.
    let mut plans = VecDeque::new();
    for seed in 1..=runs {
        for network in networks.iter().copied().filter(|network| seed == 1 || *network != Network::Silent) {
            let plan =
                |(stack, program): &(Stack, _)| Plan { stack: *stack, network, seed, program: Clone::clone(program) };
            plans.extend(programs.iter().filter(|(stack, _)| network.suits(*stack)).map(plan));
        }
    }
    let emulator = Emulator {
        root: project.root.clone(),
        conche: builder.conche(),
        runs: builder.directory.join("runs"),
        max_lateness: options.max_lateness.clone(),
    };
    let (runs_of_all, failed) = run_all(&emulator, plans, options);
    left_out.extend(failed);

    let mut simulated = Vec::new();
    for network in networks.iter().copied().filter(|network| network.is_simulated()) {
        for seed in 1..=runs {
            let directory = builder.directory.join("simulated").join(format!("{}-{seed}", network.word()));
            simulated.push((network, simulated::run(&project.root, &emulator.conche, network, seed, &directory)?));
        }
    }
    let conditions = conditions(project, options, runs, &programs.iter().map(|(stack, _)| *stack).collect::<Vec<_>>())?;
    let results = Results { conditions, runs: runs_of_all, simulated, left_out };
    let text = results.text(&stacks, &networks);
    println!("{text}");
    if options.write {
        let page = IMPLEMENTATIONS.replaced(&project.read(DOCUMENT)?, &format!("{text}\n")).context(DOCUMENT)?;
        fs::write(project.root.join(DOCUMENT), page).with_context(|| format!("cannot write {DOCUMENT}"))?;
    }
    if !results.left_out.is_empty() {
        bail!("{}", results.left_out.join("\n"));
    }
    Ok(())
}

/// Returns the runs in the order of the plans, and the reasons for missing ones.
fn run_all(
    emulator: &Emulator,
    plans: VecDeque<Plan>,
    options: &Options,
) -> (Vec<(Stack, Network, Measured)>, Vec<String>) {
    let count = plans.len();
    let queue = Mutex::new(plans.into_iter().enumerate().collect::<VecDeque<_>>());
    let done = Mutex::new((Vec::new(), Vec::new()));
    let work = || {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, plan)) = next else { break };
            let kept = options.resume.then(|| emulator.kept(&plan)).flatten();
            let run = match (kept, options.show) {
                (Some(run), _) => Ok(run),
                (None, true) => continue,
                (None, false) => emulator.run(&plan),
            };
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            match run {
                Ok(run) => {
                    let measured = Measured::of(&run, plan.network.exchanges());
                    eprintln!(
                        "{} of {count}: {}, lateness p99 {:.1} ms, starts within {:.2} s{}",
                        number + 1,
                        plan.name(),
                        measured.lateness_p99_ms,
                        measured.spread_s,
                        if measured.is_valid { "" } else { ", invalid" }
                    );
                    done.0.push((number, (plan.stack, plan.network, measured)));
                }
                Err(error) => {
                    eprintln!("{} of {count}: {}: {error:#}", number + 1, plan.name());
                    done.1.push(format!("{}: {error:#}", plan.name()));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(work);
        }
    });
    let (mut measured, failed) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    measured.sort_by_key(|(number, _)| *number);
    (measured.into_iter().map(|(_, measured)| measured).collect(), failed)
}

fn conditions(project: &Project, options: &Options, runs: u32, stacks: &[Stack]) -> Result<String> {
    let date = Command::new("date", ["-u", "+%F"]).unshown().output(project)?.trim().to_owned();
    let mut versions = Vec::new();
    for stack in stacks {
        let version = stack.version(project)?;
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    Ok(format!(
        "Measured on {date} with {}: {}. conche is built with cargo's profile `{}`. Seeds 1 to {runs}, {} emulations at a \
         time, at most {} of lateness, first requests {SETTLE_S} s after the start of the programs.",
        Machine::this()?,
        versions.join(", "),
        options.profile,
        options.jobs,
        options.max_lateness
    ))
}
