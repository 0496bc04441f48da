//! The report of an emulation: validity, packets of links, simulated traffic, programs.

use std::io::{self, Write};
use std::time::Duration;

use conche_lab::scenario::Scenario;
use conche_lab::trial::Record;
use conche_lab::workload::Tally;
use serde::Serialize;

use super::clock::{Delays, Lateness};
use super::links::{LinkRow, milliseconds};
use crate::Global;
use crate::json;
use crate::live::LinkChange;
use crate::show::Grid;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// All client programs have ended.
    Programs,
    /// Simulated clients had all their exchanges.
    Clients,
    /// The scenario's duration is over.
    Time,
    Interrupted,
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub schema: u32,
    pub scenario: String,
    pub cell: String,
    pub seed: u64,
    pub elapsed_s: f64,
    pub end: End,
    /// Whether the 99th percentile of the lateness is within the limit.
    pub is_valid: bool,
    pub lateness: Lateness,
    /// Datagrams that reached the node of a program without a socket for them.
    pub undelivered: u64,
    /// `None` without a live view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_changes: Option<LiveChanges>,
    pub links: Vec<LinkRow>,
    /// Of simulated clients.
    pub traffic: Vec<TrafficRow>,
    pub programs: Vec<ProgramRow>,
}

/// Maximum number of changes in a report; more are counted only.
const CHANGES: usize = 20;

/// Changes of links by the live view.
#[derive(Debug, Default, Serialize)]
pub struct LiveChanges {
    count: u64,
    first: Vec<TimedChange>,
}

#[derive(Debug, Serialize)]
struct TimedChange {
    at_s: f64,
    #[serde(flatten)]
    change: LinkChange,
}

impl LiveChanges {
    pub fn add(&mut self, at: Duration, change: LinkChange) {
        self.count += 1;
        if self.first.len() < CHANGES {
            self.first.push(TimedChange { at_s: at.as_secs_f64(), change });
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let mut shown: Vec<String> =
            self.first.iter().map(|TimedChange { at_s, change }| format!("at {at_s:.1} s {change}")).collect();
        match self.count.saturating_sub(CHANGES as u64) {
            0 => {}
            more => shown.push(format!("and {more} more")),
        }
        match self.count {
            0 => Ok(()),
            1 => writeln!(out, "1 change of links by the live view: {}", shown.join("; ")),
            count => writeln!(out, "{count} changes of links by the live view: {}", shown.join("; ")),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct TrafficRow {
    pub name: String,
    pub requests: u64,
    pub answered: u64,
    pub failed: u64,
    /// Failed requests with an error response, 4.xx or 5.xx.
    pub error_responses: u64,
    /// Failed requests with a Reset of the server.
    pub resets: u64,
    /// Failed requests without an answer.
    pub unanswered: u64,
    /// Requests without an answer so far, at the end of the run.
    pub open: u64,
    /// Of answered exchanges, from the first transmission.
    pub duration_p50_ms: Option<f64>,
    pub duration_p99_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct ProgramRow {
    pub node: String,
    /// `None` if it has not ended.
    pub status: Option<u8>,
    /// It ended by itself.
    #[serde(skip)]
    pub has_ended: bool,
}

pub fn traffic_rows(scenario: &Scenario, record: &Record) -> Vec<TrafficRow> {
    let row = |(place, name): (usize, &String)| {
        let flows = || record.flows.iter().filter(move |flow| flow.traffic == place);
        let mut durations = Delays::default();
        let answered = flows().flat_map(|flow| &flow.exchanges).filter(|exchange| exchange.answered);
        answered.for_each(|exchange| durations.record(exchange.ended - exchange.began));
        let ms = |percent| durations.percentile(percent).map(milliseconds);
        flows().next()?;
        let sum = |count: fn(&Tally) -> u64| flows().map(|flow| count(&flow.tally)).sum();
        Some(TrafficRow {
            name: name.clone(),
            requests: sum(|tally| tally.opened),
            answered: sum(|tally| tally.answered),
            failed: sum(|tally| tally.failed),
            error_responses: sum(|tally| tally.error_responses),
            resets: sum(|tally| tally.resets),
            unanswered: sum(|tally| tally.failed - tally.error_responses - tally.resets),
            open: sum(Tally::outstanding),
            duration_p50_ms: ms(50.0),
            duration_p99_ms: ms(99.0),
        })
    };
    scenario.traffic.iter().map(|traffic| &traffic.name).enumerate().filter_map(row).collect()
}

impl Report {
    pub fn print(&self, global: &Global) -> io::Result<()> {
        match global.json {
            true => json::print(self),
            false => self.print_text(),
        }
    }

    fn print_text(&self) -> io::Result<()> {
        let Lateness { events, p50_ms, p99_ms, max_ms, .. } = self.lateness;
        let mut out = io::stdout().lock();
        let validity = if self.is_valid { "" } else { "; the run is invalid" };
        writeln!(out, "{} ({}), seed {}, {:.1} s", self.scenario, self.cell, self.seed, self.elapsed_s)?;
        writeln!(
            out,
            "lateness of {events} events: median {p50_ms:.2} ms, 99 % within {p99_ms:.2} ms, all within {max_ms:.2} \
             ms{validity}"
        )?;
        if self.undelivered > 0 {
            writeln!(out, "{} datagrams reached nodes without a program to take them", self.undelivered)?;
        }
        self.live_changes.as_ref().map_or(Ok(()), |changes| changes.print(&mut out))?;
        let ms = |delay: Option<f64>| delay.map_or_else(|| "-".to_owned(), |delay| format!("{delay:.1}"));
        let link = |row: &LinkRow| {
            let packets = row.packets;
            let counts =
                [packets.sent, packets.lost, packets.queue_drops, packets.other_drops].map(|count| count.to_string());
            let delays = [ms(row.delay_p50_ms), ms(row.delay_p99_ms)];
            [row.name.clone()].into_iter().chain(counts).chain(delays).collect()
        };
        let header = ["path or link", "sent", "lost", "queue drops", "other drops", "delay p50 ms", "p99 ms"];
        grid(&mut out, &header, self.links.iter().map(link).collect())?;
        let traffic = |row: &TrafficRow| {
            let counts = [row.requests, row.answered, row.unanswered, row.error_responses, row.resets, row.open];
            let counts = counts.map(|count| count.to_string());
            let durations = [ms(row.duration_p50_ms), ms(row.duration_p99_ms)];
            [row.name.clone()].into_iter().chain(counts).chain(durations).collect()
        };
        let header = [
            "simulated traffic",
            "requests",
            "answered",
            "no answer",
            "4.xx, 5.xx",
            "reset",
            "open",
            "duration p50 ms",
            "p99 ms",
        ];
        grid(&mut out, &header, self.traffic.iter().map(traffic).collect())?;
        let failed = |row: &ProgramRow| {
            let status = row.status.filter(|status| row.has_ended && *status != 0)?;
            Some(vec![row.node.clone(), status.to_string()])
        };
        grid(&mut out, &["failed program", "exit status"], self.programs.iter().filter_map(failed).collect())?;
        out.flush()
    }
}

fn grid(out: &mut impl Write, header: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let header: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
    let grid = Grid { names: 1, numbers: 1..header.len(), header, rows };
    writeln!(out, "\n{}", grid.laid_out())
}
