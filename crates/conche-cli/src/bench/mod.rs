//! `conche bench URI`, a load test, and `conche bench compare`.

mod compare;
mod mix;
mod show;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conche::codec::BodyBuilder;
use conche::{Code, Error, OptionNumber, Reliability, Uri};
use conche_bench::{Arrivals, Kind, Load, Plan, Report, Until};
use conche_lab::units::Size;

use crate::Global;
use crate::credentials::{ClientSecurity, LoadSecurity};
use crate::error::{ArgumentError, Interrupted, NoAnswer, NoSuccess, UsageError};
use crate::flags::{Count, Timeout, parse_local, parse_time, parse_time_or_0};
use crate::json;
use crate::names::Controller;
use crate::option::RawOption;
use crate::request::Message;
use crate::request::payload::Payload;
use crate::runtime;

const EXAMPLES: &str = "\
Examples:
  conche bench coap://192.0.2.1/temperature                as fast as 16 clients with one request at a time go
  conche bench URI -c 1000 --in-flight 4 --threads 2       4000 requests at a time, from 1000 ports
  conche bench URI -r 5000 --poisson -z 60s --warm-up 5s   latency at 5000 requests a second, from when each was due
  conche bench URI -m put --payload-size 4KiB -n 10000     block-wise uploads
  conche bench coaps://192.0.2.1/ --handshakes -u ID --psk-key-file KEY   sessions a second
  conche bench coap://192.0.2.1 --mix mix.toml             several requests by weight
  conche bench URI --json > before.json                    and later: conche bench compare before.json after.json";

const TIMEOUT_HELP: &str = "\
Give up a request after this time, retransmissions included

Default: MAX_TRANSMIT_WAIT, at least 93 s, for Confirmable requests; 5 s for Non-confirmable ones.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("count", |count| count.alias("requests")), mut_arg("timeout", |timeout| timeout.long_help(TIMEOUT_HELP)), args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[group(skip)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// coap://HOST[:PORT]/PATH[?QUERY], or coaps:// for DTLS
    ///
    /// Over coaps, each endpoint opens a session before the test begins.
    #[arg(required = true)]
    uri: Option<String>,
    /// CoAP endpoints, each with its own port; 16 by default.
    ///
    /// The server sees N clients. With --oscore, the number of files by default.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    endpoints: Option<u32>,
    /// Requests in flight per endpoint (NSTART).
    ///
    /// More than 1 needs a controller that measures RTTs.
    #[arg(short = 'w', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    in_flight: u16,
    /// Requests per second over all endpoints (open loop).
    ///
    /// Requests are sent on schedule whatever the responses, and latency counts from the scheduled
    /// time. Without a rate, each request is sent when the previous one ends (closed loop).
    #[arg(short, long, value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Schedule the requests as a Poisson process.
    ///
    /// As of many independent clients; otherwise evenly.
    #[arg(long, requires = "rate")]
    poisson: bool,
    #[command(flatten)]
    count: Count,
    /// Stop after this time; 10 s by default
    ///
    /// Requests in flight get at most 5 s more.
    #[arg(short = 'z', long, value_name = "TIME", conflicts_with = "count", value_parser = parse_time)]
    duration: Option<Duration>,
    /// Load the server for this time before measuring
    #[arg(long, value_name = "TIME", value_parser = parse_time_or_0, default_value = "0")]
    warm_up: Duration,
    #[command(flatten)]
    timeout: Timeout,
    /// Threads that share the endpoints.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// get, post, put, delete, fetch, patch or ipatch.
    #[arg(short = 'm', long, value_name = "METHOD", default_value = "get", value_parser = parse_method)]
    method: Code,
    /// Observe the resource, and count notifications.
    #[arg(long, conflicts_with = "count")]
    observe: bool,
    /// Open a session for each request, over coaps.
    ///
    /// The session is closed after the response.
    #[arg(long, conflicts_with = "observe")]
    handshakes: bool,
    /// Send a payload of this size, as in 100B or 4KiB.
    #[arg(long, value_name = "SIZE", conflicts_with = "payload-source")]
    payload_size: Option<Size>,
    /// TOML file of weighted requests.
    ///
    /// Each [[request]] has a path, and optionally weight, method, payload or payload_size, type,
    /// content_format, accept and options.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "payload-source", "payload_size", "observe"])]
    mix: Option<PathBuf>,
    #[command(flatten)]
    message: Message,
    /// Send from this address, from a port per endpoint
    #[arg(long, value_name = "ADDR", value_parser = parse_local)]
    bind: Option<SocketAddr>,
    /// Seed of arrival times and of the order in a mix.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    credentials: ClientSecurity,
    /// OSCORE credentials, one file per endpoint.
    ///
    /// The sender sequence number is stored beside the file: do not copy either.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::AnyPath, help_heading = "Security")]
    oscore: Vec<PathBuf>,
    #[command(flatten)]
    controller: Controller,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Compare two results of `conche bench --json`.
    Compare(compare::Args),
}

const ENDPOINTS: u32 = 16;

/// Maximum wait for requests in flight at the end.
const IN_FLIGHT: Duration = Duration::from_secs(5);

/// Default timeout of a Non-confirmable request, which is never retransmitted.
const NON_TIMEOUT: Duration = Duration::from_secs(5);

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    if let Some(Command::Compare(args)) = args.command {
        return compare::run(&args, global);
    }
    let uri: Uri = args.uri.as_deref().unwrap_or_default().parse().map_err(Error::Uri)?;
    let plan = plan(&args, &uri, global)?;
    plan.validate().map_err(|error| UsageError(error.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(Arc::clone(&stop));
    let mut live = show::Display::new(&plan, global);
    let report = conche_bench::run(&plan, &stop, &mut |news| live.show(news));
    drop(live);
    let report = report?;
    if global.json {
        json::print(&report)?;
    } else {
        show::report(&report, &uri)?;
    }
    if !global.quiet {
        report.warnings.iter().for_each(|warning| crate::show::note(format_args!("warning: {warning}")));
    }
    if report.requests == 0 && stop.load(Ordering::Relaxed) {
        return Err(Interrupted("interrupted before the first measured request").into());
    }
    outcome(&report, &uri)
}

fn stop_on_interrupt(stop: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        if runtime::wait_for_stop(IN_FLIGHT + runtime::GRACE).is_ok() {
            stop.store(true, Ordering::Relaxed);
        }
    });
}

fn outcome(report: &Report, uri: &Uri) -> anyhow::Result<()> {
    let of_class = |class: char| report.codes.iter().filter(move |(code, _)| code.starts_with(class));
    // Observers registered before the measurement.
    let is_notified = report.notifications.as_ref().is_some_and(|notifications| notifications.count > 0);
    if report.answered == 0 && !is_notified {
        return Err(NoAnswer(uri.to_string()).into());
    }
    let most = report.codes.iter().max_by_key(|(_, count)| **count);
    match most {
        Some((code, _)) if of_class('2').next().is_none() => Err(NoSuccess { code: code.clone() }.into()),
        _ => Ok(()),
    }
}

fn plan(args: &Args, uri: &Uri, global: &Global) -> anyhow::Result<Plan> {
    let kinds = match &args.mix {
        Some(file) => mix::read(file, uri, &args.message)?,
        None => vec![kind(args, uri)?],
    };
    let local = match args.bind {
        Some(local) if local.port() != 0 => {
            return Err(UsageError(format!("each endpoint has a port of its own: write --bind {}", local.ip())).into());
        }
        local => local.map(|local| local.ip()),
    };
    let mut plan = Plan::new(resolve(uri, local)?, kinds);
    plan.in_flight = args.in_flight;
    plan.threads = args.threads;
    if let Some(rate) = args.rate {
        let arrivals = if args.poisson { Arrivals::Poisson } else { Arrivals::Constant };
        plan.load = Load::Open { rate, arrivals };
    }
    if let Some(span) = args.duration {
        plan.until = Until::Elapsed(span);
    }
    if let Some(count) = args.count.count {
        plan.until = Until::Count(count);
    }
    plan.warm_up = args.warm_up;
    let confirmable = plan.kinds.iter().all(|kind| kind.reliability == Reliability::Confirmable);
    plan.timeout = args.timeout.timeout.or((!confirmable).then_some(NON_TIMEOUT));
    plan.controller = args.controller.cc.clone();
    plan.block_size = args.message.block.unwrap_or_default();
    plan.q_block = args.message.q_block;
    plan.local = local;
    plan.observe = args.observe;
    let LoadSecurity { sessions, oscore } = args.credentials.for_load(uri, &args.oscore, global)?;
    let endpoints = if oscore.is_empty() { ENDPOINTS } else { u32::try_from(oscore.len()).unwrap_or(u32::MAX) };
    plan.endpoints = args.endpoints.unwrap_or(endpoints);
    (plan.credentials, plan.oscore) = (sessions, oscore);
    plan.handshakes = args.handshakes;
    plan.seed = args.seed;
    Ok(plan)
}

fn kind(args: &Args, uri: &Uri) -> anyhow::Result<Kind> {
    let payload = match args.payload_size {
        Some(size) => filling(size)?,
        None => match args.message.payload.read(true)? {
            Some(Payload::Whole(payload)) => payload,
            Some(Payload::Read { .. }) | None => Vec::new(),
        },
    };
    Ok(Kind::new(args.method, uri, options(&args.message).payload(payload))?.with(args.message.properties.non))
}

fn options(message: &Message) -> BodyBuilder {
    let mut builder = BodyBuilder::new();
    let message = &message.properties;
    if let Some(format) = message.accept {
        builder = builder.uint(OptionNumber::ACCEPT, format.0.into());
    }
    if let Some(format) = message.content_format {
        builder = builder.content_format(format);
    }
    let each = |builder: BodyBuilder, option: &RawOption| builder.option(option.number, &option.value);
    message.options.iter().fold(builder, each)
}

fn filling(size: Size) -> Result<Vec<u8>, UsageError> {
    match usize::try_from(size.0) {
        Ok(size) if size <= conche_bench::plan::LARGEST_BODY => Ok(vec![b'x'; size]),
        _ => Err(UsageError(format!("a payload of {} bytes: 16 MiB are possible", size.0))),
    }
}

/// Prefers the IP version of the local address.
fn resolve(uri: &Uri, local: Option<IpAddr>) -> Result<SocketAddr, Error> {
    let host = uri.host().to_string();
    let found = (host.as_str(), uri.port()).to_socket_addrs();
    let mut found = found.map_err(|cause| Error::Resolve { host: host.clone(), cause })?.peekable();
    let first = *found.peek().ok_or(Error::NoAddress { host })?;
    match local {
        None => Ok(first),
        Some(local) => found
            .find(|address| address.is_ipv4() == local.is_ipv4())
            .ok_or(Error::IpVersion { peer: first, local: SocketAddr::new(local, 0) }),
    }
}

fn parse_rate(text: &str) -> Result<f64, ArgumentError> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or(ArgumentError::Rate)
}

fn parse_method(text: &str) -> Result<Code, ArgumentError> {
    const METHODS: [Code; 7] = [Code::GET, Code::POST, Code::PUT, Code::DELETE, Code::FETCH, Code::PATCH, Code::IPATCH];
    let named = |code: &Code| code.description().is_some_and(|name| name.eq_ignore_ascii_case(text));
    METHODS.into_iter().find(named).ok_or(ArgumentError::Method)
}
