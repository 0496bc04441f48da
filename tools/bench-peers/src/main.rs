//! `cargo xtask bench-peers`: compares the speed of conche and other implementations, as servers
//! and clients on this machine.
//!
//! | module | contents |
//! |---|---|
//! | [`peer`] | the measured implementations |
//! | [`load`] | the loads |
//! | [`setup`] | installation and builds |
//! | [`credentials`] | credentials of secured loads |
//! | [`machine`] | the machine, and the resources that processes use |
//! | [`server`] | a measured server |
//! | [`measure`] | one measurement |
//! | [`memory`] | memory per peer and per session |
//! | [`sample`] | the result of one measurement |
//! | [`progress`] | the remaining time |
//! | [`results`] | medians, ratios and doubts |
//! | [`table`] | terminal, JSON, docs/performance.md |
//! | [`page`] | merging new tables into a page |

mod credentials;
mod load;
mod machine;
mod measure;
mod memory;
mod page;
mod peer;
mod progress;
mod results;
mod sample;
mod server;
mod setup;
mod table;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Parser;

use load::Load;
use machine::Machine;
use measure::Extent;
use page::Page;
use peer::Peer;
use progress::Progress;
use results::Results;
use setup::Setup;
use table::About;
use tool_support::Command;
use tool_support::Project;
use tool_support::block::PEERS;

const DOCUMENT: &str = "docs/performance.md";

/// Measure how fast conche and other implementations serve and ask on this machine, one beside the
/// other.
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench-peers", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    tool_support::exit_code(Project::find().and_then(|project| run(&project, &Arguments::parse().options)))
}

/// What to measure, and what to do with the results.
#[derive(clap::Args)]
struct Options {
    /// Measure these only, by commas; all by default.
    #[arg(long, value_name = "PEER", value_delimiter = ',', value_enum)]
    peers: Vec<Peer>,
    /// Load them so only, by commas. What `known`, `dtls` and `oscore` are compared with is `many`.
    #[arg(long, value_name = "LOAD", value_delimiter = ',', value_enum)]
    loads: Vec<Load>,
    /// How often each measurement is made; the medians are told. One round of all takes twenty
    /// minutes and some.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long each measures, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// A first impression: one round, 2 s each, and 2000 known peers instead of 100 000.
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "write"])]
    quick: bool,
    /// Print JSON: an object with "schema", "about" and "rows".
    #[arg(long)]
    json: bool,
    /// Put the tables into docs/performance.md, after each round. Those of loads that are not
    /// measured stay, and say when they were; a table that is measured has only those peers that
    /// are, and what it had more is named.
    #[arg(long)]
    write: bool,
}

/// Whether `one` is chosen; without a choice, all are.
fn is_chosen<T: PartialEq>(chosen: &[T], one: &T) -> bool {
    chosen.is_empty() || chosen.contains(one)
}

impl Options {
    fn extent(&self) -> Extent {
        match self.quick {
            true => Extent { rounds: 1, seconds: 2.0, warm_up: 0.5, known: 2000, introducing: 5.0 },
            false => {
                let seconds = f64::from(self.seconds);
                Extent { rounds: self.rounds, seconds, warm_up: 5.0, known: 100_000, introducing: 20.0 }
            }
        }
    }

    /// Checks that the tables to write are complete.
    fn check(&self) -> Result<()> {
        let compared = self.loads.iter().find(|load| load.is_compared_with_many());
        match compared.filter(|_| self.write && !self.loads.contains(&Load::Many)) {
            Some(load) => {
                bail!("the table of {} has ratios to `many`: add it to --loads, or leave --write out", load.word())
            }
            None => Ok(()),
        }
    }
}

/// Runs the measurements, prints the results, and writes them if requested.
///
/// # Errors
/// If an implementation cannot be built or measured. The others are reported all the same.
fn run(project: &Project, options: &Options) -> Result<()> {
    options.check()?;
    let (machine, extent) = (Machine::this()?, options.extent());
    let mut setup = Setup::prepare(project)?;
    let mut left_out = Vec::new();
    let mut out = |what: String, error: &anyhow::Error| {
        let message = format!("{what} is left out: {error:#}");
        eprintln!("{message}");
        left_out.push(message);
    };
    let mut peers = Vec::new();
    for peer in Peer::ALL.into_iter().filter(|peer| is_chosen(&options.peers, peer)) {
        eprintln!("building {}", peer.name());
        match setup.build(peer) {
            Ok(()) => peers.push(peer),
            Err(error) => out(peer.name().to_owned(), &error),
        }
    }

    let versions = peers.iter().map(|&peer| Ok((peer, setup::version(project, peer)?))).collect::<Result<Vec<_>>>()?;
    let date = Command::new("date", ["-u", "+%F"]).unshown().output(project)?.trim().to_owned();
    let about = |rounds| About {
        machine: machine.clone(),
        date: date.clone(),
        extent: Extent { rounds, ..extent },
        versions: versions.clone(),
    };

    let loads: Vec<_> = Load::ALL.into_iter().filter(|load| is_chosen(&options.loads, load)).collect();
    let takes = |load| peers.iter().copied().filter(move |peer| peer.takes(load));
    let round: Vec<_> = loads.into_iter().flat_map(|load| takes(load).map(move |peer| (load, peer))).collect();
    let all = (0..extent.rounds).flat_map(|_| round.iter().map(|(load, _)| *load));
    let (mut progress, started) = (Progress::new(all, extent), Instant::now());
    let mut results = Results::default();
    let former = Page::read(PEERS.of(&project.read(DOCUMENT)?).context(DOCUMENT)?);
    for number in 1..=extent.rounds {
        for &(load, peer) in &round {
            let begun = Instant::now();
            eprint!("{}: {}, {} … ", progress.next(started.elapsed()), load.word(), peer.name());
            let sample = match load.destinations() {
                Some(_) => measure::client(&setup, peer, load, extent),
                None => measure::server(&setup, peer, load, extent),
            };
            match sample {
                Ok(sample) => {
                    eprintln!(
                        "{:.0} a second, {:.0} % of a core used by others, {:.0} s",
                        sample.per_s,
                        sample.foreign * 100.0,
                        begun.elapsed().as_secs_f64()
                    );
                    results.add(load, peer, sample);
                }
                Err(error) => out(format!("{} in round {number} of {}", peer.name(), load.word()), &error),
            }
        }
        // After an interruption, the completed rounds are in the document.
        if options.write {
            write(project, &table::page(&results, &about(number)).over(&former))?;
        }
    }

    let about = about(extent.rounds);
    let page = table::page(&results, &about);
    match options.json {
        true => println!("{}", table::json(&results, &about)?),
        false => print!("{page}"),
    }
    if options.write {
        page.over(&former).lost(&former).iter().for_each(|row| eprintln!("{DOCUMENT} no longer has {row}"));
    }
    if !left_out.is_empty() {
        bail!("{}", left_out.join("\n"));
    }
    Ok(())
}

fn write(project: &Project, page: &Page) -> Result<()> {
    let document = PEERS.replaced(&project.read(DOCUMENT)?, &format!("\n{page}\n")).context(DOCUMENT)?;
    fs::write(project.root.join(DOCUMENT), document).with_context(|| format!("cannot write {DOCUMENT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &str) -> Options {
        Line::parse_from(arguments.split(' ')).options
    }

    #[test]
    fn what_is_written_has_what_it_is_compared_with() {
        for accepted in ["x --write", "x --loads oscore", "x --write --loads many,oscore", "x --write --loads blocks"] {
            assert!(options(accepted).check().is_ok(), "{accepted}");
        }
        let error = options("x --write --loads blocks,dtls").check().expect_err("no ratios").to_string();
        assert!(error.contains("16 x 8, DTLS") && error.contains("`many`"), "{error}");
    }
}
