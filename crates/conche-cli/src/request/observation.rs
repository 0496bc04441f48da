//! Observes a resource (RFC 7641): shows its states until a limit is reached.

use std::pin::pin;
use std::time::Duration;

use conche::client::{Observation, RequestBuilder, Response};
use conche::{Client, SubscriptionEnd};
use tokio::time::{sleep, timeout};

use super::{Output, Progress, report_progress};
use crate::Global;
use crate::error::Interrupted;
use crate::runtime;

/// How a server learns that it is over (RFC 7641 §3.6).
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum Cancel {
    /// By a GET with Observe 1.
    #[default]
    Get,
    /// By a Reset of its next notification.
    Rst,
}

impl Cancel {
    /// Maximum duration of the cancellation.
    fn timeout(self) -> Duration {
        match self {
            Self::Get => DEREGISTRATION_TIMEOUT,
            Self::Rst => NEXT_NOTIFICATION,
        }
    }
}

/// When to stop observing, and how to cancel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    pub seconds: Option<Duration>,
    pub count: Option<u64>,
    pub cancel: Cancel,
}

enum End {
    Enough,
    Stream,
    Interrupt,
}

/// Maximum wait for the response to the deregistration.
const DEREGISTRATION_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum wait for the next notification, to reject it: the freshness of a state without Max-Age
/// (RFC 7252 §5.10.5).
const NEXT_NOTIFICATION: Duration = Duration::from_secs(60);

/// Polling interval for the rejection.
const REJECTION_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Shows states until a limit is reached, and then deregisters.
pub async fn observe(
    client: &Client,
    request: RequestBuilder,
    until: Until,
    asked: Option<Duration>,
    (global, progress): (&Global, &Progress),
    output: &Output<'_>,
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
        let (mut over, mut silence) = (pin!(over), pin!(report_progress(progress, asked, global)));
        let mut stop = pin!(runtime::stop_signal(until.cancel.timeout() + runtime::GRACE)?);
        loop {
            tokio::select! {
                state = observation.next() => match state {
                    Some(state) => show(state?, states, global, output)?,
                    None => break End::Stream,
                },
                () = &mut over => break End::Enough,
                () = &mut stop => break End::Interrupt,
                never = &mut silence, if states == 0 && global.shows_progress() => match never {},
            }
            states += 1;
            if Some(states) == until.count {
                break End::Enough;
            }
        }
    };
    conclude(client, end, observation, states, (until, global)).await
}

fn show(state: Response, before: u64, global: &Global, output: &Output<'_>) -> anyhow::Result<()> {
    output.response(state, before == 0, true, global)
}

async fn conclude(
    client: &Client,
    end: End,
    observation: Observation,
    states: u64,
    (until, global): (Until, &Global),
) -> anyhow::Result<()> {
    if let End::Stream = end {
        return match observation.end() {
            Some(SubscriptionEnd::NotObserved) => {
                Err(anyhow::anyhow!("the server answers, but does not let this be observed"))
            }
            Some(end @ SubscriptionEnd::Cancelled) => Err(anyhow::anyhow!("the observation ended: {end}")),
            // The error has been shown already.
            _ => Ok(()),
        };
    }
    match until.cancel {
        // A server that misses the deregistration learns of it at its next notification.
        Cancel::Get => drop(timeout(DEREGISTRATION_TIMEOUT, observation.cancel()).await),
        Cancel::Rst => reject_next(client, observation, global).await?,
    }
    match end {
        // Without a limit, Ctrl-C is the regular end.
        End::Interrupt if states == 0 || until.seconds.is_some() || until.count.is_some() => Err(Interrupted.into()),
        _ => Ok(()),
    }
}

/// Forgets an observation, and keeps the client alive until it has rejected a notification with a
/// Reset, or until the wait ends.
async fn reject_next(client: &Client, observation: Observation, global: &Global) -> anyhow::Result<()> {
    let before = client.stats().await.resets_sent;
    observation.forget();
    let rejected = async {
        while client.stats().await.resets_sent == before {
            sleep(REJECTION_POLL_INTERVAL).await;
        }
    };
    let stop = runtime::stop_signal(runtime::GRACE)?;
    tokio::select! {
        rejected = timeout(NEXT_NOTIFICATION, rejected) => {
            if rejected.is_err() && !global.quiet {
                crate::show::note(format_args!("no notification came that could be rejected: the server learns of the end when it notifies next"));
            }
        }
        () = stop => {}
    }
    Ok(())
}
