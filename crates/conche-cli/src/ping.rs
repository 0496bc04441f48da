//! `conche ping URI`: CoAP pings (RFC 7252 §4.3), reported like ping(8).

use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use conche::uri::Host;
use conche::watch::EventLog;
use conche::{Client, Error, ExchangeStats, Uri};
use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::Global;
use crate::credentials::ClientSecurity;
use crate::error::{Interrupted, NoAnswer};
use crate::flags::{Count, Endpoint, Timeout, parse_time};
use crate::json;
use crate::names::Control;
use crate::recording::Recording;
use crate::runtime;

#[derive(Debug, clap::Args)]
#[command(mut_arg("timeout", |timeout| timeout.help("Give up a ping after this time; 10 s by default")))]
// As for ping(8).
#[command(mut_arg("count", |count| count.visible_short_alias('c').help("Stop after this many; by default at Ctrl-C")))]
pub struct Args {
    /// coap://HOST[:PORT]
    uri: String,
    #[command(flatten)]
    count: Count,
    /// Time between pings.
    ///
    /// A ping is sent after the previous one has ended.
    #[arg(short, long, value_name = "TIME", value_parser = parse_time, default_value = "1", allow_negative_numbers = true)]
    interval: Duration,
    #[command(flatten)]
    timeout: Timeout,
    #[command(flatten)]
    endpoint: Endpoint,
    #[command(flatten)]
    credentials: ClientSecurity,
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    recording: Recording,
}

const TIMEOUT: Duration = Duration::from_secs(10);

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    one_host(&args.uri)?;
    args.endpoint.check_destination(&args.uri)?;
    let records = args.recording.start(EventLog::client())?;
    let runtime = runtime::start()?;
    let mut statistics = Statistics::default();
    let outcome = runtime::run(&runtime, async {
        let client = args.credentials.of(args.control.of(Client::builder()), &args.uri, global)?;
        let client = records.watch(args.endpoint.of(client)).build().map_err(Error::from)?;
        let stop = runtime::stop_signal(runtime::GRACE)?;
        let outcome = tokio::select! {
            done = ping(&client, &args, global, &mut statistics) => done,
            // Ctrl-C is the regular end.
            () = stop => match client.stats().await.datagrams_sent {
                0 => Err(Interrupted::default().into()),
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

/// Group members do not answer pings (RFC 7252 §4.3, §8.1).
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
    let limit = args.timeout.timeout.unwrap_or(TIMEOUT);
    for number in 1..=args.count.count.unwrap_or(u64::MAX) {
        if number > 1 {
            sleep(args.interval.saturating_sub(statistics.since_last())).await;
        }
        statistics.start(Instant::now());
        let outcome = match timeout(limit, client.ping(&args.uri)).await {
            Ok(Ok(course)) => Ok(course),
            Ok(Err(error @ (Error::Failed { .. } | Error::Send { .. }))) => Err(PingFailure::Failed(error)),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => Err(PingFailure::Late(limit)),
        };
        let answer = outcome.as_ref().ok().copied();
        statistics.end(answer);
        print_ping(number, outcome, global)?;
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum PingFailure {
    #[error(transparent)]
    Failed(Error),
    #[error("no answer within {0:?}")]
    Late(Duration),
}

fn print_ping(number: u64, outcome: Result<ExchangeStats, PingFailure>, global: &Global) -> io::Result<()> {
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

/// RTTs of pings without retransmission, as others are ambiguous (Karn's algorithm).
#[derive(Debug, Default)]
struct Statistics {
    first: Option<Instant>,
    last: Option<Instant>,
    sent: u64,
    answered: u64,
    repeated: u64,
    least: f64,
    most: f64,
    sum: f64,
    squares: f64,
}

impl Statistics {
    fn start(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.sent += 1;
    }

    fn end(&mut self, answer: Option<ExchangeStats>) {
        let Some(course) = answer else { return };
        self.answered += 1;
        if course.transmissions > 1 {
            self.repeated += 1;
            return;
        }
        let rtt = course.elapsed.as_secs_f64() * 1e3;
        self.least = if self.measured() == 1 { rtt } else { self.least.min(rtt) };
        self.most = self.most.max(rtt);
        self.sum += rtt;
        self.squares += rtt * rtt;
    }

    fn answered(&self) -> u64 {
        self.answered
    }

    fn since_last(&self) -> Duration {
        self.last.map(|last| last.elapsed()).unwrap_or_default()
    }

    fn measured(&self) -> u64 {
        self.answered - self.repeated
    }

    fn summary(&self) -> Summary {
        let count = self.measured() as f64;
        let mean = self.sum / count;
        let rtt_ms = (self.measured() > 0).then(|| Rtt {
            min: self.least,
            avg: mean,
            max: self.most,
            mdev: (self.squares / count - mean * mean).max(0.0).sqrt(),
        });
        Summary { schema: 1, sent: self.sent, answered: self.answered, repeated: self.repeated, rtt_ms }
    }
}

#[derive(Debug, Serialize)]
struct Summary {
    schema: u32,
    sent: u64,
    answered: u64,
    repeated: u64,
    /// RTTs of pings without retransmission; `mdev` is the standard deviation, as in ping(8).
    rtt_ms: Option<Rtt>,
}

#[derive(Debug, Serialize)]
struct Rtt {
    min: f64,
    avg: f64,
    max: f64,
    mdev: f64,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { sent, answered, repeated, rtt_ms, .. } = self.summary();
        let lost = if sent == 0 { 0.0 } else { 100.0 * (sent - answered) as f64 / sent as f64 };
        let elapsed = self.first.map(|first| first.elapsed()).unwrap_or_default();
        let pings = if sent == 1 { "ping" } else { "pings" };
        write!(f, "{sent} {pings}, {answered} answered, {lost:.0} % unanswered, {:.1} s", elapsed.as_secs_f64())?;
        if let Some(Rtt { min, avg, max, mdev }) = rtt_ms {
            write!(f, "\nRTT min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms")?;
        }
        match repeated {
            0 => Ok(()),
            repeated => write!(f, "\n{repeated} answered after a retransmission, and so without a definite RTT"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(milliseconds: u64, transmissions: u32) -> ExchangeStats {
        ExchangeStats { transmissions, elapsed: Duration::from_millis(milliseconds), ..ExchangeStats::default() }
    }

    #[test]
    fn repeated_pings_count_as_answered_but_have_no_rtt() {
        let mut statistics = Statistics::default();
        for answer in [Some(course(10, 1)), None, Some(course(2500, 2)), Some(course(20, 1)), Some(course(30, 1))] {
            statistics.start(Instant::now());
            statistics.end(answer);
        }
        let text = statistics.to_string();
        for part in ["5 pings, 4 answered, 20 % unanswered", "= 10.000/20.000/30.000/8.165 ms", "\n1 answered after"] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }

    #[test]
    fn without_answers_there_is_no_rtt() {
        let mut statistics = Statistics::default();
        statistics.start(Instant::now());
        statistics.end(None);
        assert!(statistics.to_string().starts_with("1 ping, 0 answered, 100 % unanswered"));
        assert!(statistics.summary().rtt_ms.is_none());
    }
}
