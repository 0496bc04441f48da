//! `conche ping URI`: CoAP pings (RFC 7252 §4.3), reported as by ping(8).

mod statistics;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use conche::uri::Host;
use conche::watch::EventLog;
use conche::{Client, Course, Error, Uri};
use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::Global;
use crate::credentials::Asking;
use crate::error::{Interrupted, NoAnswer};
use crate::json;
use crate::names::Control;
use crate::recording::Recording;
use crate::request::parse_seconds;
use crate::runtime;
use statistics::Statistics;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// coap://HOST[:PORT]
    uri: String,
    /// Stop after so many pings; without it, with Ctrl-C.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Seconds from one ping to the next. The next one waits for the answer to the one before, or for its end.
    #[arg(short, long, value_name = "SECS", value_parser = parse_seconds, default_value = "1", allow_negative_numbers = true)]
    interval: Duration,
    /// Give a ping up after so many seconds, its retransmissions included.
    #[arg(short = 'W', long, value_name = "SECS", value_parser = parse_seconds, default_value = "10", allow_negative_numbers = true)]
    timeout: Duration,
    #[command(flatten)]
    credentials: Asking,
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    recording: Recording,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    one_host(&args.uri)?;
    let records = args.recording.start(EventLog::client())?;
    let runtime = runtime::start()?;
    let mut statistics = Statistics::default();
    let outcome = runtime::run(&runtime, async {
        let client = args.credentials.of(args.control.of(Client::builder()), &args.uri, global)?;
        let client = records.watch(client).build().map_err(Error::from)?;
        let stop = runtime::stop_signal(runtime::GRACE)?;
        let outcome = tokio::select! {
            done = ping(&client, &args, global, &mut statistics) => done,
            // Ctrl-C is the regular end, except during name resolution.
            () = stop => match client.stats().await.datagrams_sent {
                0 => Err(Interrupted.into()),
                _ => Ok(()),
            },
        };
        client.keep_paths().await;
        outcome
    });
    let finished = runtime::run(&runtime, records.finish(outcome));
    runtime::end(runtime);
    finished?;
    if global.json {
        json::print(&statistics.summary())?;
    } else {
        writeln!(io::stdout(), "\n--- {} ---\n{statistics}", args.uri)?;
    }
    if statistics.answered() > 0 { Ok(()) } else { Err(NoAnswer(args.uri).into()) }
}

/// Refuses a group address: members of a group answer no ping (RFC 7252 §4.3, §8.1).
fn one_host(uri: &str) -> Result<(), Error> {
    let uri: Uri = uri.parse()?;
    let address = match uri.host() {
        Host::Address(address) => *address,
        Host::Scoped { address, .. } => (*address).into(),
        _ => return Ok(()),
    };
    match address.to_canonical().is_multicast() {
        true => Err(Error::Group { peer: (address, uri.port()).into() }),
        false => Ok(()),
    }
}

async fn ping(client: &Client, args: &Args, global: &Global, statistics: &mut Statistics) -> anyhow::Result<()> {
    for number in 1..=args.count.unwrap_or(u64::MAX) {
        if number > 1 {
            sleep(args.interval.saturating_sub(statistics.since_last())).await;
        }
        statistics.start(Instant::now());
        let outcome = match timeout(args.timeout, client.ping(&args.uri)).await {
            Ok(Ok(course)) => Ok(course),
            Ok(Err(error @ (Error::Failed { .. } | Error::Send { .. }))) => Err(Lost::Failed(error)),
            // Such an error would repeat with every ping.
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => Err(Lost::Late(args.timeout)),
        };
        let answer = outcome.as_ref().ok().copied();
        statistics.end(answer);
        print_ping(number, outcome, global)?;
    }
    Ok(())
}

/// Why a ping has no answer.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Failed(Error),
    #[error("no answer within {0:?}")]
    Late(Duration),
}

fn print_ping(number: u64, outcome: Result<Course, Lost>, global: &Global) -> io::Result<()> {
    #[derive(Serialize)]
    struct Line {
        schema: u32,
        number: u64,
        rtt_ms: Option<f64>,
        transmissions: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
    if global.json {
        let answer = outcome.as_ref().ok();
        let line = Line {
            schema: 1,
            number,
            rtt_ms: answer.map(|course| course.elapsed.as_secs_f64() * 1e3),
            transmissions: answer.map(|course| course.transmissions),
            error: outcome.err().map(|lost| lost.to_string()),
        };
        return json::print(&line);
    }
    let mut out = io::stdout().lock();
    match outcome {
        Ok(course) => {
            let after = match course.transmissions {
                0 | 1 => String::new(),
                2 => ", after 1 retransmission".to_owned(),
                copies => format!(", after {} retransmissions", copies - 1),
            };
            writeln!(out, "{number}: {:.3} ms{after}", course.elapsed.as_secs_f64() * 1e3)?;
        }
        Err(error) => writeln!(out, "{number}: {error}")?,
    }
    out.flush()
}
