//! `conche relay UPSTREAM`: applies the loss and delay models of [`conche_netsim::wired`] to real
//! datagrams.
//!
//! ```text
//!   client <──UDP──> Relay: loss, delay ──UDP──> upstream
//! ```

mod forwarder;
mod impairment;

pub use conche_netsim::wired::Loss;
pub use forwarder::{Counts, Relay, RelayConfig, RelayObserver, RelayedDatagram};
pub use impairment::Impairment;

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use conche::Ecn;
use conche::watch::{EventLog, Fact, Notice, Recorder, Watcher};
use conche_lab::units::{Probability, Span};
use conche_netsim::wired::Distribution;
use serde::Serialize;
use tokio::time::Instant;

use crate::Global;
use crate::json;
use crate::recording::Recording;
use crate::runtime;
use crate::serve::{announce, parse_bind};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of the server.
    #[arg(value_name = "ADDR:PORT", value_parser = parse_bind)]
    upstream: String,
    /// Address for clients; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = parse_bind)]
    bind: String,
    /// Datagrams lost in each direction, as in 10%.
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = Probability::from_str)]
    loss: Probability,
    /// Delay in each direction, as in 100ms.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = Span::from_str)]
    delay: Span,
    /// Additional random delay, which reorders datagrams.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = Span::from_str)]
    jitter: Span,
    /// Seed of all random numbers.
    ///
    /// The same datagrams in the same order are lost and delayed alike.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    recording: Recording,
}

pub(crate) fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let jitter = match args.jitter.0 {
        Duration::ZERO => Distribution::Zero,
        most => Distribution::Uniform { low: Duration::ZERO, high: most },
    };
    let loss = if args.loss.0 > 0.0 { Loss::Bernoulli(args.loss.0) } else { Loss::None };
    let impairment = Impairment { loss, delay: args.delay.0, jitter, ..Impairment::default() };
    let config = RelayConfig { to_upstream: impairment, to_client: impairment, seed: args.seed };
    let records = args.recording.start(EventLog::network())?;
    let watch = records.recorders();
    let runtime = runtime::start()?;
    let outcome = runtime::run(&runtime, async {
        let stop = runtime::stop_signal(runtime::GRACE)?;
        let (bind, upstream) = (resolve(&args.bind).await?, resolve(&args.upstream).await?);
        let watch = Box::new(move |passage: &RelayedDatagram<'_>| {
            watch.iter().for_each(|recorder| record_passage(passage, recorder))
        });
        let relay = Relay::start_watched(bind, upstream, config, watch).await;
        let relay = relay.with_context(|| format!("{bind} cannot be listened on"))?;
        announce(format!("coap://{}", relay.local_addr()), global)?;
        stop.await;
        anyhow::Ok(relay.counts())
    });
    let counts = runtime::run(&runtime, records.finish(outcome))?;
    print_counts(counts, global)
}

fn record_passage(passage: &RelayedDatagram<'_>, recorder: &Recorder) {
    let &RelayedDatagram { socket, peer, received, datagram } = passage;
    let fact = match received {
        true => Fact::Received { multicast: false, ecn: Ecn::NotCapable },
        false => Fact::Sent { attempt: 0, exchange: None, ecn: Ecn::NotCapable },
    };
    recorder.notice(&Notice::new(Instant::now(), socket, peer, fact, datagram));
}

async fn resolve(name: &str) -> anyhow::Result<SocketAddr> {
    let found = tokio::net::lookup_host(name).await.with_context(|| format!("{name} cannot be resolved"))?.next();
    found.with_context(|| format!("{name} has no address"))
}

fn print_counts(counts: Counts, global: &Global) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Line {
        schema: u32,
        to_upstream: u64,
        lost_to_upstream: u64,
        to_client: u64,
        lost_to_client: u64,
    }
    let Counts { to_upstream, lost_to_upstream, to_client, lost_to_client } = counts;
    if global.json {
        let line = Line { schema: 1, to_upstream, lost_to_upstream, to_client, lost_to_client };
        json::print(&line)?;
    } else if !global.quiet {
        crate::show::note(format_args!(
            "forwarded {to_upstream} datagrams to the server and {to_client} to clients; lost {lost_to_upstream} and \
             {lost_to_client}"
        ));
    }
    Ok(())
}
