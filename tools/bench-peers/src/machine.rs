//! CPU time and memory of processes, from Linux's `/proc`.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use tool_support::machine::{Machine, read};

/// Core of a server, and of a measured client's server.
pub const SERVER_CORE: &str = "0";
/// Core of the generator, and of a measured client.
pub const CLIENT_CORE: &str = "1";

/// Unit of `/proc` times on every Linux that Rust's standard library supports.
const TICKS_PER_S: f64 = 100.0;

/// Fails with fewer than two cores.
pub fn this() -> Result<Machine> {
    let machine = Machine::this()?;
    if machine.cores < 2 {
        bail!("the server and its load need a core each, and this machine has one");
    }
    Ok(machine)
}

/// CPU time so far, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    at: Instant,
    all: f64,
    server: f64,
    /// By the generator or the client.
    load: f64,
}

impl Used {
    pub fn now(server: u32, load: Option<u32>) -> Result<Self> {
        let all = all_busy(&read("/proc/stat")?).context("/proc/stat is not as expected")?;
        let of = |process: u32| -> Result<f64> {
            let path = format!("/proc/{process}/stat");
            time(&read(&path)?).with_context(|| format!("{path} is not as expected"))
        };
        let load = load.map_or(Ok(0.0), of)?;
        Ok(Self { at: Instant::now(), all, server: of(server)?, load })
    }

    pub fn by_server_since(&self, earlier: &Self) -> f64 {
        self.server - earlier.server
    }

    pub fn by_load_since(&self, earlier: &Self) -> f64 {
        self.load - earlier.load
    }

    /// Share of one core that other processes have used since `earlier`.
    pub fn foreign_since(&self, earlier: &Self) -> f64 {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let ours = self.by_server_since(earlier) + self.by_load_since(earlier);
        let foreign = (self.all - earlier.all - ours).max(0.0);
        if seconds > 0.0 { foreign / seconds } else { 0.0 }
    }
}

/// Resident memory of a process in bytes.
pub fn resident(process: u32) -> Result<f64> {
    let status = read(&format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the process has ended")?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
    Ok(kibibytes * 1024.0)
}

/// Busy seconds of all cores: user, nice, system, irq, softirq, steal.
fn all_busy(stat: &str) -> Option<f64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let busy = [0, 1, 2, 5, 6, 7].iter().map(|&at| ticks.get(at).copied());
    busy.sum::<Option<f64>>().map(|ticks| ticks / TICKS_PER_S)
}

/// CPU seconds of a process.
fn time(stat: &str) -> Option<f64> {
    // The name may contain parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn waiting_and_idling_are_not_busy() {
        let busy = all_busy("cpu  100 20 30 9999 8888 4 5 6 0 0\ncpu0 1 2 3").expect("it can be read");
        assert!(is_near(busy, 1.65), "{busy}");
        assert_eq!(all_busy("cpu 1 2 3"), None);
    }

    #[test]
    fn a_time_is_found_behind_any_name() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 30 40 20 0 1";
        assert!(is_near(time(stat).expect("it can be read"), 2.0));
    }

    #[test]
    fn cpu_time_outside_server_and_load_is_foreign() {
        let start = Used { at: Instant::now(), all: 10.0, server: 1.0, load: 0.0 };
        let later = start.at + std::time::Duration::from_secs(2);
        let end = Used { at: later, all: 13.5, server: 2.5, load: 1.5 };
        assert!(is_near(end.foreign_since(&start), 0.25));
        let quiet = Used { all: 12.9, ..end };
        assert!(is_near(quiet.foreign_since(&start), 0.0), "counted apart, sums may differ by a tick");
    }
}
