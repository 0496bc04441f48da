//! The runtime that clients and servers of the command run on.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// A runtime of one thread, which is what one socket can use.
pub fn start() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("the event loop cannot be started")
}
