//! `cargo xtask interop`: runs the ETSI and IRISA test cases against libcoap, aiocoap, Californium,
//! go-coap and node-coap, in both roles, and a few additional cases with DTLS and OSCORE.

mod action;
mod case;
mod emulation;
mod endpoint;
mod ladder;
mod mode;
mod report;
mod run;
mod setup;
mod tap;

use std::cmp::Reverse;
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, ValueEnum};

use case::{Case, Excepted, Exception};
use endpoint::{Peer, Role};
use mode::Mode;
use report::{Column, Outcome, Row, Table};
use run::Pair;
use setup::Setup;
use tool_support::block::INTEROPERATION;
use tool_support::machine::Machine;
use tool_support::{Command, Project};

const DOCUMENT: &str = "docs/interop.md";
const EMULATED_DOCUMENT: &str = "docs/implementations.md";

const LANES: usize = 4;

/// Concurrent protected cases: they wait little, and each mode has its own processes.
const SECURED_LANES: usize = 1;

const TAKES_LONG: &str = "The case takes minutes or days, so it runs in virtual time only, with conche in both roles.";

fn main() -> ExitCode {
    tool_support::exit_code(Project::find().and_then(|project| run(&project, &Options::parse())))
}

/// Run the ETSI and IRISA test cases against libcoap, aiocoap, Californium, go-coap and node-coap, and
/// write docs/interop.md.
#[derive(Parser)]
#[command(bin_name = "cargo xtask interop", version)]
struct Options {
    /// Print JSON: an object with "schema" and "rows".
    #[arg(long)]
    json: bool,
    /// Install the peers and compile their programs, if missing; run no case.
    #[arg(long, exclusive = true)]
    prepare: bool,
    /// Fail if this run differs from docs/interop.md, instead of writing it.
    #[arg(long, conflicts_with_all = ["case", "mode", "peer", "role", "between"])]
    check: bool,
    /// Run only cases with this ID prefix, also those that are `not yet`.
    #[arg(long, value_name = "ID")]
    case: Option<String>,
    /// Run this mode only.
    #[arg(long)]
    mode: Option<Mode>,
    /// Run against this peer only.
    #[arg(long)]
    peer: Option<Peer>,
    /// Run with conche in this role only.
    #[arg(long)]
    role: Option<Role>,
    /// Run the cases over emulated networks instead, and write their table into
    /// docs/implementations.md.
    #[arg(long, conflicts_with = "check")]
    emulated: bool,
    /// Emulations at a time.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Run a client and a server of these peers against each other, to locate a defect; without
    /// protection unless a mode is given.
    #[arg(long, value_names = ["CLIENT", "SERVER"], num_args = 2, conflicts_with_all = ["peer", "role"])]
    between: Vec<Peer>,
}

impl Options {
    fn is_partial(&self) -> bool {
        self.case.is_some() || self.mode.is_some() || self.peer.is_some() || self.role.is_some()
    }

    fn rows<'a>(&self, modes: &[Mode], cases: &'a [Case]) -> Vec<Row<'a>> {
        let modes = modes.iter().filter(|mode| self.mode.is_none_or(|only| only == **mode));
        let rows = modes.flat_map(|&mode| cases.iter().map(move |case| Row { mode, case }));
        rows.filter(|row| self.case.as_ref().is_none_or(|beginning| row.case.id.starts_with(beginning))).collect()
    }

    fn peers(&self, mode: Mode) -> Vec<Peer> {
        mode.peers().iter().copied().filter(|peer| self.peer.is_none_or(|only| only == *peer)).collect()
    }
}

fn prepare(project: &Project) -> Result<()> {
    let peers: Vec<_> = Peer::value_variants().iter().copied().filter(|peer| *peer != Peer::Conche).collect();
    Setup::prepare(project, &peers, 1).map(drop)
}

fn run(project: &Project, options: &Options) -> Result<()> {
    if options.prepare {
        return prepare(project);
    }
    let (plain, secured) = (case::read(project)?, case::secured(project)?);
    let emulated = case::emulated(project)?;
    let exceptions = case::exceptions(project, &[&plain[..], &secured[..], &emulated[..]].concat())?;
    let rows = match options.emulated {
        false => [options.rows(&[Mode::Plain], &plain), options.rows(&Mode::SECURED, &secured)],
        true => [options.rows(&Mode::EMULATED, &emulated), Vec::new()],
    };
    if rows.iter().all(Vec::is_empty) {
        bail!("no case is selected; anrw18, lossy and radio are modes of `--emulated`, the others of runs without it");
    }
    if let [client, server] = options.between[..] {
        let [plain, secured] = rows;
        let rows = if options.mode.is_none() || options.emulated { plain } else { [plain, secured].concat() };
        return between(project, client, server, rows);
    }

    let is_needed = |peer: Peer| {
        let mut modes = rows.iter().filter_map(|rows| rows.first());
        peer == Peer::Conche || modes.any(|row| options.peers(row.mode).contains(&peer))
    };
    let needed: Vec<_> = Peer::value_variants().iter().copied().filter(|peer| is_needed(*peer)).collect();
    let setup = Setup::prepare(project, &needed, options.jobs.into())?;
    // The slots for emulations limit them.
    let lanes = if options.emulated { rows[0].len() } else { LANES };
    let runs = rows.into_iter().zip([lanes, SECURED_LANES]).filter(|(rows, _)| !rows.is_empty());
    let runner = |lanes| Runner { exceptions: &exceptions, setup: &setup, options, lanes };
    let tables = runs.map(|(rows, lanes)| runner(lanes).table(rows)).collect::<Result<Vec<_>>>()?;

    if options.json {
        println!("{}", report::json(&tables)?);
    } else {
        print!("{}", report::text(&tables));
    }
    if options.emulated && !options.is_partial() {
        let page = project.read(EMULATED_DOCUMENT)?;
        let page = INTEROPERATION.replaced(&page, &report::emulated(&tables, &conditions(project, options)?));
        let page = page.context(EMULATED_DOCUMENT)?;
        fs::write(project.root.join(EMULATED_DOCUMENT), page)
            .with_context(|| format!("cannot write {EMULATED_DOCUMENT}"))?;
    } else if !options.is_partial() {
        let document = report::markdown(&tables);
        if !options.check {
            fs::write(project.root.join(DOCUMENT), &document).with_context(|| format!("cannot write {DOCUMENT}"))?;
        } else if project.read(DOCUMENT)? != document {
            bail!("{DOCUMENT} is not what this run gives; `cargo xtask interop` writes it");
        }
    }
    let outcomes = tables.iter().flat_map(|table| &table.columns).flat_map(|column| &column.outcomes);
    let failed = outcomes.filter(|outcome| outcome.name() == "FAIL").count();
    if failed > 0 {
        bail!("{failed} results are not as expected; they are told above");
    }
    Ok(())
}

fn conditions(project: &Project, options: &Options) -> Result<String> {
    let date = Command::new("date", ["-u", "+%F"]).unshown().output(project)?.trim().to_owned();
    Ok(format!("Run on {date} with {}, {} emulations at a time.", Machine::this()?, options.jobs))
}

#[derive(Clone, Copy)]
struct Runner<'a> {
    exceptions: &'a [Exception],
    setup: &'a Setup,
    options: &'a Options,
    lanes: usize,
}

impl Runner<'_> {
    fn table<'r>(&self, rows: Vec<Row<'r>>) -> Result<Table<'r>> {
        let options = self.options;
        let peers = rows.first().map(|row| options.peers(row.mode)).unwrap_or_default();
        // With conche as the peer, one pair covers both roles.
        let pairs = Role::value_variants().iter().flat_map(|&role| peers.iter().map(move |&peer| (peer, role)));
        let pairs = pairs.filter(|&(peer, role)| peer != Peer::Conche || role == Role::Server);
        let pairs: Vec<_> = pairs.filter(|(_, role)| options.role.is_none_or(|only| only == *role)).collect();
        let columns = thread::scope(|scope| {
            let column = |(peer, role)| {
                let rows = &rows;
                scope.spawn(move || {
                    let (outcomes, spans) = self.outcomes(rows, peer, role)?.into_iter().unzip();
                    Ok(Column { peer, role, outcomes, spans })
                })
            };
            let running: Vec<_> = pairs.into_iter().map(column).collect();
            let finished = running.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a run panicked"))?);
            finished.collect::<Result<Vec<_>>>()
        })?;
        Ok(Table { rows, columns })
    }

    /// Concurrently, as cases mostly wait.
    fn outcomes(&self, rows: &[Row<'_>], peer: Peer, role: Role) -> Result<Vec<(Outcome, Option<Duration>)>> {
        let Self { exceptions, setup, options, lanes } = *self;
        let (client, server) = match role {
            Role::Client => (Peer::Conche, peer),
            Role::Server => (peer, Peer::Conche),
        };
        // The longest cases begin first, so that none is left alone at the end.
        let mut order: Vec<_> = (0..rows.len()).collect();
        order.sort_by_key(|&at| Reverse(rows[at].case.patience()));
        let next = AtomicUsize::new(0);
        let lane = || {
            let (mut pair, mut done) = (Pair::new(client, server, Mode::Plain, setup), Vec::new());
            while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let Row { mode, case } = rows[at];
                if pair.mode() != mode {
                    pair = Pair::new(client, server, mode, setup);
                }
                // With conche as the peer, exceptions of both roles apply.
                let covers = |exception: &&Exception| {
                    let roles = Role::value_variants().iter().filter(|&&ours| ours == role || peer == Peer::Conche);
                    roles.into_iter().any(|&ours| exception.covers(&case.id, mode, peer, ours))
                };
                let exception = exceptions.iter().find(covers);
                let outcome = outcome(case, exception, &mut pair, options.case.is_some());
                if let Outcome::Fail(why) = &outcome {
                    let (id, mode) = (&case.id, mode.title());
                    eprintln!("{id}, {mode}, client {}, server {}: {why}", client.name(), server.name());
                }
                done.push((at, (outcome, pair.take_span())));
            }
            done
        };
        let mut done = thread::scope(|scope| {
            let running: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
            let finished = running.into_iter().map(|lane| lane.join().map_err(|_| anyhow!("a run panicked")));
            finished.collect::<Result<Vec<_>>>()
        })?
        .concat();
        done.sort_by_key(|(at, _)| *at);
        Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
    }
}

fn outcome(case: &Case, exception: Option<&Exception>, pair: &mut Pair<'_>, even_not_yet: bool) -> Outcome {
    if let Some(test) = &case.virtual_time {
        return match pair.is_ours() {
            true => Outcome::VirtualTime(format!("By `{test}`.")),
            false => Outcome::NotApplicable(TAKES_LONG.to_owned()),
        };
    }
    let note = exception.map(|exception| exception.note.clone()).unwrap_or_default();
    let instead = exception.and_then(|exception| exception.step.zip(exception.instead.as_ref()));
    match (exception.map(|exception| exception.result), instead) {
        (Some(Excepted::NotApplicable), _) => Outcome::NotApplicable(note),
        (Some(Excepted::NotYet), _) if !even_not_yet => Outcome::NotYet(note),
        (_, Some((step, instead))) => match case.with(step, instead).and_then(|differs| pair.run(&differs)) {
            Ok(()) => Outcome::PeerDiffers(note),
            Err(error) => Outcome::Fail(format!("it is not what tools/interop/exceptions.toml says of it: {error:#}")),
        },
        _ => pair.run(case).map_or_else(|error| Outcome::Fail(format!("{error:#}")), |()| Outcome::Pass),
    }
}

/// A failure is theirs, or the case's.
fn between(project: &Project, client: Peer, server: Peer, rows: Vec<Row<'_>>) -> Result<()> {
    let setup = Setup::prepare(project, &[client, server], 1)?;
    let mut pair = Pair::new(client, server, Mode::Plain, &setup);
    for Row { mode, case } in rows.into_iter().filter(|row| row.case.virtual_time.is_none()) {
        if pair.mode() != mode {
            pair = Pair::new(client, server, mode, &setup);
        }
        match pair.run(case) {
            Ok(()) => println!("{:<16} {:<12} pass  {}", case.id, mode.name(), case.title),
            Err(error) => println!("{:<16} {:<12} FAIL  {}\n    {error:#}", case.id, mode.name(), case.title),
        }
    }
    Ok(())
}
