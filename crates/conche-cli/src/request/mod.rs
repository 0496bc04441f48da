//! `conche get|put|post|delete|fetch|patch|ipatch URI`.

mod group;
pub mod observation;
pub mod payload;
mod progress;
mod render;

pub use progress::Progress;

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use conche::client::{RequestBuilder, Response, ResponseStream};
use conche::codec::BlockSize;
use conche::watch::EventLog;
use conche::{Client, Code, OptionNumber, QBlock, Reliability, Token};

use crate::Global;
use crate::credentials::RequestSecurity;
use crate::error::{Interrupted, Plain, Reported, UsageError};
use crate::flags::{Endpoint, Properties, Timeout, parse_time};
use crate::names::Control;
use crate::option::{self, RawOption};
use crate::reader_stream::ReaderStream;
use crate::recording::{Recording, Records};
use crate::runtime;
use crate::serve::LARGEST;
use observation::{Observer, Until};
use payload::Payload;
use progress::{Bar, Limit, ProgressMessage};

/// Arguments of all commands that send requests.
#[derive(Debug, clap::Args)]
// Payload and blocks have groups of their own.
#[group(skip)]
pub struct Message {
    #[command(flatten)]
    pub properties: Properties,
    #[command(flatten)]
    pub payload: payload::Args,
    /// Block size in bytes: a power of two from 16 to 1024.
    ///
    /// By default, only bodies larger than a message are sent in blocks, of 1024 bytes. Limit 16
    /// MiB; files may be larger.
    #[arg(short, long = "block", value_name = "SIZE", value_parser = option::parse_block)]
    pub block: Option<BlockSize>,
    /// Send large bodies in bursts (Q-Block, RFC 9177).
    ///
    /// Bursts are Non-confirmable. If the server refuses, blocks are sent. Cannot be combined with
    /// -N: a server without Q-Block rejects only Confirmable messages.
    #[arg(long, conflicts_with = "non")]
    pub q_block: bool,
}

impl Message {
    /// Refuses a request that would empty a resource by omission, or whose format has no payload.
    pub fn check(&self, method: Code) -> Result<(), UsageError> {
        if self.payload.is_given() {
            return Ok(());
        }
        match method {
            Code::PUT => Err(UsageError(
                "put needs a payload: -e TEXT or -f FILE; -e '' replaces the resource by an empty one".to_owned(),
            )),
            Code::GET | Code::DELETE if self.properties.content_format.is_some() => Err(UsageError(
                "-t is the format of a payload, and there is none; -A FORMAT requests the format of the response"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

/// Arguments of methods whose resource can be observed.
#[derive(Debug, clap::Args)]
pub struct ObservableArgs {
    #[command(flatten)]
    request: Args,
    /// Observe the resource for this time.
    #[arg(short = 's', long, value_name = "TIME", value_parser = parse_time, allow_negative_numbers = true, help_heading = None::<&str>)]
    observe: Option<Duration>,
    /// Send to a multicast group; print each response.
    ///
    /// Each is preceded by its source. Responses are collected for --timeout, or 10 s. The
    /// interface is that of the IPv6 zone, as in coap://[ff02::fd%eth0]/.well-known/core, or of
    /// --bind ADDR.
    #[arg(long, conflicts_with_all = ["observe", "output", "q_block", "oscore", "edhoc", "retry_unreachable"], help_heading = None::<&str>)]
    multicast: bool,
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// coap://HOST[:PORT]/PATH[?QUERY], or coaps:// for DTLS
    uri: String,
    #[command(flatten)]
    message: Message,
    /// Write the response payload to a file; - is standard output.
    ///
    /// On a terminal, with a progress bar.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Token: text, or 0x and hexadecimal digits.
    ///
    /// Random by default. More than 8 bytes need a server that supports RFC 8974.
    #[arg(short = 'T', long, value_parser = option::parse_token)]
    token: Option<Token>,
    #[command(flatten)]
    timeout: Timeout,
    #[command(flatten)]
    endpoint: Endpoint,
    #[command(flatten)]
    credentials: RequestSecurity,
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    recording: Recording,
}

impl Args {
    fn client(&self, records: &Records, global: &Global) -> anyhow::Result<Client> {
        self.endpoint.check_destination(&self.uri)?;
        let client = self.credentials.of(self.control.of(Client::builder()), &self.uri, global)?;
        let client = self.endpoint.of(client).body_limit(LARGEST).block_size(self.message.block.unwrap_or_default());
        let client = if self.message.q_block { client.q_block(QBlock::default()) } else { client };
        Ok(records.watch(client).build().map_err(conche::Error::from)?)
    }

    fn request(
        &self,
        client: &Client,
        method: Code,
        payload: Option<Payload>,
    ) -> anyhow::Result<(RequestBuilder, Option<ReaderStream>)> {
        let properties = &self.message.properties;
        let mut request = client.request(method, &self.uri);
        if properties.non {
            request = request.non();
        }
        if let Some(format) = properties.accept {
            request = request.accept(format);
        }
        if let Some(format) = properties.content_format {
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
        if let Some(timeout) = self.timeout.timeout {
            request = request.timeout(timeout);
        }
        if let Some(token) = self.token.clone() {
            request = request.token(token);
        }
        for RawOption { number, value } in &properties.options {
            request = request.option(*number, value);
        }
        Ok((request, rest))
    }
}

pub fn read(method: Code, args: ObservableArgs, global: &Global, progress: &Progress) -> anyhow::Result<()> {
    if args.multicast {
        return group::run(method, &args.request, global);
    }
    let until = args.observe.map(|seconds| Until { seconds: Some(seconds), ..Until::default() });
    run(method, args.request, until, global, progress)
}

pub fn run(method: Code, args: Args, until: Option<Until>, global: &Global, progress: &Progress) -> anyhow::Result<()> {
    let message = &args.message;
    message.check(method)?;
    let reliability = if message.properties.non { Reliability::NonConfirmable } else { Reliability::Confirmable };
    let output =
        Output { method, uri: &args.uri, reliability, output: args.output.as_deref(), started: Instant::now() };
    // Q-Block sends whole bodies only.
    let payload = message.payload.read(message.q_block)?;
    let records = args.recording.start(EventLog::client())?;
    let runtime = runtime::start()?;
    let outcome = runtime::run(&runtime, async {
        let client = args.client(&records, global)?;
        let (request, rest) = args.request(&client, method, payload)?;
        let limit = Limit::of(args.timeout.timeout, output.output.is_some_and(|path| path != Path::new("-")));
        let asked = async {
            if let Some(until) = until {
                let (client, output) = (&client, &output);
                return Observer { client, until, limit, progress, output, global }.observe(request).await;
            }
            let sends = async {
                match (rest, output.output) {
                    (Some(rest), _) => output.response(request.send_stream(rest).await?, true, false, global),
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
                never = report_progress(progress, limit, global), if global.shows_progress() => match never {},
            }
        };
        let outcome = asked.await;
        client.keep_paths().await;
        outcome
    });
    let finished = runtime::run(&runtime, records.finish(outcome));
    runtime::end(runtime);
    finished.map_err(|error| Plain::of(error, &args.uri))
}

#[derive(Debug)]
pub struct Output<'a> {
    method: Code,
    uri: &'a str,
    reliability: Reliability,
    output: Option<&'a Path>,
    started: Instant,
}

impl Output<'_> {
    /// Shows a response. In a pipe, each of several payloads ends its line.
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
            let time = one_of_several.then(|| self.started.elapsed());
            let file = self.output.filter(|path| *path != Path::new("-") && response.code().is_success());
            if let Some(path) = file {
                write_payload(path, &response)?;
            }
            render::json(self.method, self.uri, time, &response, file)?;
            return successful(response).map(drop).map_err(|error| Reported(error).into());
        }
        let response = successful(response)?;
        match self.output {
            Some(path) if path == Path::new("-") => render::raw(response.payload())?,
            Some(path) => write_payload(path, &response)?,
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

    /// The first bytes create the file.
    async fn save(&self, stream: ResponseStream, path: &Path, global: &Global) -> anyhow::Result<()> {
        if global.verbose > 0 && !stream.code().is_success() {
            render::course(stream.head(), self.reliability)?;
        }
        let mut stream = stream.successful()?;
        let failed = || unwritable(path);
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

/// As [`Response::successful`]; the error has the limit that a 4.13 states (RFC 7959 §2.9.3).
fn successful(response: Response) -> Result<Response, conche::Error> {
    let stated = response.message().uint(OptionNumber::SIZE1);
    response.successful().map_err(|error| match (error, stated) {
        (conche::Error::Response { peer, code: code @ Code::REQUEST_ENTITY_TOO_LARGE, diagnostic }, Some(limit)) => {
            let limit = format!("the limit is {limit} bytes");
            let text = diagnostic.filter(|text| !text.is_empty()).map(|text| format!("{text}; {limit}"));
            conche::Error::Response { peer, code, diagnostic: Some(text.unwrap_or(limit)) }
        }
        (error, _) => error,
    })
}

fn write_payload(path: &Path, response: &Response) -> anyhow::Result<()> {
    std::fs::write(path, response.payload()).with_context(|| unwritable(path))
}

fn unwritable(path: &Path) -> String {
    format!("the response cannot be written to {}", path.display())
}

fn report_result(response: &Response, global: &Global) {
    if let Some(happened) = render::happened(response).filter(|_| !global.quiet) {
        crate::show::note(format_args!("{happened}"));
    }
}

pub async fn report_progress(progress: &Progress, limit: Limit, global: &Global) -> Infallible {
    // The messages of `-v` would overwrite a bar.
    let mut bar = (global.verbose == 0 && !global.json).then(Bar::default);
    let show_message = |message| match (message, &mut bar) {
        (ProgressMessage::Waiting(line), _) => crate::show::note(format_args!("* {line}")),
        (ProgressMessage::Transferring(transfer), Some(bar)) => bar.show(transfer),
        (ProgressMessage::Transferring(_), None) => {}
    };
    progress.run(limit, show_message).await
}
