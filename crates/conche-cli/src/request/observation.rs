//! `conche observe URI`: observes a resource (RFC 7641) until a limit is reached.

use std::pin::pin;
use std::time::Duration;

use conche::client::{Observation, RequestBuilder};
use conche::{Client, Code, SubscriptionEnd};
use tokio::time::{sleep, timeout};

use super::progress::Limit;
use super::{Output, Progress, report_progress};
use crate::Global;
use crate::error::Interrupted;
use crate::flags::{Count, parse_time};
use crate::runtime;

#[derive(Debug, clap::Args)]
// `super::Args` already defines a group of this name.
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    request: super::Args,
    #[command(flatten)]
    until: Until,
}

/// When to stop observing, and how to cancel.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Until {
    /// Stop after this time; by default at Ctrl-C.
    #[arg(short = 's', long = "for", value_name = "TIME", value_parser = parse_time, allow_negative_numbers = true, help_heading = None::<&str>)]
    pub seconds: Option<Duration>,
    #[command(flatten)]
    pub count: Count,
    /// How to cancel.
    #[arg(long, value_enum, default_value_t, help_heading = None::<&str>)]
    pub cancel: Cancel,
}

/// How to cancel an observation (RFC 7641 §3.6).
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum Cancel {
    /// Deregister at once, by a GET with Observe 1.
    #[default]
    Get,
    /// Reject the next notification by a Reset, within a minute.
    Rst,
}

impl Cancel {
    fn timeout(self) -> Duration {
        match self {
            Self::Get => DEREGISTRATION_TIMEOUT,
            Self::Rst => NEXT_NOTIFICATION,
        }
    }
}

const DEREGISTRATION_TIMEOUT: Duration = Duration::from_secs(2);

/// The freshness of a state without Max-Age (RFC 7252 §5.10.5).
const NEXT_NOTIFICATION: Duration = Duration::from_secs(60);

const REJECTION_POLL_INTERVAL: Duration = Duration::from_millis(20);

pub fn run(args: Args, global: &Global, progress: &Progress) -> anyhow::Result<()> {
    super::run(Code::GET, args.request, Some(args.until), global, progress)
}

enum End {
    LimitReached,
    StreamEnded,
    Interrupted,
}

pub struct Observer<'a> {
    pub client: &'a Client,
    pub until: Until,
    pub limit: Limit,
    pub progress: &'a Progress,
    pub output: &'a Output<'a>,
    pub global: &'a Global,
}

impl Observer<'_> {
    pub async fn observe(&self, request: RequestBuilder) -> anyhow::Result<()> {
        let Self { until, global, .. } = self;
        let mut observation = request.observe().retry_unavailable(false);
        let mut states = 0;
        let end = {
            let over = async {
                match until.seconds {
                    Some(seconds) => sleep(seconds).await,
                    None => std::future::pending().await,
                }
            };
            let (mut over, mut silence) = (pin!(over), pin!(report_progress(self.progress, self.limit, global)));
            let mut stop = pin!(runtime::stop_signal(until.cancel.timeout() + runtime::GRACE)?);
            loop {
                tokio::select! {
                    state = observation.next() => match state {
                        Some(state) => self.output.response(state?, states == 0, true, global)?,
                        None => break End::StreamEnded,
                    },
                    () = &mut over => break End::LimitReached,
                    () = &mut stop => break End::Interrupted,
                    never = &mut silence, if states == 0 && global.shows_progress() => match never {},
                }
                states += 1;
                if Some(states) == until.count.count {
                    break End::LimitReached;
                }
            }
        };
        self.conclude(end, observation, states).await
    }

    async fn conclude(&self, end: End, observation: Observation, states: u64) -> anyhow::Result<()> {
        let Until { seconds, count, cancel } = self.until;
        if let End::StreamEnded = end {
            return match observation.end() {
                Some(SubscriptionEnd::NotObserved) => {
                    Err(anyhow::anyhow!("the server answers, but does not let this be observed"))
                }
                Some(end @ SubscriptionEnd::Cancelled) => Err(anyhow::anyhow!("the observation ended: {end}")),
                // The error has been shown already.
                _ => Ok(()),
            };
        }
        match cancel {
            // A server that misses it learns of it at its next notification.
            Cancel::Get => drop(timeout(DEREGISTRATION_TIMEOUT, observation.cancel()).await),
            Cancel::Rst => self.reject_next(observation).await?,
        }
        match end {
            // Without a limit, Ctrl-C is the regular end.
            End::Interrupted if states == 0 || seconds.is_some() || count.count.is_some() => {
                Err(Interrupted::default().into())
            }
            _ => Ok(()),
        }
    }

    /// Keeps the client alive until it has rejected a notification with a Reset, or the wait ends.
    async fn reject_next(&self, observation: Observation) -> anyhow::Result<()> {
        let before = self.client.stats().await.resets_sent;
        observation.forget();
        let rejected = async {
            while self.client.stats().await.resets_sent == before {
                sleep(REJECTION_POLL_INTERVAL).await;
            }
        };
        let stop = runtime::stop_signal(runtime::GRACE)?;
        tokio::select! {
            rejected = timeout(NEXT_NOTIFICATION, rejected) => {
                if rejected.is_err() && !self.global.quiet {
                    crate::show::note(format_args!("no notification to reject arrived: the server removes the observation at its next one"));
                }
            }
            () = stop => {}
        }
        Ok(())
    }
}
