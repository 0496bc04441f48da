//! Run data on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use conche_netsim::Instant;
use conche_proto::Envelope;
use conche_results::{
    Axis, ExchangeRow, ExchangeRows, Kept, Labels, Made, RowOf, RunRow, RunRows, Sample, SeriesRow, SeriesRows,
    Timeline, Which,
};

use super::cells::{CellRuns, MetricIndex, Samples, View};
use crate::campaign::{Replication, RunnableCell, seeds};
use crate::metrics::statistic;
use crate::scenario::{self, AtLeastOne, Endpoint, Nodes, Security, Value};
use crate::trial::{Flow, Point, Record, Sampling, Selection};
use crate::units::{BitRate, Size, Span};
use crate::workload::{Exchange, Timeout};

pub(super) fn keep(runs: &CellRuns, outcome: &Samples) -> Vec<Kept> {
    let of_view = |view: View<'_>| {
        let kept = |(metric, sample): (MetricIndex, &Sample)| {
            let is_of_it = |value: &&Value| runs.metric_index(value) == metric && !value.is_across_cells();
            let made = |value: &Value| Made { row: view.row(value), column: value.column.clone() };
            Kept {
                phase: view.phase.map(|phase| phase.name.clone()),
                scheme: view.scheme.to_owned(),
                unit: runs.unit(metric).name(),
                values: view.values().filter(is_of_it).map(made).collect(),
                sample: sample.clone(),
            }
        };
        view.samples(outcome).map(kept).collect::<Vec<_>>()
    };
    runs.views().flat_map(of_view).collect()
}

pub(super) fn add_values(rows: &mut RunRows, runs: &CellRuns, outcomes: &[Option<Samples>]) -> io::Result<()> {
    let (scenario, cell) = (&runs.cell.scenario, runs.id());
    for ((replication, outcome), seed) in (0..).zip(outcomes).zip(seeds(scenario.seed)) {
        let Some(outcome) = outcome else { continue };
        for view in runs.views() {
            let of = RowOf { scenario: &scenario.name, cell: &cell, scheme: Some(view.scheme), replication, seed };
            let phase = view.phase.map(|phase| phase.name.as_str());
            for value in view.values().filter(|value| !value.is_across_cells()) {
                let (row, unit) = (view.row(value), value.unit().name());
                for (label, number) in
                    statistic::in_run(value.statistic, view.sample(outcome, runs.metric_index(value)))
                {
                    let column = value.column.replace("{}", label);
                    rows.push(&RunRow { of, phase, row: &row, column: &column, unit: &unit, value: number })?;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn add_exchanges(
    rows: &mut ExchangeRows,
    runs: &CellRuns,
    record: &Record,
    replication: Replication,
) -> io::Result<()> {
    let (scenario, cell) = (&runs.cell.scenario, runs.id());
    let Replication { index: replication, seed, .. } = replication;
    let seconds = |at: Instant| (at - Instant::ZERO).as_secs_f64();
    let nodes: Vec<String> = scenario.nodes.iter().flat_map(Nodes::names).collect();
    for flow in &record.flows {
        let scheme = Some(runs.controller_name(flow.control));
        let of = RowOf { scenario: &scenario.name, cell: &cell, scheme, replication, seed };
        for exchange in &flow.exchanges {
            rows.push(&ExchangeRow {
                of,
                traffic: &scenario.traffic[flow.traffic].name,
                client: &nodes[flow.client.index()],
                server: &nodes[flow.server.index()],
                start_s: seconds(exchange.began),
                end_s: seconds(exchange.ended),
                transmissions: exchange.transmissions,
                unnecessary: exchange.unnecessary,
                is_answered: exchange.answered,
                rtt_s: exchange.round_trip.map(|time| time.as_secs_f64()),
            })?;
        }
    }
    Ok(())
}

pub(super) fn add_series<T>(
    rows: &mut SeriesRows,
    runs: &CellRuns,
    replication: Replication,
    run: impl FnOnce(Option<&mut Sampling<'_>>) -> T,
) -> io::Result<T> {
    let (scenario, cell) = (&runs.cell.scenario.name, runs.id());
    let Replication { index: replication, seed, .. } = replication;
    // A mix shares its links.
    let of_links = if let [scheme] = &runs.cell.schemes[..] { Some(scheme.as_str()) } else { None };
    let (interval, mut added) = (rows.interval(), Ok(()));
    let mut point = |point: Point<'_>| {
        let Point { at, subject, peer, control, quantity, value } = point;
        let scheme = control.map_or(of_links, |control| Some(runs.controller_name(control)));
        let of = RowOf { scenario, cell: &cell, scheme, replication, seed };
        if added.is_ok() {
            added = rows.push(&SeriesRow { of, time_s: at.as_secs_f64(), subject, peer, quantity, value });
        }
    };
    let ran = run(Some(&mut Sampling { interval, point: &mut point }));
    added.map(|()| ran)
}

pub(super) fn axis(name: &str, labels: &BTreeSet<String>) -> Axis {
    fn all<T>(labels: &BTreeSet<String>, read: impl Fn(&str) -> Option<T>) -> Option<BTreeMap<String, T>> {
        labels.iter().map(|label| Some((label.clone(), read(label)?))).collect()
    }
    type Read = fn(&str) -> Option<f64>;
    let integers = || all(labels, |label| label.parse().ok()).map(Labels::Integers);
    let numbers = |unit, read: Read| move || all(labels, read).map(|of| Labels::Numbers(of, unit));
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
    let found = integers()
        .or_else(numbers(None, number))
        .or_else(numbers(Some("s"), |text| Some(text.parse::<Span>().ok()?.0.as_secs_f64())))
        .or_else(numbers(Some("bit_per_s"), |text| Some(text.parse::<BitRate>().ok()?.as_bits() as f64)))
        .or_else(numbers(Some("bytes"), |text| Some(text.parse::<Size>().ok()?.0 as f64)))
        .or_else(numbers(Some("percent"), |text| text.strip_suffix('%')?.trim().parse().ok()));
    Axis { name: name.to_owned(), labels: found.unwrap_or_default() }
}

/// Returns the parameters of the endpoints that results depend on.
pub(super) fn endpoint(of: &Endpoint) -> serde_json::Value {
    let envelope = of.safety_envelope();
    let seconds = |time: Duration| time.as_secs_f64();
    serde_json::json!({
        "max_retransmit": of.max_retransmit,
        "nstart": of.nstart,
        "token_length": of.token_length,
        "queue": of.queue.map(AtLeastOne::get),
        "datagram_overhead_bytes": of.overhead(),
        "envelope": match of.envelope {
            scenario::Envelope::Default => "default",
            scenario::Envelope::Open => "open",
        },
        "timeout_floor_s": seconds(envelope.timeout_floor),
        "timeout_cap_s": seconds(envelope.timeout_cap),
        "monotonic_backoff": envelope.monotonic_backoff,
        "security": match of.security {
            Security::Plain => "plain",
            Security::DtlsPsk => "dtls-psk",
        },
        "handshake_mtu_bytes": of.handshakes.mtu.0,
        "handshake_flight_timeout_s": seconds(of.handshakes.flight_timeout.0),
        "handshake_deadline_s": seconds(of.handshakes.deadline.0),
    })
}

pub(super) fn number(node: usize) -> u32 {
    u32::try_from(node).unwrap_or(u32::MAX)
}

pub(super) fn add_timelines(rows: &mut ExchangeRows, runs: &CellRuns, record: &Record) {
    let envelope = runs.cell.scenario.endpoint.safety_envelope();
    for (place, scheme) in runs.cell.schemes.iter().enumerate() {
        let flows = record.flows_of(Selection { scheme: place, traffic: None });
        let mut exchanges: Vec<(&Flow, &Exchange)> =
            flows.flat_map(|flow| flow.exchanges.iter().map(move |exchange| (flow, exchange))).collect();
        exchanges.sort_by_key(|(_, exchange)| exchange.ended - exchange.began);
        for which in Which::ALL {
            let chosen = match which {
                Which::Slowest => exchanges.last(),
                Which::Median => exchanges.get(exchanges.len().saturating_sub(1) / 2),
                Which::MostCopies => exchanges.iter().max_by_key(|(_, exchange)| exchange.transmissions),
            };
            let Some((flow, exchange)) = chosen else { continue };
            let Some(copies) = copies(record, flow, exchange, &envelope) else { continue };
            rows.add_timeline(Timeline {
                which,
                scheme: scheme.clone(),
                traffic: runs.cell.scenario.traffic[flow.traffic].name.clone(),
                client: number(flow.client.index()),
                server: number(flow.server.index()),
                start_s: Duration::from_nanos(exchange.began.as_nanos()).as_secs_f64(),
                lasted_s: (exchange.ended - exchange.began).as_secs_f64(),
                is_answered: exchange.answered,
                copies,
            });
        }
    }
}

/// Returns seconds since the first transmission, and timeout, of each; `None` without timeouts, as
/// for Non-confirmable requests.
fn copies(record: &Record, flow: &Flow, exchange: &Exchange, envelope: &Envelope) -> Option<Vec<(f64, f64)>> {
    let mut previous = None;
    let copies: Vec<_> = of(log(record, flow)?, exchange)
        .map(|copy| {
            let timeout = envelope.hold(copy.after, previous);
            previous = Some(timeout);
            ((copy.at - exchange.began).as_secs_f64(), timeout.as_secs_f64())
        })
        .collect();
    (copies.len() == usize::from(exchange.transmissions)).then_some(copies)
}

/// Selects also by time: restarted hosts reuse numbers.
fn of<'a>(log: &'a [Timeout], exchange: &Exchange) -> impl Iterator<Item = &'a Timeout> {
    let (number, began, ended) = (exchange.number, exchange.began, exchange.ended);
    log.iter().filter(move |copy| copy.exchange == number && began <= copy.at && copy.at <= ended)
}

fn log<'a>(record: &'a Record, flow: &Flow) -> Option<&'a [Timeout]> {
    let own: Vec<_> = record.nodes.iter().filter(|node| node.node == flow.client).collect();
    // Flows that run one by one have a record each.
    let before = record.flows.iter().take_while(|other| !std::ptr::eq(*other, flow));
    let place = if own.len() > 1 { before.filter(|other| other.client == flow.client).count() } else { 0 };
    own.get(place).map(|node| node.timeouts.as_slice())
}

#[cfg(test)]
mod tests {
    use conche_netsim::Instant;
    use conche_netsim::wired::Topology;

    use super::*;
    use crate::trial::{Control, Drops, NodeRecord};

    fn log(copies: &[(u64, u64, u8, u64)]) -> Vec<Timeout> {
        let copy = |(exchange, at, attempt, after): &(u64, u64, u8, u64)| Timeout {
            exchange: *exchange,
            at: Instant::from_millis(at * 1000),
            attempt: *attempt,
            after: Duration::from_secs(*after),
        };
        copies.iter().map(copy).collect()
    }

    fn exchange(number: u64, began: u64, ended: u64, transmissions: u16) -> Exchange {
        let [began, ended] = [began, ended].map(|seconds| Instant::from_millis(seconds * 1000));
        Exchange { number, due: began, began, ended, transmissions, unnecessary: 0, answered: true, round_trip: None }
    }

    fn record_of(timeouts: Vec<Timeout>) -> (Record, Flow) {
        let mut topology = Topology::new();
        let [client, server] = ["client", "server"].map(|name| topology.node(name));
        let flow = Flow::new(client, server);
        let node = NodeRecord {
            node: client,
            control: Control::Scheme(0),
            traffic: vec![0],
            timeouts,
            copies: 1,
            dropped: Drops::default(),
        };
        (Record { flows: vec![flow.clone()], nodes: vec![node], ..Record::default() }, flow)
    }

    fn found(timeouts: &[(u64, u64, u8, u64)], exchange: &Exchange) -> Option<Vec<(f64, f64)>> {
        let (record, flow) = record_of(log(timeouts));
        copies(&record, &flow, exchange, &Envelope::open(Duration::from_secs(60)))
    }

    #[test]
    fn of_exchanges_that_begin_together_each_has_its_own_copies() {
        let sent = [(7, 1, 0, 2), (8, 1, 0, 2), (7, 3, 1, 4), (8, 3, 1, 5), (7, 7, 2, 8)];
        assert_eq!(found(&sent, &exchange(7, 1, 8, 3)), Some(vec![(0.0, 2.0), (2.0, 4.0), (6.0, 8.0)]));
        assert_eq!(found(&sent, &exchange(8, 1, 8, 2)), Some(vec![(0.0, 2.0), (2.0, 5.0)]));
    }

    #[test]
    fn an_axis_has_the_type_and_unit_that_all_its_labels_have() {
        let of = |labels: &[&str]| axis("x", &labels.iter().map(|label| (*label).to_owned()).collect()).labels;
        let numbers = |all: [(&str, f64); 2], unit| {
            Labels::Numbers(all.map(|(label, number)| (label.to_owned(), number)).into(), unit)
        };
        assert_eq!(of(&["2", "30"]), Labels::Integers([("2".to_owned(), 2), ("30".to_owned(), 30)].into()));
        assert_eq!(of(&["0.5", "1"]), numbers([("0.5", 0.5), ("1", 1.0)], None));
        assert_eq!(of(&["400ms", "2s"]), numbers([("400ms", 0.4), ("2s", 2.0)], Some("s")));
        assert_eq!(of(&["30kbit/s", "1Mbit/s"]), numbers([("30kbit/s", 3e4), ("1Mbit/s", 1e6)], Some("bit_per_s")));
        assert_eq!(of(&["64B", "1KiB"]), numbers([("64B", 64.0), ("1KiB", 1024.0)], Some("bytes")));
        assert_eq!(of(&["1%", "2.5%"]), numbers([("1%", 1.0), ("2.5%", 2.5)], Some("percent")));
        for texts in [&["static/60", "60"][..], &["1", "2s"], &["inf", "1"], &["NaN", "1"]] {
            assert_eq!(of(texts), Labels::Texts, "{texts:?}");
        }
    }

    #[test]
    fn a_host_that_started_anew_numbers_its_exchanges_again() {
        let sent = [(0, 0, 0, 2), (0, 2, 1, 4), (0, 9, 0, 3)];
        assert_eq!(found(&sent, &exchange(0, 9, 10, 1)), Some(vec![(0.0, 3.0)]));
    }

    #[test]
    fn an_exchange_whose_copies_are_not_all_there_is_not_made_up() {
        assert_eq!(found(&[(0, 0, 0, 2), (0, 2, 1, 4)], &exchange(0, 0, 14, 3)), None);
        assert_eq!(found(&[], &exchange(0, 0, 5, 1)), None);
    }

    #[test]
    fn a_timeout_is_no_longer_than_the_endpoint_lets_it() {
        let (record, flow) = record_of(log(&[(0, 0, 0, 2), (0, 2, 1, 4)]));
        let held = copies(&record, &flow, &exchange(0, 0, 5, 2), &Envelope::open(Duration::from_secs(3)));
        assert_eq!(held, Some(vec![(0.0, 2.0), (2.0, 3.0)]));
    }

    #[test]
    fn a_timeout_is_no_shorter_than_the_endpoint_lets_it() {
        let (record, flow) = record_of(log(&[(0, 0, 0, 0), (0, 1, 1, 4), (0, 5, 2, 2)]));
        let held = copies(&record, &flow, &exchange(0, 0, 9, 3), &Envelope::default());
        assert_eq!(held, Some(vec![(0.0, 0.1), (1.0, 4.0), (5.0, 4.0)]));
    }

    #[test]
    fn a_flow_has_the_timeouts_of_its_own_run() {
        let mut topology = Topology::new();
        let [one, other, server] = ["one", "other", "server"].map(|name| topology.node(name));
        let clients = [one, other, one];
        let flows: Vec<_> = clients.iter().map(|client| Flow::new(*client, server)).collect();
        let record = |clients: &[_]| {
            let node = |(place, node): (usize, &_)| {
                let timeouts = log(&[(0, 0, 0, place as u64)]);
                NodeRecord {
                    node: *node,
                    control: Control::Scheme(0),
                    traffic: vec![0],
                    timeouts,
                    copies: 1,
                    dropped: Drops::default(),
                }
            };
            let nodes = clients.iter().enumerate().map(node).collect();
            Record { flows: flows.clone(), nodes, ..Record::default() }
        };
        let of_each = |record: &Record| -> Vec<u64> {
            record.flows.iter().map(|flow| super::log(record, flow).expect("a log")[0].after.as_secs()).collect()
        };
        assert_eq!(of_each(&record(&clients)), [0, 1, 2], "one by one");
        assert_eq!(of_each(&record(&[one, other])), [0, 1, 0], "in one run");
    }
}
