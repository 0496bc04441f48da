//! `conche observe URI`, and `conche get -s SECS URI`: a resource's state, and each change of it (RFC 7641).

use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use conche::client::{Observation, RequestBuilder, Response};
use conche::{Code, SubscriptionEnd};
use tokio::time::{sleep, timeout};

use crate::Global;
use crate::exit::Interrupted;
use crate::request::{self, Progress, Shown, parse_seconds, tell_progress};

#[derive(Debug, clap::Args)]
// The request's arguments are a group of this name, too.
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    request: request::Args,
    /// Stop after so many seconds; without it, with Ctrl-C.
    #[arg(short = 's', long = "for", value_name = "SECS", value_parser = parse_seconds, allow_negative_numbers = true)]
    seconds: Option<Duration>,
    /// Stop after so many states, the first one included.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

/// How long to go on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    pub seconds: Option<Duration>,
    pub count: Option<u64>,
}

/// What ends it.
enum End {
    Enough,
    Stream,
    Interrupt,
}

/// How long the server's answer to the deregistration is waited for.
const FAREWELL: Duration = Duration::from_secs(2);

pub fn run(args: Args, global: &Global, progress: &Progress) -> anyhow::Result<()> {
    let Args { request, seconds, count } = args;
    request::run(Code::GET, request, Some(Until { seconds, count }), global, progress)
}

/// Shows states until it is enough, and then tells the server.
pub async fn observe(
    request: RequestBuilder,
    until: Until,
    asked: Option<Duration>,
    (global, progress): (&Global, &Progress),
    shown: &Shown<'_>,
) -> anyhow::Result<()> {
    let mut observation = request.observe();
    let mut states = 0;
    let end = {
        let over = async {
            match until.seconds {
                Some(seconds) => sleep(seconds).await,
                None => std::future::pending().await,
            }
        };
        let (mut over, mut silence) = (pin!(over), pin!(tell_progress(progress, asked, global)));
        loop {
            tokio::select! {
                state = observation.next() => match state {
                    Some(state) => show(state?, states, global, shown)?,
                    None => break End::Stream,
                },
                () = &mut over => break End::Enough,
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted.context("Ctrl-C cannot be caught")?;
                    break End::Interrupt;
                }
                never = &mut silence, if states == 0 && global.tells_progress() => match never {},
            }
            states += 1;
            if Some(states) == until.count {
                break End::Enough;
            }
        }
    };
    conclude(end, observation, states, until).await
}

fn show(state: Response, before: u64, global: &Global, shown: &Shown<'_>) -> anyhow::Result<()> {
    shown.response(state, before == 0, true, global)
}

async fn conclude(end: End, observation: Observation, states: u64, until: Until) -> anyhow::Result<()> {
    if let End::Stream = end {
        return match observation.end() {
            Some(SubscriptionEnd::NotObserved) => {
                Err(anyhow::anyhow!("the server answers, but does not let this be observed"))
            }
            Some(end @ SubscriptionEnd::Cancelled) => Err(anyhow::anyhow!("the observation ended: {end}")),
            // An error was shown as one.
            _ => Ok(()),
        };
    }
    // A server that does not hear of it learns when it notifies next.
    let _ = timeout(FAREWELL, observation.cancel()).await;
    match end {
        // Without a limit that is how it is meant to end.
        End::Interrupt if states == 0 || until.seconds.is_some() || until.count.is_some() => Err(Interrupted.into()),
        _ => Ok(()),
    }
}
