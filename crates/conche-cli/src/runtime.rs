//! The runtime of clients and servers, and the signals that end them.

use std::pin::{Pin, pin};
use std::process::exit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Exit status after a signal.
pub const INTERRUPTED: u8 = 130;

/// Maximum duration of a graceful stop, beyond the caller's own waits.
pub const GRACE: Duration = Duration::from_secs(2);

const FILES: Duration = Duration::from_millis(500);

static CALLS: AtomicU32 = AtomicU32::new(0);

/// Single-threaded: enough for one socket.
pub fn start() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("the event loop cannot be started")
}

/// The driver is not generic, so it is compiled once.
pub fn run<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    fn drive(runtime: &Runtime, future: Pin<&mut dyn Future<Output = ()>>) {
        runtime.block_on(future);
    }
    let mut outcome = None;
    drive(runtime, pin!(async { outcome = Some(future.await) }));
    outcome.expect("it has ended")
}

/// Does not wait for name resolution, which cannot be cancelled.
pub fn end(runtime: Runtime) {
    runtime.shutdown_timeout(FILES);
}

pub fn wait_for_stop(grace: Duration) -> anyhow::Result<()> {
    run(&start()?, async {
        stop_signal(grace)?.await;
        Ok(())
    })
}

/// Returns a future that resolves at Ctrl-C or SIGTERM, which are caught from this call on.
///
/// A graceful stop can hang, for example on output that is not read. The process exits once `grace`
/// has passed, and at once on a second signal, unless this function was called again in between.
pub fn stop_signal(grace: Duration) -> anyhow::Result<impl Future<Output = ()>> {
    let runtime = start()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::caught()?
    };
    let call = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    let (stop_sender, stopped) = oneshot::channel();
    let watch = async move {
        signals.next().await;
        // A dropped receiver is shutting down, and may hang there.
        let _ = stop_sender.send(());
        // A second signal and the timeout both end the process.
        let _ = timeout(grace, signals.next()).await;
        if CALLS.load(Ordering::Relaxed) == call {
            exit(INTERRUPTED.into());
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || run(&runtime, watch)).context("no thread can be started that waits for signals")?;
    Ok(async {
        // The sender is dropped only when the process ends.
        let _ = stopped.await;
    })
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Must be called in a runtime.
    fn caught() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let problem = "signals that end this cannot be caught";
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context(problem)?,
            terminate: signal(SignalKind::terminate()).context(problem)?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn caught() -> anyhow::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // The program works without a graceful stop.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_runtime_ends_while_a_name_is_looked_up() {
        let runtime = start().expect("it starts");
        let (answer, answered) = channel();
        let (begin, begun) = channel();
        runtime.spawn_blocking(move || {
            begin.send(()).expect("it is waited for");
            answered.recv()
        });
        begun.recv().expect("it begins");
        end(runtime);
        answer.send(()).expect("it is still waited for");
    }
}
