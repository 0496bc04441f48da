//! Time per event and memory of networks, by size.
//!
//! `cargo run --release -p conche-netsim --example scale [SETTING...]`. Without settings it runs
//! all of them, each in its own process, so that the peak of resident memory is per setting (Linux
//! only). Times are CPU times, for building and running separately. On a busy machine they still
//! grow, because caches are shared.

mod application;
mod dumbbell;
mod field;

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use conche_netsim::node::Node;
use conche_netsim::{Instant, Simulation};
use cpu_time::ProcessTime;

use crate::application::Host;
use crate::dumbbell::{Dumbbell, Pattern};
use crate::field::Field;

enum Setting {
    Dumbbell(Dumbbell),
    Field(Field),
}

struct Ran {
    events: u64,
    responses: u64,
    building: Duration,
    running: Duration,
}

const SETTINGS: [(&str, Setting); 8] = [
    ("one-after-another-400", dumbbell(400, Pattern::OneAfterAnother, 4000)),
    ("one-after-another-4000", dumbbell(4000, Pattern::OneAfterAnother, 400)),
    ("one-after-another-40000", dumbbell(40_000, Pattern::OneAfterAnother, 60)),
    ("every-10s-400", dumbbell(400, EVERY_TEN_SECONDS, 12_000)),
    ("every-10s-4000", dumbbell(4000, EVERY_TEN_SECONDS, 1200)),
    ("every-10s-40000", dumbbell(40_000, EVERY_TEN_SECONDS, 120)),
    ("every-10s-1000000", dumbbell(1_000_000, EVERY_TEN_SECONDS, 60)),
    ("motes-10000", Setting::Field(Field { side: 100, period: Duration::from_secs(1000), seconds: 60 })),
];

const EVERY_TEN_SECONDS: Pattern = Pattern::Every(Duration::from_secs(10));

const fn dumbbell(clients: u32, pattern: Pattern, seconds: u64) -> Setting {
    Setting::Dumbbell(Dumbbell { clients, pattern, seconds })
}

fn main() -> Result<(), Box<dyn Error>> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if let [name] = &named[..] {
        return run(name);
    }
    println!("setting                       events  responses  building   running  million events a second  peak MiB");
    for (name, _) in &SETTINGS {
        if named.is_empty() || named.iter().any(|wanted| wanted == name) {
            Command::new(std::env::current_exe()?).arg(name).status()?;
        }
    }
    Ok(())
}

fn run(name: &str) -> Result<(), Box<dyn Error>> {
    let (_, setting) = SETTINGS
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| format!("{name} is none of {:?}", SETTINGS.each_ref().map(|(name, _)| *name)))?;
    let Ran { events, responses, building, running } = match setting {
        Setting::Dumbbell(dumbbell) => dumbbell.run()?,
        Setting::Field(field) => field.run()?,
    };
    let rate = events as f64 / running.as_secs_f64() / 1e6;
    let (building, running) = (building.as_secs_f64(), running.as_secs_f64());
    let peak = peak_mebibytes().map_or_else(|| "?".to_owned(), |peak| peak.to_string());
    println!("{name:<25} {events:>10} {responses:>10} {building:>7.2} s {running:>7.2} s {rate:>24.2} {peak:>9}");
    Ok(())
}

fn measured(
    build: impl FnOnce() -> Result<Simulation<Node<Host>>, Box<dyn Error>>,
    seconds: u64,
) -> Result<Ran, Box<dyn Error>> {
    let began = ProcessTime::now();
    let mut sim = build()?;
    let (building, began) = (began.elapsed(), ProcessTime::now());
    sim.run_until(Instant::from_millis(1000 * seconds));
    let running = began.elapsed();
    let responses = sim.hosts().map(|(_, host)| u64::from(host.application().responses())).sum();
    Ok(Ran { events: sim.events(), responses, building, running })
}

fn peak_mebibytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    Some(kibibytes.parse::<u64>().ok()? / 1024)
}
