//! `conche controllers [NAME]`: the features of all controllers, or of one.

use std::io::{self, Write};

use conche::cc::any::{Controllers, Named};
use conche::cc::features::Features;
use conche::cc::parameters::Description;
use serde::Serialize;

use crate::Global;
use crate::json;
use crate::names;
use crate::show::Grid;

/// Version of the JSON lines.
const SCHEMA: u32 = 1;

const FOOTNOTES: &str = "\
* The default of --cc. The name `default` means the algorithm of RFC 7252,
  which measures no RTT and keeps no state of a peer.
RTTs: of exchanges without a retransmission (strong), of the others (weak).
Dithering: factor from the RTO to an exchange's first timeout.
Reuses: a backed-off RTO is used for the next exchange.
Bytes: state of a peer + state of an exchange in progress.
`conche controllers NAME` describes one.";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Controller to describe.
    #[arg(value_name = "NAME", value_parser = names::NAMED, hide_possible_values = true)]
    controller: Option<Named>,
    /// List the parameters with defaults, ranges and sources.
    ///
    /// For `--cc`, `--controllers` and scenarios.
    #[arg(long)]
    parameters: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let (all, one) = (&global.controllers, args.controller.as_ref());
    if args.parameters {
        let chosen: Vec<&Named> = one.map_or_else(|| all.iter().collect(), |named| vec![named]);
        return match global.json {
            true => Ok(print_parameters(&mut out, chosen)?),
            false => Ok(writeln!(out, "{}", parameters(chosen).laid_out())?),
        };
    }
    match one {
        Some(named) if global.json => Ok(print(&mut out, [named])?),
        None if global.json => Ok(print(&mut out, all.iter())?),
        Some(named) => Ok(write!(out, "{}", about(named))?),
        None => Ok(writeln!(out, "{}\n{FOOTNOTES}", table(all).laid_out())?),
    }
}

fn table(controllers: &Controllers) -> Grid {
    let header = ["name", "RTTs", "dithering", "backoff", "ageing", "reuses", "bytes"];
    let row = |named: &Named| {
        let (name, features) = (named.name(), &named.features);
        vec![
            format!("{name}{}", if name == names::DEFAULT { " *" } else { "" }),
            rtts(features).to_owned(),
            features.dithering.to_owned(),
            features.backoff.to_owned(),
            features.ageing.to_owned(),
            if features.reuses_backed_off_rto { "yes" } else { "-" }.to_owned(),
            format!("{} + {}", features.peer_bytes, features.flight_bytes),
        ]
    };
    Grid {
        header: header.map(str::to_owned).into(),
        names: 1,
        rows: controllers.iter().map(row).collect(),
        ..Grid::default()
    }
}

fn parameters(controllers: Vec<&Named>) -> Grid {
    let header = ["controller", "parameter", "default", "unit", "range", "effect", "source"];
    let mut rows = Vec::new();
    for named in controllers {
        for (Description { name, range, about, source }, default) in named.controller().parameters() {
            let (default, range) = (default.to_string(), (range.unit(), range.to_string()));
            let row = [named.name(), name, &default, range.0, &range.1, about, source];
            rows.push(row.map(str::to_owned).into());
        }
    }
    Grid { header: header.map(str::to_owned).into(), names: 2, rows, ..Grid::default() }
}

fn print_parameters(out: &mut impl Write, controllers: Vec<&Named>) -> io::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        schema: u32,
        controller: &'a str,
        parameter: &'static str,
        default: String,
        unit: &'static str,
        range: String,
        about: &'static str,
        source: &'static str,
    }
    for named in controllers {
        for (Description { name, range, about, source }, default) in named.controller().parameters() {
            let line = Line {
                schema: SCHEMA,
                controller: named.name(),
                parameter: name,
                default: default.to_string(),
                unit: range.unit(),
                range: range.to_string(),
                about,
                source,
            };
            json::write(&line, out)?;
        }
    }
    Ok(())
}

fn rtts(features: &Features) -> &'static str {
    match (features.strong_rtt, features.weak_rtt.is_some()) {
        (true, true) => "both",
        (true, false) => "strong",
        (false, true) => "weak",
        (false, false) => "-",
    }
}

fn about(named: &Named) -> String {
    let (name, features) = (named.name(), &named.features);
    let published = features.published_bytes.map_or_else(|| "nothing".to_owned(), |bytes| format!("{bytes} bytes"));
    let reuses = if features.reuses_backed_off_rto { "the backed-off one" } else { "an RTO of its own" };
    format!(
        "{name}: {}\n\
         source               {}\n\
         measures RTTs        {}\n\
         dithering            {}\n\
         backoff              {}\n\
         ageing               {}\n\
         next exchange uses   {reuses}\n\
         state of a peer      {} bytes; published: {published}\n\
         state of an exchange {} bytes\n",
        features.about,
        features.source,
        match rtts(features) {
            "both" => "strong and weak ones",
            "-" => "none",
            other => other,
        },
        features.dithering,
        features.backoff,
        features.ageing,
        features.peer_bytes,
        features.flight_bytes,
    )
}

fn print<'a>(out: &mut impl Write, controllers: impl IntoIterator<Item = &'a Named>) -> io::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        schema: u32,
        name: &'a str,
        is_default: bool,
        about: &'static str,
        strong_rtt: bool,
        weak_rtt: bool,
        dithering: &'static str,
        backoff: &'static str,
        ageing: &'static str,
        reuses_backed_off_rto: bool,
        source: &'static str,
        peer_bytes: usize,
        exchange_bytes: usize,
        published_peer_bytes: Option<u16>,
    }
    for named in controllers {
        let (name, features) = (named.name(), &named.features);
        let line = Line {
            schema: SCHEMA,
            name,
            is_default: name == names::DEFAULT,
            about: features.about,
            strong_rtt: features.strong_rtt,
            weak_rtt: features.weak_rtt.is_some(),
            dithering: features.dithering,
            backoff: features.backoff,
            ageing: features.ageing,
            reuses_backed_off_rto: features.reuses_backed_off_rto,
            source: features.source,
            peer_bytes: features.peer_bytes,
            exchange_bytes: features.flight_bytes,
            published_peer_bytes: features.published_bytes,
        };
        json::write(&line, out)?;
    }
    Ok(())
}
