//! [`Machine`]: the machine of a measurement, from Linux's `/proc`.

use std::fmt::{self, Display, Formatter};
use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;

/// Cores, processor and kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Number of cores for this process.
    pub cores: usize,
    /// Model name.
    pub processor: String,
    /// Release.
    pub kernel: String,
}

impl Machine {
    /// Describes this machine.
    ///
    /// # Errors
    /// On a system other than Linux.
    pub fn this() -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let processors = read("/proc/cpuinfo")?;
        let named = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let processor = named.map_or(std::env::consts::ARCH, |(_, name)| name).trim().to_owned();
        let kernel = read("/proc/sys/kernel/osrelease")?.trim().to_owned();
        Ok(Self { cores, processor, kernel })
    }
}

impl Display for Machine {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} cores of {}, Linux {}", self.cores, self.processor, self.kernel)
    }
}

/// Reads a file of `/proc`.
///
/// # Errors
/// If it does not exist, as on systems other than Linux.
pub fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {path}; this chore needs Linux"))
}
