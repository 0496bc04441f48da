//! Runs cases, each with a tap or an emulated network between one client and one server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use conche_proto::codec::Message;

use crate::action::{self, Action};
use crate::case::{Case, NOTHING, Step};
use crate::emulation::{Emulation, Seen};
use crate::endpoint::{Client, ClientOutput, Peer, Protection, Server};
use crate::ladder::{self, Direction, Line};
use crate::mode::{Mode, Network};
use crate::setup::Setup;
use crate::tap::{Captured, Fates, Tap};

/// Default maximum duration of a step: the longest wait for three transmissions.
const STEP: Duration = Duration::from_secs(25);
/// Maximum duration of a preparing request.
const BEFORE: Duration = Duration::from_secs(10);
/// Messages in the description of a failure over an emulated network.
const LAST: usize = 30;

/// Started on demand, and again after a failed case.
pub struct Pair<'a> {
    client: (Peer, Option<Client>),
    server: (Peer, Option<Server>),
    mode: Mode,
    credentials: Option<PathBuf>,
    setup: &'a Setup,
    /// Of the latest case over an emulated network: from its first datagram to its last.
    span: Option<Duration>,
}

/// Between client and server.
enum Between<'a> {
    Tap(&'a Tap),
    /// An emulated network, with the server at this address. The datagrams are known at the end.
    Network(SocketAddr),
}

impl Between<'_> {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Tap(tap) => tap.address(),
            Self::Network(address) => *address,
        }
    }

    fn captured(&self) -> Vec<Captured> {
        match self {
            Self::Tap(tap) => tap.captured(),
            Self::Network(_) => Vec::new(),
        }
    }
}

impl<'a> Pair<'a> {
    /// A protected mode permits one such pair: it has the credentials for itself.
    pub fn new(client: Peer, server: Peer, mode: Mode, setup: &'a Setup) -> Self {
        Self { client: (client, None), server: (server, None), mode, credentials: None, setup, span: None }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn is_ours(&self) -> bool {
        self.client.0 == Peer::Conche && self.server.0 == Peer::Conche
    }

    /// Takes the span of the latest case over an emulated network.
    pub fn take_span(&mut self) -> Option<Duration> {
        self.span.take()
    }

    /// An error names the unmet expectation and lists the messages.
    pub fn run(&mut self, case: &Case) -> Result<()> {
        if let Some(network) = self.mode.network() {
            return self.run_over(network, case);
        }
        let outcome = self.try_run(case);
        if outcome.is_err() {
            (self.client.1, self.server.1, self.credentials) = (None, None, None);
        }
        if case.uses_up_the_client() {
            self.client.1 = None;
        }
        // The server would keep notifying clients behind a closed tap; aiocoap attributes the
        // errors to the next clients.
        if case.observes() {
            self.server.1 = None;
        }
        outcome
    }

    fn try_run(&mut self, case: &Case) -> Result<()> {
        let (setup, mode) = (self.setup, self.mode);
        let credentials = match &self.credentials {
            Some(credentials) => credentials.clone(),
            None if mode == Mode::Plain => PathBuf::new(),
            None => {
                let name = format!("{}-{:?}-{:?}", mode.name(), self.client.0, self.server.0);
                self.credentials.insert(setup.credentials(&name.to_lowercase())?).clone()
            }
        };
        let protection = Protection { mode, credentials: &credentials };
        let server = match &mut self.server {
            (_, Some(server)) => server,
            (peer, none) => none.insert(Server::start(*peer, protection, setup)?),
        };
        let client = match &mut self.client {
            (_, Some(client)) => client,
            (peer, none) => none.insert(Client::start(*peer, protection, setup)?),
        };
        let tap = Tap::open(server.address).context("cannot open a tap")?;
        while client.next_output(Duration::ZERO).is_some() {}
        for action in &case.before {
            let action = Action::parse(action, &BTreeMap::new())?;
            client.act(&action, tap.address())?;
            let until = Instant::now() + BEFORE;
            // Notifications of an earlier observation may still arrive.
            while !matches!(output_before(client, until)?, ClientOutput::Response(..)) {}
        }
        execute(case, client, &Between::Tap(&tap)).map_err(|error| {
            let transcript = mode.transcript(&tap.captured());
            anyhow!("{error:#}; what came by:\n{transcript}")
        })?;
        let irregularity = match mode.is_secured() {
            false => ladder::irregularity(&tap.everything(), &ladder_of(case)?),
            true => mode.exposed(&tap.everything()),
        };
        match irregularity {
            Some(irregularity) => bail!("{irregularity}"),
            None => Ok(()),
        }
    }
}

impl Pair<'_> {
    /// In an emulation of its own.
    fn run_over(&mut self, network: Network, case: &Case) -> Result<()> {
        let (client, server, mode) = (self.client.0, self.server.0, self.mode);
        let _slot = self.setup.slots.take();
        let name = format!("{}-{}-{client:?}-{server:?}", case.id, mode.name()).to_lowercase();
        let mut emulation = Emulation::start(client, server, mode, network, &name, self.setup)?;
        let outcome = execute(case, &mut emulation.client, &Between::Network(Emulation::server(network)));
        let seen = emulation.finish();
        let Seen { captured, span } = match (outcome, seen) {
            (Ok(()), seen) => seen?,
            (Err(error), Ok(Seen { captured, .. })) => {
                let last = &captured[captured.len().saturating_sub(LAST)..];
                bail!("{error:#}; what came by last:\n{}", mode.transcript(last));
            }
            (Err(error), Err(_)) => return Err(error),
        };
        self.span = Some(span);
        match ladder::irregularity(&captured, &ladder_of(case)?) {
            Some(irregularity) => bail!("{irregularity}"),
            None => Ok(()),
        }
    }
}

fn execute(case: &Case, client: &mut Client, between: &Between<'_>) -> Result<()> {
    let mut kept = BTreeMap::new();
    for (step, number) in case.steps.iter().zip(1..) {
        let outcome = execute_step(step, client, between, &mut kept);
        outcome.with_context(|| format!("step {number} ({})", step.action))?;
    }
    Ok(())
}

/// Returns the lines that any step expects or allows.
fn ladder_of(case: &Case) -> Result<Vec<Line>> {
    let of_steps = case.steps.iter().map(|step| lines(&[&step.see[..], &step.may[..]].concat()));
    Ok(of_steps.collect::<Result<Vec<_>>>()?.concat())
}

fn lines(lines: &[String]) -> Result<Vec<Line>> {
    lines.iter().map(|line| Line::parse(line)).collect()
}

fn fates(step: &Step, kept: &BTreeMap<String, Vec<u8>>) -> Result<Fates> {
    let add = step.add.iter().map(|(line, option)| {
        let (number, value) = action::option(option, kept)?;
        Ok((Line::parse(line)?, number, value))
    });
    Ok(Fates { lose: lines(&step.lose)?, add: add.collect::<Result<_>>()? })
}

fn output_before(client: &Client, until: Instant) -> Result<ClientOutput> {
    let left = until.saturating_duration_since(Instant::now());
    client.next_output(left).context("what prepares the case is not answered")
}

fn execute_step(
    step: &Step,
    client: &mut Client,
    between: &Between<'_>,
    kept: &mut BTreeMap<String, Vec<u8>>,
) -> Result<()> {
    let (see, unseen) = (lines(&step.see)?, lines(&step.unseen)?);
    let action = Action::parse(&step.action, kept)?;
    // Discards output of the previous step.
    while client.next_output(Duration::ZERO).is_some() {}
    if let Between::Tap(tap) = between {
        tap.begin(fates(step, kept)?);
    }
    let until = Instant::now() + step.within.map_or(STEP, Duration::from_secs_f64);
    client.act(&action, between.address())?;

    let expects_nothing = step.told.as_deref() == Some(NOTHING);
    let answers = (matches!(action, Action::Request(_) | Action::Ping) || step.told.is_some()) && !expects_nothing;
    listen(step, answers, client, until)?;
    let is_seen = |captured: &[Captured]| ladder::missing(&see, captured).is_none();
    let has_come = match between {
        Between::Tap(tap) => tap.wait(until, is_seen),
        Between::Network(_) => is_seen(&[]),
    };
    if !has_come {
        let captured = between.captured();
        let line = ladder::missing(&see, &captured).map(Line::to_string).unwrap_or_default();
        bail!("not seen: {line}");
    }
    if step.quiet > 0.0 {
        std::thread::sleep(Duration::from_secs_f64(step.quiet));
    }
    // The client may report a failure.
    let output = client
        .next_output(Duration::ZERO)
        .filter(|output| expects_nothing && !matches!(output, ClientOutput::Failure(_)));
    if let Some(output) = output {
        bail!("the client tells of {output:?}, though it must not tell of any response");
    }
    let captured = between.captured();
    for line in &unseen {
        if ladder::missing(std::slice::from_ref(line), &captured).is_none() {
            bail!("seen, though it must not be: {line}");
        }
    }
    for (name, option) in &step.keep {
        let number = action::number(option).with_context(|| format!("there is no option {option}"))?;
        let of_server = captured.iter().rev().filter(|captured| captured.direction == Direction::ToClient);
        let mut values = of_server.filter_map(|captured| Message::decode(&captured.bytes).ok()?.option(number));
        let value = values.next().with_context(|| format!("the server sends no {option}"))?;
        kept.insert(name.clone(), value.to_vec());
    }
    Ok(())
}

fn listen(step: &Step, answers: bool, client: &Client, until: Instant) -> Result<()> {
    let (mut answered, mut notified) = (!answers, 0);
    while !answered || notified < step.notified {
        let left = until.saturating_duration_since(Instant::now());
        match client.next_output(left) {
            None if answered => bail!("the client tells of {notified} notifications, not of {}", step.notified),
            None => bail!("the client tells of no response"),
            Some(ClientOutput::Notification(..)) => notified += 1,
            Some(output) if !answered => {
                check(&output, step.told.as_deref())?;
                answered = true;
            }
            // The end of an earlier request, such as an observation.
            Some(_) => {}
        }
    }
    Ok(())
}

fn check(output: &ClientOutput, wanted: Option<&str>) -> Result<()> {
    let (code, payload) = match output {
        ClientOutput::Response(code, payload) | ClientOutput::Notification(code, payload) => {
            (code.as_str(), payload.as_slice())
        }
        ClientOutput::Failure(_) if wanted == Some("failed") => return Ok(()),
        ClientOutput::Failure(why) => bail!("the client fails: {why}"),
    };
    let Some(wanted) = wanted else { return Ok(()) };
    let (wanted_code, wanted_payload) =
        wanted.split_once(' ').map_or((wanted, None), |(code, text)| (code, Some(text)));
    if !wanted_code.split('|').any(|wanted| wanted == code) {
        bail!("the client is answered {code}, not {wanted_code}");
    }
    let Some(text) = wanted_payload else { return Ok(()) };
    let wanted = action::body(text).unwrap_or_else(|| text.as_bytes().to_vec());
    if payload != wanted {
        let shown = String::from_utf8_lossy(payload.get(..60).unwrap_or(payload)).into_owned();
        bail!("the client tells of {} bytes of payload, {shown:?}, not of {text:?}", payload.len());
    }
    Ok(())
}
