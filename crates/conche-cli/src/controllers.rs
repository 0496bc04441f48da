//! `conche controllers`: the family's feature table.

use std::io::{self, Write};

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, TableComponent};
use conche::cc::any::{ALL, Named};
use serde::Serialize;

use crate::Global;

/// The version of the JSON lines.
const SCHEMA: u32 = 1;

/// The columns that may be wrapped, and those of numbers.
const PROSE: [usize; 4] = [3, 4, 5, 10];
const BYTES: std::ops::Range<usize> = 7..10;

/// Columns of text where there is no terminal to ask.
const WIDTH: u16 = 140;

const FOOTNOTES: &str = "\
Strong RTTs are of exchanges without a retransmission, weak ones of the others. Dithering: by which factor an exchange's
first timeout exceeds the RTO. Reuses: a backed-off RTO carries over to the next exchange. Numbers are bytes of state:
here for each peer and for each exchange in progress, published for each peer by ComMag'16, Table 1. The default measures
nothing and so remembers nothing of a peer.";

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: Args, global: &Global) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if global.json {
        return json(&mut out);
    }
    writeln!(out, "{}\n{FOOTNOTES}", table())?;
    Ok(())
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH);
    }
    for between_rows in [
        TableComponent::HorizontalLines,
        TableComponent::MiddleIntersections,
        TableComponent::LeftBorderIntersections,
        TableComponent::RightBorderIntersections,
    ] {
        table.remove_style(between_rows);
    }
    table.set_header([
        "name",
        "strong",
        "weak",
        "dithering",
        "backoff",
        "ageing",
        "reuses",
        "peer",
        "exchange",
        "published",
        "source",
    ]);
    let yes = |feature: bool| if feature { "yes" } else { "-" }.to_owned();
    for Named { name, features, .. } in ALL {
        table.add_row([
            (*name).to_owned(),
            yes(features.strong_rtt),
            yes(features.weak_rtt),
            features.dithering.to_owned(),
            features.backoff.to_owned(),
            features.ageing.to_owned(),
            yes(features.reuses_backed_off_rto),
            features.peer_bytes.to_string(),
            features.flight_bytes.to_string(),
            features.published_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            features.source.to_owned(),
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if BYTES.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if !PROSE.contains(&index) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// One object a controller.
fn json(out: &mut impl Write) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Line {
        schema: u32,
        name: &'static str,
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
    for Named { name, features, .. } in ALL {
        let line = Line {
            schema: SCHEMA,
            name,
            about: features.about,
            strong_rtt: features.strong_rtt,
            weak_rtt: features.weak_rtt,
            dithering: features.dithering,
            backoff: features.backoff,
            ageing: features.ageing,
            reuses_backed_off_rto: features.reuses_backed_off_rto,
            source: features.source,
            peer_bytes: features.peer_bytes,
            exchange_bytes: features.flight_bytes,
            published_peer_bytes: features.published_bytes,
        };
        serde_json::to_writer(&mut *out, &line).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
