//! Compares emulation with simulation: the clients of three scenarios are sockets of `conche bench`
//! in one, and simulated endpoints in the other.
//!
//! Medians of exchange durations agree within 5 %, and losses within 10 %, plus the error of a
//! sample as long as the emulation. It takes minutes of real time, and an idle machine or real-time
//! priority: `cargo test -p conche-cli --test emulation_accuracy -- --ignored --nocapture`.

#![cfg(unix)]
#![allow(missing_docs, reason = "a test")]

mod common;

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::rc::Rc;

use common::{Process, conche, run};
use conche_lab::campaign::Replication;
use conche_lab::scenario::{Controllers, Document, Effort, FileError};
use conche_lab::trial::{Observing, RecordOptions, Routes, Trace, run_observed};
use conche_netsim::Instant;
use conche_netsim::packet::Packet;
use conche_netsim::trace::{DropReason, Observer};

const ANRW18: &str = include_str!("../../../scenarios/anrw18.toml");
const GPRS: &str = include_str!("../../../scenarios/networks/gprs.toml");
const STAR: &str = include_str!("../../../scenarios/networks/star.toml");

/// Of real time.
const DURATION: &str = "100s";

/// Runs of the simulation, each as long as the emulation.
const REPLICATIONS: u32 = 40;

struct Case {
    name: &'static str,
    text: &'static str,
    clients: &'static str,
    count: u32,
    /// Values for endless requests of `conche bench`, and a network with enough losses.
    set: &'static [(&'static str, &'static str)],
    only: &'static [(&'static str, &'static str)],
}

const CASES: [Case; 3] = [
    Case {
        name: "ANRW'18",
        text: ANRW18,
        clients: "client",
        count: 20,
        set: &[
            ("endpoint.max_retransmit", "4"),
            ("endpoint.envelope", "default"),
            ("endpoint.token_length", "8"),
            ("traffic.gets.exchanges", "1000000"),
            ("traffic.gets.count", "opened"),
            ("links.uplink.wire.loss", "5%"),
            ("sweep.buffer.points", "[{ name = \"300\", value = \"300B\" }]"),
            ("sweep.clients.values", "[20]"),
        ],
        only: &[("workload", "continuous")],
    },
    Case {
        name: "GPRS",
        text: GPRS,
        clients: "meter",
        count: 20,
        set: &[
            ("endpoint.token_length", "8"),
            ("traffic.report.pace", "closed"),
            ("traffic.report.exchanges", "1000000"),
            ("traffic.report.method", "GET"),
            ("traffic.report.request", "12B"),
            ("traffic.report.response", "100B"),
            ("links.uplink.wire.loss", "5%"),
            ("links.downlink.wire.loss", "5%"),
        ],
        only: &[("meters", "20")],
    },
    Case {
        name: "802.15.4 star",
        text: STAR,
        clients: "sensor",
        count: 6,
        set: &[("endpoint.token_length", "8")],
        only: &[("sensors", "6")],
    },
];

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    median_ms: f64,
    /// Of packets.
    loss: f64,
    is_late: bool,
}

#[derive(Debug, Default)]
struct Losses {
    sent: u64,
    dropped: u64,
}

impl Observer for Losses {
    fn on_sent(&mut self, _: Instant, _: &Packet) {
        self.sent += 1;
    }

    fn on_dropped(&mut self, _: Instant, _: &Packet, _: DropReason) {
        self.dropped += 1;
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Case {
    fn settings(&self) -> Vec<(String, String)> {
        let end = if self.text.contains("time_limit") { "time_limit" } else { "duration" };
        let set = self.set.iter().copied().chain([(end, DURATION)]);
        set.map(|(path, value)| (path.to_owned(), value.to_owned())).collect()
    }

    /// Returns the means of runs, and the standard deviations.
    fn simulated(&self) -> [Measured; 2] {
        let file = |_: &str| Ok::<_, FileError>(include_str!("../../../scenarios/anrw18.csv").to_owned());
        let mut document = Document::read(&self.text.replace("time_limit", "duration"), &file, &Controllers::new())
            .expect("a valid scenario");
        let set = self.settings().into_iter().map(|(path, value)| (path.replace("time_limit", "duration"), value));
        let only = self.only.iter().map(|(axis, label)| ((*axis).to_owned(), vec![(*label).to_owned()])).collect();
        let effort = Effort { set: set.collect(), only, ..Effort::default() };
        document.adjust(&effort).expect("valid settings");
        let runs: Vec<Measured> = (0..REPLICATIONS)
            .map(|index| {
                let losses = Rc::new(RefCell::new(Losses::default()));
                let trace = &mut |_: &_| Trace::Packets(Rc::<RefCell<Losses>>::clone(&losses));
                let observing = Observing { trace: Some(trace), ..Observing::default() };
                let replication = Replication { index, count: REPLICATIONS, seed: u64::from(index) + 1 };
                let cell = &document.cells()[0];
                let record = run_observed(cell, RecordOptions::default(), replication, &Routes::default(), observing);
                let record = record.expect("it runs").outcome;
                let answered = record.flows.iter().flat_map(|flow| &flow.exchanges).filter(|of| of.answered);
                let durations = answered.map(|of| (of.ended - of.began).as_secs_f64() * 1e3).collect();
                let losses = losses.borrow();
                Measured {
                    median_ms: median(durations),
                    loss: losses.dropped as f64 / losses.sent as f64,
                    is_late: false,
                }
            })
            .collect();
        let n = runs.len() as f64;
        let of = |get: fn(&Measured) -> f64| {
            let mean = runs.iter().map(get).sum::<f64>() / n;
            (mean, (runs.iter().map(|run| (get(run) - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
        };
        let (medians, losses) = (of(|run| run.median_ms), of(|run| run.loss));
        [
            Measured { median_ms: medians.0, loss: losses.0, is_late: false },
            Measured { median_ms: medians.1, loss: losses.1, is_late: false },
        ]
    }

    fn emulated(&self) -> Measured {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("scenario.toml");
        std::fs::write(&file, self.text).expect("it can be written");
        std::fs::write(directory.path().join("anrw18.csv"), include_str!("../../../scenarios/anrw18.csv"))
            .expect("it can be written");
        let mut command = conche();
        command.arg("emulate").arg(&file).args(["--json", "--node", &format!("{}=external", self.clients)]);
        for (path, value) in self.settings() {
            command.args(["--set", &format!("{path}={value}")]);
        }
        for (axis, label) in self.only {
            command.args(["--only", &format!("{axis}={label}")]);
        }
        let mut emulation = Process(command.stdout(Stdio::piped()).spawn().expect("it starts"));
        let mut out = BufReader::new(emulation.0.stdout.take().expect("it is piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("it announces the address");
        let door: serde_json::Value = serde_json::from_str(&line).expect("an object");
        let uri = format!("coap://{}/", door["address"].as_str().expect("an address"));
        let count = self.count.to_string();
        let bench = run(conche().args(["bench", &uri, "-c", &count, "-z", DURATION, "--cc", "default", "--json"]));
        let bench: serde_json::Value = serde_json::from_str(&bench.stdout).expect("an object");
        let mut text = String::new();
        out.read_to_string(&mut text).expect("text");
        let report: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        println!("  lateness {}", report["lateness"]);
        let rows = report["links"].as_array().expect("rows");
        let paths = rows.iter().filter(|row| row["name"].as_str().is_some_and(|name| name.contains(" to ")));
        let (mut sent, mut dropped) = (0.0, 0.0);
        for path in paths {
            let count = |name: &str| path[name].as_f64().unwrap_or_default();
            sent += count("sent");
            dropped += count("lost") + count("queue_drops") + count("other_drops");
        }
        let is_late = report["is_valid"] == false;
        Measured {
            median_ms: bench["latency_ms"]["p50"].as_f64().expect("a percentile"),
            loss: dropped / sent,
            is_late,
        }
    }
}

#[test]
#[ignore = "takes minutes, on an idle machine"]
fn emulated_medians_and_losses_are_those_of_the_simulation() {
    let mut differs = Vec::new();
    // Invalid settings end the test before real time passes.
    for (case, [mean, deviation]) in
        CASES.map(|case| (case.simulated(), case)).map(|(simulated, case)| (case, simulated))
    {
        println!("{}: {} clients, {DURATION}", case.name, case.count);
        let emulated = case.emulated();
        let shows = |what: &str, of: fn(&Measured) -> f64, tolerance: f64| {
            let (simulated, deviation, emulated) = (of(&mean), of(&deviation), of(&emulated));
            let difference = (emulated / simulated - 1.0) * 100.0;
            println!(
                "  {what}: simulated {simulated:.4} ± {deviation:.4}, emulated {emulated:.4} ({difference:+.1} %)"
            );
            ((emulated - simulated).abs() > tolerance * simulated + 2.0 * deviation)
                .then(|| format!("{} {what}: {difference:+.1} %", case.name))
        };
        differs.extend(emulated.is_late.then(|| format!("{} was late; the machine is busy", case.name)));
        differs.extend(shows("median ms", |of| of.median_ms, 0.05));
        differs.extend(shows("loss", |of| of.loss, 0.1));
    }
    assert!(differs.is_empty(), "{differs:?}");
}
