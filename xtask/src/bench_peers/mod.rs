//! `cargo xtask bench-peers`: how fast conche and other implementations serve and ask on this machine, one beside the other.
//!
//! | module | what it holds |
//! |---|---|
//! | [`peer`] | who is measured |
//! | [`load`] | how they are loaded |
//! | [`setup`] | what must be installed and built |
//! | [`machine`] | what the machine is, and what processes use of it |
//! | [`measure`] | one measurement |
//! | [`sample`] | what one measurement gave |
//! | [`results`] | medians, ratios and doubts |
//! | [`table`] | terminal, JSON, docs/performance.md |

mod load;
mod machine;
mod measure;
mod peer;
mod results;
mod sample;
mod setup;
mod table;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::block::PEERS;
use crate::ci::command::Command;
use crate::project::Project;
use load::Load;
use machine::Machine;
use measure::Extent;
use peer::Peer;
use results::Results;
use setup::Setup;
use table::About;

/// Where the tables are kept.
const DOCUMENT: &str = "docs/performance.md";

/// What to measure, and what to do with the results.
#[derive(clap::Args)]
pub struct Options {
    /// Measure these only, by commas; all by default.
    #[arg(long, value_name = "PEER", value_delimiter = ',', value_enum)]
    peers: Vec<Peer>,
    /// Load them so only, by commas. What `known` is compared with is `many`.
    #[arg(long, value_name = "LOAD", value_delimiter = ',', value_enum, conflicts_with = "write")]
    loads: Vec<Load>,
    /// How often each measurement is made; the medians are told.
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
    /// Put the tables into docs/performance.md, after each round.
    #[arg(long)]
    write: bool,
}

/// It is one of these, or nothing was said.
fn is_chosen<T: PartialEq>(chosen: &[T], one: &T) -> bool {
    chosen.is_empty() || chosen.contains(one)
}

impl Options {
    fn extent(&self) -> Extent {
        match self.quick {
            true => Extent { rounds: 1, seconds: 2.0, warm_up: 0.5, known: 2000 },
            false => Extent { rounds: self.rounds, seconds: f64::from(self.seconds), warm_up: 5.0, known: 100_000 },
        }
    }
}

/// Measures, tells, and writes if that is asked for.
///
/// # Errors
/// If one that was asked for could not be built or measured. All others are told nevertheless.
pub fn run(project: &Project, options: &Options) -> Result<()> {
    let (machine, extent) = (Machine::this()?, options.extent());
    let mut setup = Setup::prepare(project)?;
    let mut left_out = Vec::new();
    let mut out = |what: String, error: &anyhow::Error| {
        let told = format!("{what} is left out: {error:#}");
        eprintln!("{told}");
        left_out.push(told);
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

    let mut results = Results::default();
    for round in 1..=extent.rounds {
        for load in Load::ALL.into_iter().filter(|load| is_chosen(&options.loads, load)) {
            for &peer in peers.iter().filter(|peer| peer.takes(load)) {
                eprint!("round {round} of {}: {}, {} … ", extent.rounds, load.word(), peer.name());
                let sample = match load.destinations() {
                    Some(_) => measure::client(&setup, peer, load, extent),
                    None => measure::server(&setup, peer, load, extent),
                };
                match sample {
                    Ok(sample) => {
                        eprintln!(
                            "{:.0} a second, {:.0} % of a core used by others",
                            sample.per_s,
                            sample.foreign * 100.0
                        );
                        results.add(load, peer, sample);
                    }
                    Err(error) => out(format!("{} in round {round} of {}", peer.name(), load.word()), &error),
                }
            }
        }
        // A round takes a quarter of an hour with all of them: what is interrupted later has at least those before.
        if options.write {
            write(project, &table::text(&results, &about(round)))?;
        }
    }

    let about = about(extent.rounds);
    match options.json {
        true => println!("{}", table::json(&results, &about)?),
        false => print!("{}", table::text(&results, &about)),
    }
    if !left_out.is_empty() {
        bail!("{}", left_out.join("\n"));
    }
    Ok(())
}

/// Puts the tables into their place in the document.
fn write(project: &Project, tables: &str) -> Result<()> {
    let page = PEERS.replaced(&project.read(DOCUMENT)?, &format!("\n{tables}")).context(DOCUMENT)?;
    fs::write(project.root.join(DOCUMENT), page).with_context(|| format!("cannot write {DOCUMENT}"))
}
