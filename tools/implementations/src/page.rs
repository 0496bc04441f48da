//! The tables of docs/implementations.md.

use std::fmt::Write;

use crate::exchange::{self, Exchange};
use crate::measured::{Measured, mean, per_exchange, quantile_s};
use crate::network::Network;
use crate::simulated::Simulated;
use crate::stack::Stack;

/// All runs, and the conditions.
#[derive(Debug)]
pub struct Results {
    /// A sentence on date, machine, versions and seeds.
    pub conditions: String,
    pub runs: Vec<(Stack, Network, Measured)>,
    pub simulated: Vec<(Network, Simulated)>,
    /// Programs that could not be built, and runs without a result.
    pub left_out: Vec<String>,
}

/// Stacks with CoCoA.
const COCOA: [Stack; 4] =
    [Stack::ConcheCocoaCf, Stack::CaliforniumCocoa, Stack::ConcheCocoa, Stack::CaliforniumCocoaStrong];

/// Tolerance of measured timeouts in seconds, for the lateness of program and emulator.
const TOLERANCE_S: f64 = 0.02;

impl Results {
    pub fn text(&self, stacks: &[Stack], networks: &[Network]) -> String {
        let mut out = format!("\n{}\n", self.conditions);
        if !self.left_out.is_empty() {
            out.push_str("\nLeft out:\n\n");
            self.left_out.iter().for_each(|reason| _ = writeln!(out, "- {reason}"));
        }
        self.emulator(&mut out, networks);
        for network in networks.iter().filter(|network| **network != Network::Silent) {
            self.network(&mut out, *network, stacks);
        }
        self.timeouts(&mut out, stacks);
        self.cocoa(&mut out, networks);
        out
    }

    fn of(&self, stack: Stack, network: Network) -> Vec<&Measured> {
        let of = self.runs.iter().filter(|(of, on, _)| *of == stack && *on == network);
        of.map(|(_, _, measured)| measured).collect()
    }

    /// Returns the valid runs, or all if none is valid.
    fn counted(&self, stack: Stack, network: Network) -> Vec<&Measured> {
        let all = self.of(stack, network);
        match all.iter().any(|run| run.is_valid) {
            true => all.into_iter().filter(|run| run.is_valid).collect(),
            false => all,
        }
    }

    fn emulator(&self, out: &mut String, networks: &[Network]) {
        let mut rows = Vec::new();
        for network in networks {
            let simulated: Vec<_> = self.simulated.iter().filter(|(on, _)| on == network).map(|(_, of)| of).collect();
            let emulated = self.counted(Stack::ConcheDefault, *network);
            if simulated.is_empty() || emulated.is_empty() {
                continue;
            }
            let of = |value: &dyn Fn(&Simulated) -> Option<f64>| {
                mean(&simulated.iter().filter_map(|run| value(run)).collect::<Vec<_>>())
            };
            rows.push(vec![
                format!("{}, simulated", network.word()),
                simulated.len().to_string(),
                of(&|run| Some(run.completion_p50_s)),
                of(&|run| Some(run.completion_p95_s)),
                of(&|run| per_exchange(&run.exchanges, |exchange| exchange.transmissions.len())),
                of(&|run| per_exchange(&run.exchanges, Exchange::unnecessary)),
                "–".to_owned(),
            ]);
            let mut row = vec![format!("{}, emulated", network.word()), self.validity(Stack::ConcheDefault, *network)];
            row.extend(numbers(&emulated));
            row.push(lateness(&emulated));
            rows.push(row);
        }
        if rows.is_empty() {
            return;
        }
        let header =
            ["network", "runs", "completion p50 s", "p95 s", "transmissions", "unnecessary", "lateness p99 ms"];
        out.push_str("\n### The emulator beside the simulator\n\n");
        out.push_str("conche's client with `default`: as processes in `conche emulate`, and in `conche run` with the same sizes of \
             messages.\n\n");
        table(out, &header, &rows);
    }

    fn network(&self, out: &mut String, network: Network, stacks: &[Stack]) {
        let row = |stack: &Stack| {
            let runs = self.counted(*stack, network);
            if runs.is_empty() {
                return None;
            }
            let mut row = vec![stack.name().to_owned(), self.validity(*stack, network)];
            row.extend(numbers(&runs));
            let sum = |of: fn(&Measured) -> usize| runs.iter().map(|run| of(run)).sum::<usize>();
            let all = runs.len() * network.clients() * network.exchanges();
            row.push(format!("{} of {all}", sum(|run| run.answered)));
            row.push(sum(|run| run.failed).to_string());
            row.push(sum(|run| run.unfinished).to_string());
            row.push(lateness(&runs));
            Some(row)
        };
        let rows: Vec<_> = stacks.iter().filter_map(row).collect();
        if rows.is_empty() {
            return;
        }
        let _ = write!(out, "\n### {}: {}\n\n", network.word(), network.title());
        let header = [
            "client",
            "runs",
            "completion p50 s",
            "p95 s",
            "transmissions",
            "unnecessary",
            "answered",
            "failed",
            "unfinished",
            "lateness p99 ms",
        ];
        table(out, &header, &rows);
    }

    /// Returns the number of runs, marked if some are invalid.
    fn validity(&self, stack: Stack, network: Network) -> String {
        let all = self.of(stack, network);
        match (all.len(), all.iter().filter(|run| run.is_valid).count()) {
            (all, valid) if all == valid => all.to_string(),
            (all, 0) => format!("{all}†"),
            (all, valid) => format!("{valid} of {all}‡"),
        }
    }

    fn timeouts(&self, out: &mut String, stacks: &[Stack]) {
        let row = |stack: &Stack| {
            let runs = self.counted(*stack, Network::Silent);
            if runs.is_empty() {
                return None;
            }
            let exchanges: Vec<&Exchange> = runs.iter().flat_map(|run| &run.exchanges).collect();
            let first = sorted(exchanges.iter().filter_map(|exchange| exchange.timeouts().next()));
            let is_in_range = |timeout: &&f64| (2.0 - TOLERANCE_S..=3.0 + TOLERANCE_S).contains(*timeout);
            let transmissions = sorted(exchanges.iter().map(|exchange| exchange.transmissions.len() as f64));
            let gave_up = sorted(runs.iter().flat_map(|run| run.gave_up_s.iter().copied()));
            let of_all = self.runs.iter().filter(|(of, _, _)| of == stack).map(|(_, _, run)| &run.exchanges);
            let of_all: Vec<_> = of_all.collect();
            let sum = |of: fn(&[Exchange]) -> usize| of_all.iter().map(|run| of(run)).sum::<usize>();
            let tokens = sorted(of_all.iter().flat_map(|run| run.iter()).map(|of| of.token.len() as f64));
            Some(vec![
                stack.name().to_owned(),
                format!("{}{}", exchanges.len(), if runs.iter().all(|run| run.is_valid) { "" } else { "†" }),
                spread(&first, 2),
                format!("{} of {}", first.iter().filter(is_in_range).count(), first.len()),
                spread(&ratios(&exchanges), 2),
                spread(&transmissions, 0),
                spread(&gave_up, 1),
                format!("{} of {}", sum(exchange::reused_ids), sum(<[Exchange]>::len)),
                sum(exchange::reused_tokens).to_string(),
                spread(&tokens, 0),
            ])
        };
        let rows: Vec<_> = stacks.iter().filter_map(row).collect();
        if rows.is_empty() {
            return;
        }
        out.push_str("\n### Timeouts without any response\n\n");
        out.push_str(
            "Minimum, median and maximum over the exchanges on `silent`. RFC 7252 §4.2 and §4.8: a first timeout from 2 s \
             to 3 s, each further one twice as long, 5 transmissions, failure 62 s to 93 s after the first one. The last \
             three columns count the exchanges of all runs: message IDs used again within 247 s (§4.4), tokens used \
             again after the end of their exchange, which is permitted, and the length of tokens. Runs end after 150 s; – under \
             \"failed after\": no failure was reported by then.\n\n",
        );
        let header = [
            "client",
            "exchanges",
            "first timeout s",
            "in 2–3 s",
            "ratio of timeouts",
            "transmissions",
            "failed after s",
            "IDs reused",
            "tokens reused",
            "token bytes",
        ];
        table(out, &header, &rows);
    }

    fn cocoa(&self, out: &mut String, networks: &[Network]) {
        let mut rows = Vec::new();
        for network in networks {
            for stack in COCOA {
                let runs = self.counted(stack, *network);
                let exchanges: Vec<&Exchange> = runs.iter().flat_map(|run| &run.exchanges).collect();
                if exchanges.is_empty() {
                    continue;
                }
                let first = sorted(exchanges.iter().filter_map(|exchange| exchange.timeouts().next()));
                let is_all_valid = runs.iter().all(|run| run.is_valid);
                rows.push(vec![
                    network.word().to_owned(),
                    format!("{}{}", stack.name(), if is_all_valid { "" } else { "†" }),
                    exchanges.len().to_string(),
                    first.len().to_string(),
                    spread(&first, 2),
                    spread(&ratios(&exchanges), 2),
                ]);
            }
        }
        if rows.is_empty() {
            return;
        }
        out.push_str("\n### CoCoA of Californium and conche\n\n");
        out.push_str(
            "Expired timeouts: minimum, median and maximum. The same seed gives both the same network, but other packets \
             are lost, as packets of programs arrive at other times.\n\n",
        );
        let header = ["network", "client", "exchanges", "with a timeout", "first timeout s", "ratio of timeouts"];
        table(out, &header, &rows);
    }
}

/// Returns the ratios of successive timeouts of each exchange.
fn ratios(exchanges: &[&Exchange]) -> Vec<f64> {
    let of_one = |exchange: &&Exchange| {
        let timeouts: Vec<f64> = exchange.timeouts().collect();
        timeouts.windows(2).map(|pair| pair[1] / pair[0]).collect::<Vec<_>>()
    };
    sorted(exchanges.iter().flat_map(of_one))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns minimum, median and maximum, or the value that all share.
fn spread(sorted: &[f64], digits: usize) -> String {
    let (Some(least), Some(median), Some(most)) = (sorted.first(), quantile_s(sorted, 0.5), sorted.last()) else {
        return "–".to_owned();
    };
    let [least, median, most] = [*least, median, *most].map(|value| format!("{value:.digits$}"));
    if least == most { least } else { format!("{least} / {median} / {most}") }
}

/// Returns completion times, transmissions and unnecessary ones.
fn numbers(runs: &[&Measured]) -> [String; 4] {
    let of =
        |value: &dyn Fn(&Measured) -> Option<f64>| mean(&runs.iter().filter_map(|run| value(run)).collect::<Vec<_>>());
    [
        of(&|run| run.completion_s(0.5)),
        of(&|run| run.completion_s(0.95)),
        of(&Measured::transmissions),
        of(&Measured::unnecessary),
    ]
}

fn lateness(runs: &[&Measured]) -> String {
    let most = runs.iter().map(|run| run.lateness_p99_ms).fold(0.0, f64::max);
    format!("{most:.1}")
}

fn table(out: &mut String, header: &[&str], rows: &[Vec<String>]) {
    let _ = writeln!(out, "| {} |", header.join(" | "));
    let _ = writeln!(out, "|---|{}", "---:|".repeat(header.len() - 1));
    rows.iter().for_each(|row| _ = writeln!(out, "| {} |", row.join(" | ")));
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn measured(is_valid: bool, completion_s: f64) -> Measured {
        let exchange = Exchange {
            client: Ipv4Addr::LOCALHOST,
            id: 1,
            token: vec![1],
            transmissions: vec![0.0, 2.5, 7.5],
            replies: vec![true],
        };
        Measured {
            lateness_p99_ms: 3.0,
            spread_s: 0.0,
            is_valid,
            completion_s: vec![completion_s],
            answered: 1,
            failed: 0,
            unfinished: 0,
            gave_up_s: vec![77.5],
            exchanges: vec![exchange],
        }
    }

    fn text(runs: Vec<(Stack, Network, Measured)>) -> String {
        let results =
            Results { conditions: "Conditions.".to_owned(), runs, simulated: Vec::new(), left_out: Vec::new() };
        results.text(&[Stack::Libcoap], &[Network::Gprs, Network::Silent])
    }

    #[test]
    fn invalid_runs_are_marked_and_count_only_if_no_other_does() {
        let run = |is_valid, completion_s| (Stack::Libcoap, Network::Gprs, measured(is_valid, completion_s));
        let page = text(vec![run(true, 5.0), run(false, 9.0)]);
        assert!(page.contains("| libcoap | 1 of 2‡ | 5.00 |"), "{page}");
        let page = text(vec![run(false, 9.0)]);
        assert!(page.contains("| libcoap | 1† | 9.00 |"), "{page}");
    }

    #[test]
    fn timeouts_are_compared_with_the_rfc() {
        let page = text(vec![(Stack::Libcoap, Network::Silent, measured(true, 77.5))]);
        assert!(page.contains("| libcoap | 1 | 2.50 | 1 of 1 | 2.00 | 3 | 77.5 | 0 of 1 | 0 | 1 |"), "{page}");
    }

    #[test]
    fn a_spread_of_equal_values_is_one_value() {
        assert_eq!(spread(&[], 1), "–");
        assert_eq!(spread(&[2.0, 2.01], 1), "2.0");
        assert_eq!(spread(&[1.0, 2.0, 9.0], 1), "1.0 / 2.0 / 9.0");
    }
}
