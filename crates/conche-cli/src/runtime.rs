//! The runtime that clients and servers of the command run on, and the signals that end them.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// A runtime of one thread, which is what one socket can use.
pub fn start() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("the event loop cannot be started")
}

/// Waits for [`stop_signal`] in a thread that has nothing else to do.
pub fn wait_for_stop() -> anyhow::Result<()> {
    start()?.block_on(async {
        stop_signal()?.await;
        Ok(())
    })
}

/// Ends with Ctrl-C or with SIGTERM, by which service managers and containers stop a program. The signals are caught from the call on.
#[cfg(unix)]
pub fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let told = "signals that end this cannot be caught";
    let mut interrupt = signal(SignalKind::interrupt()).context(told)?;
    let mut terminate = signal(SignalKind::terminate()).context(told)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Ends with Ctrl-C.
#[cfg(not(unix))]
pub fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    Ok(async {
        // Without a handler nobody can be told to stop gracefully, but all else goes on.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
