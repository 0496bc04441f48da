//! `cargo xtask bench-peers`: compares the speed of conche and other implementations.

mod credentials;
mod load;
mod machine;
mod measure;
mod memory;
mod page;
mod peer;
mod results;
mod server;
mod setup;
mod table;

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

use load::Load;
use measure::Extent;
use page::Page;
use peer::Peer;
use results::Results;
use setup::Setup;
use table::About;
use tool_support::block::PEERS;
use tool_support::{Command, Project};

const DOCUMENT: &str = "docs/performance.md";

fn main() -> ExitCode {
    tool_support::exit_code(Project::find().and_then(|project| run(&project, &Options::parse())))
}

/// Compare the speed of conche and other implementations on this machine, as servers and clients.
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench-peers", version)]
struct Options {
    /// Peers to measure, separated by commas; all by default.
    #[arg(long, value_name = "PEER", value_delimiter = ',', value_enum)]
    peers: Vec<Peer>,
    /// Loads to measure, separated by commas; all by default. `known`, `dtls` and `oscore` are
    /// compared with `many`.
    #[arg(long, value_name = "LOAD", value_delimiter = ',', value_enum)]
    loads: Vec<Load>,
    /// Repetitions of each measurement; the tables show medians. One round of all takes
    /// over twenty minutes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Duration of each measurement in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Measure one round, 2 s each, with 2000 known peers instead of 100 000.
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "write"])]
    quick: bool,
    /// Print JSON: an object with "schema", "about" and "rows".
    #[arg(long)]
    json: bool,
    /// Write the tables into docs/performance.md after each round. Tables of other loads stay, with
    /// their date. A measured table has the measured peers only; rows that it loses are listed.
    #[arg(long)]
    write: bool,
}

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

    /// Tables to write must be complete.
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

/// Fails in the end if an implementation could not be built or measured.
fn run(project: &Project, options: &Options) -> Result<()> {
    options.check()?;
    let (machine, extent) = (machine::this()?, options.extent());
    let mut setup = Setup::prepare(project)?;
    let mut left_out = Vec::new();
    let mut out = |what: String, error: &anyhow::Error| {
        let message = format!("{what} is left out: {error:#}");
        eprintln!("{message}");
        left_out.push(message);
    };
    let mut peers = Vec::new();
    for peer in Peer::value_variants().iter().copied().filter(|peer| is_chosen(&options.peers, peer)) {
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

    let loads: Vec<_> = Load::value_variants().iter().copied().filter(|load| is_chosen(&options.loads, load)).collect();
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
        // An interruption loses no completed round.
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

/// Overhead of a measurement: start, end, and requests in flight.
const AROUND_S: f64 = 2.0;

const SESSIONS_S: f64 = 7.0;

/// Measurements in order, with their expected durations in seconds.
struct Progress {
    expected: Vec<f64>,
    done: usize,
}

impl Progress {
    fn new(loads: impl IntoIterator<Item = Load>, extent: Extent) -> Self {
        let expected = loads.into_iter().map(|load| {
            let extra = match load {
                // The maximum: most servers are faster.
                Load::Known => extent.introducing,
                Load::Handshakes => SESSIONS_S,
                _ => 0.0,
            };
            extent.warm_up + extent.seconds + AROUND_S + extra
        });
        Self { expected: expected.collect(), done: 0 }
    }

    /// `elapsed` is since the first. Returns the number and the remaining time.
    fn next(&mut self, elapsed: Duration) -> String {
        let (done, left) = self.expected.split_at(self.done.min(self.expected.len()));
        let (was_expected, left): (f64, f64) = (done.iter().sum(), left.iter().sum());
        // Completed measurements calibrate the expectation.
        let pace = if was_expected > 0.0 { elapsed.as_secs_f64() / was_expected } else { 1.0 };
        self.done += 1;
        format!("{} of {}, {:.0} min to go", self.done, self.expected.len(), (left * pace / 60.0).ceil())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &str) -> Options {
        Options::parse_from(arguments.split(' '))
    }

    #[test]
    fn writing_a_load_requires_the_load_it_is_compared_with() {
        for accepted in ["x --write", "x --loads oscore", "x --write --loads many,oscore", "x --write --loads blocks"] {
            assert!(options(accepted).check().is_ok(), "{accepted}");
        }
        let error = options("x --write --loads blocks,dtls").check().expect_err("no ratios").to_string();
        assert!(error.contains("16 x 8, DTLS") && error.contains("`many`"), "{error}");
    }

    #[test]
    fn the_remaining_time_follows_the_pace_so_far() {
        let extent = Extent { rounds: 1, seconds: 10.0, warm_up: 5.0, known: 100_000, introducing: 20.0 };
        let mut progress = Progress::new([Load::Many, Load::Wide, Load::Known], extent);
        assert_eq!(progress.next(Duration::ZERO), "1 of 3, 2 min to go");
        assert_eq!(progress.next(Duration::from_secs(17)), "2 of 3, 1 min to go");
        assert_eq!(progress.next(Duration::from_secs(340)), "3 of 3, 7 min to go");
    }
}
