//! `conche get|put|post|delete|fetch|patch|ipatch URI`.

pub mod observation;
pub mod option;
pub mod payload;
mod progress;
mod render;

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
use conche::codec::BlockSize;
use conche::watch::EventLog;
use conche::{Client, Code, ContentFormat, EndpointConfig, OptionNumber, QBlock, Reliability, Token};
use conche_lab::units::Span;

use crate::Global;
use crate::credentials::RequestSecurity;
use crate::error::{ArgumentError, Interrupted, Reported};
use crate::formats;
use crate::names::Control;
use crate::reader_stream::ReaderStream;
use crate::recording::Recording;
use crate::runtime;
use crate::serve::LARGEST;
use observation::{Observer, Until};
use option::RawOption;
use payload::Payload;
use progress::{Bar, ProgressMessage};

/// Arguments of all commands that send requests.
#[derive(Debug, clap::Args)]
// Payload and blocks have groups of their own.
#[group(skip)]
pub struct Message {
    /// Send Non-confirmable messages: once, without acknowledgement.
    #[arg(short = 'N', long)]
    pub non: bool,
    /// Content format to request (Accept): number, media type or short name.
    #[arg(short = 'A', long, value_name = "FORMAT", value_parser = formats::parse)]
    pub accept: Option<ContentFormat>,
    /// Content format of the payload: number, media type or short name.
    #[arg(short = 't', long, value_name = "FORMAT", value_parser = formats::parse)]
    pub content_format: Option<ContentFormat>,
    #[command(flatten)]
    pub payload: payload::Args,
    /// Block size in bytes: 16, 32, 64, 128, 256, 512 or 1024. By default, only bodies larger than
    /// a message are sent in blocks, of 1024 bytes. Bodies may have 16 MiB; those from and to files
    /// are streamed and may be larger.
    #[arg(short, long = "block", value_name = "SIZE", value_parser = option::parse_block)]
    pub block: Option<BlockSize>,
    /// Transfer large bodies in bursts of Non-confirmable messages (Q-Block, RFC 9177), or in
    /// blocks if the server refuses that. Cannot be combined with -N: a server without Q-Block
    /// refuses only Confirmable messages.
    #[arg(long, conflicts_with = "non")]
    pub q_block: bool,
    /// Add an option by number; the value is text, or 0x and hexadecimal digits. Repeatable.
    #[arg(short = 'O', long = "option", value_name = "NUM,VALUE", value_parser = option::parse)]
    pub options: Vec<RawOption>,
}

/// Arguments of methods whose resource can be observed.
#[derive(Debug, clap::Args)]
pub struct Reading {
    #[command(flatten)]
    request: Args,
    /// Observe the resource for this many seconds.
    #[arg(short = 's', long, value_name = "SECS", value_parser = parse_seconds, allow_negative_numbers = true, help_heading = None::<&str>)]
    observe: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// coap://HOST[:PORT]/PATH[?QUERY], or coaps:// for DTLS
    uri: String,
    #[command(flatten)]
    message: Message,
    /// Write the response payload to this file; - is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Token to send: text, or 0x and hexadecimal digits; random by default. More than 8 bytes need
    /// a server that supports RFC 8974.
    #[arg(short = 'T', long, value_parser = option::parse_token)]
    token: Option<Token>,
    /// Give up after this many seconds, retransmissions included.
    #[arg(short = 'B', long, value_name = "SECS", value_parser = parse_seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Send from this address and port; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_local)]
    bind: Option<SocketAddr>,
    /// Keep retransmitting while the network reports the peer unreachable, for example during a
    /// restart, instead of failing.
    #[arg(long)]
    retry_unreachable: bool,
    #[command(flatten)]
    credentials: RequestSecurity,
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    recording: Recording,
}

pub fn read(method: Code, args: Reading, global: &Global, progress: &Progress) -> anyhow::Result<()> {
    let until = args.observe.map(|seconds| Until { seconds: Some(seconds), ..Until::default() });
    run(method, args.request, until, global, progress)
}

/// Sends a request and shows its response and, with `until`, changes of the resource.
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
                let (client, timeout, output) = (&client, args.timeout, &output);
                return Observer { client, until, timeout, progress, output, global }.observe(request).await;
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
                () = stop => Err(Interrupted::default().into()),
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

#[derive(Debug)]
pub struct Output<'a> {
    method: Code,
    uri: &'a str,
    reliability: Reliability,
    output: Option<&'a Path>,
}

impl Output<'_> {
    /// Shows a response: the one to the request, or one of several that follow. In a pipe, each of
    /// several payloads ends its line.
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

    /// Writes the payload to a file while it arrives. The first bytes create the file.
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

/// Reports the code and location that the payload does not show.
fn report_result(response: &Response, global: &Global) {
    if let Some(happened) = render::happened(response).filter(|_| !global.quiet) {
        crate::show::note(format_args!("{happened}"));
    }
}

/// Reports on standard error why no response has arrived, or the progress of a transfer.
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

/// Parses seconds, like the commands of libcoap and ping, or a time with a unit.
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
