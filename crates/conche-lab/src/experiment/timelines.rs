//! Some exchanges of a run, copy by copy: those that show most of a scheme.

use std::time::Duration;

use conche_netsim::Instant;
use conche_proto::Envelope;
use conche_results::{ExchangeRows, Timeline, Which};

use super::cells::CellRuns;
use super::kept::number;
use crate::trial::{Flow, Record, Selection};
use crate::workload::{Exchange, Timeout};

/// Adds of each scheme the exchanges that [`Which`] names.
pub(super) fn add(rows: &mut ExchangeRows, runs: &CellRuns, record: &Record) {
    let envelope = Envelope::open(runs.cell.scenario.endpoint.timeout_cap.0);
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

/// Of each copy when it left, in seconds after the first one, and its timeout. `None` of what has no timeouts, such as
/// Non-confirmable requests.
fn copies(record: &Record, flow: &Flow, exchange: &Exchange, envelope: &Envelope) -> Option<Vec<(f64, f64)>> {
    let log = armed(log(record, flow)?, envelope);
    let seconds = |copy: &Timeout| ((copy.at - exchange.began).as_secs_f64(), copy.after.as_secs_f64());
    let mut chain = Vec::new();
    find(&log, exchange, &mut chain).then(|| chain.into_iter().map(seconds).collect())
}

/// The timeouts of a flow's host, in the run that the flow was in.
fn log<'a>(record: &'a Record, flow: &Flow) -> Option<&'a [Timeout]> {
    let own: Vec<_> = record.nodes.iter().filter(|node| node.node == flow.client).collect();
    // Flows that were run one by one have a record of their host each, others of one host share one.
    let before = record.flows.iter().take_while(|other| !std::ptr::eq(*other, flow));
    let place = if own.len() > 1 { before.filter(|other| other.client == flow.client).count() } else { 0 };
    own.get(place).map(|node| node.timeouts.as_slice())
}

/// What the endpoint waited for where the controller wanted this.
fn armed(log: &[Timeout], envelope: &Envelope) -> Vec<Timeout> {
    log.iter().map(|copy| Timeout { after: envelope.hold(copy.after, None), ..*copy }).collect()
}

/// Finds the copies of an exchange; those that left late only if there are none that left in time.
fn find<'a>(log: &'a [Timeout], exchange: &Exchange, chain: &mut Vec<&'a Timeout>) -> bool {
    [false, true].into_iter().any(|late| follow(log, exchange, exchange.began, (late, &mut 0), chain))
}

/// After so many copies that were tried an exchange has no timeline.
const MOST_TRIED: u32 = 4096;

/// Finds the copies of an exchange among all of its host's, which are in the order in which they left: each leaves when the
/// timeout of the one before is over, or a little later, and the last one's is over when the exchange is given up. Of
/// several exchanges that go on at one time, that tells which is which.
fn follow<'a>(
    log: &'a [Timeout],
    exchange: &Exchange,
    due: Instant,
    (late, tried): (bool, &mut u32),
    chain: &mut Vec<&'a Timeout>,
) -> bool {
    if chain.len() == usize::from(exchange.transmissions) {
        return chain.last().is_some_and(|last| match exchange.answered {
            true => last.at <= exchange.ended,
            false => last.at + last.after == exchange.ended,
        });
    }
    let latest = if chain.is_empty() || !late { due } else { exchange.ended };
    let attempt = chain.len();
    let from = log.partition_point(|timeout| timeout.at < due);
    for timeout in log[from..].iter().take_while(|timeout| timeout.at <= latest) {
        if usize::from(timeout.attempt) != attempt {
            continue;
        }
        *tried += 1;
        if *tried > MOST_TRIED {
            return false;
        }
        chain.push(timeout);
        if follow(log, exchange, timeout.at + timeout.after, (late, tried), chain) {
            return true;
        }
        chain.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use conche_netsim::wired::Topology;

    use super::*;
    use crate::trial::NodeRecord;

    /// Copies as seconds at which they left, attempts, and timeouts in seconds.
    fn log(copies: &[(u64, u8, u64)]) -> Vec<Timeout> {
        let copy = |(at, attempt, after): &(u64, u8, u64)| Timeout {
            at: Instant::from_millis(at * 1000),
            attempt: *attempt,
            after: Duration::from_secs(*after),
        };
        copies.iter().map(copy).collect()
    }

    fn found(log: &[Timeout], transmissions: u16, ended: u64, answered: bool) -> Option<Vec<u64>> {
        let (began, ended) = (Instant::ZERO, Instant::from_millis(ended * 1000));
        let exchange = Exchange { flow: 0, began, ended, transmissions, unnecessary: 0, answered, round_trip: None };
        let mut chain = Vec::new();
        let is_found = find(log, &exchange, &mut chain);
        is_found.then(|| chain.into_iter().map(|copy| copy.after.as_secs()).collect())
    }

    #[test]
    fn of_exchanges_that_begin_together_each_has_its_own_copies() {
        let log = log(&[(0, 0, 2), (0, 0, 3), (2, 1, 4), (3, 1, 6), (6, 2, 8), (9, 2, 12)]);
        assert_eq!(found(&log, 3, 14, false), Some(vec![2, 4, 8]));
        assert_eq!(found(&log, 3, 21, false), Some(vec![3, 6, 12]));
        assert_eq!(found(&log, 2, 5, true), Some(vec![2, 4]));
    }

    #[test]
    fn a_copy_that_leaves_late_is_not_taken_for_another_exchange() {
        let log = log(&[(0, 0, 2), (0, 0, 1), (2, 1, 7), (3, 1, 4)]);
        assert_eq!(found(&log, 2, 7, false), Some(vec![2, 4]));
    }

    #[test]
    fn an_exchange_whose_copies_are_not_there_is_not_made_up() {
        assert_eq!(found(&log(&[(0, 0, 2), (2, 1, 4)]), 3, 14, false), None);
        assert_eq!(found(&log(&[(0, 0, 2)]), 1, 5, false), None);
        assert_eq!(found(&[], 1, 5, true), None);
    }
    #[test]
    fn a_timeout_is_no_longer_than_the_endpoint_lets_it() {
        let wanted = log(&[(0, 0, 2), (2, 1, 4), (5, 2, 8)]);
        assert_eq!(found(&wanted, 3, 8, false), None);
        let armed = armed(&wanted, &Envelope::open(Duration::from_secs(3)));
        assert_eq!(found(&armed, 3, 8, false), Some(vec![2, 3, 3]));
    }

    #[test]
    fn a_flow_has_the_timeouts_of_its_own_run() {
        let mut topology = Topology::new();
        let [one, other, server] = ["one", "other", "server"].map(|name| topology.node(name));
        let clients = [one, other, one];
        let flows: Vec<_> = clients.iter().map(|client| Flow::new(*client, server)).collect();
        let record = |clients: &[_]| {
            let node = |(place, node): (usize, &_)| {
                let timeouts = log(&[(0, 0, place as u64)]);
                NodeRecord { node: *node, scheme: 0, traffic: vec![0], timeouts, copies: 1, dropped: 0 }
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
