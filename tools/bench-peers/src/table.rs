//! Results as tables in the terminal and docs/performance.md, and as JSON.

use std::fmt::Write;

use clap::ValueEnum;
use serde::Serialize;

use crate::load::Load;
use crate::measure::Extent;
use crate::memory::SESSIONS;
use crate::page::Page;
use crate::peer::Peer;
use crate::results::{Doubt, Of, Results, Sample};
use tool_support::machine::Machine;

/// Conditions of the measurements.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    pub machine: Machine,
    /// As in 2026-01-31.
    pub date: String,
    pub extent: Extent,
    /// Version of each measured implementation.
    pub versions: Vec<(Peer, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// Ratio to another peer: of CPU time per request, and of the rate.
    CpuOver(Peer),
    RateOver(Peer),
    /// Ratio to itself with few peers.
    RateOverFresh,
    /// Ratio to itself without protection.
    CpuOverPlain,
    RateOverPlain,
    Rate,
    Cpu,
    P50,
    P99,
    Known,
    PeerBytes,
    SessionBytes,
}

const CPU: Of = |sample| sample.cpu_us;
const RATE: Of = |sample| Some(sample.per_s);

/// Columns of a load's table, ratios first.
fn columns(load: Load) -> &'static [Column] {
    use Column::{
        Cpu, CpuOver, CpuOverPlain, Known, P50, P99, PeerBytes, Rate, RateOver, RateOverFresh, RateOverPlain,
        SessionBytes,
    };
    match load {
        Load::Many | Load::Wide | Load::Single => {
            &[CpuOver(Peer::Raw), RateOver(Peer::Raw), RateOver(Peer::Libcoap), Rate, Cpu, P50, P99]
        }
        Load::Known => &[RateOverFresh, RateOver(Peer::Libcoap), Rate, Cpu, Known, PeerBytes],
        Load::Dtls => &[CpuOverPlain, RateOverPlain, RateOver(Peer::Libcoap), Rate, Cpu, P50, P99],
        // Debian's libcoap does not support OSCORE.
        Load::Oscore => &[CpuOverPlain, RateOverPlain, RateOver(Peer::Californium), Rate, Cpu, P50, P99],
        Load::Handshakes => &[CpuOver(Peer::Libcoap), RateOver(Peer::Libcoap), Rate, Cpu, P50, P99, SessionBytes],
        Load::Observed | Load::Crowd | Load::Blocks => &[CpuOver(Peer::Libcoap), RateOver(Peer::Libcoap), Rate, Cpu],
        Load::OneServer | Load::ManyServers => {
            &[CpuOver(Peer::Raw), RateOver(Peer::Raw), RateOver(Peer::Libcoap), Rate, Cpu]
        }
    }
}

/// Counted unit, singular and per second.
fn unit(load: Load) -> [&'static str; 2] {
    match load {
        Load::Observed | Load::Crowd => ["notification", "notifications/s"],
        Load::Blocks => ["body", "MB/s"],
        Load::Handshakes => ["session", "sessions/s"],
        _ => ["request", "requests/s"],
    }
}

impl Column {
    fn head(self, load: Load) -> String {
        let [one, rate] = unit(load);
        match self {
            Self::CpuOver(peer) => format!("CPU ÷ {}", peer.name()),
            Self::RateOver(peer) => format!("{rate} ÷ {}", peer.name()),
            Self::RateOverFresh => format!("{rate} ÷ its own before"),
            Self::CpuOverPlain => "CPU ÷ over coap".to_owned(),
            Self::RateOverPlain => format!("{rate} ÷ over coap"),
            Self::Rate => rate.to_owned(),
            Self::Cpu => format!("CPU µs/{one}"),
            Self::P50 => "p50 µs".to_owned(),
            Self::P99 => "p99 µs".to_owned(),
            Self::Known => "peers known".to_owned(),
            Self::PeerBytes => "bytes/peer".to_owned(),
            Self::SessionBytes => "bytes/session".to_owned(),
        }
    }

    fn cell(self, results: &Results, load: Load, peer: Peer) -> String {
        let of = |of: Of| results.median(load, peer, of);
        match self {
            Self::CpuOver(other) => ratio(results.peer_ratio(load, peer, other, CPU)),
            Self::RateOver(other) => ratio(results.peer_ratio(load, peer, other, RATE)),
            Self::RateOverFresh => ratio(results.load_ratio(peer, load, Load::Many, RATE)),
            Self::CpuOverPlain => ratio(results.load_ratio(peer, load, Load::Many, CPU)),
            Self::RateOverPlain => ratio(results.load_ratio(peer, load, Load::Many, RATE)),
            Self::Rate if load == Load::Blocks => digits(of(|sample| Some(sample.per_s / 1e6))),
            Self::Rate => digits(of(RATE)),
            Self::Cpu => digits(of(CPU)),
            Self::P50 => digits(of(|sample| sample.p50_us)),
            Self::P99 => digits(of(|sample| sample.p99_us)),
            Self::Known => digits(of(|sample| sample.known)),
            Self::PeerBytes => digits(of(|sample| sample.bytes_per_peer)),
            Self::SessionBytes => digits(of(|sample| sample.bytes_per_session)),
        }
    }
}

fn ratio(number: Option<f64>) -> String {
    number.map_or("–".to_owned(), |number| match number {
        number if number < 0.1 => format!("{number:.3}"),
        number if number < 10.0 => format!("{number:.2}"),
        number => format!("{number:.0}"),
    })
}

/// Formats with three digits, or as an integer from 100.
fn digits(number: Option<f64>) -> String {
    number.map_or("–".to_owned(), |number| match number.abs() {
        size if size < 9.995 => format!("{number:.2}"),
        size if size < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    })
}

/// Note on a table's columns.
fn note(load: Load, extent: Extent) -> Option<String> {
    match load {
        Load::Known => Some(format!(
            "For {} s, or until {} peers were known, each peer sent one request. bytes/peer: resident memory per peer.\n",
            extent.introducing, extent.known
        )),
        Load::Handshakes => Some(format!(
            "bytes/session: resident memory per session, of {SESSIONS} idle ones; for Californium, live heap.\n"
        )),
        _ => None,
    }
}

/// Lays out all results for the terminal or a page.
pub fn page(results: &Results, about: &About) -> Page {
    let measured = Load::value_variants().iter().copied().filter(|&load| results.measured(load).next().is_some());
    let text = |load| match note(load, about.extent) {
        Some(note) => format!("{}\n{note}", table(results, load)),
        None => table(results, load),
    };
    Page::new(conditions(about), measured.map(|load| (load, text(load))))
}

fn conditions(about: &About) -> String {
    let Machine { cores, processor, kernel } = &about.machine;
    let Extent { rounds, seconds, warm_up, .. } = about.extent;
    let versions = about.versions.iter().filter(|(peer, _)| !matches!(peer, Peer::Raw | Peer::ConcheBusyPoll));
    let versions: Vec<_> = versions.map(|(peer, version)| format!("{} {version}", peer.name())).collect();
    format!(
        "Measured on {} with {cores} cores of {processor}, Linux {kernel}: {}.\nMedians; number of rounds: {rounds}, of {seconds} s each after \
         a warm-up of {warm_up} s. Servers have one core for themselves, generator and clients another.\n",
        about.date,
        versions.join(", "),
    )
}

/// Lays out the table of one load, with aligned columns.
fn table(results: &Results, load: Load) -> String {
    let is_client = load.destinations().is_some();
    let head = columns(load).iter().map(|column| column.head(load));
    let who = if is_client { "client" } else { "server" };
    let mut rows = vec![[who.to_owned()].into_iter().chain(head).collect::<Vec<_>>()];
    for peer in results.measured(load) {
        let marks: String = results.doubts(load, peer).into_iter().map(Doubt::mark).collect();
        let cells = columns(load).iter().map(|column| match column {
            Column::Rate => column.cell(results, load, peer) + &marks,
            _ => column.cell(results, load, peer),
        });
        rows.push([peer.name().to_owned()].into_iter().chain(cells).collect());
    }
    render(&rows)
}

fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0).max(3)).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (cell, &width))| match at {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "));
        if number == 0 {
            let lines = widths.iter().enumerate().map(|(at, &width)| match at {
                0 => "-".repeat(width),
                _ => format!("{}:", "-".repeat(width - 1)),
            });
            let _ = writeln!(text, "| {} |", lines.collect::<Vec<_>>().join(" | "));
        }
    }
    text
}

pub fn json(results: &Results, about: &About) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: u32,
        about: &'a About,
        rows: Vec<Row<'a>>,
    }
    #[derive(Serialize)]
    struct Row<'a> {
        load: Load,
        peer: Peer,
        per_s: Option<f64>,
        cpu_us: Option<f64>,
        cpu_over_raw: Option<f64>,
        per_s_over_raw: Option<f64>,
        per_s_over_libcoap: Option<f64>,
        doubts: Vec<Doubt>,
        rounds: &'a [Sample],
    }
    let row = |load, peer| Row {
        load,
        peer,
        per_s: results.median(load, peer, RATE),
        cpu_us: results.median(load, peer, CPU),
        cpu_over_raw: results.peer_ratio(load, peer, Peer::Raw, CPU),
        per_s_over_raw: results.peer_ratio(load, peer, Peer::Raw, RATE),
        per_s_over_libcoap: results.peer_ratio(load, peer, Peer::Libcoap, RATE),
        doubts: results.doubts(load, peer),
        rounds: results.samples(load, peer),
    };
    let rows =
        Load::value_variants().iter().copied().flat_map(|load| results.measured(load).map(move |peer| row(load, peer)));
    serde_json::to_string_pretty(&Document { schema: 1, about, rows: rows.collect() })
}

#[cfg(test)]
mod tests;
