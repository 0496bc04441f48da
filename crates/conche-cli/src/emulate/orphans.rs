//! Processes that have left the group of their program, as daemons do.
//!
//! This process adopts them once their parent has ended: it is their subreaper (prctl(2)).

use std::collections::BTreeSet;
use std::fs;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// How long the kernel may take to end processes.
const LIMIT: Duration = Duration::from_secs(2);

const PAUSE: Duration = Duration::from_millis(2);

/// Makes this process adopt the orphans among its descendants, and returns its present children.
pub fn adopt() -> BTreeSet<i32> {
    // Kernels since 3.4 have it; an older one ends the groups of programs only.
    let _ = set_child_subreaper(true);
    children()
}

/// Kills all descendants except through the children in `kept`.
pub fn kill_except(kept: &BTreeSet<i32>) {
    let began = Instant::now();
    loop {
        // The children of a killed process are the next round's.
        let orphans: Vec<i32> = children().difference(kept).copied().collect();
        if orphans.is_empty() || began.elapsed() > LIMIT {
            return;
        }
        for orphan in orphans.into_iter().map(Pid::from_raw) {
            // It may have ended.
            let _ = kill(orphan, Signal::SIGKILL);
            let _ = waitpid(orphan, Some(WaitPidFlag::WNOHANG));
        }
        thread::sleep(PAUSE);
    }
}

/// Returns the children of this process, also those that have ended and await [`waitpid`].
fn children() -> BTreeSet<i32> {
    let own = process::id().to_string();
    let is_child = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // `PID (NAME) STATE PARENT …`; the name may contain anything.
        status.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)) == Some(own.as_str())
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}
