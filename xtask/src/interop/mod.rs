//! `cargo xtask interop`: the ETSI and IRISA test cases against libcoap, aiocoap and Californium, in both roles.
//!
//! | module | what it holds |
//! |---|---|
//! | [`action`] | what a client is told to do |
//! | [`ladder`] | what must be seen on the wire |
//! | [`case`] | the cases and exceptions, read from `interop/` |
//! | [`tap`] | the relay that sees, and loses, datagrams |
//! | [`party`] | clients and servers, ours and the peers' |
//! | [`setup`] | what must be installed and built |
//! | [`mod@run`] | the engine: takes a case's steps |
//! | [`report`] | terminal, JSON, docs/interop.md |

mod action;
mod case;
mod ladder;
mod party;
mod report;
mod run;
mod setup;
mod tap;

use std::cmp::Reverse;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::project::Project;
use case::{Case, Excepted, Exception};
use party::{Peer, Role};
use report::{Column, Outcome};
use run::Pair;
use setup::Setup;

/// Where the results are kept.
const DOCUMENT: &str = "docs/interop.md";

/// Cases that are under way at a time in each column.
const LANES: usize = 4;

/// Why a case is not run against others.
const TAKES_LONG: &str = "It takes minutes or days, which only pass in virtual time, with us in both roles.";

/// What to run, and what to do with the results.
#[derive(clap::Args, Default)]
pub struct Options {
    /// Print JSON: an object with "schema" and "rows".
    #[arg(long)]
    json: bool,
    /// Leave docs/interop.md alone; fail if it is not what this run would write.
    #[arg(long, conflicts_with_all = ["case", "peer", "role", "between"])]
    check: bool,
    /// Run the cases whose ids begin so only, also those that are `not yet`.
    #[arg(long, value_name = "ID")]
    case: Option<String>,
    /// Run with this peer only.
    #[arg(long)]
    peer: Option<Peer>,
    /// Run with us in this role only.
    #[arg(long)]
    role: Option<Role>,
    /// Run a client and a server of these peers against each other, to tell whose a defect is.
    #[arg(long, value_names = ["CLIENT", "SERVER"], num_args = 2, conflicts_with_all = ["peer", "role"])]
    between: Vec<Peer>,
}

impl Options {
    /// Everything, compared with what is kept.
    pub fn check() -> Self {
        Self { check: true, ..Self::default() }
    }

    fn is_partial(&self) -> bool {
        self.case.is_some() || self.peer.is_some() || self.role.is_some()
    }
}

/// Runs the cases, prints the results, and writes or checks docs/interop.md.
pub fn run(project: &Project, options: &Options) -> Result<()> {
    let all = case::read(project)?;
    let exceptions = case::exceptions(project, &all)?;
    let chosen = |case: &Case| options.case.as_ref().is_none_or(|beginning| case.id.starts_with(beginning));
    let cases: Vec<_> = all.into_iter().filter(chosen).collect();
    if let [client, server] = options.between[..] {
        return between(project, client, server, &cases);
    }

    let peers: Vec<_> = Peer::ALL.into_iter().filter(|peer| options.peer.is_none_or(|only| only == *peer)).collect();
    let needed: Vec<_> = Peer::ALL.into_iter().filter(|peer| *peer == Peer::Conche || peers.contains(peer)).collect();
    let setup = Setup::prepare(project, &needed)?;
    // Against ourselves we have both roles at once.
    let pairs = Role::ALL.iter().flat_map(|&role| peers.iter().map(move |&peer| (peer, role)));
    let pairs = pairs.filter(|&(peer, role)| peer != Peer::Conche || role == Role::Server);
    let pairs: Vec<_> = pairs.filter(|(_, role)| options.role.is_none_or(|only| only == *role)).collect();
    let columns = thread::scope(|scope| {
        let column = |(peer, role)| {
            let (cases, exceptions, setup) = (&cases, &exceptions, &setup);
            scope.spawn(move || {
                let outcomes = outcomes(cases, exceptions, peer, role, setup, options)?;
                Ok(Column { peer, role, outcomes })
            })
        };
        let running: Vec<_> = pairs.into_iter().map(column).collect();
        let finished = running.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a run panicked"))?);
        finished.collect::<Result<Vec<_>>>()
    })?;

    if options.json {
        println!("{}", report::json(&cases, &columns)?);
    } else {
        print!("{}", report::text(&cases, &columns));
    }
    if !options.is_partial() {
        let document = report::markdown(&cases, &columns);
        if !options.check {
            fs::write(project.root.join(DOCUMENT), &document).with_context(|| format!("cannot write {DOCUMENT}"))?;
        } else if project.read(DOCUMENT)? != document {
            bail!("{DOCUMENT} is not what this run gives; `cargo xtask interop` writes it");
        }
    }
    let failed = columns.iter().flat_map(|column| &column.outcomes).filter(|outcome| outcome.name() == "FAIL").count();
    if failed > 0 {
        bail!("{failed} results are not as expected; they are told above");
    }
    Ok(())
}

/// All cases with one peer in one role of ours. Several are under way at a time, each between a client and a server of its
/// own: most of their time is spent in waiting.
fn outcomes(
    cases: &[Case],
    exceptions: &[Exception],
    peer: Peer,
    role: Role,
    setup: &Setup,
    options: &Options,
) -> Result<Vec<Outcome>> {
    let (client, server) = match role {
        Role::Client => (Peer::Conche, peer),
        Role::Server => (peer, Peer::Conche),
    };
    // What takes long begins first, so that nothing waits for it in the end.
    let mut order: Vec<_> = (0..cases.len()).collect();
    order.sort_by_key(|&at| Reverse(cases[at].patience()));
    let next = AtomicUsize::new(0);
    let lane = || {
        let (mut pair, mut done) = (Pair::new(client, server, setup), Vec::new());
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let case = &cases[at];
            // Against ourselves we are both.
            let covers = |exception: &&Exception| {
                let roles = Role::ALL.iter().filter(|&&ours| ours == role || peer == Peer::Conche);
                roles.into_iter().any(|&ours| exception.covers(&case.id, peer, ours))
            };
            let exception = exceptions.iter().find(covers);
            let outcome = outcome(case, exception, &mut pair, options.case.is_some());
            if let Outcome::Fail(why) = &outcome {
                eprintln!("{}, client {}, server {}: {why}", case.id, client.name(), server.name());
            }
            done.push((at, outcome));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let finished = lanes.into_iter().map(|lane| lane.join().map_err(|_| anyhow!("a run panicked")));
        finished.collect::<Result<Vec<_>>>()
    })?
    .concat();
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}

/// One case between the two of a pair, one of whom is us.
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
            Err(error) => Outcome::Fail(format!("it is not what interop/exceptions.toml says of it: {error:#}")),
        },
        _ => pair.run(case).map_or_else(|error| Outcome::Fail(format!("{error:#}")), |()| Outcome::Pass),
    }
}

/// Two peers against each other. What fails there is theirs, or the case's.
fn between(project: &Project, client: Peer, server: Peer, cases: &[Case]) -> Result<()> {
    let setup = Setup::prepare(project, &[client, server])?;
    let mut pair = Pair::new(client, server, &setup);
    for case in cases.iter().filter(|case| case.virtual_time.is_none()) {
        match pair.run(case) {
            Ok(()) => println!("{:<16} pass  {}", case.id, case.title),
            Err(error) => println!("{:<16} FAIL  {}\n    {error:#}", case.id, case.title),
        }
    }
    Ok(())
}
