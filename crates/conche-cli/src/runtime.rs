//! The runtime that clients and servers of the command run on, and the signals that end them.

use std::pin::{Pin, pin};
use std::process::exit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::exit::INTERRUPTED;

/// How long a program that is told to stop may take, beyond what it waits for then.
pub const GRACE: Duration = Duration::from_secs(2);

/// How long the files are waited for that are being written when all else is over.
const FILES: Duration = Duration::from_millis(500);

/// The calls of [`stop_signal`] so far.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// A runtime of one thread, which is what one socket can use.
pub fn start() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("the event loop cannot be started")
}

/// Runs a future to its end. All that a runtime does for that is compiled once, whatever the future.
pub fn run<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    fn drive(runtime: &Runtime, future: Pin<&mut dyn Future<Output = ()>>) {
        runtime.block_on(future);
    }
    let mut outcome = None;
    drive(runtime, pin!(async { outcome = Some(future.await) }));
    outcome.expect("it has ended")
}

/// Ends a runtime, without waiting for a name that is still looked up: nothing stops the resolver.
pub fn end(runtime: Runtime) {
    runtime.shutdown_timeout(FILES);
}

/// Waits for [`stop_signal`] in a thread that has nothing else to do.
pub fn wait_for_stop(grace: Duration) -> anyhow::Result<()> {
    run(&start()?, async {
        stop_signal(grace)?.await;
        Ok(())
    })
}

/// Ends with Ctrl-C or with SIGTERM, by which service managers and containers stop a program. The signals are caught from the call on.
///
/// They ask for a tidy end, which may never come: nobody may read what the program's one thread writes. So the process ends when `grace` is
/// over, and at once with a second signal, unless this was called again in between.
pub fn stop_signal(grace: Duration) -> anyhow::Result<impl Future<Output = ()>> {
    let runtime = start()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::caught()?
    };
    let call = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    let (tell, told) = oneshot::channel();
    let watch = async move {
        signals.next().await;
        // Who waits no longer is at its end, and may be held up there.
        let _ = tell.send(());
        // Both are reasons to end.
        let _ = timeout(grace, signals.next()).await;
        if CALLS.load(Ordering::Relaxed) == call {
            exit(INTERRUPTED.into());
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || run(&runtime, watch)).context("no thread can be started that waits for signals")?;
    Ok(async {
        // It is only dropped when the process ends.
        let _ = told.await;
    })
}

/// The signals that end a program.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Catches them from now on. To be called in a runtime.
    fn caught() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let told = "signals that end this cannot be caught";
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context(told)?,
            terminate: signal(SignalKind::terminate()).context(told)?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn caught() -> anyhow::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // Without a handler nobody can be told to stop gracefully, but all else goes on.
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
