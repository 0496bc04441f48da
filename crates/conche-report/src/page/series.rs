//! Time series of the first replication, per cell.

use std::collections::BTreeSet;

use super::Section;
use super::picked::{Picked, by_cell};
use super::telling::Telling;
use crate::chart::{SeriesLine, SeriesPanel, TimeSeries};
use crate::html::Html;
use crate::series::{Line, Of, RunSeries};
use crate::study::Study;
use crate::values::{distinct, scheme_names};

/// Limits the size of the page.
const MOST_CELLS: usize = 8;
const TIMES: u32 = 120;
/// With more, a scheme has the mean of its clients.
const MOST_LINES: usize = 8;
const MOST_LINKS: usize = 3;
/// Colour of links, if each client has a colour.
const OF_LINKS: usize = 6;

const OF_CLIENTS: [(&str, &str); 3] =
    [("rto_s", "RTO (s)"), ("srtt_s", "SRTT (s)"), ("outstanding", "outstanding exchanges")];
const OF_LINK: [(&str, &str); 2] = [("queue_packets", "queue (packets)"), ("drops", "drops so far")];

pub(super) fn write(section: &Section<'_>, telling: &Telling<'_>, html: &mut Html) {
    let study = section.study;
    if study.series.is_empty() {
        if !study.kept.is_empty() {
            without(section, html);
        }
        return;
    }
    let cells = by_cell(&study.series, |run| &run.cell);
    let picked = Picked::new(cells, MOST_CELLS, |(name, _)| telling.rank_of_timelines(name));
    html.raw("<h3>Time series</h3>\n<p class=sub>Path state of clients, and queues and drops of links, in the first ");
    html.raw("replication.");
    picked.omitted(html);
    html.raw("</p>\n<div class=\"picked series\">");
    if picked.cells.len() > 1 {
        html.raw("<form class=pick>");
        picked.options(|(name, _)| name, html);
        html.raw("</form>");
    }
    html.raw("\n");
    for (place, (name, runs)) in picked.cells.iter().enumerate() {
        let hidden = if place == picked.first { "" } else { " hidden" };
        html.write(format_args!("<figure class=\"chart full three\" data-at=\"{place}\"{hidden}>"));
        of_cell(study, name, runs).html(html);
        html.raw("</figure>\n");
    }
    html.raw("</div>\n");
}

/// Shows the command that records time series.
fn without(section: &Section<'_>, html: &mut Html) {
    html.raw("<h3>Time series</h3>\n<p class=sub>These results have no time series of RTO, SRTT, queues and drops. ");
    html.raw("This command adds them: ");
    super::command(section.manifest, Some("--series"), html);
    html.raw("</p>\n");
}

fn of_cell(study: &Study, name: &str, runs: &[&RunSeries]) -> TimeSeries {
    let count = |run: &&RunSeries| {
        let clients = run.lines.iter().filter(|line| matches!(line.of, Of::Client(_)));
        clients.filter(|line| line.quantity == OF_CLIENTS[0].0).count()
    };
    let has_many = runs.iter().map(count).sum::<usize>() > MOST_LINES;
    let means = |run: &&RunSeries| if has_many { (*run).clone().with_means() } else { (*run).clone() };
    let runs: Vec<RunSeries> = runs.iter().map(means).collect();
    let end_s = runs.iter().map(RunSeries::end_s).fold(0.0, f64::max);
    let times_s: Vec<f64> = (0..=TIMES).map(|time| end_s * f64::from(time) / f64::from(TIMES)).collect();
    let all = || runs.iter().flat_map(|run| run.lines.iter().map(move |line| (line, run.step_s)));
    let schemes: BTreeSet<&str> = all().filter_map(|(line, _)| line.scheme.as_deref()).collect();
    let known = scheme_names(study);
    let clients = distinct(all().filter_map(|(line, _)| match &line.of {
        Of::Client(client) => Some(client.as_str()),
        _ => None,
    }));
    let has_schemes = schemes.len() > 1 || clients.len() < 2;
    let colour = |line: &Line| match (&line.of, &line.scheme) {
        (_, Some(scheme)) if has_schemes => known.iter().position(|of| of == scheme).unwrap_or_default(),
        (Of::Client(client), _) => clients.iter().position(|of| of == client).unwrap_or_default(),
        _ => OF_LINKS,
    };
    let named = |line: &Line| {
        let scheme = line.scheme.as_deref().unwrap_or("all schemes");
        match &line.of {
            Of::Client(client) if !has_schemes => client.clone(),
            Of::Client(client) if clients.len() > 1 => format!("{scheme}, {client}"),
            _ => scheme.to_owned(),
        }
    };
    let drawn = |line: &Line, step_s: f64| SeriesLine {
        name: named(line),
        colour: colour(line),
        values: times_s.iter().map(|time| line.at(*time, step_s)).collect(),
    };
    let mut panels: Vec<SeriesPanel> = Vec::new();
    for (quantity, axis) in OF_CLIENTS {
        let here = || all().filter(|(line, _)| line.quantity == quantity && !matches!(line.of, Of::Link(_)));
        let mut lines: Vec<SeriesLine> = here().map(|(line, step_s)| drawn(line, step_s)).collect();
        lines.sort_by_key(|line| line.colour);
        let most = here().map(|(line, _)| if let Of::Clients(count) = line.of { count } else { 1 }).max();
        let title = match most.unwrap_or(1) {
            1 if clients.len() == 1 => clients[0].to_owned(),
            1 => "each client".to_owned(),
            count => format!("mean of {count} clients"),
        };
        if !lines.is_empty() {
            panels.push(SeriesPanel { title, axis: axis.to_owned(), lines });
        }
    }
    let mut quiet = 0;
    for (quantity, axis) in OF_LINK {
        let of_quantity = || all().filter(|(line, _)| line.quantity == quantity);
        let link = |line: &Line| if let Of::Link(link) = &line.of { Some(link.clone()) } else { None };
        let most = |line: &Line| line.values.iter().flatten().copied().fold(0.0, f64::max);
        let mut links: Vec<(String, f64)> = Vec::new();
        for (line, _) in of_quantity() {
            let (Some(link), most) = (link(line), most(line)) else { continue };
            match links.iter_mut().find(|(known, _)| *known == link) {
                Some((_, known)) => *known = known.max(most),
                None => links.push((link, most)),
            }
        }
        links.retain(|(_, most)| *most > 0.0);
        links.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        quiet += links.len().saturating_sub(MOST_LINKS);
        for (name, _) in links.into_iter().take(MOST_LINKS) {
            let here = of_quantity().filter(|(line, _)| link(line).as_ref() == Some(&name));
            let mut lines: Vec<SeriesLine> = here.map(|(line, step_s)| drawn(line, step_s)).collect();
            lines.sort_by_key(|line| line.colour);
            panels.push(SeriesPanel { title: name, axis: axis.to_owned(), lines });
        }
    }
    let mut legend: Vec<(String, usize)> = Vec::new();
    for (line, _) in all() {
        let name =
            if has_schemes { line.scheme.clone().unwrap_or_else(|| "all schemes".to_owned()) } else { named(line) };
        if legend.iter().all(|(known, _)| *known != name) {
            legend.push((name, colour(line)));
        }
    }
    legend.sort_by_key(|(_, colour)| *colour);
    let mut notes = Vec::new();
    if quiet > 0 {
        notes.push(format!("{quiet} more series of links, with lower values, are not drawn; series.parquet has them"));
    }
    let title = if name.is_empty() { "Time series".to_owned() } else { format!("Time series: {name}") };
    TimeSeries { title, legend, times_s, panels, notes }
}
