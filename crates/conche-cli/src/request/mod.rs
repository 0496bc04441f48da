//! `conche get|put|post|delete|fetch|patch|ipatch URI`: one request, its response on standard
//! output.

mod message;
mod observation;
pub mod option;
pub mod payload;
mod progress;
mod render;
mod transfer;

pub use message::Message;
pub use observation::{Cancel, Until};
pub use progress::Progress;

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use conche::client::{Response, ResponseStream};
use conche::watch::EventLog;
use conche::{Client, Code, EndpointConfig, OptionNumber, QBlock, Reliability, Token};
use conche_lab::units::Span;

use crate::Global;
use crate::argument::ArgumentError;
use crate::credentials::Protecting;
use crate::error::{Interrupted, Reported};
use crate::names::Control;
use crate::reader_stream::ReaderStream;
use crate::recording::Recording;
use crate::runtime;
use crate::serve::LARGEST;
use observation::observe;
use option::RawOption;
use payload::Payload;
use progress::ProgressMessage;
use transfer::Bar;

/// The arguments of methods that read, whose resource can be observed.
#[derive(Debug, clap::Args)]
pub struct Reading {
    #[command(flatten)]
    request: Args,
    /// Observe the resource for so many seconds: show its state, and each change of it.
    #[arg(short = 's', long, value_name = "SECS", value_parser = parse_seconds, allow_negative_numbers = true, help_heading = None::<&str>)]
    observe: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// coap://HOST[:PORT]/PATH[?QUERY], or coaps:// for DTLS
    uri: String,
    #[command(flatten)]
    message: Message,
    /// Write the response's payload to this file, as it is; - is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Send with this token instead of a random one: text, or bytes if it begins with 0x; of more than 8
    /// bytes for servers that know RFC 8974.
    #[arg(short = 'T', long, value_parser = option::parse_token)]
    token: Option<Token>,
    /// Give up after so many seconds, all retransmissions included.
    #[arg(short = 'B', long, value_name = "SECS", value_parser = parse_seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Send from this address and port; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_local)]
    bind: Option<SocketAddr>,
    /// Go on retransmitting when the network reports the peer unreachable, as while it restarts, instead of failing at once.
    #[arg(long)]
    retry_unreachable: bool,
    #[command(flatten)]
    credentials: Protecting,
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    recording: Recording,
}

pub fn read(method: Code, args: Reading, global: &Global, progress: &Progress) -> anyhow::Result<()> {
    let until = args.observe.map(|seconds| Until { seconds: Some(seconds), ..Until::default() });
    run(method, args.request, until, global, progress)
}

/// Sends a request and shows its response. With `until`, also shows changes of the resource.
pub fn run(method: Code, args: Args, until: Option<Until>, global: &Global, progress: &Progress) -> anyhow::Result<()> {
    let message = &args.message;
    let reliability = if message.non { Reliability::NonConfirmable } else { Reliability::Confirmable };
    let output = Output { method, uri: &args.uri, reliability, output: args.output.as_deref() };
    // Q-Block sends whole bodies only.
    let payload = message.payload.read(message.q_block)?;
    let records = args.recording.start(EventLog::client())?;
    let runtime = runtime::start()?;
    let outcome = runtime::run(&runtime, async {
        let client = args.credentials.of(args.control.of(Client::builder()), &args.uri, global)?;
        let client = client.retry_unreachable(args.retry_unreachable);
        let mut client = client.body_limit(LARGEST).block_size(message.block.unwrap_or_default());
        if message.q_block {
            client = client.q_block(QBlock::default());
        }
        if let Some(local) = args.bind {
            client = client.bind(local);
        }
        let client = records.watch(client).build().map_err(conche::Error::from)?;
        let mut request = client.request(method, &args.uri);
        if message.non {
            request = request.non();
        }
        if let Some(format) = message.accept {
            request = request.accept(format);
        }
        if let Some(format) = message.content_format {
            request = request.content_format(format);
        }
        let mut rest = None;
        match payload {
            Some(Payload::Whole(payload)) => request = request.bytes(payload),
            Some(Payload::Read { from, bytes }) => {
                request = bytes.into_iter().fold(request, |request, bytes| request.uint(OptionNumber::SIZE1, bytes));
                rest = Some(ReaderStream::of(from).context("the payload cannot be read")?);
            }
            None => {}
        }
        if let Some(timeout) = args.timeout {
            request = request.timeout(timeout);
        }
        if let Some(token) = args.token {
            request = request.token(token);
        }
        for RawOption { number, value } in &message.options {
            request = request.option(*number, value);
        }
        let asked = async {
            if let Some(until) = until {
                return observe(&client, request, until, args.timeout, (global, progress), &output).await;
            }
            let sends = async {
                match (rest, output.output) {
                    (Some(rest), _) => output.response(request.send_stream(rest).await?, true, false, global),
                    // A body that goes to a file need not fit into memory.
                    (None, Some(path)) if !global.json && !message.q_block => {
                        output.save(request.stream().await?, path, global).await
                    }
                    _ => output.response(request.await?, true, false, global),
                }
            };
            let stop = runtime::stop_signal(runtime::GRACE)?;
            tokio::select! {
                ended = sends => ended,
                () = stop => Err(Interrupted.into()),
                never = report_progress(progress, args.timeout, global), if global.shows_progress() => match never {},
            }
        };
        let outcome = asked.await;
        client.keep_paths().await;
        outcome
    });
    let finished = runtime::run(&runtime, records.finish(outcome));
    runtime::end(runtime);
    finished
}

/// Where and how responses are shown.
#[derive(Debug)]
pub struct Output<'a> {
    method: Code,
    uri: &'a str,
    reliability: Reliability,
    output: Option<&'a Path>,
}

impl Output<'_> {
    /// Shows a response: the one that answers the request, or one of several that follow. Of
    /// several in a pipe, each payload ends its line.
    pub fn response(
        &self,
        response: Response,
        answers: bool,
        one_of_several: bool,
        global: &Global,
    ) -> anyhow::Result<()> {
        if global.verbose > 0 && answers {
            render::course(&response, self.reliability)?;
        }
        if global.json {
            render::json(self.method, self.uri, &response)?;
            return response.successful().map(drop).map_err(|error| Reported(error).into());
        }
        let response = response.successful()?;
        match self.output {
            Some(path) if path == Path::new("-") => render::raw(response.payload())?,
            Some(path) => std::fs::write(path, response.payload())
                .with_context(|| format!("the response cannot be written to {}", path.display()))?,
            None => {
                render::payload(&response)?;
                if one_of_several {
                    render::end_line(&response)?;
                }
            }
        }
        report_result(&response, global);
        Ok(())
    }

    /// Writes the payload to a file while it arrives. The file is created when the first bytes are
    /// here.
    async fn save(&self, stream: ResponseStream, path: &Path, global: &Global) -> anyhow::Result<()> {
        if global.verbose > 0 && !stream.code().is_success() {
            render::course(stream.head(), self.reliability)?;
        }
        let mut stream = stream.successful()?;
        let failed = || format!("the response cannot be written to {}", path.display());
        let mut out: Box<dyn Write> = match path == Path::new("-") {
            true => Box::new(io::stdout().lock()),
            false => Box::new(File::create(path).with_context(failed)?),
        };
        while let Some(chunk) = stream.chunk().await? {
            out.write_all(&chunk).with_context(failed)?;
        }
        out.flush().with_context(failed)?;
        if global.verbose > 0 {
            render::course(stream.head(), self.reliability)?;
        }
        report_result(stream.head(), global);
        Ok(())
    }
}

/// Reports the response code and location, if the payload does not show them.
fn report_result(response: &Response, global: &Global) {
    if let Some(happened) = render::happened(response).filter(|_| !global.quiet) {
        crate::show::note(format_args!("{happened}"));
    }
}

/// Reports on standard error why no response has arrived yet, or the progress of a long transfer.
pub async fn report_progress(progress: &Progress, asked: Option<Duration>, global: &Global) -> Infallible {
    let protocol = EndpointConfig::default().transmission.exchange_lifetime();
    // The messages of `-v` show each block, and would overwrite a bar.
    let mut bar = (global.verbose == 0).then(Bar::default);
    let show_message = |message| match (message, &mut bar) {
        (ProgressMessage::Waiting(line), _) => crate::show::note(format_args!("* {line}")),
        (ProgressMessage::Transferring(transfer), Some(bar)) => bar.show(transfer),
        (ProgressMessage::Transferring(_), None) => {}
    };
    progress.run(progress::Limit { asked, protocol }, show_message).await
}

/// Reads a number of seconds, as the commands of libcoap and ping do, or a time with a unit.
pub fn parse_seconds(text: &str) -> Result<Duration, ArgumentError> {
    let span = match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => Span::from_str(text).ok().map(|Span(span)| span),
    };
    span.filter(|span| !span.is_zero()).ok_or(ArgumentError::Seconds)
}

fn parse_local(text: &str) -> Result<SocketAddr, ArgumentError> {
    text.parse().map_err(|_| ArgumentError::LocalAddress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_need_no_unit_and_may_have_one() {
        for (text, span) in [("5", 5_000), ("0.5", 500), ("500ms", 500), ("2min", 120_000)] {
            assert_eq!(parse_seconds(text), Ok(Duration::from_millis(span)), "{text}");
        }
        for wrong in ["0", "-1", "0s", "1e30", "NaN", "5 apples", ""] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
