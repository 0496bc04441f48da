//! `conche discover URI [FILTER...]`: lists a server's resources (RFC 6690) as a table.

use std::io::{self, Write};

use anyhow::Context;
use conche::client::Response;
use conche::codec::link_format::{Attribute, Link, Links};
use conche::watch::EventLog;
use conche::{Client, ContentFormat, Error, OptionNumber, Uri};
use serde::Serialize;

use crate::Global;
use crate::credentials::RequestSecurity;
use crate::error::Interrupted;
use crate::flags::{Endpoint, Timeout};
use crate::formats;
use crate::json;
use crate::names::Control;
use crate::recording::Recording;
use crate::runtime;
use crate::serve::LARGEST;
use crate::show::{self, Grid};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// coap://HOST[:PORT]; a path replaces /.well-known/core
    uri: String,
    /// Filters, as in rt=temperature or href=/sensors/*.
    ///
    /// Attributes are rt, if, ct, href and others; a final * matches any ending. Resources must
    /// match all filters; servers need not support more than one.
    #[arg(value_name = "NAME=VALUE")]
    filters: Vec<String>,
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

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    args.endpoint.check_destination(&args.uri)?;
    let records = args.recording.start(EventLog::client())?;
    let runtime = runtime::start()?;
    let outcome = runtime::run(&runtime, async {
        let client = args.credentials.of(args.control.of(Client::builder()), &args.uri, global)?;
        let client = args.endpoint.of(client).body_limit(LARGEST);
        let client = records.watch(client).build().map_err(Error::from)?;
        let uri: Uri = args.uri.parse().map_err(Error::from)?;
        let mut request = client.get(&uri).accept(ContentFormat::LINK_FORMAT);
        if uri.segments().iter().all(String::is_empty) {
            for segment in [".well-known", "core"] {
                request = request.option(OptionNumber::URI_PATH, segment.as_bytes());
            }
        }
        request = args.filters.iter().fold(request, |request, filter| request.query(filter));
        if let Some(timeout) = args.timeout.timeout {
            request = request.timeout(timeout);
        }
        let stop = runtime::stop_signal(runtime::GRACE)?;
        let outcome = tokio::select! {
            response = request.into_future() => response.and_then(Response::successful).map_err(Into::into),
            () = stop => Err(Interrupted::default().into()),
        };
        client.keep_paths().await;
        outcome
    });
    let finished = runtime::run(&runtime, records.finish(outcome));
    runtime::end(runtime);
    let response = finished?;
    let text = response.text().context("the server's list of resources is not UTF-8")?;
    let links = Links::read(text).collect::<Result<Vec<_>, _>>();
    let links = links.context("the server's list of resources is no link format (RFC 6690)")?;
    let mut out = io::stdout().lock();
    if global.json {
        print(&links, &mut out)?;
    } else if !links.is_empty() {
        writeln!(out, "{}", table(&links).laid_out())?;
    }
    out.flush()?;
    if links.is_empty() && !global.quiet {
        show::note(format_args!("no resources"));
    }
    Ok(())
}

const COLUMNS: &[(&str, &str)] =
    &[("title", "title"), ("rt", "type (rt)"), ("if", "interface (if)"), ("ct", "format (ct)"), ("sz", "size (sz)")];

fn table(links: &[Link<'_>]) -> Grid {
    let has = |name: &str| links.iter().any(|link| link.value(name).is_some_and(|value| !value.text().is_empty()));
    let columns: Vec<_> = COLUMNS.iter().filter(|(name, _)| has(name)).collect();
    let is_other = |name: &str| COLUMNS.iter().all(|(column, _)| !column.eq_ignore_ascii_case(name));
    let others = links.iter().any(|link| link.attributes().any(|attribute| is_other(attribute.name)));
    let headings = columns.iter().map(|(_, heading)| *heading).chain(others.then_some("other"));
    let header = std::iter::once("resource").chain(headings).map(str::to_owned).collect();
    let mut rows = Vec::new();
    for link in links {
        let mut row = vec![show::escape(link.target())];
        for (name, _) in &columns {
            let value = link.value(name).unwrap_or_default().text();
            let value = if *name == "ct" { format_names(&value).into() } else { value };
            row.push(show::escape(&value));
        }
        if others {
            let others: Vec<_> =
                link.attributes().filter(|attribute| is_other(attribute.name)).map(|other| written(&other)).collect();
            row.push(show::escape(&others.join(" ")));
        }
        rows.push(row);
    }
    let size = columns.iter().position(|(name, _)| *name == "sz");
    let numbers = size.map_or(0..0, |index| index + 1..index + 2);
    Grid { header, names: 1, numbers, rows }
}

fn written(Attribute { name, value }: &Attribute<'_>) -> String {
    match value.text() {
        value if value.is_empty() => (*name).to_owned(),
        value => format!("{name}={value}"),
    }
}

fn format_names(numbers: &str) -> String {
    let name = |number: &str| number.parse().ok().and_then(formats::short_name).unwrap_or(number).to_owned();
    numbers.split_whitespace().map(name).collect::<Vec<_>>().join(", ")
}

fn print(links: &[Link<'_>], out: &mut impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        schema: u32,
        target: &'a str,
        attributes: serde_json::Map<String, serde_json::Value>,
    }
    for link in links {
        let attributes = link.attributes().map(|Attribute { name, value }| (name.to_owned(), value.text().into()));
        let line = Line { schema: 1, target: link.target(), attributes: attributes.collect() };
        json::write(&line, out)?;
    }
    Ok(())
}
